//! Builds the policy's view from the table and the logs of a shard, and places new segments.
//!
//! It does not wait and makes no decisions.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use platform::Platform;
use wire::types::Offset;

use super::policy::{
    NewSegment, PathState, PathView, SegmentId, SegmentView, TierPlace, TierView, View, place,
};
use super::table::{PathId, PathUse, TierPath, TierTable};
use crate::log::Log;
use crate::log::views::{LogFolders, LogTiers};
use crate::store::Store;

/// The room that a new segment needs to start.
const FIRST_BYTES: u64 = 64 << 10;
/// Dates at most this far in the future are accepted: clocks are corrected by that much.
const SLEW_MS: i64 = 10_000;
/// A time before all others.
const AGES_AGO_MS: i64 = 0;

/// A view, and the segment that each id in it stands for.
pub(crate) struct GatheredView<P: Platform> {
    pub(crate) view: View,
    /// Indexed by the ids in the view.
    pub(crate) segments: Vec<(Rc<Log<P>>, Offset)>,
}

impl<P: Platform> GatheredView<P> {
    /// Returns the segment that an id in the view stands for.
    pub(crate) fn segment(&self, id: SegmentId) -> Option<&(Rc<Log<P>>, Offset)> {
        self.segments.get(usize::try_from(id.0).ok()?)
    }
}

impl TierTable {
    /// Returns the path for a new segment of a log at home on `home`; `None` when only the
    /// `passed_over` paths have room.
    pub(crate) fn place(
        &self,
        home: Option<PathId>,
        pins: (usize, usize),
        passed_over: &[PathId],
    ) -> Option<&TierPath> {
        let segment = NewSegment {
            home: home.and_then(|home| self.place_of(home)),
            first_bytes: FIRST_BYTES,
            tier_min: pins.0,
            tier_max: pins.1,
        };
        let mut views = self.views(|_| 0);
        for TierPlace { tier, path } in passed_over.iter().filter_map(|id| self.place_of(*id)) {
            if let Some(view) = views.get_mut(tier)
                && let Some(view) = view.paths.get_mut(path)
            {
                view.state = PathState::Cordoned;
            }
        }
        let placed = place(&views, &segment)?;
        self.path_at(placed.place).map(|path| &**path)
    }

    /// Returns the path at a place of the policy.
    pub(crate) fn path_at(&self, place: TierPlace) -> Option<&std::sync::Arc<TierPath>> {
        self.paths_of(place.tier).nth(place.path)
    }

    /// Returns the policy's place of a path.
    pub(crate) fn place_of(&self, id: PathId) -> Option<TierPlace> {
        let tier = self.path(id)?.tier;
        let path = self.paths_of(tier).position(|path| path.id == id)?;
        Some(TierPlace { tier, path })
    }

    /// Returns the tiers as the policy sees them; `incoming` returns the appended bytes per second
    /// of a tier.
    pub(crate) fn views(&self, incoming: impl Fn(usize) -> u64) -> Vec<TierView> {
        let tiers = self.tiers().iter().enumerate();
        tiers
            .map(|(tier, options)| TierView {
                paths: self
                    .paths_of(tier)
                    .map(|path| path_view(path, options.write_bytes_per_second))
                    .collect(),
                sealed_only: false,
                incoming_bytes_per_second: incoming(tier),
            })
            .collect()
    }
}

fn path_view(path: &TierPath, declared: Option<u64>) -> PathView {
    let used_bytes = path.used_bytes();
    let state = if path.failed().is_some() {
        PathState::Failed
    } else {
        match path.using() {
            PathUse::Open => PathState::Open,
            PathUse::Cordoned => PathState::Cordoned,
            PathUse::Draining => PathState::Draining,
        }
    };
    let (bytes, micros) = path.written();
    let measured = bytes.saturating_mul(1_000_000).checked_div(micros);
    PathView {
        capacity_bytes: used_bytes.saturating_add(path.free_bytes()),
        used_bytes,
        arriving_bytes: path.arriving.load(Ordering::Relaxed),
        leaving_bytes: path.leaving.load(Ordering::Relaxed),
        expected_bytes: 0,
        bytes_per_second: measured.or(declared).unwrap_or(0),
        state,
    }
}

impl<P: Platform> Store<P> {
    /// Returns the whole input of the policy for this shard.
    pub(crate) fn gather(
        &self,
        tiers: &TierTable,
        free_slots: usize,
        views: Vec<TierView>,
    ) -> GatheredView<P> {
        let now = self.clock().reading();
        // Setting the wall clock must not make segments cold: ages are kept, and dates are
        // converted to the current clock. A clock that was set back leaves dates in the future;
        // these count as long past, because their segments would otherwise stay until then.
        let dated = |ms: i64| match now.age_ms(ms) {
            age_ms if age_ms < -SLEW_MS => AGES_AGO_MS,
            age_ms => now.wall_ms.saturating_sub(age_ms),
        };
        let mut gathered = GatheredView {
            view: View {
                now_ms: now.wall_ms,
                tiers: views,
                segments: Vec::new(),
                free_slots,
            },
            segments: Vec::new(),
        };
        for log in self.logs() {
            let (tier_min, tier_max) = LogTiers(&log).tier_pins();
            // Of several skipped paths the last one; a move to another one fails without harm.
            let passed_over = LogFolders(&log).passed_over().pop();
            let passed_over = passed_over.and_then(|path| tiers.place_of(path));
            log.segments.each(|segment| {
                let path = segment.charge().map(|charge| charge.path().id);
                let Some(place) = path.and_then(|path| tiers.place_of(path)) else {
                    return;
                };
                let id = SegmentId(gathered.segments.len() as u64);
                gathered.segments.push((Rc::clone(&log), segment.base));
                gathered.view.segments.push(SegmentView {
                    id,
                    place,
                    bytes: segment.size(),
                    sealed_ms: segment.is_sealed().then(|| dated(segment.sealed_ms())),
                    arrived_ms: dated(segment.arrived_ms),
                    read_ms: segment.read_ms().map(dated),
                    tier_min,
                    tier_max,
                    asked: LogTiers(&log).asked_tier(segment.base),
                    moving: segment.is_moving(),
                    quarantined: segment.is_offline(),
                    passed_over,
                });
            });
        }
        gathered
    }
}
