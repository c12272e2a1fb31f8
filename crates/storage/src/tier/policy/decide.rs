//! Decides the moves, in this order: reserves and drains, asked, pinned, above the high level,
//! promotions.
//!
//! Each decided move counts at once as leaving and arriving, so that the next decision uses the
//! resulting fill. There are never more moves than free slots; a segment without a slot is decided
//! on again when a slot is free.

use std::collections::BTreeSet;

use super::levels::Levels;
use super::paths::{choose_for_sealed, choose_path};
use super::place::{NewSegment, place};
use super::reason::MoveReason;
use super::settings::PolicySettings;
use super::view::{PathState, PathView, SegmentId, SegmentView, TierPlace, TierView, View};
use super::{Decision, Move};

/// Decides the moves and rolls of one shard.
pub fn decide(view: &View, settings: &PolicySettings) -> Decision {
    let mut plan = Plan {
        view,
        settings,
        tiers: view.tiers.clone(),
        moves: Vec::new(),
    };
    let moves = settings.threshold.is_some();
    for tier in 0..view.last_tier() {
        if moves {
            plan.clear_reserve(tier);
        }
    }
    plan.drain();
    plan.asked();
    if moves {
        plan.pinned();
        for tier in 0..view.last_tier() {
            plan.lower(tier);
        }
        for tier in 0..view.last_tier() {
            plan.raise(tier);
        }
    }
    let bytes_per_second = pace(&view.tiers, settings);
    let rolls = plan.rolls();
    Decision {
        moves: plan.moves,
        rolls,
        bytes_per_second,
    }
}

struct Plan<'v> {
    view: &'v View,
    settings: &'v PolicySettings,
    /// The tiers as they will be after `moves`.
    tiers: Vec<TierView>,
    moves: Vec<Move>,
}

impl<'v> Plan<'v> {
    fn levels(&self, tier: usize) -> Levels {
        Levels::of(&self.tiers[tier], self.settings)
    }

    fn has_slot(&self) -> bool {
        self.moves.len() < self.view.free_slots
    }

