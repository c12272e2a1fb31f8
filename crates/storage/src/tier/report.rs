//! What an operator can see of tiers and their segments, and what the operator can ask for.
//!
//! The reports are values taken at one moment; making them changes nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use platform::Platform;
use platform::buf::{BufPool, block_ceil};
use platform::disk::DiskFile;
use wire::types::{Offset, TopicPartition};

use super::policy::{Levels, PolicySettings, StayReason, stays};
use super::table::{PathId, TierTable};
use super::verify::Verifier;
use crate::error::{Error, Result};
use crate::log::RetentionReason;
use crate::log::views::LogTiers;
use crate::segment::Segment;
use crate::segment::naming::Role;
use crate::store::Store;

/// Bytes of one read when a segment is verified.
const STEP_BYTES: usize = 1 << 20;

/// One segment, its place, and the reason.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The partition of the log.
    pub partition: TopicPartition,
    /// The base offset.
    pub base: Offset,
    /// The offset after its last record.
    pub next: Offset,
    /// The bytes of its records.
    pub bytes: u64,
    /// The position of its tier.
    pub tier: usize,
    /// The path.
    pub path: PathId,
    /// When it was sealed (wall clock, milliseconds); `None` if it is being written.
    pub sealed_ms: Option<i64>,
    /// When it came to its tier, as far as this process knows.
    pub arrived_ms: i64,
    /// When this process last read it from its disk.
    pub read_ms: Option<i64>,
    /// The reason why it stays there.
    pub stay: StayReason,
    /// The reason why retention keeps it, if known.
    pub kept: Option<RetentionReason>,
    /// The reason why it is not served, if so.
    pub offline: Option<String>,
}

/// The result of verifying one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VerifyOutcome {
    /// Every batch is valid; the number of bytes.
    Good(u64),
    /// The reason and the position in the file; the segment was taken offline.
    Damaged(&'static str, u64),
    /// The segment could not be read.
    Unread(String),
}

impl TierTable {
    /// Returns the levels of each tier, without regard to how fast it fills.
    pub fn levels(&self, settings: &PolicySettings) -> Vec<Levels> {
        let views = self.views(|_| 0);
        views
            .iter()
            .map(|view| Levels::of(view, settings))
            .collect()
    }
}

impl<P: Platform> Store<P> {
    /// Returns the segments on tiers of this shard's logs that are `wanted`.
    pub async fn tier_segments(
        &self,
        settings: &PolicySettings,
        wanted: impl Fn(&TopicPartition) -> bool,
    ) -> Vec<SegmentReport> {
        let Some(tiers) = self.tiers() else {
            return Vec::new();
        };
        let mut kept = BTreeMap::new();
        for log in self.logs() {
            if wanted(log.topic_partition()) {
                let name = log.topic_partition();
                // A log that cannot be read is reported without it.
                let each = LogTiers(&log).kept().await.into_iter();
                kept.extend(each.map(|(base, why)| ((name.clone(), base), why)));
            }
        }
        let gathered = self.gather(tiers, usize::MAX, tiers.views(|_| 0));
        let stays = stays(&gathered.view, settings);
        let seen = gathered.view.segments.iter().zip(&gathered.segments);
        let reports = seen.zip(stays).filter_map(|((view, (log, base)), stay)| {
            let name = log.topic_partition();
            if !wanted(name) {
                return None;
            }
            let path = tiers.path_at(view.place)?.id;
            let segment = log.segments.at(*base)?;
            Some(SegmentReport {
                partition: name.clone(),
                base: *base,
                next: segment.next(),
                bytes: view.bytes,
                tier: view.place.tier,
                path,
                sealed_ms: view.sealed_ms,
                arrived_ms: view.arrived_ms,
                read_ms: view.read_ms,
                stay,
                kept: kept.get(&(name.clone(), *base)).copied(),
                offline: segment.offline().map(|error| error.to_string()),
            })
        });
        reports.collect()
    }
}

impl<P: Platform> LogTiers<'_, P> {
    /// Returns the base offsets of the sealed segments.
    pub fn sealed_segments(self) -> Vec<Offset> {
        let mut bases = Vec::new();
        self.segments.each(|segment| {
            if segment.is_sealed() {
                bases.push(segment.base);
            }
        });
        bases
    }

    /// Reads a sealed segment from its disk and checks every batch; a damaged segment is no longer
    /// served.
    ///
    /// Returns `None` when there is no such segment, or it is truncated or deleted meanwhile.
    pub async fn verify_segment(self, base: Offset) -> Option<VerifyOutcome> {
        let segment = self
            .segments
            .at(base)
            .filter(|segment| segment.is_sealed())?;
        let cuts = segment.cuts();
        let verified = self.read_all(&segment).await;
        let is_same = |now: Rc<Segment<P>>| Rc::ptr_eq(&now, &segment) && now.cuts() == cuts;
        if !self.segments.at(base).is_some_and(is_same) {
            return None;
        }
        let verified = verified.unwrap_or_else(|error| VerifyOutcome::Unread(error.to_string()));
        if let VerifyOutcome::Damaged(reason, position) = verified {
            segment.take_offline(reason);
            self.store().shared.metrics.corruptions.inc();
            tracing::error!(file = %segment.path(Role::Log).display(), position, reason,
                "a segment is damaged: it is left where it is, and not served");
        }
        Some(verified)
    }

    async fn read_all(self, segment: &Segment<P>) -> Result<VerifyOutcome> {
        let path = segment.path(Role::Log);
        let size = segment.size();
        let file = segment.file(self.store().disk()).await?;
        let pool = BufPool::new(2 * STEP_BYTES);
        let mut verifier = Verifier::new(segment.base, size);
        let mut at = 0;
        while at < size {
            let len = usize::try_from(size - at).map_or(STEP_BYTES, |left| left.min(STEP_BYTES));
            let read = file.read_into(at, pool.take(block_ceil(len))).await;
            let mut bytes = read.map_err(Error::io("read", &path))?;
            bytes.truncate(len);
            if bytes.len() < len {
                let at = at + bytes.len() as u64;
                return Ok(VerifyOutcome::Damaged(
                    "the file is shorter than its batches",
                    at,
                ));
            }
            if let Err(damage) = verifier.take(&bytes) {
                return Ok(VerifyOutcome::Damaged(damage.reason, damage.position));
            }
            at += len as u64;
        }
        Ok(match verifier.finish() {
            Ok(_) => VerifyOutcome::Good(size),
            Err(damage) => VerifyOutcome::Damaged(damage.reason, damage.position),
        })
    }
}
