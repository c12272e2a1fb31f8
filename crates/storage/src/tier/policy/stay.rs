//! Why a segment stays where it is: the answer of `forebay tier why`.
//!
//! It is the first rule that keeps the segment, in the order of `decide`. A segment that the next
//! decision moves is [`StayReason::Next`].

use std::collections::BTreeSet;
use std::fmt;

use super::decide::decide;
use super::levels::Levels;
use super::settings::PolicySettings;
use super::view::{PathState, SegmentId, SegmentView, View};

/// The reason why a segment stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StayReason {
    /// It is the active segment.
    Active,
    /// It does not stay: a move is in progress.
    Moving,
    /// It does not stay: it moves next.
    Next,
    /// Damage was found in it.
    Quarantined,
    /// Its path failed.
    PathFailed,
    /// `storage.migrate.threshold` is -1, so movement is off.
    MovementOff,
    /// The faster tiers have no room for it below their low level.
    NoRoomAbove,
    /// No slower tier that its topic allows has room.
    NoRoomBelow,
    /// Its topic allows only this tier.
    Pinned,
    /// It was moved to this tier recently and stays until this time (wall clock, milliseconds).
    Resident(i64),
    /// It was read recently and stays until this time (wall clock, milliseconds).
    Hot(i64),
    /// Its tier is not above the threshold.
    BelowThreshold,
    /// Other segments were sealed before it and go first.
    OthersFirst,
}

/// Returns why each segment of the view stays, in the order of the view.
pub fn stays(view: &View, settings: &PolicySettings) -> Vec<StayReason> {
    // With unlimited slots, a segment that only waits for a slot is not kept by a rule.
    let unhurried = View {
        free_slots: usize::MAX,
        ..view.clone()
    };
    let decided = decide(&unhurried, settings);
    let next: BTreeSet<SegmentId> = decided.moves.iter().map(|m| m.segment).collect();
    let segments = view.segments.iter();
    segments
        .map(|segment| of_segment(view, settings, &next, segment))
        .collect()
}

fn of_segment(
    view: &View,
    settings: &PolicySettings,
    next: &BTreeSet<SegmentId>,
    segment: &SegmentView,
) -> StayReason {
    if segment.moving {
        return StayReason::Moving;
    }
    if segment.quarantined {
        return StayReason::Quarantined;
    }
    if segment.sealed_ms.is_none() {
        return StayReason::Active;
    }
    if view
        .path(segment.place)
        .is_none_or(|path| path.state == PathState::Failed)
    {
        return StayReason::PathFailed;
    }
    if next.contains(&segment.id) {
        return StayReason::Next;
    }
    let Some(tier) = view.tiers.get(segment.place.tier) else {
        return StayReason::PathFailed;
    };
    if settings.threshold.is_none() {
        return StayReason::MovementOff;
    }
    let levels = Levels::of(tier, settings);
    let is_last = segment.place.tier == view.last_tier();
    if segment.tier_min >= segment.place.tier && segment.tier_max <= segment.place.tier {
        return StayReason::Pinned;
    }
    if !is_last && levels.excess_bytes() > 0 {
        return why_not_down(view, settings, segment, &levels);
    }
    if is_last || segment.place.tier > segment.tier_min {
        return StayReason::NoRoomAbove;
    }
    StayReason::BelowThreshold
}

fn why_not_down(
    view: &View,
    settings: &PolicySettings,
    segment: &SegmentView,
    levels: &Levels,
) -> StayReason {
    if segment.tier_max <= segment.place.tier {
        return StayReason::Pinned;
    }
    let resident_until_ms = segment.resident_until_ms(settings.residency_ms);
    if !levels.is_hard() && resident_until_ms > view.now_ms {
        return StayReason::Resident(resident_until_ms);
    }
    let hot_until_ms = segment.hot_until_ms(settings.heat_ms);
    if let Some(until_ms) = hot_until_ms.filter(|until_ms| *until_ms > view.now_ms)
        && !levels.is_hard()
    {
        return StayReason::Hot(until_ms);
    }
    let slower = segment.place.tier + 1..view.tiers.len();
    let open = segment.open_to(&view.tiers);
    let has_room = slower.filter(|tier| segment.may_be_on(*tier)).any(|tier| {
        let tier = &open[tier];
        super::paths::choose_for_sealed(tier, segment.bytes, settings).is_some()
    });
    if has_room {
        StayReason::OthersFirst
    } else {
        StayReason::NoRoomBelow
    }
}

impl StayReason {
    /// Returns one word, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Moving => "moving",
            Self::Next => "next",
            Self::Quarantined => "quarantined",
            Self::PathFailed => "path-failed",
            Self::MovementOff => "movement-off",
            Self::NoRoomAbove => "no-room-above",
            Self::NoRoomBelow => "no-room-below",
            Self::Pinned => "pinned",
            Self::Resident(_) => "resident",
            Self::Hot(_) => "hot",
            Self::BelowThreshold => "below-threshold",
            Self::OthersFirst => "others-first",
        }
    }

    /// Returns the time (wall clock, milliseconds) at which the rule ends by itself, if it does.
    pub fn until_ms(self) -> Option<i64> {
        match self {
            Self::Resident(until_ms) | Self::Hot(until_ms) => Some(until_ms),
            _ => None,
        }
    }
}

impl fmt::Display for StayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "it is being written to",
            Self::Moving => "it is being moved",
            Self::Next => "it is moved as soon as the mover is free",
            Self::Quarantined => "damage was found in it; it is left as it is",
            Self::PathFailed => "its path failed",
            Self::MovementOff => "storage.migrate.threshold is -1: nothing moves",
            Self::NoRoomAbove => "faster tiers have no room for it below their lower level",
            Self::NoRoomBelow => "no slower tier that its topic may be on has room",
            Self::Pinned => "storage.tier.min and storage.tier.max of its topic keep it here",
            Self::Resident(_) => "it was moved here less than storage.migrate.residency.ms ago",
            Self::Hot(_) => "it was read less than storage.migrate.heat.ms ago",
            Self::BelowThreshold => "its tier is not above storage.migrate.threshold",
            Self::OthersFirst => "segments that were sealed before it go first",
        })
    }
}
