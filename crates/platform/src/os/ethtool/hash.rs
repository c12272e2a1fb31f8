//! How a card computes the hash of a flow: its key, and whether the ports of a packet count beside
//! its addresses.
//!
//! Invariants: a write of the key changes neither the table of queues nor the kind of the hash; of
//! the fields only two choices are known, addresses, or addresses and ports: a card with another
//! one is not shown, because with a field left out all packets may come to one queue.

use std::io;

use super::{ask, wide};

const GET_HASH: u32 = 0x46;
const SET_HASH: u32 = 0x47;
/// Numbers before the table: command, context, entries of the table, bytes of the key, kinds, and
/// one that is not used.
const HEAD_NUMBERS: usize = 6;
const ENTRIES_AT: usize = 2;
const KEY_AT: usize = 3;
const KINDS_AT: usize = 4;
/// `ETH_RXFH_INDIR_NO_CHANGE`.
const SAME_TABLE: u32 = 0xffff_ffff;
/// Longer than the key of any card.
const KEY_BYTES_MAX: u32 = 1_024;
const GET_FIELDS: u32 = 0x29;
const SET_FIELDS: u32 = 0x2a;
/// Numbers of `ethtool_rxnfc` with a rule that is not used.
const FIELDS_NUMBERS: usize = 64;
/// `RXH_IP_SRC | RXH_IP_DST`.
const ADDRESSES: u64 = 0x30;
/// With `RXH_L4_B_0_1 | RXH_L4_B_2_3`.
const WITH_PORTS: u64 = 0xf0;
/// The name of each flow in this module, and the kernel's number.
const FLOWS: &[(&str, u32)] = &[
    ("tcp4_ports", 1),
    ("tcp6_ports", 5),
    ("udp4_ports", 2),
    ("udp6_ports", 6),
];

/// Returns the key.
pub fn key(device: &str) -> io::Result<Vec<u8>> {
    let (numbers, bytes) = read(device)?;
    let key = numbers.iter().skip(HEAD_NUMBERS);
    Ok(key
        .flat_map(|number| number.to_ne_bytes())
        .take(bytes)
        .collect())
}

/// Replaces the key by another one of the same length.
pub fn write_key(device: &str, key: &[u8]) -> io::Result<()> {
    let (mut numbers, bytes) = read(device)?;
    if key.len() != bytes {
        let what = format!("the key of {device} has {bytes} bytes, not {}", key.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    assert!(numbers.len() > HEAD_NUMBERS, "a card with a hash has a key");
    numbers[0] = SET_HASH;
    numbers[ENTRIES_AT] = SAME_TABLE;
    // The kind of the hash stays by a 0, the transformation of its input by what it is.
    let [_, transformation, ..] = numbers[KINDS_AT].to_ne_bytes();
    numbers[KINDS_AT] = u32::from_ne_bytes([0, transformation, 0, 0]);
    for (number, four) in numbers[HEAD_NUMBERS..].iter_mut().zip(key.chunks(4)) {
        let mut filled = [0; 4];
        filled[..four.len()].copy_from_slice(four);
        *number = u32::from_ne_bytes(filled);
    }
    ask(device, &mut numbers)
}

/// Returns the head with the key behind it, and how many bytes the key has.
fn read(device: &str) -> io::Result<(Vec<u32>, usize)> {
    let mut head = vec![0_u32; HEAD_NUMBERS];
    head[0] = GET_HASH;
    ask(device, &mut head)?;
    let bytes = head[KEY_AT];
    if bytes == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    if bytes > KEY_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let many = usize::try_from(bytes).unwrap_or(0);
    // No entry of the table is asked for, so that the key is directly behind the head.
    let mut numbers = vec![0_u32; HEAD_NUMBERS.saturating_add(many.div_ceil(4))];
    numbers[0] = GET_HASH;
    numbers[KEY_AT] = bytes;
    ask(device, &mut numbers)?;
    assert!(
        many <= numbers.len().saturating_sub(HEAD_NUMBERS).saturating_mul(4),
        "the key is behind the head"
    );
    Ok((numbers, many))
}

/// Returns the flows of a card, each with whether its ports count.
pub fn fields(device: &str) -> io::Result<Vec<(&'static str, bool)>> {
    let mut found = Vec::new();
    let mut refused = None;
    for (name, flow) in FLOWS {
        let mut numbers = [0_u32; FIELDS_NUMBERS];
        numbers[..2].copy_from_slice(&[GET_FIELDS, *flow]);
        match ask(device, &mut numbers).map(|()| wide(numbers[2], numbers[3])) {
            Ok(ADDRESSES) => found.push((*name, false)),
            Ok(WITH_PORTS) => found.push((*name, true)),
            Ok(_) => {}
            // A card may know some of the flows.
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if found.is_empty() => Err(error),
        _ if found.is_empty() => Err(io::ErrorKind::Unsupported.into()),
        _ => Ok(found),
    }
}

/// Says of flows whether their ports count. A flow that is refused ends it, and those before it
/// have changed; what a flow has already is not written: a card may refuse that, too.
pub fn write_fields(device: &str, wanted: &[(&str, bool)]) -> io::Result<()> {
    let mut flows = Vec::new();
    for (name, ports) in wanted {
        let known = FLOWS.iter().find(|(known, _)| known == name);
        let (name, flow) = known.ok_or(io::ErrorKind::InvalidInput)?;
        flows.push((*name, *flow, *ports));
    }
    let now = fields(device)?;
    for (_, flow, ports) in flows
        .iter()
        .filter(|(name, _, ports)| !now.contains(&(*name, *ports)))
    {
        let mut numbers = [0_u32; FIELDS_NUMBERS];
        numbers[..2].copy_from_slice(&[SET_FIELDS, *flow]);
        let bytes = if *ports { WITH_PORTS } else { ADDRESSES }.to_ne_bytes();
        for (number, four) in numbers[2..4].iter_mut().zip(bytes.chunks_exact(4)) {
            let mut filled = [0; 4];
            filled.copy_from_slice(four);
            *number = u32::from_ne_bytes(filled);
        }
        ask(device, &mut numbers)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_hash() {
        assert!(key("lo").is_err() && fields("lo").is_err());
        assert!(write_key("lo", &[0; 40]).is_err());
        assert!(write_fields("lo", &[("tcp4_ports", true)]).is_err());
        let error = write_fields("lo", &[("warp", true)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
