//! Rings, channels, coalescing, pause frames and statistics of network cards, through the
//! `SIOCETHTOOL` ioctl; features are in `features`, the table of receive queues in `rss`, the hash
//! of flows in `hash`.
//!
//! The kernel guarantees the layout of the structures: a command, then 32-bit numbers. Invariants:
//! only named values change (the card's values are read, the named ones replaced, and all written
//! back); a name that the table lacks is an error. Not here: which values are good.
#![allow(unsafe_code, reason = "an ioctl that no safe wrapper has")]

pub mod features;
pub mod hash;
pub mod rss;

use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

/// `SIOCETHTOOL` of `linux/sockios.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Length of a device name, with its terminator.
const NAME_BYTES: usize = 16;
/// `ETH_GSTRING_LEN`.
const STRING_BYTES: usize = 32;
/// More statistics than any driver has.
const STATISTICS_MAX: u32 = 65_536;
/// `ETH_SS_STATS`.
const SET_OF_STATISTICS: u32 = 1;

const GET_STRING_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;

/// A structure of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// `ethtool_ringparam`.
    Rings,
    /// `ethtool_channels`.
    Channels,
    /// `ethtool_coalesce`, its first fields.
    Coalescing,
    /// `ethtool_pauseparam`.
    Pause,
}

/// A named number of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The name in this module.
    pub name: &'static str,
    /// Its value.
    pub value: u32,
}

/// Read command, write command, count of numbers, and the name of each known one by its position
/// after the command.
struct Layout {
    get: u32,
    set: u32,
    numbers: usize,
    names: &'static [(usize, &'static str)],
}

impl Table {
    fn layout(self) -> Layout {
        match self {
            Table::Rings => Layout {
                get: 0x10,
                set: 0x11,
                numbers: 8,
                names: &[(0, "rx_max"), (3, "tx_max"), (4, "rx"), (7, "tx")],
            },
            Table::Channels => Layout {
                get: 0x3c,
                set: 0x3d,
                numbers: 8,
                names: &[
                    (0, "rx_max"),
                    (1, "tx_max"),
                    (2, "other_max"),
                    (3, "combined_max"),
                    (4, "rx"),
                    (5, "tx"),
                    (6, "other"),
                    (7, "combined"),
                ],
            },
            Table::Coalescing => Layout {
                get: 0x0e,
                set: 0x0f,
                numbers: 22,
                names: &[
                    (0, "rx_usecs"),
                    (1, "rx_frames"),
                    (4, "tx_usecs"),
                    (5, "tx_frames"),
                    (9, "adaptive_rx"),
                    (10, "adaptive_tx"),
                ],
            },
            Table::Pause => Layout {
                get: 0x12,
                set: 0x13,
                numbers: 3,
                names: &[(0, "autoneg"), (1, "rx"), (2, "tx")],
            },
        }
    }
}

/// Reads a table of a device.
pub fn read(device: &str, table: Table) -> io::Result<Vec<Field>> {
    let layout = table.layout();
    let numbers = get(device, &layout)?;
    let field = |(place, name): &(usize, &'static str)| {
        let value = numbers.get(place + 1).copied().unwrap_or(0);
        Field { name, value }
    };
    Ok(layout.names.iter().map(field).collect())
}

/// Writes the named numbers of a table; the others do not change.
pub fn write(device: &str, table: Table, wanted: &[(&str, u32)]) -> io::Result<()> {
    let layout = table.layout();
    let mut numbers = get(device, &layout)?;
    for (name, value) in wanted {
        let known = layout.names.iter().find(|(_, known)| known == name);
        let place = known
            .map(|(place, _)| place + 1)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let number = numbers.get_mut(place).ok_or(io::ErrorKind::InvalidInput)?;
        *number = *value;
    }
    numbers[0] = layout.set;
    ask(device, &mut numbers)
}

fn get(device: &str, layout: &Layout) -> io::Result<Vec<u32>> {
    let mut numbers = vec![0_u32; layout.numbers + 1];
    numbers[0] = layout.get;
    ask(device, &mut numbers)?;
    Ok(numbers)
}

/// Returns the statistics of a device's driver, with the driver's names.
pub fn statistics(device: &str) -> io::Result<Vec<(String, u64)>> {
    let count = count_of(device, SET_OF_STATISTICS)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > STATISTICS_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let many = usize::try_from(count).unwrap_or(0);
    // Both buffers have the maximum size: a driver may gain queues between two calls, and the
    // kernel copies as many statistics as exist then.
    let most = usize::try_from(STATISTICS_MAX).unwrap_or(0);
    let mut strings = vec![0_u32; 3 + most * STRING_BYTES / 4];
    strings[..3].copy_from_slice(&[GET_STRINGS, SET_OF_STATISTICS, count]);
    ask(device, &mut strings)?;
    let mut values = vec![0_u32; 2 + most * 2];
    values[..2].copy_from_slice(&[GET_STATISTICS, count]);
    ask(device, &mut values)?;
    // A driver may have fewer statistics by now, and never returns more than the given count.
    let many = many.min(usize::try_from(strings[2].min(values[1])).unwrap_or(0));
    let names = strings[3..].chunks_exact(STRING_BYTES / 4);
    let values = values[2..].chunks_exact(2);
    let pair = |(name, value): (&[u32], &[u32])| (text(name), wide(value[0], value[1]));
    Ok(names.zip(values).take(many).map(pair).collect())
}

/// Returns how many strings a set of a device has.
fn count_of(device: &str, set: u32) -> io::Result<u32> {
    // Command, a reserved number, the mask of sets (64 bits), and the returned length.
    let mut info = [GET_STRING_SET_INFO, 0, 1 << set, 0, 0];
    ask(device, &mut info)?;
    Ok(if info[2] == 0 { 0 } else { info[4] })
}

fn text(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn wide(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// `struct ifreq` as far as this ioctl reads it: a name, then a pointer in a union of 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    data: *mut c_void,
    rest: [u8; 24 - size_of::<*mut c_void>()],
}

/// Sends a request to the kernel; `numbers` is a command and the rest of its structure.
fn ask(device: &str, numbers: &mut [u32]) -> io::Result<()> {
    let mut name = [0; NAME_BYTES];
    if device.len() >= NAME_BYTES || device.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    name[..device.len()].copy_from_slice(device.as_bytes());
    let mut request = Request {
        name,
        data: numbers.as_mut_ptr().cast(),
        rest: [0; 24 - size_of::<*mut c_void>()],
    };
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: the request is a whole `ifreq` whose name ends with a zero. Its pointer leads to
    // `numbers`, which is borrowed for longer than the call and is at least as long as the
    // structure of its command: for the commands of `Layout` the kernel copies 4 * (numbers + 1)
    // bytes, for strings and statistics there is room for the maximum, and for features, the table
    // of receive queues and the key of the hash the kernel copies no more than the length that the
    // request states; for the fields of the hash it copies 16 bytes, and there are 256.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        for device in ["", "none0", "a-name-that-is-too-long"] {
            assert!(read(device, Table::Rings).is_err(), "{device}");
            assert!(statistics(device).is_err(), "{device}");
            assert!(features::read(device).is_err(), "{device}");
            assert!(rss::read(device).is_err(), "{device}");
        }
    }

    #[test]
    fn the_loopback_has_no_rings() {
        assert!(read("lo", Table::Rings).is_err());
        assert!(write("lo", Table::Channels, &[("combined", 1)]).is_err());
        assert!(read("lo", Table::Pause).is_err());
        assert!(rss::read("lo").is_err());
        assert!(rss::write("lo", &rss::Spread::Equal(1)).is_err());
    }
}
