//! The newest offset of every key in a range of the log, in memory of a fixed size.
//!
//! Open addressing over slots of 24 bytes: the key's hash and its offset. The map is filled once,
//! front to back, and then only read; nothing is ever removed. When it is full, the range ends
//! there and the rest is for the next round.
//! Invariant: memory is that of the slots, whatever the keys.

use wire::types::Offset;

use super::key_hash::KeyHash;

/// Bytes of a slot of `SLOT_WORDS` words.
pub(super) const SLOT_BYTES: usize = 24;
/// Two words of the hash, and the offset plus one, which is 0 in a free slot.
const SLOT_WORDS: usize = 3;

/// Keys and their newest offsets.
pub(super) struct OffsetMap {
    /// One allocation of zeros, whose pages the system provides when they are touched.
    words: Vec<u64>,
    hash: KeyHash,
    keys: usize,
    keys_max: usize,
    /// Everything up to this offset is in the map.
    latest: Offset,
}

/// The error when there is no room for another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MapFull;

impl OffsetMap {
    /// Makes a map of at most `bytes_max` bytes, no larger than `keys_wanted` need.
    ///
    /// At most `load_factor` of its slots are used.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number of slots"
    )]
    pub(super) fn new(
        bytes_max: usize,
        load_factor: f64,
        keys_wanted: u64,
        secret: [u64; 2],
    ) -> Self {
        let load_factor = load_factor.clamp(0.01, 0.99);
        let needed = ((keys_wanted as f64 / load_factor) as usize).saturating_add(2);
        let slots = (bytes_max / SLOT_BYTES).min(needed).max(2);
        let keys_max = ((slots as f64 * load_factor) as usize).clamp(1, slots - 1);
        assert!(
            0 < keys_max && keys_max < slots,
            "one slot stays free, so that every search ends"
        );
        Self {
            words: vec![0; slots * SLOT_WORDS],
            hash: KeyHash { secret },
            keys: 0,
            keys_max,
            latest: Offset(-1),
        }
    }

    /// Notes that `key` has a record at `offset`, which is past all that were noted before.
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> Result<(), MapFull> {
        let hash = self.hash.of(key);
        let slot = self.slot_of(hash);
        let [first, second, at] = &mut self.words[slot..slot + SLOT_WORDS] else {
            unreachable!("a slot has three words");
        };
        if *at == 0 {
            if self.keys >= self.keys_max {
                return Err(MapFull);
            }
            self.keys += 1;
            assert!(self.keys <= self.keys_max, "one slot stays free");
            [*first, *second] = hash;
        }
        *at = offset.0.unsigned_abs() + 1;
        self.latest = offset;
        Ok(())
    }

    /// Returns the newest offset of `key`.
    pub(super) fn newest(&self, key: &[u8]) -> Option<Offset> {
        let slot = self.slot_of(self.hash.of(key));
        // 0: the slot is free.
        let at = self.words[slot + 2].checked_sub(1)?;
        i64::try_from(at).ok().map(Offset)
    }

    /// Notes that everything up to `offset` is in the map.
    pub(super) fn cover(&mut self, offset: Offset) {
        self.latest = self.latest.max(offset);
    }

    /// Returns the offset up to which everything is in the map.
    pub(super) fn latest(&self) -> Offset {
        self.latest
    }

    /// Returns the part of its memory that is used.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn utilization(&self) -> f64 {
        self.keys as f64 / (self.words.len() / SLOT_WORDS).max(1) as f64
    }

    /// Returns the bytes of its slots.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Returns the first word of the slot that has the hash, or of the free one where it belongs.
    fn slot_of(&self, hash: [u64; 2]) -> usize {
        let slots = self.words.len() / SLOT_WORDS;
        let [first, second] = hash;
        // The upper half of the product is below the number of slots, for any number of slots.
        let start = (u128::from(first) * slots as u128) >> 64;
        let mut slot = usize::try_from(start).expect("it is below the number of slots");
        loop {
            match self.words[slot * SLOT_WORDS..slot * SLOT_WORDS + SLOT_WORDS] {
                [_, _, 0] => return slot * SLOT_WORDS,
                [a, b, _] if a == first && b == second => return slot * SLOT_WORDS,
                _ => slot = if slot + 1 == slots { 0 } else { slot + 1 },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_says_what_a_hash_map_says_until_it_is_full(
            keys in prop::collection::vec(prop::collection::vec(0..4_u8, 0..6), 0..300),
            slots in 2..200_usize,
            load in 0.05..0.95_f64,
        ) {
            let mut map = OffsetMap::new(slots * SLOT_BYTES, load, u64::MAX / 2, [1, 2]);
            let mut expected = HashMap::new();
            prop_assert!(map.bytes() <= slots * SLOT_BYTES);
            for (offset, key) in (0..).map(Offset).zip(&keys) {
                if map.put(key, offset).is_err() {
                    prop_assert!(!expected.contains_key(key), "a known key always has room");
                    break;
                }
                expected.insert(key.clone(), offset);
                prop_assert_eq!(map.latest(), offset);
            }
            for key in &keys {
                prop_assert_eq!(map.newest(key), expected.get(key).copied());
            }
        }
    }

    #[test]
    fn a_small_range_takes_little_memory() {
        assert!(OffsetMap::new(128 << 20, 0.9, 1000, [0; 2]).bytes() < 30_000);
        let map = OffsetMap::new(128 << 20, 0.9, 1 << 40, [0; 2]);
        assert!((100 << 20..=128 << 20).contains(&map.bytes()));
    }
}
