//! Which segment belongs on which tier: a pure function of what is there, how fast it fills, and the settings.
//!
//! A [`View`] goes in, a [`Decision`] comes out: moves with their reason, active segments that had better be rolled, and
//! how fast to move. [`place()`] says where a new segment goes; [`stays()`] says why segments stay where they are.
//! Invariants:
//! * Active segments are never moved; sealed ones only to a path that is open and keeps its reserve.
//! * A segment leaves a tier for its fill only while the tier is above its level, and comes up only while the tier is
//!   below the lower one and stays below the middle of the band: neither undoes the other (`levels`).
//! * The order decides: what is sealed longest goes down first, what is sealed last comes up first.
//! * With movement off (`threshold` of -1) only what an operator asks for by name moves: drained paths, `asked`.
//!
//! Nothing here knows files, shards or time but what the view says. It does not: carry anything out (`tier::mover`),
//! measure (`slope` keeps the sums it is given), or delete.

mod decide;
mod levels;
mod paths;
mod place;
mod reason;
mod settings;
mod slope;
mod stay;
mod view;

pub use decide::{decide, pace, presses};
pub use levels::Levels;
pub use paths::choose_path;
pub use place::{NewSegment, Placement, place};
pub use reason::{MoveReason, PlaceReason};
pub use settings::PolicySettings;
pub use slope::Slope;
pub use stay::{Stay, stays};
pub use view::{PathState, PathView, Place, SegmentId, SegmentView, TierView, View};

/// What is to be done now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// Moves to begin, the most pressing first; no more than the view has free slots.
    pub moves: Vec<Move>,
    /// Active segments to be rolled when it is convenient: they stand on a path that is drained, or on a slower tier
    /// than a new segment would get.
    pub rolls: Vec<SegmentId>,
    /// Bytes a second for all moves together, of all shards; `None` is without limit.
    pub bytes_per_second: Option<u64>,
}

/// One segment from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Which.
    pub segment: SegmentId,
    /// Where it is.
    pub from: Place,
    /// Where it goes.
    pub to: Place,
    /// Why.
    pub reason: MoveReason,
}

impl Move {
    /// True when it must not wait for produce: the room it makes is what produce needs next.
    pub fn is_urgent(&self) -> bool {
        self.reason == MoveReason::Reserve
    }
}

#[cfg(test)]
mod tests;