    /// Returns the movable segments that satisfy `wanted`, sealed longest ago first.
    fn oldest(&self, wanted: impl Fn(&SegmentView) -> bool) -> Vec<&'v SegmentView> {
        let taken: BTreeSet<SegmentId> = self.moves.iter().map(|m| m.segment).collect();
        let segments = self.view.segments.iter();
        let mut found: Vec<_> = segments
            .filter(|segment| {
                segment.is_movable() && !taken.contains(&segment.id) && wanted(segment)
            })
            .filter(|segment| self.is_readable(segment.place))
            .collect();
        found.sort_by_key(|segment| (segment.sealed_ms, segment.id));
        found
    }

    fn is_readable(&self, place: TierPlace) -> bool {
        let path = self.view.path(place);
        path.is_some_and(|path| path.state != PathState::Failed)
    }

    fn begin(&mut self, segment: &SegmentView, to: TierPlace, reason: MoveReason) {
        let from = segment.place;
        let leaving = &mut self.tiers[from.tier].paths[from.path].leaving_bytes;
        *leaving = leaving.saturating_add(segment.bytes);
        let arriving = &mut self.tiers[to.tier].paths[to.path].arriving_bytes;
        *arriving = arriving.saturating_add(segment.bytes);
        self.moves.push(Move {
            segment: segment.id,
            from,
            to,
            reason,
        });
    }

    /// Returns a path for a sealed segment on the first of `tiers` that has room beside its
    /// reserve.
    fn room(
        &self,
        segment: &SegmentView,
        tiers: impl IntoIterator<Item = usize>,
    ) -> Option<TierPlace> {
        let open = segment.open_to(&self.tiers);
        tiers.into_iter().find_map(|tier| {
            let path = choose_for_sealed(open.get(tier)?, segment.bytes, self.settings)?;
            Some(TierPlace { tier, path })
        })
    }

    /// Returns a path on the next slower tier that has room and is allowed for the segment's topic.
    fn room_below(&self, segment: &SegmentView) -> Option<TierPlace> {
        let slower = segment.place.tier + 1..self.tiers.len();
        self.room(segment, slower.filter(|tier| segment.may_be_on(*tier)))
    }

    /// Moves sealed segments out of the reserve, even hot and recently moved ones, but those last.
    fn clear_reserve(&mut self, tier: usize) {
        if !self.levels(tier).is_hard() {
            return;
        }
        let here = self.oldest(|segment| self.is_open_on(segment, tier));
        let (calm, kept): (Vec<_>, Vec<_>) = here
            .into_iter()
            .partition(|segment| self.may_leave(segment));
        for segment in calm.into_iter().chain(kept) {
            if !self.has_slot() || !self.levels(tier).is_hard() {
                return;
            }
            if let Some(to) = self.room_below(segment) {
                self.begin(segment, to, MoveReason::Reserve);
            }
        }
    }

    /// Demotes the oldest segments of a tier above its level, except those that are read or have
    /// just arrived.
    fn lower(&mut self, tier: usize) {
        if self.levels(tier).excess_bytes() == 0 {
            return;
        }
        for segment in self.oldest(|segment| self.is_open_on(segment, tier)) {
            let levels = self.levels(tier);
            if !self.has_slot() || levels.excess_bytes() == 0 {
                return;
            }
            if !self.may_leave(segment) {
                continue;
            }
            let early = levels.settled_bytes <= levels.threshold_bytes.unwrap_or(0);
            let reason = if early {
                MoveReason::Early
            } else {
                MoveReason::Threshold
            };
            if let Some(to) = self.room_below(segment) {
                self.begin(segment, to, reason);
            }
        }
    }

    /// Promotes the newest segments of slower tiers to a tier below its low level, while it is not
    /// filling up.
    fn raise(&mut self, tier: usize) {
        let levels = self.levels(tier);
        if levels.settled_bytes >= levels.low_bytes || levels.pressure > 0.0 {
            return;
        }
        let wanted = |segment: &SegmentView| segment.place.tier > tier && segment.may_be_on(tier);
        for segment in self.oldest(wanted).into_iter().rev() {
            let levels = self.levels(tier);
            let after = levels.settled_bytes.saturating_add(segment.bytes);
            let has_room = levels.settled_bytes < levels.low_bytes && after <= levels.middle_bytes;
            // Taking an older segment instead would break the order.
            if !self.has_slot() || !has_room || levels.pressure > 0.0 {
                return;
            }
            if !self.is_resident(segment) {
                continue;
            }
            let Some(to) = self.room(segment, [tier]) else {
                if segment.passed_over.is_some() {
                    // Segments of other logs may still fit.
                    continue;
                }
                return;
            };
            self.begin(segment, to, MoveReason::Promoted);
        }
    }

    /// Moves segments on draining paths to another path of the tier, else to a slower tier, else to
    /// a faster one.
    fn drain(&mut self) {
        let draining = |segment: &SegmentView| {
            let path = self.view.path(segment.place);
            path.is_some_and(|path| path.state == PathState::Draining)
        };
        for segment in self.oldest(draining) {
            if !self.has_slot() {
                return;
            }
            let tier = segment.place.tier;
            let order = (tier..self.tiers.len()).chain((0..tier).rev());
            let (allowed, others): (Vec<_>, Vec<_>) =
                order.partition(|tier| segment.may_be_on(*tier));
            // Never to a tier faster than the topic allows, because it may be less durable.
            let others = others.into_iter().filter(|tier| *tier > segment.tier_min);
            if let Some(to) = self.room(segment, allowed.into_iter().chain(others)) {
                self.begin(segment, to, MoveReason::Drained);
            }
        }
    }

    fn asked(&mut self) {
        let asked = |segment: &SegmentView| {
            segment
                .asked
                .is_some_and(|tier| tier != segment.place.tier && tier < self.tiers.len())
        };
        for segment in self.oldest(asked) {
            if !self.has_slot() {
                return;
            }
            if let Some(to) = self.room(segment, segment.asked) {
                self.begin(segment, to, MoveReason::Asked);
            }
        }
    }

    /// Moves a segment on a tier that its topic does not allow to the nearest allowed tier.
    fn pinned(&mut self) {
        for segment in self.oldest(|segment| !segment.may_be_on(segment.place.tier)) {
            if !self.has_slot() {
                return;
            }
            let tier = segment.place.tier;
            let slowest = segment.tier_max.min(self.view.last_tier());
            let allowed = segment.tier_min..=slowest;
            let to = if tier < segment.tier_min {
                self.room(segment, allowed)
            } else {
                self.room(segment, allowed.rev())
            };
            if let Some(to) = to {
                self.begin(segment, to, MoveReason::Pinned);
            }
        }
    }

    /// Returns active segments that should continue on another path.
    fn rolls(&self) -> Vec<SegmentId> {
        let actives = self.view.segments.iter();
        let active = actives.filter(|segment| segment.sealed_ms.is_none() && !segment.moving);
        active
            .filter(|segment| self.has_better(segment))
            .map(|segment| segment.id)
            .collect()
    }

    fn has_better(&self, segment: &SegmentView) -> bool {
        let fresh = NewSegment {
            home: None,
            first_bytes: 1,
            tier_min: segment.tier_min,
            tier_max: segment.tier_max,
        };
        let open = segment.open_to(&self.tiers);
        let Some(better) = place(&open, &fresh).map(|placed| placed.place) else {
            return false;
        };
        match self.view.path(segment.place).map(|path| path.state) {
            Some(PathState::Draining) => true,
            Some(PathState::Open | PathState::Cordoned) => {
                // Not before the tier is out of its reserve, because the next segment would spill
                // again.
                better.tier < segment.place.tier
                    && segment.bytes > 0
                    && !self.levels(better.tier).is_hard()
                    && choose_path(&open[better.tier], segment.bytes).is_some()
            }
            Some(PathState::Failed) | None => false,
        }
    }

    fn is_open_on(&self, segment: &SegmentView, tier: usize) -> bool {
        let path = self.view.path(segment.place);
        segment.place.tier == tier && path.is_some_and(|path| path.state == PathState::Open)
    }

    fn may_leave(&self, segment: &SegmentView) -> bool {
        let hot_until_ms = segment.hot_until_ms(self.settings.heat_ms);
        let is_hot = hot_until_ms.is_some_and(|until_ms| until_ms > self.view.now_ms);
        self.is_resident(segment) && !is_hot
    }

    fn is_resident(&self, segment: &SegmentView) -> bool {
        segment.resident_until_ms(self.settings.residency_ms) <= self.view.now_ms
    }
}

