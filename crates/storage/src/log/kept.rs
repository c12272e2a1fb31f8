//! Why retention keeps a segment: the same rules as `retention`, told instead of followed.

use std::fmt;

use platform::Platform;
use wire::types::Offset;

use crate::log::views::{LogTiers, Looking};

/// Why a segment is not deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It has records at or above the high watermark, or that are not on disk yet.
    Unsettled,
    /// `cleanup.policy` has no `delete`.
    NoDelete,
    /// The log is not larger than `retention.bytes`, and `retention.ms` has not passed since its newest record; when that
    /// has, in milliseconds of the wall clock.
    Within(Option<i64>),
    /// Nothing keeps it but older segments, which go first.
    OlderFirst,
    /// Nothing: the next look of retention deletes it.
    Due,
}

impl Kept {
    /// One word, for JSON.
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

impl fmt::Display for Kept {
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
    /// Why each segment is kept, oldest first. One that cannot be read is not among them: retention stops at it.
    pub async fn kept(self) -> Vec<(Offset, Kept)> {
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
            // The age of what is absent is not known: it goes with the next that is there.
            let mut there = segments.iter().skip(index);
            let judged = there.find(|segment| !segment.is_absent());
            // With none behind it, it tells no age itself, and stays.
            let judged = judged.unwrap_or(segment);
            let Ok(largest) = Looking(self.0).largest_timestamp(judged).await else {
                has_older = true;
                continue;
            };
            let newest_ms = largest.map_or(judged.born_ms, |(timestamp, _)| timestamp.0);
            let age_ms = now.age_ms(newest_ms);
            let expired = options.retention_ms.is_some_and(|ms| age_ms > ms);
            // By the wall clock as it runs now, also where the date is of another.
            let began_ms = now.wall_ms.saturating_sub(age_ms);
            let until_ms = options
                .retention_ms
                .map(|retention_ms| began_ms.saturating_add(retention_ms));
            let below_start = next <= self.offsets.start();
            let why = if next > safe {
                Kept::Unsettled
            } else if !options.delete && !below_start {
                Kept::NoDelete
            } else if !(below_start || too_much || expired) {
                Kept::Within(until_ms)
            } else if has_older {
                Kept::OlderFirst
            } else {
                Kept::Due
            };
            has_older |= why != Kept::Due;
            kept.push((segment.base, why));
        }
        kept
    }
}
