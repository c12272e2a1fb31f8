//! The stamp of a checked record, in the first 36 bytes of its value.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `fbv1` |
//! | 4..8 | CRC-32C of everything after it |
//! | 8..16 | id of the verification that wrote it |
//! | 16..20 | producer |
//! | 20..24 | topic, as its index in the load |
//! | 24..28 | partition |
//! | 28..36 | number |
//!
//! All little-endian. Invariant: a stamp that is read equals the written one, and so does the
//! payload after it; anything else reads as `None`. Keys and headers are not covered.

use crate::load::PartitionPlace;

/// Bytes of the stamp, which is the size of the smallest value that can be checked.
pub const STAMP_BYTES: usize = 36;

const MAGIC: [u8; 4] = *b"fbv1";

/// The identity of a checked record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The verification that wrote it.
    pub id: u64,
    /// Index of its producer, over all hosts.
    pub producer: u32,
    /// The place it was sent to.
    pub place: PartitionPlace,
    /// Its number; ascending per producer and place.
    pub number: u64,
}

impl Stamp {
    /// Writes the stamp over the start of a value.
    ///
    /// The value is at least [`STAMP_BYTES`] long and already contains its payload.
    pub fn write(&self, value: &mut [u8]) {
        let (stamp, _) = value.split_at_mut(STAMP_BYTES);
        stamp[..4].copy_from_slice(&MAGIC);
        stamp[8..16].copy_from_slice(&self.id.to_le_bytes());
        stamp[16..20].copy_from_slice(&self.producer.to_le_bytes());
        stamp[20..24].copy_from_slice(&self.place.topic.to_le_bytes());
        stamp[24..28].copy_from_slice(&self.place.partition.to_le_bytes());
        stamp[28..36].copy_from_slice(&self.number.to_le_bytes());
        let sum = crc32c::crc32c(&value[8..]);
        value[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Returns the stamp of a value; none if it has none or was changed.
    pub fn read(value: &[u8]) -> Option<Self> {
        let (stamp, _) = value.split_at_checked(STAMP_BYTES)?;
        if stamp[..4] != MAGIC || word(stamp, 4) != crc32c::crc32c(&value[8..]) {
            return None;
        }
        Some(Self {
            id: long(stamp, 8),
            producer: word(stamp, 16),
            place: PartitionPlace {
                topic: word(stamp, 20),
                partition: word(stamp, 24),
            },
            number: long(stamp, 28),
        })
    }
}

fn word(stamp: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(stamp, at))
}

fn long(stamp: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(stamp, at))
}

/// Cannot panic: every caller's `at` is a constant within the stamp.
fn array<const N: usize>(stamp: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| stamp[at + index])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamped(payload: &[u8], number: u64) -> (Stamp, Vec<u8>) {
        let stamp = Stamp {
            id: 0x1234_5678_9abc_def0,
            producer: 3,
            place: PartitionPlace {
                topic: 1,
                partition: 99,
            },
            number,
        };
        let mut value = vec![0; STAMP_BYTES];
        value.extend_from_slice(payload);
        stamp.write(&mut value);
        (stamp, value)
    }

    proptest! {
        #[test]
        fn a_stamp_comes_back(payload in prop::collection::vec(any::<u8>(), 0..100), number: u64) {
            let (stamp, value) = stamped(&payload, number);
            prop_assert_eq!(Stamp::read(&value), Some(stamp));
            prop_assert_eq!(&value[STAMP_BYTES..], &payload[..]);
        }

        #[test]
        fn any_flipped_bit_and_any_cut_is_noticed(
            payload in prop::collection::vec(any::<u8>(), 0..50), at: prop::sample::Index, bit in 0..8,
        ) {
            let (_, mut value) = stamped(&payload, 5);
            let at = at.index(value.len());
            prop_assert_eq!(Stamp::read(&value[..at]), None);
            value[at] ^= 1_u8 << bit;
            prop_assert_eq!(Stamp::read(&value), None);
        }
    }
}
