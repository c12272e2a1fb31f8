//! A simulation of the tier policy over time, without disks: tiers as pools of bytes, a producer of
//! several logs, and a mover that copies at a rate.
//!
//! It is deterministic and has no I/O: tests of the policy run it, and plans are compared with it.
//! A step is a tenth of a second. Every step checks the invariants of the policy (room, order,
//! heat, no thrash: `tests/tier_policy.rs`) and returns an error if one is broken.
//! It does not simulate devices, indexes or consumers.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes and seconds of a simulation"
)]

use std::collections::BTreeMap;

use super::policy::{
    Decision, Levels, Move, MoveReason, NewSegment, PathState, PathView, PolicySettings, SegmentId,
    SegmentView, Slope, TierPlace, TierView, View, decide, place, presses,
};

/// 10^6 bytes.
pub const MB: u64 = 1_000_000;
const STEP_MS: i64 = 100;
const FIRST_BYTES: u64 = MB;

/// The policy function.
pub type Policy = fn(&View, &PolicySettings) -> Decision;

/// A broken invariant, with the observed values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvariantError(pub String);

/// How data is divided into logs and segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLayout {
    /// Logs that are written to in turn.
    pub logs: usize,
    /// Bytes of a segment.
    pub segment_bytes: u64,
}

impl LogLayout {
    /// Four logs, segments of 100 MB.
    pub const USUAL: Self = Self {
        logs: 4,
        segment_bytes: 100 * MB,
    };
}

#[derive(Debug)]
struct Segment {
    tier: usize,
    bytes: u64,
    sealed_ms: Option<i64>,
    arrived_ms: i64,
    read_ms: Option<i64>,
}

#[derive(Debug)]
struct UnderWay {
    to: usize,
    left: f64,
    reason: MoveReason,
}

/// The state of the simulation.
#[derive(Debug)]
pub struct Fluid {
    settings: PolicySettings,
    capacities: Vec<u64>,
    cut: LogLayout,
    policy: Policy,
    now_ms: i64,
    next_id: u64,
    // Bounded: the capacities of the tiers, in segments.
    segments: BTreeMap<u64, Segment>,
    /// The active segment of each log.
    active: Vec<Option<u64>>,
    // Bounded: the threads of the settings.
    moves: BTreeMap<u64, UnderWay>,
    rate: Option<u64>,
    /// Bytes that the mover may copy of the next segment after a move that ended within the step.
    surplus: f64,
    appended: Vec<u64>,
    /// Bytes on each tier: the sum of its segments.
    held: Vec<u64>,
    slopes: Vec<Slope>,
    written: u64,
    spilled: u64,
    deleted_above: u64,
    down: u64,
    up: u64,
    /// Whether every step reads every segment.
    pub read_everything: bool,
    /// The total size that retention keeps; the oldest segments are deleted.
    pub retention_mb: u64,
}

impl Fluid {
    /// Creates empty tiers of these capacities, the fastest first.
    pub fn new(settings: PolicySettings, capacities: &[u64], policy: Policy) -> Self {
        Self::cut(settings, capacities, policy, LogLayout::USUAL)
    }

    /// Creates empty tiers with another division of data.
    pub fn cut(
        settings: PolicySettings,
        capacities: &[u64],
        policy: Policy,
        cut: LogLayout,
    ) -> Self {
        Self {
            settings,
            capacities: capacities.to_vec(),
            cut,
            policy,
            now_ms: 1_000_000,
            next_id: 0,
            segments: BTreeMap::new(),
            active: vec![None; cut.logs],
            moves: BTreeMap::new(),
            rate: None,
            surplus: 0.0,
            appended: vec![0; capacities.len()],
            held: vec![0; capacities.len()],
            slopes: vec![Slope::default(); capacities.len()],
            written: 0,
            spilled: 0,
            deleted_above: 0,
            down: 0,
            up: 0,
            read_everything: false,
            retention_mb: u64::MAX / MB,
        }
    }

    /// Adds segments that were sealed long ago to the first tier.
    pub fn fill_with_sealed(&mut self, megabytes: u64) {
        let bytes = self.cut.segment_bytes;
        for _ in 0..megabytes * MB / bytes {
            let id = self.add(0);
            let sealed_ms = self.now_ms - 900_000;
            if let Some(segment) = self.segments.get_mut(&id) {
                segment.bytes = bytes;
                segment.sealed_ms = Some(sealed_ms);
                self.written += bytes;
                self.take(0, bytes);
            }
        }
    }

