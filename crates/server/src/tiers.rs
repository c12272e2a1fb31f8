//! Tiers as an operator sees them: what `/tiers` on the admin endpoint returns, and `forebay tier`
//! shows.
//!
//! The endpoint returns these values as JSON and the command line parses them; the field names are
//! the interface. This module decides nothing: `storage::tier::policy` does.

pub mod ask;
pub mod drained;
pub mod metrics;
pub mod watch;

use serde::{Deserialize, Serialize};

/// The state of the tiers, without their segments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// `storage.migrate.threshold`; absent if movement is off.
    pub threshold: Option<f64>,
    /// `storage.migrate.hysteresis`.
    pub hysteresis: f64,
    /// `storage.migrate.reserve`.
    pub reserve: f64,
    /// `storage.migrate.bytes.per.second`; absent without a bound.
    pub bytes_per_second: Option<u64>,
    /// The tiers, fastest first.
    pub tiers: Vec<TierStatus>,
}

/// One tier.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// `file` or `dax`.
    pub medium: String,
    /// True if one of its paths was declared persistent memory and is ordinary memory.
    pub emulated: bool,
    /// `durable` or `volatile`.
    pub durability: String,
    /// Declared read rate of each path.
    pub read_bytes_per_second: Option<u64>,
    /// Declared write rate of each path.
    pub write_bytes_per_second: Option<u64>,
    /// Bytes that its open paths may hold.
    pub capacity_bytes: u64,
    /// Bytes of segments on all its paths.
    pub used_bytes: u64,
    /// Bytes of segment files made in advance on them.
    pub pooled_bytes: u64,
    /// Bytes that sealed segments leave to active ones.
    pub reserve_bytes: u64,
    /// Bytes above the threshold, which will move down.
    pub backlog_bytes: u64,
    /// Number of segments on it.
    pub segments: u64,
    /// Bytes per second by which it fills at present; negative if it empties.
    pub fill_bytes_per_second: i64,
    /// Seconds until it is full at that rate; absent if it does not fill.
    pub seconds_to_full: Option<u64>,
    /// Seconds until the threshold at that rate; absent if it is not above it or does not empty.
    pub seconds_to_drain: Option<u64>,
    /// Its paths.
    pub paths: Vec<PathStatus>,
}

/// One path of a tier.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// The directory.
    pub path: String,
    /// True if it was declared persistent memory and is ordinary memory: nothing on it is durable.
    pub emulated: bool,
    /// `open`, `cordoned`, `draining` or `failed`.
    pub state: String,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// Bytes that its setting allows.
    pub capacity_bytes: u64,
    /// Bytes of segments.
    pub used_bytes: u64,
    /// Bytes of segment files made in advance; they are removed when room is short.
    pub pooled_bytes: u64,
    /// Bytes that the setting and the file system leave, including those files.
    pub free_bytes: u64,
    /// Number of segments on it.
    pub segments: u64,
    /// Reads of its segments that the cache did not answer.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes of records that producers wrote to it.
    pub appended_bytes: u64,
    /// Segments that moved down to it.
    pub moved_down_segments: u64,
    /// Their bytes.
    pub moved_down_bytes: u64,
    /// Segments that moved up to it.
    pub moved_up_segments: u64,
    /// Their bytes.
    pub moved_up_bytes: u64,
    /// Failed moves to it.
    pub move_errors: u64,
    /// Bytes in moves to it.
    pub arriving_bytes: u64,
    /// Bytes in moves from it.
    pub leaving_bytes: u64,
}

/// One segment, and why it is where it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentStatus {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its first offset.
    pub base_offset: i64,
    /// The offset after its last.
    pub next_offset: i64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Name of its tier.
    pub tier: String,
    /// Directory of its path.
    pub path: String,
    /// When it was sealed, in milliseconds of the wall clock; absent for an active segment.
    pub sealed_ms: Option<i64>,
    /// When it came to its tier, or when a start found it there.
    pub arrived_ms: i64,
    /// When it was last read from its disk.
    pub read_ms: Option<i64>,
    /// The rule that keeps it on its tier, in one word.
    pub rule: String,
    /// The same in a sentence.
    pub why: String,
    /// When that rule ends by itself, in milliseconds of the wall clock.
    pub until_ms: Option<i64>,
    /// Why retention keeps it, in one word; empty if unknown.
    pub kept: String,
    /// The same in a sentence.
    pub why_kept: String,
    /// When `retention.ms` has passed, in milliseconds of the wall clock.
    pub kept_until_ms: Option<i64>,
    /// Why it is not served, if it is offline.
    pub offline: Option<String>,
}

/// The result of a move, a drain or a verification.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct TierOutcome {
    /// Number of segments concerned.
    pub segments: u64,
    /// Their bytes, if they were read.
    pub bytes: u64,
    /// The problems, segment by segment.
    pub problems: Vec<String>,
}

impl TierOutcome {
    /// Adds the result of another shard.
    pub fn add(&mut self, other: Self) {
        self.segments = self.segments.saturating_add(other.segments);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.problems.extend(other.problems);
    }
}

/// Parses `orders-3` as topic and partition; a text without a number is a topic with all its
/// partitions.
pub fn parse_which(text: &str) -> (String, Option<i32>) {
    let number = |digits: &str| digits.parse().ok().filter(|number: &i32| *number >= 0);
    match text.rsplit_once('-') {
        Some((topic, digits)) if !topic.is_empty() && number(digits).is_some() => {
            (topic.to_owned(), number(digits))
        }
        _ => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_which;

    #[test]
    fn a_partition_is_named_as_its_folder() {
        let which = |text: &str| parse_which(text);
        assert_eq!(which("orders-3"), ("orders".into(), Some(3)));
        assert_eq!(which("a-b-12"), ("a-b".into(), Some(12)));
        for topic in ["orders", "orders-", "-1", "orders-x", "orders-99999999999"] {
            assert_eq!(which(topic), (topic.into(), None));
        }
    }
}
