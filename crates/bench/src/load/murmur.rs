//! The partition of a key: the positive part of its `MurmurHash2`, modulo the number of partitions,
//! as Kafka's clients choose it by default. All clients must agree, or the records of a key would
//! go to different partitions.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Returns the partition of a key among `partitions`.
pub(super) fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// Returns the 32-bit `MurmurHash2`, with the seed that Kafka's clients share.
fn murmur2(bytes: &[u8]) -> u32 {
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        let word = (word ^ (word >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ word;
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
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
    }
}