    /// Produces `rate` MB/s for `seconds`.
    pub fn run_for(&mut self, seconds: f64, rate: f64) -> Result<(), InvariantError> {
        let steps = (seconds * 1000.0 / STEP_MS as f64).round() as u64;
        for _ in 0..steps {
            self.now_ms += STEP_MS;
            self.produce((rate * MB as f64 * STEP_MS as f64 / 1000.0) as u64)?;
            self.carry();
            self.retain();
            if self.read_everything {
                let now_ms = self.now_ms;
                self.segments
                    .values_mut()
                    .for_each(|s| s.read_ms = Some(now_ms));
            }
            self.decide()?;
            self.check()?;
        }
        Ok(())
    }

    /// Returns the megabytes on a tier.
    pub fn used_mb(&self, tier: usize) -> f64 {
        self.used(tier) as f64 / MB as f64
    }

    /// Returns the megabytes that producers wrote to lower tiers.
    pub fn spilled_mb(&self) -> f64 {
        self.spilled as f64 / MB as f64
    }

    /// Returns the megabytes that were demoted and promoted.
    pub fn moved_mb(&self) -> (f64, f64) {
        (self.down as f64 / MB as f64, self.up as f64 / MB as f64)
    }

    /// Returns when the newest sealed segment of a tier was sealed.
    pub fn newest_on(&self, tier: usize) -> Option<i64> {
        let here = self
            .segments
            .values()
            .filter(|segment| segment.tier == tier);
        here.filter_map(|segment| segment.sealed_ms).max()
    }

