//! The hash by which a consumer group notices that the topics that it reads have changed.
//!
//! It is written to the log, and the next coordinator of the group compares it with its own hash,
//! so it equals Kafka's to the bit: XXH3 (64 bits) of each topic over a byte 0, the id, the name,
//! the partition count, and for every partition its number and its racks; then XXH3 over the hashes
//! of the topics in the order of their names. Numbers are little-endian; text is UTF-16, followed
//! by its length, and a rack also has its length before it.

use std::collections::BTreeSet;

use twox_hash::XxHash3_64;
use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::cluster::Cluster;

/// Returns the hash of the topics that exist; 0 for none.
pub(super) fn of(topics: &BTreeSet<StrBytes>, cluster: &dyn Cluster) -> i64 {
    let hashes = topics.iter().filter_map(|topic| {
        let name = topic.as_str();
        let (id, count) = cluster.shape(name)?;
        Some(of_topic(id, name, count, &cluster.racks(name)))
    });
    of_all(hashes)
}

fn of_all(hashes: impl Iterator<Item = u64>) -> i64 {
    let all: Vec<u8> = hashes.flat_map(u64::to_le_bytes).collect();
    if all.is_empty() {
        return 0;
    }
    XxHash3_64::oneshot(&all).cast_signed()
}

fn of_topic(id: Uuid, name: &str, count: i32, racks: &[Vec<String>]) -> u64 {
    let (most, least) = id.as_u64_pair();
    let mut bytes = vec![0];
    bytes.extend(most.to_le_bytes());
    bytes.extend(least.to_le_bytes());
    put_text(&mut bytes, name);
    bytes.extend(count.to_le_bytes());
    for index in 0..count {
        bytes.extend(index.to_le_bytes());
        let found = usize::try_from(index).ok().and_then(|at| racks.get(at));
        for rack in found.into_iter().flatten() {
            bytes.extend(units(rack).to_le_bytes());
            put_text(&mut bytes, rack);
        }
    }
    XxHash3_64::oneshot(&bytes)
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    bytes.extend(units(text).to_le_bytes());
}

fn units(text: &str) -> i32 {
    i32::try_from(text.encode_utf16().count()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use wire::types::uuid_from_base64;

    use super::*;

    /// The hash that Kafka 4.3.0 wrote for a group that read a topic of two partitions without
    /// racks.
    #[test]
    fn the_hash_is_that_of_kafka() {
        let id = uuid_from_base64("6hoJXaU4RjqGEhqtfp8V9w").unwrap();
        let hash = of_all([of_topic(id, "new", 2, &[])].into_iter());
        assert_eq!(hash, -4_054_715_770_750_535_618);
        assert_eq!(of_all(std::iter::empty()), 0);
        let elsewhere = of_topic(id, "new", 2, &[vec!["r".into()]]);
        assert_ne!(of_all([elsewhere].into_iter()), hash);
    }
}
