//! The reasons why a segment was placed or moves, in words for logs, metrics and
//! `forebay tier why`.

use std::fmt;

/// Why a new segment goes to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceReason {
    /// The fastest tier that its topic allows has room.
    Fastest,
    /// That tier has no room; this is the next one that has.
    Spilled,
    /// No tier up to `storage.tier.max` has room; losing or refusing records would be worse.
    SpilledPastPin,
}

/// Why a segment moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveReason {
    /// Demoted: sealed segments use the reserve of the active ones.
    Reserve,
    /// Its path is being drained.
    Drained,
    /// An operator asked for the move.
    Asked,
    /// Demoted: the tier is above the threshold.
    Threshold,
    /// Demoted: the tier is below the threshold, but will soon be full.
    Early,
    /// Moved to a tier that its topic allows.
    Pinned,
    /// Promoted: the tier has room, and no segment on the lower tiers is newer.
    Promoted,
}

impl PlaceReason {
    /// Returns one word, for labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Spilled => "spilled",
            Self::SpilledPastPin => "spilled-past-pin",
        }
    }
}

impl MoveReason {
    /// Returns true when appends will soon need the room that the move makes.
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::Reserve | Self::Early)
    }

    /// Returns one word, for labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Drained => "drained",
            Self::Asked => "asked",
            Self::Threshold => "threshold",
            Self::Early => "early",
            Self::Pinned => "pinned",
            Self::Promoted => "promoted",
        }
    }
}

impl fmt::Display for PlaceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fastest => "the fastest tier its topic may be on had room",
            Self::Spilled => "faster tiers were full",
            Self::SpilledPastPin => "every tier up to storage.tier.max was full",
        })
    }
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserve => "it was in the reserve for active segments",
            Self::Drained => "its path is drained",
            Self::Asked => "an operator asked for it",
            Self::Threshold => "the tier was above storage.migrate.threshold",
            Self::Early => "the tier was about to be full",
            Self::Pinned => "its topic may not be on the tier it was on",
            Self::Promoted => "it was the newest of the lower tiers, and there was room",
        })
    }
}
