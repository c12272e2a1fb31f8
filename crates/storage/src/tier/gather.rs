//! The policy's view, from the table and from the logs of a shard; and where a new segment goes.
//!
//! Numbers only: nothing here waits, and nothing is decided.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use platform::Platform;
use wire::types::Offset;

use super::policy::{
    NewSegment, PathState, PathView, Place, SegmentId, SegmentView, TierView, View, place,
};
use super::table::{PathId, PathUse, TierPath, TierTable};
use crate::log::Log;
use crate::log::views::{LogFolders, LogTiers};
use crate::store::Store;

/// Room that a new segment needs to begin with.
const FIRST_BYTES: u64 = 64 << 10;
/// Dates of so short a time ahead are taken as they are: clocks are corrected by that much.
const SLEW_MS: i64 = 10_000;
/// Before anything.
const AGES_AGO_MS: i64 = 0;

/// A view, and which segment each number in it means.
pub(crate) struct Gathered<P: Platform> {
    pub(crate) view: View,
    /// By the numbers in the view.
    pub(crate) segments: Vec<(Rc<Log<P>>, Offset)>,
}

impl<P: Platform> Gathered<P> {
    /// The segment that a number in the view means.
    pub(crate) fn segment(&self, id: SegmentId) -> Option<&(Rc<Log<P>>, Offset)> {
        self.segments.get(usize::try_from(id.0).ok()?)
    }
}

impl TierTable {
    /// Where a new segment of a log goes that is at home on `home`; `None`: nothing has room but what is passed over.
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
        for Place { tier, path } in passed_over.iter().filter_map(|id| self.place_of(*id)) {
            if let Some(view) = views.get_mut(tier)
                && let Some(view) = view.paths.get_mut(path)
            {
                view.state = PathState::Cordoned;
            }
        }
        let placed = place(&views, &segment)?;
        self.path_at(placed.place).map(|path| &**path)
    }

    /// The path at a place of the policy's.
    pub(crate) fn path_at(&self, place: Place) -> Option<&std::sync::Arc<TierPath>> {
        self.paths_of(place.tier).nth(place.path)
    }

    /// The policy's place of a path.
    pub(crate) fn place_of(&self, id: PathId) -> Option<Place> {
        let tier = self.path(id)?.tier;
        let path = self.paths_of(tier).position(|path| path.id == id)?;
        Some(Place { tier, path })
    }

    /// The tiers as the policy sees them; `incoming` says what appends bring to a tier in a second.
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
    /// Everything the policy decides on for this shard.
    pub(crate) fn gather(
        &self,
        tiers: &TierTable,
        free_slots: usize,
        views: Vec<TierView>,
    ) -> Gathered<P> {
        let now = self.clock().reading();
        // A wall clock that was just set makes nothing cold: as if each date were of the clock as it runs now. One that was
        // set back has left dates in the future: they are past, or what has them would stay for as long.
        let dated = |ms: i64| match now.age_ms(ms) {
            age_ms if age_ms < -SLEW_MS => AGES_AGO_MS,
            age_ms => now.wall_ms.saturating_sub(age_ms),
        };
        let mut gathered = Gathered {
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
            // Of several the last; to another the log just does not go.
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
