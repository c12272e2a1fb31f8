//! Which partition a record goes to that names none; pure.
//!
//! A key decides by Kafka's hash, so that all clients agree. Records without a key stick to one
//! partition until a batch of it is full, so that batches are large, and then to another.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Returns the partition of a key in a topic with this number of partitions.
pub(super) fn of_key(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// Returns the 32-bit `MurmurHash2` with the seed of Kafka's clients.
fn murmur2(bytes: &[u8]) -> u32 {
    // Only the low half counts, as in Java's `int`.
    let length = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(0);
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        let word = (word ^ (word >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ word;
    }
    if !rest.is_empty() {
        let last = rest.iter().rev();
        let last = last.fold(0_u32, |last, byte| (last << 8) | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The partition that records without a key go to for now.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Sticky {
    chosen: Option<i32>,
    bytes: usize,
}

impl Sticky {
    /// Returns the partition that was chosen last, if its batch is not full.
    pub(super) fn current(&self) -> Option<i32> {
        self.chosen
    }

    /// Returns the partition of a record: one of those that have a leader, or of all if none has.
    pub(super) fn choose(
        &mut self,
        with_leader: &[i32],
        all: &[i32],
        random: impl FnOnce() -> u64,
    ) -> Option<i32> {
        let from = if with_leader.is_empty() {
            all
        } else {
            with_leader
        };
        if let Some(chosen) = self.chosen.filter(|chosen| from.contains(chosen)) {
            return Some(chosen);
        }
        self.bytes = 0;
        let count = u64::try_from(from.len()).ok()?;
        let at = usize::try_from(random().checked_rem(count)?).ok()?;
        self.chosen = from.get(at).copied();
        self.chosen
    }

    /// Takes account of a record that goes there; once there is enough for a batch, another
    /// partition is chosen for the next one.
    pub(super) fn takes(&mut self, bytes: usize, batch_bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= batch_bytes {
            self.chosen = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kafkas_clients() {
        let known = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(
            of_key(b"21", 3),
            (-973_932_308_i32).cast_unsigned() % (1 << 31) % 3
        );
    }

    #[test]
    fn records_stick_to_a_partition_until_a_batch_is_full() {
        let mut sticky = Sticky::default();
        let all = [0, 1, 2];
        for _ in 0..3 {
            assert_eq!(sticky.choose(&[1, 2], &all, || 1), Some(2));
            sticky.takes(40, 100);
        }
        assert_eq!(sticky.choose(&[1, 2], &all, || 0), Some(1));
        // It lost its leader.
        assert_eq!(sticky.choose(&[2], &all, || 0), Some(2));
        assert_eq!(
            sticky.choose(&[], &all, || 5),
            Some(2),
            "it is still one of all"
        );
        assert_eq!(Sticky::default().choose(&[], &[], || 0), None);
    }
}
