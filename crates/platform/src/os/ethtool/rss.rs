//! The table by which a card spreads received packets over its queues: the hash of a flow chooses
//! an entry, and the entry is the number of a queue.
//!
//! Invariant: a spread that is the kernel's own is written as "reset to the kernel's own", not as a
//! table: a table that was set by hand keeps a card from having fewer queues than the table uses.

use std::io;

use super::ask;

const GET_TABLE: u32 = 0x38;
const SET_TABLE: u32 = 0x39;
/// `ETHTOOL_GRXRINGS`.
const GET_QUEUES: u32 = 0x2d;
/// More entries than any card has.
const ENTRIES_MAX: u32 = 65_536;

/// How packets are spread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Equally, over this many of the first queues.
    Equal(u32),
    /// The queue of each entry.
    Table(Vec<u32>),
}

/// Returns the queue of each entry.
pub fn read(device: &str) -> io::Result<Vec<u32>> {
    let size = size(device)?;
    let mut numbers = vec![0_u32; 2 + usize::try_from(size).unwrap_or(0)];
    numbers[..2].copy_from_slice(&[GET_TABLE, size]);
    ask(device, &mut numbers)?;
    Ok(numbers.into_iter().skip(2).collect())
}

/// Replaces the table.
pub fn write(device: &str, spread: &Spread) -> io::Result<()> {
    let size = size(device)?;
    let table: Vec<u32> = match spread {
        Spread::Equal(0) => return Err(io::ErrorKind::InvalidInput.into()),
        Spread::Equal(count) if *count == queues(device)? => Vec::new(),
        Spread::Equal(count) => (0..size).map(|entry| entry % count).collect(),
        Spread::Table(table) => table.clone(),
    };
    // Without entries the kernel makes the table its own again.
    if !table.is_empty() && u32::try_from(table.len()) != Ok(size) {
        let what = format!(
            "the table of {device} has {size} entries, not {}",
            table.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut numbers = vec![SET_TABLE, u32::try_from(table.len()).unwrap_or(0)];
    numbers.extend(table);
    assert!(numbers.len() == 2 || numbers.len() - 2 == usize::try_from(size).unwrap_or(0));
    ask(device, &mut numbers)
}

/// Returns the number of entries.
fn size(device: &str) -> io::Result<u32> {
    let mut numbers = [GET_TABLE, 0];
    ask(device, &mut numbers)?;
    match numbers[1] {
        0 => Err(io::ErrorKind::Unsupported.into()),
        size if size > ENTRIES_MAX => Err(io::ErrorKind::InvalidData.into()),
        size => Ok(size),
    }
}

/// Returns the number of receive queues.
fn queues(device: &str) -> io::Result<u32> {
    // `ethtool_rxnfc`: command, kind of flow, 64 bits with the answer, and a rule that is not used.
    let mut numbers = [0_u32; 64];
    numbers[0] = GET_QUEUES;
    ask(device, &mut numbers)?;
    let wide = super::wide(numbers[2], numbers[3]);
    u32::try_from(wide).map_err(|_| io::ErrorKind::InvalidData.into())
}
