//! The partition of `__consumer_offsets` of a group: the absolute value of Java's
//! `String.hashCode`, modulo the partition count.

/// Returns the partition of `__consumer_offsets`, of `count`, that holds a group.
///
/// The hash is over UTF-16 units; the minimum hash, which has no positive counterpart, counts as 0.
pub fn partition_for(group: &str, count: i32) -> i32 {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    hash.checked_abs().unwrap_or(0) % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::partition_for;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(partition_for("", 50), 0);
        assert_eq!(partition_for("hello", i32::MAX), 99_162_322);
        assert_eq!(partition_for("Hello", i32::MAX), 69_609_650);
        // A character beyond the basic plane counts as two units: U+1F600 is d83d de00.
        assert_eq!(partition_for("\u{1f600}", i32::MAX), 0xd83d * 31 + 0xde00);
    }

    #[test]
    fn every_group_has_a_partition() {
        for group in [
            "a",
            "\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}",
            "x-y-z-1234567890",
        ] {
            assert!((0..50).contains(&partition_for(group, 50)));
        }
        assert_eq!(partition_for("a", 0), 0);
    }
}