/// Returns the rate of all moves.
///
/// It is the full rate when no records arrive or a tier is above its threshold. Otherwise it is
/// half the rate, or more the closer a tier is to full.
pub fn pace(tiers: &[TierView], settings: &PolicySettings) -> Option<u64> {
    let limit = settings.bytes_per_second?;
    let idle = tiers.iter().all(|tier| tier.incoming_bytes_per_second == 0);
    let (mut above, mut pressure) = (false, 0.0_f64);
    for tier in all_but_last(tiers) {
        let levels = Levels::of(tier, settings);
        above |= levels
            .threshold_bytes
            .is_some_and(|level| levels.settled_bytes > level);
        pressure = pressure.max(levels.pressure);
    }
    let part = if above || idle {
        1.0
    } else {
        pressure.max(0.5)
    };
    Some(super::levels::share(limit, part).max(1))
}

/// Returns true when the fill of a tier or a drain may require moves, so that the segments should
/// be examined.
pub fn presses(tiers: &[TierView], settings: &PolicySettings) -> bool {
    let holds_something = |tier: &TierView| tier.paths.iter().any(|path| path.used_bytes > 0);
    let leaves = |path: &PathView| path.state == PathState::Draining && path.used_bytes > 0;
    if tiers.iter().flat_map(|tier| &tier.paths).any(leaves) {
        return true;
    }
    if settings.threshold.is_none() {
        return false;
    }
    all_but_last(tiers).iter().enumerate().any(|(at, tier)| {
        let levels = Levels::of(tier, settings);
        let has_room = levels.settled_bytes < levels.low_bytes && levels.pressure <= 0.0;
        let slower = &tiers[at + 1..];
        levels.is_hard()
            || levels.excess_bytes() > 0
            || has_room && slower.iter().any(holds_something)
    })
}

fn all_but_last(tiers: &[TierView]) -> &[TierView] {
    tiers.split_last().map_or(&[], |(_, others)| others)
}
