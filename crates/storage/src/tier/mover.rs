//! The loop of a shard that asks the policy what belongs where and carries it out.
//!
//! A turn: see how much room the paths have; where that, or the last turn, or the time calls for it, gather the view,
//! decide, begin the moves, roll what had better be elsewhere.
//! Moves run beside the loop, no more of all shards together than `threads`; each ends well or leaves no trace.
//! Nothing here is needed for durability or for reads: when it stops, segments stay where they are.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use platform::Platform;
use platform::disk::{Disk, IoClass};
use platform::task::{self, JoinHandle};

use super::copy::Trouble;
use super::gather::Gathered;
use super::policy::{Decision, Move, PolicySettings, Slope, TierView, decide, pace, presses};
use super::table::{PathUse, TierPath, TierTable};
use crate::log::views::{LogTiers, Moving};
use crate::store::Store;

/// How often the policy is asked.
const TURN_INTERVAL: Duration = Duration::from_millis(100);
/// After so many turns the segments are looked at in any case: for what was asked for, pinned, or had better be rolled.
const LOOK_TURNS: u32 = 10;
/// The same while the fill of a tier presses, and yet nothing could be done at the last look.
const PRESSED_TURNS: u32 = 3;

/// What a shard's loop keeps from one turn to the next.
pub struct Mover {
    tiers: Arc<TierTable>,
    settings: PolicySettings,
    /// Of appends to each tier.
    slopes: Vec<Slope>,
    /// Turns since the segments were looked at.
    turns_unseen: u32,
    /// The last look found something to do.
    busy: bool,
}

impl Mover {
    /// The mover of a shard; `None` where there is one tier only.
    pub fn new<P: Platform>(store: &Store<P>, settings: PolicySettings) -> Option<Self> {
        let tiers = Arc::clone(store.tiers()?);
        Some(Self {
            slopes: vec![Slope::default(); tiers.tiers().len()],
            tiers,
            settings,
            turns_unseen: LOOK_TURNS,
            busy: false,
        })
    }

    /// One turn: what was begun goes on by itself and ends with the handles.
    pub async fn turn<P: Platform>(&mut self, store: &Store<P>) -> Vec<JoinHandle<()>> {
        self.look_for_room(store).await;
        // A rate is by the time that passes, whatever the wall clock is set to.
        let now_ms = store.clock().up_ms();
        for (tier, slope) in self.slopes.iter_mut().enumerate() {
            let appended = self.tiers.paths_of(tier).map(|path| path.appended_bytes());
            slope.observe(now_ms, appended.sum()); // Bounded: bytes appended since the start.
        }
        let under_way = self.tiers.moving.load(Ordering::Relaxed);
        let free_slots = self.settings.threads.saturating_sub(under_way);
        let slopes = &self.slopes;
        let incoming = |tier: usize| slopes.get(tier).map_or(0, Slope::bytes_per_second);
        let views = self.tiers.views(incoming);
        self.tiers.rate.set(pace(&views, &self.settings));
        self.turns_unseen += 1;
        if !self.is_due(&views, free_slots) {
            return Vec::new();
        }
        self.turns_unseen = 0;
        let gathered = store.gather(&self.tiers, free_slots, views);
        let Decision { moves, rolls, .. } = decide(&gathered.view, &self.settings);
        self.busy = !moves.is_empty() || !rolls.is_empty();
        for (log, _) in rolls.iter().filter_map(|id| gathered.segment(*id)) {
            let log = Rc::clone(log);
            task::spawn(async move {
                if let Err(error) = LogTiers(&log).go_on_elsewhere().await {
                    tracing::debug!(partition = %log.topic_partition(), %error, "not rolled");
                }
            });
        }
        let moves = moves.iter();
        moves
            .filter_map(|order| self.begin(order, &gathered))
            .collect()
    }

    /// Whether to look at the segments, which takes its time where there are many: not while nothing can be begun, nor
    /// when the numbers of the tiers say that nothing is to be.
    fn is_due(&self, views: &[TierView], free_slots: usize) -> bool {
        let wait = if free_slots == 0 {
            LOOK_TURNS
        } else if self.busy {
            1
        } else if presses(views, &self.settings) {
            PRESSED_TURNS
        } else {
            LOOK_TURNS
        };
        self.turns_unseen >= wait
    }

    /// Asks the file systems how much room there is.
    async fn look_for_room<P: Platform>(&self, store: &Store<P>) {
        for path in self.tiers.paths() {
            match store.disk().space(path.dir()).await {
                Ok(space) => path.note_space(space.free, space.total),
                Err(error) => {
                    tracing::debug!(dir = %path.dir().display(), %error, "no word of its room");
                }
            }
        }
    }

    /// Where a segment goes. What comes to its log's tier goes home, while there is room.
    fn target(&self, order: &Move, home: &Path, bytes: u64) -> Option<Arc<TierPath>> {
        let has_room = |path: &&Arc<TierPath>| {
            path.tier == order.to.tier
                && path.failed().is_none()
                && path.using() == PathUse::Open
                && path.free_bytes() >= bytes
        };
        let home = self.tiers.holding(home).filter(has_room);
        home.or_else(|| self.tiers.path_at(order.to))
            .map(Arc::clone)
    }

    fn begin<P: Platform>(&self, order: &Move, gathered: &Gathered<P>) -> Option<JoinHandle<()>> {
        let (log, base) = gathered.segment(order.segment)?;
        let (log, base) = (Rc::clone(log), *base);
        let view = gathered
            .view
            .segments
            .get(usize::try_from(order.segment.0).ok()?)?;
        let to = self.target(order, log.dir(), view.bytes)?;
        let tiers = Arc::clone(&self.tiers);
        let (reason, from_tier) = (order.reason, order.from.tier);
        // What makes room for appends does not wait for anybody.
        let class = if reason.is_urgent() {
            IoClass::Foreground
        } else {
            IoClass::Background
        };
        tiers.moving.fetch_add(1, Ordering::Relaxed);
        Some(task::spawn(async move {
            let moved = Moving(&log).move_segment(base, &to, class).await;
            let moving = tiers.moving.fetch_sub(1, Ordering::Relaxed);
            assert!(moving > 0, "this one was counted");
            match moved {
                Ok(bytes) => {
                    to.note_arrival(from_tier, bytes);
                    tracing::info!(partition = %log.topic_partition(), base = base.0, bytes,
                        to = %to.dir().display(), why = %reason, "moved a segment");
                }
                Err(Trouble::Overtaken) => {}
                Err(_) => to.note_move_error(),
            }
        }))
    }
}

impl<P: Platform> Store<P> {
    /// Starts the loop that keeps this shard's segments where they belong; none where there is one tier only.
    pub fn spawn_mover(&self, settings: PolicySettings) -> Option<JoinHandle<()>> {
        let mut mover = Mover::new(self, settings)?;
        let shared = Rc::downgrade(&self.shared);
        let clock = self.clock().clone();
        Some(task::spawn(async move {
            while let Some(shared) = shared.upgrade() {
                // What was begun ends by itself.
                drop(mover.turn(&Store { shared }).await);
                clock.sleep(TURN_INTERVAL).await;
            }
        }))
    }
}
