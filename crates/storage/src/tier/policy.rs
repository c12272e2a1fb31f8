//! The tier policy: a pure function of the segments, the fill rates and the settings that decides
//! which segment belongs on which tier.
//!
//! Its input is a [`View`], its output a [`Decision`]: moves with their reason, active segments to
//! be rolled, and the rate of moves. [`place()`] chooses where a new segment goes; [`stays()`]
//! explains why segments stay where they are.
//! Invariants:
//! * Active segments are never moved; sealed ones move only to a path that is open and keeps its
//!   reserve.
//! * Because of a tier's fill, a segment is demoted only while the tier is above its high level,
//!   and promoted only while the tier is below its low level and stays below the middle of the
//!   band: neither undoes the other (`levels`).
//! * Order: the segment sealed longest ago is demoted first, the segment sealed last is promoted
//!   first.
//! * With movement off (`threshold` of -1) only segments move that an operator has named: drained
//!   paths, `asked`.
//!
//! It knows files, shards and time only from the view. It does not carry out moves (`tier::mover`),
//! measure (`slope` keeps the sums that it is given), or delete.

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
pub use stay::{StayReason, stays};
pub use view::{PathState, PathView, SegmentId, SegmentView, TierPlace, TierView, View};

/// The actions that the policy decided on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// Moves to begin, the most urgent first; no more than the view's free slots.
    pub moves: Vec<Move>,
    /// Active segments to be rolled when convenient: they are on a draining path, or on a slower
    /// tier than a new segment would get.
    pub rolls: Vec<SegmentId>,
    /// The bytes per second of all moves of all shards together; `None` means no limit.
    pub bytes_per_second: Option<u64>,
}

/// The move of one segment from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The segment.
    pub segment: SegmentId,
    /// Its current place.
    pub from: TierPlace,
    /// Its new place.
    pub to: TierPlace,
    /// The reason.
    pub reason: MoveReason,
}

impl Move {
    /// Returns true when the move must not wait for appends, because they need the room that it
    /// makes.
    pub fn is_urgent(&self) -> bool {
        self.reason == MoveReason::Reserve
    }
}

#[cfg(test)]
mod tests;
