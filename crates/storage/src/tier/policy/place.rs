//! Where a new segment goes: the fastest tier its topic may be on that has room; else the next slower one.
//!
//! A new segment never goes to a faster tier than its topic's `storage.tier.min`, which may stand for durability; it
//! goes past `storage.tier.max` when nothing else has room. Room is what can be written now: what only leaves later is
//! made room for ahead of time (`decide`), not waited for.

use super::paths::choose_path;
use super::reason::PlaceReason;
use super::view::{PathState, Place, TierView};

/// What is to be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewSegment {
    /// The partition's folder in the first tier: that path is taken before others of its tier.
    pub home: Option<Place>,
    /// Room it needs to begin with. When the path has no more, it is rolled and the next one placed.
    pub first_bytes: u64,
    /// `storage.tier.min` of its topic.
    pub tier_min: usize,
    /// `storage.tier.max` of its topic.
    pub tier_max: usize,
}

/// Where it goes, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Where.
    pub place: Place,
    /// Why.
    pub reason: PlaceReason,
}

/// The place of a new segment; `None`: no tier it may be on has room.
pub fn place(tiers: &[TierView], segment: &NewSegment) -> Option<Placement> {
    let slowest = tiers.len().checked_sub(1)?;
    // A pin to tiers that there are no longer means the slowest.
    let (min, max) = (segment.tier_min.min(slowest), segment.tier_max.min(slowest));
    let active = |tier: &usize| !tiers[*tier].sealed_only;
    let fastest = (min..=slowest).find(active)?;
    let mut with_room = (fastest..=slowest).filter(active).filter_map(|tier| {
        let path = path_of(&tiers[tier], tier, segment)?;
        Some(Place { tier, path })
    });
    let place = with_room.next()?;
    let reason = match place.tier {
        tier if tier == fastest => PlaceReason::Fastest,
        tier if tier > max => PlaceReason::SpilledPastPin,
        _ => PlaceReason::Spilled,
    };
    Some(Placement { place, reason })
}

fn path_of(view: &TierView, tier: usize, segment: &NewSegment) -> Option<usize> {
    let home = segment.home.filter(|home| home.tier == tier);
    let at_home = home.filter(|home| {
        view.paths.get(home.path).is_some_and(|path| {
            path.state == PathState::Open && path.free_bytes() >= segment.first_bytes
        })
    });
    match at_home {
        Some(home) => Some(home.path),
        None => choose_path(view, segment.first_bytes),
    }
}
