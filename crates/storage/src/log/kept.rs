//! Why retention keeps a segment: the rules of `retention.rs`, reported instead of applied.
//!
//! It does not: delete anything.

use std::fmt;

use platform::Platform;
use wire::types::Offset;

use crate::log::views::{LogTiers, Looking};

/// Why a segment is not deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetentionReason {
    /// It has records at or above the high watermark, or records that are not on disk yet.
    Unsettled,
    /// `cleanup.policy` has no `delete`.
    NoDelete,
    /// Neither `retention.bytes` nor `retention.ms` is exceeded.
    ///
    /// The value is when `retention.ms` will have passed since the newest record of the segment, in
    /// milliseconds of the wall clock.
    Within(Option<i64>),
    /// Only older segments keep it, which go first.
    OlderFirst,
    /// Nothing: the next pass of retention deletes it.
    Due,
}

impl RetentionReason {
    /// Returns the reason as one word, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsettled => "unsettled",
            Self::NoDelete => "no-delete",
            Self::Within(_) => "retention",
            Self::OlderFirst => "older-first",
            Self::Due => "due",
        }
    }
}

impl fmt::Display for RetentionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsettled => "kept: not all of it is below the high watermark and on disk",
            Self::NoDelete => "kept: cleanup.policy of its topic has no delete",
            Self::Within(Some(_)) => "kept: neither retention.ms nor retention.bytes is exceeded",
            Self::Within(None) => {
                "kept: retention.bytes is not exceeded, and there is no retention.ms"
            }
            Self::OlderFirst => "kept only as long as older segments are",
            Self::Due => "deleted when retention looks next",
        })
    }
}

impl<P: Platform> LogTiers<'_, P> {
    /// Returns why each segment is kept, oldest first.
    ///
    /// A segment that cannot be read is left out: retention stops at it.
    pub async fn kept(self) -> Vec<(Offset, RetentionReason)> {
        let now = self.store().clock().reading();
        let options = self.options();
        let segments: Vec<_> = self.segments.snapshot();
        let safe = self.offsets.high_watermark().min(self.durable_offset());
        let mut excess = match options.retention_bytes {
            Some(bytes) if options.delete => self.size_bytes().checked_sub(bytes),
            _ => None,
        };
        let mut kept = Vec::with_capacity(segments.len());
        let mut has_older = false;
        for (index, segment) in segments.iter().enumerate() {
            let next = segment.next();
            let too_much = excess.is_some_and(|excess| excess >= segment.size());
            excess = excess.map(|excess| excess.saturating_sub(segment.size()));
            // The age of an absent segment is not known: it goes with the next one that is there.
            let mut there = segments.iter().skip(index);
            let judged = there.find(|segment| !segment.is_absent());
            // Without one behind it, an absent segment has no known age, and stays.
            let judged = judged.unwrap_or(segment);
            let Ok(largest) = Looking(self.0).largest_timestamp(judged).await else {
                has_older = true;
                continue;
            };
            let newest_ms = largest.map_or(judged.born_ms, |(timestamp, _)| timestamp.0);
            let age_ms = now.age_ms(newest_ms);
            let expired = options.retention_ms.is_some_and(|ms| age_ms > ms);
            // By the wall clock as it runs now, also where the timestamp is from another one.
            let began_ms = now.wall_ms.saturating_sub(age_ms);
            let until_ms = options
                .retention_ms
                .map(|retention_ms| began_ms.saturating_add(retention_ms));
            let below_start = next <= self.offsets.start();
            let why = if next > safe {
                RetentionReason::Unsettled
            } else if !options.delete && !below_start {
                RetentionReason::NoDelete
            } else if !(below_start || too_much || expired) {
                RetentionReason::Within(until_ms)
            } else if has_older {
                RetentionReason::OlderFirst
            } else {
                RetentionReason::Due
            };
            has_older |= why != RetentionReason::Due;
            kept.push((segment.base, why));
        }
        kept
    }
}
