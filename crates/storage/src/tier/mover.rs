//! The loop of a shard that asks the policy where segments belong and carries out its decisions.
//!
//! A turn reads how much room the paths have. If the fill of a tier, the last turn or the time
//! requires it, the turn gathers the view, decides, begins the moves, and rolls active segments
//! that belong elsewhere. Moves run beside the loop, at most `threads` of all shards together; each
//! completes or leaves no trace. The end of a move begins the next turn, so that a slow tier does
//! not wait for work. It is not needed for durability or reads: when it stops, segments stay where
//! they are.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use platform::Platform;
use platform::disk::{Disk, IoClass};
use platform::task::{self, JoinHandle};

use super::copy::Trouble;
use super::gather::GatheredView;
use super::policy::{Decision, Move, PolicySettings, Slope, TierView, decide, pace, presses};
use super::table::{PathUse, TierPath, TierTable};
use crate::log::views::{LogTiers, Moving};
use crate::store::Store;

/// The longest interval between turns, and the shortest move whose end begins a turn: shorter moves
/// do not make a shard examine its segments more often.
const TURN_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest interval between turns.
const TURN_PAUSE: Duration = Duration::from_millis(10);
/// The segments are examined at least once in this many turns, for moves that were asked for, pins
/// and rolls.
const LOOK_TURNS: u32 = 10;
/// The same while the fill of a tier requires moves, but the last examination could begin none.
const PRESSED_TURNS: u32 = 3;

/// The state that a shard's loop keeps between turns.
pub struct Mover {
    tiers: Arc<TierTable>,
    settings: PolicySettings,
    /// The append rate of each tier.
    slopes: Vec<Slope>,
    /// Turns since the segments were last examined.
    turns_unseen: u32,
    /// The last examination found something to do.
    busy: bool,
}

impl Mover {
    /// Creates the mover of a shard; `None` where there is only one tier.
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

    /// Runs one turn and returns the handles of the moves that it began, which continue by
    /// themselves.
    pub async fn turn<P: Platform>(&mut self, store: &Store<P>) -> Vec<JoinHandle<()>> {
        self.look_for_room(store).await;
        // Rates use elapsed time, so that a change of the wall clock does not matter.
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

    /// Returns true when the segments should be examined.
    ///
    /// The examination takes time where there are many segments, so it is postponed while no move
    /// can begin, and while the fill of the tiers requires none.
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

    /// Reads the free room from the file systems.
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

    /// Returns the path that a segment moves to; on its log's home tier that is the home path while
    /// it has room.
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

    /// Takes one of the slots of all shards, unless another shard has just taken the last one.
    fn takes_slot(&self) -> bool {
        let threads = self.settings.threads;
        let take = |taken: usize| (taken < threads).then_some(taken + 1);
        let moving = &self.tiers.moving;
        let taken = moving.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }

    fn begin<P: Platform>(
        &self,
        order: &Move,
        gathered: &GatheredView<P>,
    ) -> Option<JoinHandle<()>> {
        let (log, base) = gathered.segment(order.segment)?;
        let (log, base) = (Rc::clone(log), *base);
        let view = gathered
            .view
            .segments
            .get(usize::try_from(order.segment.0).ok()?)?;
        let to = self.target(order, log.dir(), view.bytes)?;
        let tiers = Arc::clone(&self.tiers);
        let (reason, from_tier) = (order.reason, order.from.tier);
        // A move that makes room for appends has foreground priority.
        let class = if reason.is_urgent() {
            IoClass::Foreground
        } else {
            IoClass::Background
        };
        if !self.takes_slot() {
            return None;
        }
        let began = log.store().clock().now();
        Some(task::spawn(async move {
            let moved = Moving(&log).move_segment(base, &to, class).await;
            let moving = tiers.moving.fetch_sub(1, Ordering::Relaxed);
            assert!(moving > 0, "this one was counted");
            if began.elapsed() >= TURN_INTERVAL {
                tiers.move_ended.notify_waiters();
            }
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
    /// Starts the loop that keeps this shard's segments where they belong; `None` where there is
    /// only one tier.
    pub fn spawn_mover(&self, settings: PolicySettings) -> Option<JoinHandle<()>> {
        let mut mover = Mover::new(self, settings)?;
        let shared = Rc::downgrade(&self.shared);
        let clock = self.clock().clone();
        let tiers = Arc::clone(&mover.tiers);
        Some(task::spawn(async move {
            while let Some(shared) = shared.upgrade() {
                // A move that ends during the turn counts.
                let ended = tiers.move_ended.notified();
                // Moves that were begun end by themselves.
                drop(mover.turn(&Store { shared }).await);
                clock.sleep(TURN_PAUSE).await;
                let _ = task::timeout(TURN_INTERVAL.saturating_sub(TURN_PAUSE), ended).await;
            }
        }))
    }
}
