//! Tiers as their operator sees them: what `/tiers` on the admin endpoint answers, and `forebay tier` shows.
//!
//! `answer` gives these values, the command line reads them back from JSON; the field names are the interface. It
//! decides nothing: that is `storage::tier::policy`.

pub mod ask;
pub mod drained;
pub mod metrics;
pub mod watch;

use serde::{Deserialize, Serialize};

/// Everything about the tiers but their segments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// `storage.migrate.threshold`; absent with movement off.
    pub threshold: Option<f64>,
    /// `storage.migrate.hysteresis`.
    pub hysteresis: f64,
    /// `storage.migrate.reserve`.
    pub reserve: f64,
    /// `storage.migrate.bytes.per.second`; absent without bound.
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
    /// True when a path of it was declared to be persistent memory and is ordinary memory.
    pub emulated: bool,
    /// `durable` or `volatile`.
    pub durability: String,
    /// Declared rate of reads of each path.
    pub read_bytes_per_second: Option<u64>,
    /// Declared rate of writes of each path.
    pub write_bytes_per_second: Option<u64>,
    /// What its open paths may hold.
    pub capacity_bytes: u64,
    /// What segments take on all its paths.
    pub used_bytes: u64,
    /// What segment files that were made in advance take on them.
    pub pooled_bytes: u64,
    /// What sealed segments leave to those being written.
    pub reserve_bytes: u64,
    /// Bytes above the threshold: what is to move down.
    pub backlog_bytes: u64,
    /// Segments on it.
    pub segments: u64,
    /// Bytes a second by which it fills (negative: empties) at present.
    pub fill_bytes_per_second: i64,
    /// Seconds to full at that slope; absent when it does not fill.
    pub seconds_to_full: Option<u64>,
    /// Seconds to the threshold at that slope; absent when it is not above it or does not empty.
    pub seconds_to_drain: Option<u64>,
    /// Its paths.
    pub paths: Vec<PathStatus>,
}

/// One path of a tier.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// The directory.
    pub path: String,
    /// True when it was declared to be persistent memory and is ordinary memory: nothing on it is durable.
    pub emulated: bool,
    /// `open`, `cordoned`, `draining` or `failed`.
    pub state: String,
    /// Why it failed, if so.
    pub failed: Option<String>,
    /// What may be used of it by its setting.
    pub capacity_bytes: u64,
    /// What segments take.
    pub used_bytes: u64,
    /// What segment files that were made in advance take; they make way.
    pub pooled_bytes: u64,
    /// What the setting and the file system leave, those files included.
    pub free_bytes: u64,
    /// Segments on it.
    pub segments: u64,
    /// Reads of its segments that were not answered from memory.
    pub reads: u64,
    /// Bytes that those reads brought.
    pub read_bytes: u64,
    /// Bytes of records written to it by producers.
    pub appended_bytes: u64,
    /// Segments that came down to it.
    pub moved_down_segments: u64,
    /// Their bytes.
    pub moved_down_bytes: u64,
    /// Segments that came up to it.
    pub moved_up_segments: u64,
    /// Their bytes.
    pub moved_up_bytes: u64,
    /// Moves to it that failed.
    pub move_errors: u64,
    /// Bytes on their way to it.
    pub arriving_bytes: u64,
    /// Bytes on their way from it.
    pub leaving_bytes: u64,
}

/// One segment.
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
    /// When it was sealed, in milliseconds of the wall clock; absent while it is written to.
    pub sealed_ms: Option<i64>,
    /// When it came to its tier; after a start, when it was found there.
    pub arrived_ms: i64,
    /// When it was last read from its disk.
    pub read_ms: Option<i64>,
    /// Why it stays, in one word.
    pub rule: String,
    /// Why it stays, in a sentence.
    pub why: String,
    /// When that rule ends by itself, in milliseconds of the wall clock.
    pub until_ms: Option<i64>,
    /// Why retention keeps it, in one word; empty when that cannot be told.
    pub kept: String,
    /// The same in a sentence.
    pub why_kept: String,
    /// When `retention.ms` has passed, in milliseconds of the wall clock.
    pub kept_until_ms: Option<i64>,
    /// Why it is not served, if so.
    pub offline: Option<String>,
}

/// What a move, a drain or a verification came to.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Segments it was about.
    pub segments: u64,
    /// Their bytes, where they were read.
    pub bytes: u64,
    /// What is wrong, segment by segment.
    pub problems: Vec<String>,
}

impl Outcome {
    /// Adds what another shard has to say.
    pub fn add(&mut self, other: Self) {
        self.segments = self.segments.saturating_add(other.segments);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.problems.extend(other.problems);
    }
}

/// `orders-3` as topic and partition; a text without a number is a topic, all its partitions.
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
