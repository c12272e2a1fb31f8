//! What the policy is shown: tiers, their paths, and the segments of one shard, as plain values.
//!
//! Tiers and paths are those of the whole process, segments those of one shard; what other shards have begun to move is
//! in `arriving_bytes` and `leaving_bytes`, so that two shards do not clear the same excess twice.

use std::borrow::Cow;

/// A path of a tier, by their places in the lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Tier: 0 is the fastest.
    pub tier: usize,
    /// Path within the tier.
    pub path: usize,
}

/// A segment, by whatever number the gatherer of the view gave it; the policy only gives it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u64);

/// Everything that is decided on.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// Wall clock, in milliseconds; the times of segments are by the same clock.
    pub now_ms: i64,
    /// The tiers, fastest first.
    pub tiers: Vec<TierView>,
    /// The segments of this shard, active ones too.
    pub segments: Vec<SegmentView>,
    /// Moves that may begin now; what is under way is taken off already.
    pub free_slots: usize,
}

/// One tier.
#[derive(Clone, PartialEq, Debug)]
pub struct TierView {
    /// Its paths.
    pub paths: Vec<PathView>,
    /// Takes sealed segments only (an object store).
    pub sealed_only: bool,
    /// Bytes that appends bring to it in a second (`Slope`); moves are not in it.
    pub incoming_bytes_per_second: u64,
}

/// One path of a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathView {
    /// What may be used: of the setting and of what the file system has, the lesser; `u64::MAX` is without bound.
    pub capacity_bytes: u64,
    /// What all our files on it take.
    pub used_bytes: u64,
    /// Bytes of the moves to it that are under way, less what `used_bytes` has of them already.
    pub arriving_bytes: u64,
    /// Bytes of the moves from it that are under way.
    pub leaving_bytes: u64,
    /// Bytes by which the active segments on it may still grow. For choosing between paths, it takes no room.
    pub expected_bytes: u64,
    /// Measured (or declared) bytes a second; 0 is unknown.
    pub bytes_per_second: u64,
    /// What may be done with it.
    pub state: PathState,
}

/// What may be done with a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// Everything.
    Open,
    /// Nothing new is placed on it, nothing moves to it; what is there stays.
    Cordoned,
    /// As cordoned, and it is emptied.
    Draining,
    /// Nothing: it failed, or is gone.
    Failed,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentView {
    /// Which.
    pub id: SegmentId,
    /// Where.
    pub place: Place,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was sealed; `None`: active, or not wholly on disk yet.
    pub sealed_ms: Option<i64>,
    /// When it came to this tier: made or moved there. After a start, the time of its file.
    pub arrived_ms: i64,
    /// When it was last read from this tier's medium; reads from memory do not count.
    pub read_ms: Option<i64>,
    /// `storage.tier.min` of its topic: no faster tier than this.
    pub tier_min: usize,
    /// `storage.tier.max` of its topic: no slower tier than this.
    pub tier_max: usize,
    /// Where an operator wants it (`forebay tier move`).
    pub asked: Option<usize>,
    /// A move of it is under way.
    pub moving: bool,
    /// It must be left alone: damage was found in it.
    pub quarantined: bool,
    /// A path that its log passes over.
    pub passed_over: Option<Place>,
}

impl TierView {
    /// The paths that take data, with their indexes.
    pub(super) fn open_paths(&self) -> impl Iterator<Item = (usize, &PathView)> {
        let paths = self.paths.iter().enumerate();
        paths.filter(|(_, path)| path.state == PathState::Open)
    }
}

impl PathView {
    /// Bytes it will hold when the moves that are under way are done.
    pub(super) fn settled_bytes(&self) -> u64 {
        let coming = self.used_bytes.saturating_add(self.arriving_bytes);
        coming.saturating_sub(self.leaving_bytes)
    }

    /// Bytes that can be written to it now: what leaves is still there, what arrives has been promised room.
    pub(super) fn free_bytes(&self) -> u64 {
        let taken = self.used_bytes.saturating_add(self.arriving_bytes);
        self.capacity_bytes.saturating_sub(taken)
    }
}

impl View {
    pub(super) fn path(&self, place: Place) -> Option<&PathView> {
        self.tiers.get(place.tier)?.paths.get(place.path)
    }

    /// The slowest tier.
    pub(super) fn last_tier(&self) -> usize {
        self.tiers.len().saturating_sub(1)
    }
}

impl SegmentView {
    /// True when it may be moved at all.
    pub(super) fn is_movable(&self) -> bool {
        self.sealed_ms.is_some() && !self.moving && !self.quarantined
    }

    /// True when its topic may be on that tier.
    pub(super) fn may_be_on(&self, tier: usize) -> bool {
        (self.tier_min..=self.tier_max).contains(&tier)
    }

    /// The tiers without the path that its log passes over.
    pub(super) fn open_to<'t>(&self, tiers: &'t [TierView]) -> Cow<'t, [TierView]> {
        let mut tiers = Cow::Borrowed(tiers);
        if let Some(Place { tier, path }) = self.passed_over
            && let Some(tier) = tiers.to_mut().get_mut(tier)
            && let Some(path) = tier.paths.get_mut(path)
        {
            path.state = PathState::Cordoned;
        }
        tiers
    }

    /// When it has been long enough on a tier that it was moved to; what was written there may leave at any time.
    pub(super) fn resident_until_ms(&self, residency_ms: u64) -> i64 {
        let was_moved = self
            .sealed_ms
            .is_some_and(|sealed_ms| self.arrived_ms > sealed_ms);
        let residency_ms = i64::try_from(residency_ms).unwrap_or(i64::MAX);
        let residency_ms = if was_moved { residency_ms } else { 0 };
        self.arrived_ms.saturating_add(residency_ms)
    }

    /// Until when it counts as being read.
    pub(super) fn hot_until_ms(&self, heat_ms: u64) -> Option<i64> {
        let heat_ms = i64::try_from(heat_ms).unwrap_or(i64::MAX);
        self.read_ms.map(|read_ms| read_ms.saturating_add(heat_ms))
    }
}
