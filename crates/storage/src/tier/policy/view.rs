//! The input of the policy: tiers, their paths, and the segments of one shard, as plain values.
//!
//! Tiers and paths are those of the whole process, segments those of one shard. The moves that
//! other shards have begun are in `arriving_bytes` and `leaving_bytes`, so that two shards do not
//! demote for the same excess twice.

use std::borrow::Cow;

/// A path of a tier, by the positions in the lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TierPlace {
    /// Tier: 0 is the fastest.
    pub tier: usize,
    /// Path within the tier.
    pub path: usize,
}

/// The id of a segment in a view.
///
/// The gatherer of the view chooses the number, and the policy only returns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u64);

/// The whole input of a decision.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The wall clock, in milliseconds; the times of segments use the same clock.
    pub now_ms: i64,
    /// The tiers, fastest first.
    pub tiers: Vec<TierView>,
    /// The segments of this shard, including active ones.
    pub segments: Vec<SegmentView>,
    /// How many moves may begin now, without those in progress.
    pub free_slots: usize,
}

/// One tier.
#[derive(Clone, PartialEq, Debug)]
pub struct TierView {
    /// Its paths.
    pub paths: Vec<PathView>,
    /// The tier accepts sealed segments only (an object store).
    pub sealed_only: bool,
    /// Bytes per second that appends bring to it (`Slope`), without moves.
    pub incoming_bytes_per_second: u64,
}

/// One path of a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathView {
    /// The capacity: the lesser of the setting and the room on the file system; `u64::MAX` means no
    /// bound.
    pub capacity_bytes: u64,
    /// Bytes of all Forebay's files on it.
    pub used_bytes: u64,
    /// Bytes of the current moves to it, without those that `used_bytes` already includes.
    pub arriving_bytes: u64,
    /// Bytes of the current moves from it.
    pub leaving_bytes: u64,
    /// Bytes by which the active segments on it may still grow; used only to choose between paths.
    pub expected_bytes: u64,
    /// Measured (or declared) bytes per second; 0 if unknown.
    pub bytes_per_second: u64,
    /// The permitted uses.
    pub state: PathState,
}

/// The permitted uses of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// All uses.
    Open,
    /// No segment is placed on it or moved to it; segments there stay.
    Cordoned,
    /// As cordoned, and its segments are moved away.
    Draining,
    /// No use: it failed, or is missing.
    Failed,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentView {
    /// The id.
    pub id: SegmentId,
    /// The place.
    pub place: TierPlace,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was sealed; `None` if it is active or not completely on disk.
    pub sealed_ms: Option<i64>,
    /// When it was created on or moved to this tier; after a start, the time of its file.
    pub arrived_ms: i64,
    /// When it was last read from this tier's medium, without reads from memory.
    pub read_ms: Option<i64>,
    /// `storage.tier.min` of its topic: the fastest allowed tier.
    pub tier_min: usize,
    /// `storage.tier.max` of its topic: the slowest allowed tier.
    pub tier_max: usize,
    /// The tier that an operator asked for (`forebay tier move`).
    pub asked: Option<usize>,
    /// A move of it is in progress.
    pub moving: bool,
    /// Damage was found in it, so it must not be moved.
    pub quarantined: bool,
    /// A path that its log skips.
    pub passed_over: Option<TierPlace>,
}

impl TierView {
    /// Returns the paths that accept data, with their indexes.
    pub(super) fn open_paths(&self) -> impl Iterator<Item = (usize, &PathView)> {
        let paths = self.paths.iter().enumerate();
        paths.filter(|(_, path)| path.state == PathState::Open)
    }
}

impl PathView {
    /// Returns the bytes that it will hold when the current moves are done.
    pub(super) fn settled_bytes(&self) -> u64 {
        let coming = self.used_bytes.saturating_add(self.arriving_bytes);
        coming.saturating_sub(self.leaving_bytes)
    }

    /// Returns the bytes that can be written to it now.
    ///
    /// Leaving segments still use their room, and arriving ones have reserved theirs.
    pub(super) fn free_bytes(&self) -> u64 {
        let taken = self.used_bytes.saturating_add(self.arriving_bytes);
        self.capacity_bytes.saturating_sub(taken)
    }
}

impl View {
    pub(super) fn path(&self, place: TierPlace) -> Option<&PathView> {
        self.tiers.get(place.tier)?.paths.get(place.path)
    }

    /// Returns the slowest tier.
    pub(super) fn last_tier(&self) -> usize {
        self.tiers.len().saturating_sub(1)
    }
}

impl SegmentView {
    /// Returns true when it may be moved.
    pub(super) fn is_movable(&self) -> bool {
        self.sealed_ms.is_some() && !self.moving && !self.quarantined
    }

    /// Returns true when its topic allows that tier.
    pub(super) fn may_be_on(&self, tier: usize) -> bool {
        (self.tier_min..=self.tier_max).contains(&tier)
    }

    /// Returns the tiers, with the path that its log skips marked as cordoned.
    pub(super) fn open_to<'t>(&self, tiers: &'t [TierView]) -> Cow<'t, [TierView]> {
        let mut tiers = Cow::Borrowed(tiers);
        if let Some(TierPlace { tier, path }) = self.passed_over
            && let Some(tier) = tiers.to_mut().get_mut(tier)
            && let Some(path) = tier.paths.get_mut(path)
        {
            path.state = PathState::Cordoned;
        }
        tiers
    }

    /// Returns the end of its minimum stay on a tier that it was moved to; a segment written there
    /// may leave at any time.
    pub(super) fn resident_until_ms(&self, residency_ms: u64) -> i64 {
        let was_moved = self
            .sealed_ms
            .is_some_and(|sealed_ms| self.arrived_ms > sealed_ms);
        let residency_ms = i64::try_from(residency_ms).unwrap_or(i64::MAX);
        let residency_ms = if was_moved { residency_ms } else { 0 };
        self.arrived_ms.saturating_add(residency_ms)
    }

    /// Returns until when it counts as being read.
    pub(super) fn hot_until_ms(&self, heat_ms: u64) -> Option<i64> {
        let heat_ms = i64::try_from(heat_ms).unwrap_or(i64::MAX);
        self.read_ms.map(|read_ms| read_ms.saturating_add(heat_ms))
    }
}
