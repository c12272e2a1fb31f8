//! The requests of the admin endpoint to each shard about tiers, and how a shard answers them.

use std::fmt::Write as _;

use platform::os::System;
use storage::Store;
use storage::log::RetentionReason;
use storage::tier::policy::{Levels, PolicySettings, StayReason};
use storage::tier::{SegmentReport, TierTable, VerifyOutcome};
use wire::types::TopicPartition;

use super::{SegmentStatus, TierOutcome};

/// Segments of some partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentSelection {
    /// Their topic; `None`: all.
    pub topic: Option<String>,
    /// The partition; `None`: all.
    pub partition: Option<i32>,
    /// The segment that begins at this offset; `None`: all.
    pub base: Option<i64>,
}

/// A request to a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Return where its segments are, and why.
    Segments(SegmentSelection),
    /// Move sealed segments to the tier at this position when there is room.
    Move(SegmentSelection, usize),
    /// Read sealed segments and check them.
    Verify(SegmentSelection),
}

/// The answer of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Its segments.
    Segments(Vec<SegmentStatus>),
    /// The result of an order.
    Outcome(TierOutcome),
}

impl SegmentSelection {
    fn has(&self, topic: &str, partition: i32) -> bool {
        self.topic.as_deref().is_none_or(|wanted| wanted == topic)
            && self.partition.is_none_or(|wanted| wanted == partition)
    }

    fn has_base(&self, base: i64) -> bool {
        self.base.is_none_or(|wanted| wanted == base)
    }
}

/// Answers for the shard that owns `store`.
pub async fn answer(store: &Store<System>, settings: &PolicySettings, ask: Ask) -> Answer {
    match ask {
        Ask::Segments(which) => Answer::Segments(segments(store, settings, &which).await),
        Ask::Move(which, tier) => Answer::Outcome(ask_to_move(store, &which, tier)),
        Ask::Verify(which) => Answer::Outcome(verify(store, &which).await),
    }
}

async fn segments(
    store: &Store<System>,
    settings: &PolicySettings,
    which: &SegmentSelection,
) -> Vec<SegmentStatus> {
    let Some(tiers) = store.tiers() else {
        return Vec::new();
    };
    let levels = tiers.levels(settings);
    let wanted = |name: &TopicPartition| which.has(&name.topic, name.partition);
    let reports = store.tier_segments(settings, wanted).await.into_iter();
    reports
        .filter(|report| which.has_base(report.base.0))
        .map(|report| status(tiers, &levels, report))
        .collect()
}

fn status(tiers: &TierTable, levels: &[Levels], report: SegmentReport) -> SegmentStatus {
    let tier = tiers.tiers().get(report.tier);
    let path = tiers.path(report.path);
    SegmentStatus {
        topic: report.partition.topic.to_string(),
        partition: report.partition.partition,
        base_offset: report.base.0,
        next_offset: report.next.0,
        bytes: report.bytes,
        tier: tier.map_or_else(String::new, |tier| tier.name.to_string()),
        path: path.map_or_else(String::new, |path| path.dir().display().to_string()),
        sealed_ms: report.sealed_ms,
        arrived_ms: report.arrived_ms,
        read_ms: report.read_ms,
        rule: report.stay.name().to_owned(),
        why: why(tiers, levels, &report),
        until_ms: report.stay.until_ms(),
        kept: report
            .kept
            .map_or_else(String::new, |kept| kept.name().to_owned()),
        why_kept: report
            .kept
            .map_or_else(String::new, |kept| kept.to_string()),
        kept_until_ms: match report.kept {
            Some(RetentionReason::Within(until_ms)) => until_ms,
            _ => None,
        },
        offline: report.offline,
    }
}

/// Returns why a segment stays, with bytes where a percentage would mislead.
fn why(tiers: &TierTable, levels: &[Levels], report: &SegmentReport) -> String {
    let mut why = report.stay.to_string();
    if report.stay == StayReason::NoRoomAbove {
        let faster = tiers.tiers().iter().zip(levels).take(report.tier);
        for (at, (tier, levels)) in faster.enumerate() {
            let (name, low, held) = (&tier.name, levels.low_bytes, levels.settled_bytes);
            why.push_str(if at == 0 { ": " } else { "; " });
            // Writing to a `String` cannot fail.
            let _ = write!(
                why,
                "segments come up to {name} while it holds less than {low} bytes, it holds {held}"
            );
        }
    }
    why
}

fn ask_to_move(store: &Store<System>, which: &SegmentSelection, tier: usize) -> TierOutcome {
    let mut outcome = TierOutcome::default();
    for log in store.logs() {
        let name = log.topic_partition();
        if !which.has(&name.topic, name.partition) {
            continue;
        }
        let bases = log.tiers().sealed_segments().into_iter();
        for base in bases.filter(|base| which.has_base(base.0)) {
            outcome.segments += u64::from(log.tiers().ask_for_tier(base, tier));
        }
    }
    outcome
}

async fn verify(store: &Store<System>, which: &SegmentSelection) -> TierOutcome {
    let mut outcome = TierOutcome::default();
    for log in store.logs() {
        let name = log.topic_partition();
        if !which.has(&name.topic, name.partition) {
            continue;
        }
        let bases = log.tiers().sealed_segments().into_iter();
        for base in bases.filter(|base| which.has_base(base.0)) {
            let problem = match log.tiers().verify_segment(base).await {
                // The segment was deleted meanwhile.
                None => continue,
                Some(VerifyOutcome::Good(bytes)) => {
                    outcome.bytes += bytes;
                    None
                }
                Some(VerifyOutcome::Damaged(reason, at)) => Some(format!("{reason}, at byte {at}")),
                Some(VerifyOutcome::Unread(error)) => Some(error),
            };
            outcome.segments += 1;
            let named = problem.map(|problem| format!("{name} at {}: {problem}", base.0));
            outcome.problems.extend(named);
        }
    }
    outcome
}
