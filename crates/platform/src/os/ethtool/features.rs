//! Features of a network card: work on packets that the card or the kernel does for the protocols.
//!
//! The kernel names features by strings and holds them as bits. Invariants: only the named features
//! change; what a driver cannot change stays as it is without an error, so that a caller has to
//! read back.

use std::io;

use super::{GET_STRINGS, STRING_BYTES, ask, count_of, text};

const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
/// `ETH_SS_FEATURES`.
const SET_OF_FEATURES: u32 = 4;
/// More features than any kernel has.
const FEATURES_MAX: u32 = 1_024;
/// Bits of a block.
const BLOCK_BITS: usize = 32;

/// The known features: the name in this module, and the kernel's.
const KNOWN: &[(&str, &str)] = &[
    ("gro", "rx-gro"),
    ("gro_hw", "rx-gro-hw"),
    ("gso", "tx-generic-segmentation"),
    ("lro", "rx-lro"),
    ("rxhash", "rx-hashing"),
    ("tso", "tx-tcp-segmentation"),
];

/// Returns the known features that a device has or could have, and whether each is on.
pub fn read(device: &str) -> io::Result<Vec<(&'static str, bool)>> {
    let places = places(device)?;
    let blocks = places.blocks;
    // Each block has four numbers: available, requested, active, never changed.
    let mut numbers = vec![0_u32; 2 + blocks * 4];
    numbers[..2].copy_from_slice(&[GET_FEATURES, u32::try_from(blocks).unwrap_or(0)]);
    ask(device, &mut numbers)?;
    let is = |place: usize, of_block: usize| {
        let at = 2 + place / BLOCK_BITS * 4 + of_block;
        let block = numbers.get(at).copied().unwrap_or(0);
        block >> (place % BLOCK_BITS) & 1 == 1
    };
    let (available, active) = (0, 2);
    let found = places.known.iter();
    let found = found.filter(|(_, place)| is(*place, available) || is(*place, active));
    Ok(found
        .map(|(name, place)| (*name, is(*place, active)))
        .collect())
}

/// Switches features on or off; a name that the device lacks is an error.
pub fn write(device: &str, wanted: &[(&str, bool)]) -> io::Result<()> {
    let places = places(device)?;
    // Each block has two numbers: which bits count, and their values.
    let mut numbers = vec![0_u32; 2 + places.blocks * 2];
    numbers[..2].copy_from_slice(&[SET_FEATURES, u32::try_from(places.blocks).unwrap_or(0)]);
    for (name, on) in wanted {
        let known = places.known.iter().find(|(known, _)| known == name);
        let (_, place) = known.ok_or(io::ErrorKind::InvalidInput)?;
        let (at, bit) = (2 + place / BLOCK_BITS * 2, 1 << (place % BLOCK_BITS));
        assert!(
            at + 1 < numbers.len(),
            "the bit of {name} is within its block"
        );
        numbers[at] |= bit;
        if *on {
            numbers[at + 1] |= bit;
        }
    }
    // A positive answer says that not all bits were taken: the caller reads back.
    ask(device, &mut numbers)
}

/// The bits of the known features.
struct FeaturePlaces {
    known: Vec<(&'static str, usize)>,
    blocks: usize,
}

fn places(device: &str) -> io::Result<FeaturePlaces> {
    let count = count_of(device, SET_OF_FEATURES)?;
    if count == 0 || count > FEATURES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let many = usize::try_from(count).unwrap_or(0);
    let mut strings = vec![0_u32; 3 + many * STRING_BYTES / 4];
    strings[..3].copy_from_slice(&[GET_STRINGS, SET_OF_FEATURES, count]);
    ask(device, &mut strings)?;
    let names: Vec<String> = strings[3..]
        .chunks_exact(STRING_BYTES / 4)
        .map(text)
        .collect();
    let place = |(ours, theirs): &(&'static str, &str)| {
        let place = names.iter().position(|name| name == theirs)?;
        Some((*ours, place))
    };
    Ok(FeaturePlaces {
        known: KNOWN.iter().filter_map(place).collect(),
        blocks: many.div_ceil(BLOCK_BITS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback has the kernel's own features on every Linux.
    #[test]
    fn features_have_names() {
        let found = read("lo").unwrap();
        assert!(found.iter().any(|(name, _)| *name == "gso"), "{found:?}");
        assert!(found.iter().any(|(name, _)| *name == "gro"), "{found:?}");
        let error = write("lo", &[("warp", true)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