    /// Deletes the oldest segments of a tier, as the deletion of a topic does.
    pub fn delete_on(&mut self, tier: usize, megabytes: u64) {
        let mut left = megabytes * MB / self.cut.segment_bytes;
        let sealed = |segment: &Segment| segment.tier == tier && segment.sealed_ms.is_some();
        let ids: Vec<u64> = self
            .segments
            .iter()
            .filter(|(_, s)| sealed(s))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            if left == 0 {
                break;
            }
            self.delete(id);
            left -= 1;
        }
    }

    fn delete(&mut self, id: u64) {
        self.moves.remove(&id);
        if let Some(segment) = self.segments.remove(&id) {
            self.give(segment.tier, segment.bytes);
            if segment.tier == 0 {
                self.deleted_above += segment.bytes;
            }
        }
    }

    fn add(&mut self, tier: usize) -> u64 {
        self.next_id += 1;
        let segment = Segment {
            tier,
            bytes: 0,
            sealed_ms: None,
            arrived_ms: self.now_ms,
            read_ms: None,
        };
        self.segments.insert(self.next_id, segment);
        self.next_id
    }

    fn used(&self, tier: usize) -> u64 {
        self.held.get(tier).copied().unwrap_or(0)
    }

    fn take(&mut self, tier: usize, bytes: u64) {
        if let Some(held) = self.held.get_mut(tier) {
            *held += bytes;
        }
    }

    fn give(&mut self, tier: usize, bytes: u64) {
        if let Some(held) = self.held.get_mut(tier) {
            *held = held.saturating_sub(bytes);
        }
    }

    fn arriving(&self, tier: usize) -> u64 {
        let to = self.moves.iter().filter(|(_, m)| m.to == tier);
        to.fold(0, |sum, (id, _)| sum.saturating_add(self.bytes(*id)))
    }

    fn leaving(&self, tier: usize) -> u64 {
        let moving = self.moves.keys().filter_map(|id| self.segments.get(id));
        let here = moving.filter(|segment| segment.tier == tier);
        here.fold(0, |sum, segment| sum.saturating_add(segment.bytes))
    }

    fn bytes(&self, id: u64) -> u64 {
        self.segments.get(&id).map_or(0, |segment| segment.bytes)
    }

    fn tier_of(&self, id: u64) -> usize {
        self.segments.get(&id).map_or(0, |segment| segment.tier)
    }

    fn capacity(&self, tier: usize) -> u64 {
        self.capacities.get(tier).copied().unwrap_or(0)
    }

    fn free(&self, tier: usize) -> u64 {
        let taken = self.used(tier).saturating_add(self.arriving(tier));
        self.capacity(tier).saturating_sub(taken)
    }

    /// Appends bytes to each log in turn; the policy places a new segment when the current tier is
    /// full.
    fn produce(&mut self, bytes: u64) -> Result<(), InvariantError> {
        let logs = self.active.len();
        let each = bytes / logs.max(1) as u64;
        for log in 0..logs {
            let mut left = each;
            while left > 0 {
                let active = self.active.get(log).copied().flatten();
                let id = match active {
                    Some(id) if self.free(self.tier_of(id)) > 0 => id,
                    _ => match self.place_next(log)? {
                        Some(id) => id,
                        // Every tier is full: appends are refused until there is room.
                        None => break,
                    },
                };
                left -= self.append(log, id, left);
            }
        }
        Ok(())
    }

    /// Appends as much as fits to the active segment of a log, and returns how much that was.
    fn append(&mut self, log: usize, id: u64, left: u64) -> u64 {
        let tier = self.tier_of(id);
        let room = self.cut.segment_bytes.saturating_sub(self.bytes(id));
        let part = left.min(room).min(self.free(tier));
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.bytes += part;
        }
        self.take(tier, part);
        self.written += part;
        if let Some(appended) = self.appended.get_mut(tier) {
            *appended += part;
        }
        if tier > 0 {
            self.spilled += part;
        }
        if part == room {
            self.seal(log);
        }
        part
    }

    fn seal(&mut self, log: usize) {
        let active = self.active.get_mut(log).and_then(Option::take);
        let segment = active.and_then(|id| self.segments.get_mut(&id));
        if let Some(segment) = segment {
            segment.sealed_ms = Some(self.now_ms);
        }
    }

    fn place_next(&mut self, log: usize) -> Result<Option<u64>, InvariantError> {
        self.seal(log);
        let tiers = self.tiers();
        let fresh = NewSegment {
            home: Some(TierPlace { tier: 0, path: 0 }),
            first_bytes: FIRST_BYTES,
            tier_min: 0,
            tier_max: usize::MAX,
        };
        let Some(placed) = place(&tiers, &fresh) else {
            return Ok(None);
        };
        let tier = placed.place.tier;
        if let Some(faster) = (0..tier).find(|faster| self.free(*faster) >= FIRST_BYTES) {
            return Err(InvariantError(format!(
                "order: placed on {tier} with room on {faster}"
            )));
        }
        let id = self.add(tier);
        if let Some(active) = self.active.get_mut(log) {
            *active = Some(id);
        }
        Ok(Some(id))
    }

    /// Copies at the mover's rate; a finished move changes the tier of its segment at once.
    fn carry(&mut self) {
        self.surplus = 0.0;
        let threads = self.moves.len().max(1) as f64;
        let rate = self.rate.map_or(f64::MAX, |rate| rate as f64);
        let each = rate * STEP_MS as f64 / 1000.0 / threads;
        self.moves.values_mut().for_each(|m| m.left -= each);
        let done: Vec<u64> = self
            .moves
            .iter()
            .filter(|(_, m)| m.left <= 0.0)
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            let moved = self.moves.remove(&id);
            let (Some(moved), Some(segment)) = (moved, self.segments.get_mut(&id)) else {
                continue;
            };
            let to = moved.to;
            if self.rate.is_some() {
                self.surplus -= moved.left;
            }
            let sum = if to > segment.tier {
                &mut self.down
            } else {
                &mut self.up
            };
            *sum += segment.bytes;
            let (from, bytes) = (segment.tier, segment.bytes);
            segment.tier = to;
            segment.arrived_ms = self.now_ms;
            segment.read_ms = None;
            self.give(from, bytes);
            self.take(to, bytes);
        }
    }

    fn retain(&mut self) {
        let sum = |fluid: &Self| fluid.held.iter().copied().fold(0, u64::saturating_add);
        while sum(self) > self.retention_mb.saturating_mul(MB) {
            let sealed = self.segments.iter().find(|(_, s)| s.sealed_ms.is_some());
            let Some((&id, _)) = sealed else {
                return;
            };
            self.delete(id);
        }
    }

    fn decide(&mut self) -> Result<(), InvariantError> {
        for (slope, appended) in self.slopes.iter_mut().zip(&self.appended) {
            slope.observe(self.now_ms, *appended);
        }
        if self.moves.len() == self.settings.threads {
            return Ok(());
        }
        let view = self.view();
        let decided = (self.policy)(&view, &self.settings);
        self.rate = decided.bytes_per_second;
        // A mover that calls the policy only when `presses` is true must not miss a move.
        let by_fill =
            |order: &Move| !matches!(order.reason, MoveReason::Asked | MoveReason::Pinned);
        if !presses(&view.tiers, &self.settings) {
            let missed = decide(&view, &self.settings).moves;
            if missed.iter().any(by_fill) {
                return Err(InvariantError(format!(
                    "moves though nothing presses: {missed:?}"
                )));
            }
        }
        for order in decided.moves {
            self.begin(&view, &order)?;
        }
        if self.moves.len() > self.settings.threads {
            return Err(InvariantError("more moves than threads".into()));
        }
        for id in decided.rolls {
            let log = self.active.iter().position(|active| *active == Some(id.0));
            let log =
                log.ok_or_else(|| InvariantError("a segment is rolled that is not active".into()))?;
            self.seal(log);
        }
        self.surplus = 0.0;
        Ok(())
    }

    fn begin(&mut self, view: &View, order: &Move) -> Result<(), InvariantError> {
        let (id, to) = (order.segment.0, order.to.tier);
        self.check_heat(id, self.tier_of(id), to)?;
        let broken = || InvariantError(format!("room: {order:?} takes the tier into its reserve"));
        let (Some(segment), Some(tier)) = (self.segments.get(&id), view.tiers.get(to)) else {
            return Err(broken());
        };
        let settled = self.used(to) + self.arriving(to) - self.leaving(to);
        let levels = Levels::of(tier, &self.settings);
        if segment.sealed_ms.is_none() || settled + segment.bytes > levels.hard_bytes {
            return Err(broken());
        }
        let bytes = segment.bytes as f64;
        let begun = self.surplus.min(bytes);
        self.surplus -= begun;
        let under_way = UnderWay {
            to,
            left: bytes - begun,
            reason: order.reason,
        };
        self.moves.insert(id, under_way);
        Ok(())
    }

    fn check_heat(&self, id: u64, from: usize, to: usize) -> Result<(), InvariantError> {
        let Some(segment) = self.segments.get(&id) else {
            return Err(InvariantError(format!(
                "segment {id} moves and is not there"
            )));
        };
        let recent = |at_ms: Option<i64>, ms: u64| {
            let ms = i64::try_from(ms).unwrap_or(i64::MAX);
            at_ms.is_some_and(|at_ms| at_ms.saturating_add(ms) > self.now_ms)
        };
        let is_hot = recent(segment.read_ms, self.settings.heat_ms);
        let moved = segment
            .sealed_ms
            .is_some_and(|sealed_ms| segment.arrived_ms > sealed_ms);
        let is_young = moved && recent(Some(segment.arrived_ms), self.settings.residency_ms);
        let settled = self.used(from) + self.arriving(from) - self.leaving(from);
        let hard = Levels::of(&self.tier(from), &self.settings).hard_bytes;
        if to > from && (is_hot || is_young) && settled <= hard {
            return Err(InvariantError(format!(
                "heat: segment {id} goes down (hot {is_hot}, young {is_young})"
            )));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), InvariantError> {
        for tier in 0..self.capacities.len() {
            if self.used(tier) + self.arriving(tier) > self.capacity(tier) {
                return Err(InvariantError(format!(
                    "room: tier {tier} holds more than its capacity"
                )));
            }
        }
        let levels = Levels::of(&self.tier(0), &self.settings);
        let coming: u64 = self.arriving_up();
        if self.up + coming > self.deleted_above + levels.low_bytes + self.cut.segment_bytes {
            return Err(InvariantError(format!(
                "no thrash: {} MB came up, {} MB were deleted above",
                self.up / MB,
                self.deleted_above / MB
            )));
        }
        // With three tiers a byte is demoted twice.
        let steps = self.capacities.len() as u64 - 1;
        if self.down > (self.written + self.up) * steps {
            return Err(InvariantError(format!(
                "no thrash: {} MB went down",
                self.down / MB
            )));
        }
        Ok(())
    }

    fn arriving_up(&self) -> u64 {
        let promoted = self
            .moves
            .iter()
            .filter(|(_, m)| m.reason == MoveReason::Promoted);
        promoted.fold(0, |sum, (id, _)| sum.saturating_add(self.bytes(*id)))
    }

    fn tiers(&self) -> Vec<TierView> {
        (0..self.capacities.len())
            .map(|tier| self.tier(tier))
            .collect()
    }

    fn tier(&self, tier: usize) -> TierView {
        TierView {
            paths: vec![PathView {
                capacity_bytes: self.capacity(tier),
                used_bytes: self.used(tier),
                arriving_bytes: self.arriving(tier),
                leaving_bytes: self.leaving(tier),
                expected_bytes: 0,
                bytes_per_second: 0,
                state: PathState::Open,
            }],
            sealed_only: false,
            incoming_bytes_per_second: self.slopes.get(tier).map_or(0, Slope::bytes_per_second),
        }
    }

    fn view(&self) -> View {
        let segment = |(id, segment): (&u64, &Segment)| SegmentView {
            id: SegmentId(*id),
            place: TierPlace {
                tier: segment.tier,
                path: 0,
            },
            bytes: segment.bytes,
            sealed_ms: segment.sealed_ms,
            arrived_ms: segment.arrived_ms,
            read_ms: segment.read_ms,
            tier_min: 0,
            tier_max: usize::MAX,
            asked: None,
            moving: self.moves.contains_key(id),
            quarantined: false,
            passed_over: None,
        };
        View {
            now_ms: self.now_ms,
            tiers: self.tiers(),
            segments: self.segments.iter().map(segment).collect(),
            free_slots: self.settings.threads - self.moves.len().min(self.settings.threads),
        }
    }
}
