//! Places a new segment: on the fastest tier that its topic allows and that has room, else on the
//! next slower one.
//!
//! A new segment never goes to a faster tier than its topic's `storage.tier.min`, which may stand
//! for durability; it goes past `storage.tier.max` when no other tier has room. Only room that can
//! be written now counts: `decide` makes room ahead of time, so placement does not wait for it.

use super::paths::choose_path;
use super::reason::PlaceReason;
use super::view::{PathState, TierPlace, TierView};

/// The segment to be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewSegment {
    /// The partition's folder in the first tier; its path is preferred to others of its tier.
    pub home: Option<TierPlace>,
    /// The room needed to start; when the path has no more, the segment is rolled and the next one
    /// placed.
    pub first_bytes: u64,
    /// `storage.tier.min` of its topic.
    pub tier_min: usize,
    /// `storage.tier.max` of its topic.
    pub tier_max: usize,
}

/// The chosen place and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The place.
    pub place: TierPlace,
    /// The reason.
    pub reason: PlaceReason,
}

/// Returns the place of a new segment; `None` if no allowed tier has room.
pub fn place(tiers: &[TierView], segment: &NewSegment) -> Option<Placement> {
    let slowest = tiers.len().checked_sub(1)?;
    // A pin to a tier that no longer exists means the slowest one.
    let (min, max) = (segment.tier_min.min(slowest), segment.tier_max.min(slowest));
    let active = |tier: &usize| !tiers[*tier].sealed_only;
    let fastest = (min..=slowest).find(active)?;
    let mut with_room = (fastest..=slowest).filter(active).filter_map(|tier| {
        let path = path_of(&tiers[tier], tier, segment)?;
        Some(TierPlace { tier, path })
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
