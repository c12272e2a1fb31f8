//! Tiers as pools of bytes, a producer of several logs, a mover that copies at a rate.
//!
//! Steps of a tenth of a second. What must hold at every step is checked here; see `tier_policy.rs`.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes and seconds of a simulation"
)]

use std::collections::BTreeMap;

use storage::tier::policy::{
    Decision, Levels, Move, MoveReason, NewSegment, PathState, PathView, Place, PolicySettings,
    SegmentId, SegmentView, Slope, TierView, View, decide, place, presses,
};

pub(crate) const MB: u64 = 1_000_000;
const STEP_MS: i64 = 100;
const LOGS: usize = 4;
const SEGMENT_BYTES: u64 = 100 * MB;
const FIRST_BYTES: u64 = MB;

/// What is simulated.
pub(crate) type Policy = fn(&View, &PolicySettings) -> Decision;

/// Numbers by chance.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// One below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

struct Segment {
    tier: usize,
    bytes: u64,
    sealed_ms: Option<i64>,
    arrived_ms: i64,
    read_ms: Option<i64>,
}

struct UnderWay {
    to: usize,
    left: f64,
    reason: MoveReason,
}

pub(crate) struct World {
    settings: PolicySettings,
    capacities: Vec<u64>,
    policy: Policy,
    now_ms: i64,
    next_id: u64,
    segments: BTreeMap<u64, Segment>,
    /// The active segment of each log.
    active: Vec<Option<u64>>,
    moves: BTreeMap<u64, UnderWay>,
    rate: Option<u64>,
    appended: Vec<u64>,
    slopes: Vec<Slope>,
    written: u64,
    spilled: u64,
    deleted_above: u64,
    down: u64,
    up: u64,
    /// Every segment is read at every step.
    pub(crate) read_everything: bool,
    /// Bytes kept in all; the oldest go.
    pub(crate) retention_mb: u64,
}

impl World {
    pub(crate) fn new(settings: PolicySettings, capacities: &[u64], policy: Policy) -> Self {
        Self {
            settings,
            capacities: capacities.to_vec(),
            policy,
            now_ms: 1_000_000,
            next_id: 0,
            segments: BTreeMap::new(),
            active: vec![None; LOGS],
            moves: BTreeMap::new(),
            rate: None,
            appended: vec![0; capacities.len()],
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

    /// Segments sealed long ago on the first tier.
    pub(crate) fn fill_with_sealed(&mut self, megabytes: u64) {
        for _ in 0..megabytes * MB / SEGMENT_BYTES {
            let id = self.add(0);
            let (sealed_ms, segment) = (self.now_ms - 900_000, self.segments.get_mut(&id).unwrap());
            segment.bytes = SEGMENT_BYTES;
            segment.sealed_ms = Some(sealed_ms);
            self.written += SEGMENT_BYTES;
        }
    }

    /// Produces `rate` MB/s for some seconds.
    pub(crate) fn run_for(&mut self, seconds: f64, rate: f64) -> Result<(), String> {
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

    pub(crate) fn used_mb(&self, tier: usize) -> f64 {
        self.used(tier) as f64 / MB as f64
    }

    /// Bytes that producers wrote to lower tiers.
    pub(crate) fn spilled_mb(&self) -> f64 {
        self.spilled as f64 / MB as f64
    }

    /// Bytes that went down and up.
    pub(crate) fn moved_mb(&self) -> (f64, f64) {
        (self.down as f64 / MB as f64, self.up as f64 / MB as f64)
    }

    /// The segment that was sealed last of those on a tier.
    pub(crate) fn newest_on(&self, tier: usize) -> Option<i64> {
        let here = self
            .segments
            .values()
            .filter(|segment| segment.tier == tier);
        here.filter_map(|segment| segment.sealed_ms).max()
    }

    /// Deletes the oldest segments of a tier, as when a topic goes.
    pub(crate) fn delete_on(&mut self, tier: usize, megabytes: u64) {
        let mut left = megabytes * MB / SEGMENT_BYTES;
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
        let segment = self.segments.remove(&id).unwrap();
        if segment.tier == 0 {
            self.deleted_above += segment.bytes;
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
        let here = self
            .segments
            .values()
            .filter(|segment| segment.tier == tier);
        here.map(|segment| segment.bytes).sum()
    }

    fn arriving(&self, tier: usize) -> u64 {
        let to = self.moves.iter().filter(|(_, m)| m.to == tier);
        to.map(|(id, _)| self.segments[id].bytes).sum()
    }

    fn leaving(&self, tier: usize) -> u64 {
        let moving = self.moves.keys().map(|id| &self.segments[id]);
        moving.filter(|s| s.tier == tier).map(|s| s.bytes).sum()
    }

    fn free(&self, tier: usize) -> u64 {
        self.capacities[tier] - self.used(tier) - self.arriving(tier)
    }

    /// Bytes for each log in turn; what does not fit where it is goes where the policy places it.
    fn produce(&mut self, bytes: u64) -> Result<(), String> {
        let each = bytes / LOGS as u64;
        for log in 0..LOGS {
            let mut left = each;
            while left > 0 {
                let id = match self.active[log] {
                    Some(id) if self.free(self.segments[&id].tier) > 0 => id,
                    _ => match self.place_next(log)? {
                        Some(id) => id,
                        // Every tier is full: refused, until there is room.
                        None => break,
                    },
                };
                let tier = self.segments[&id].tier;
                let free = self.free(tier);
                let segment = self.segments.get_mut(&id).unwrap();
                let part = left.min(SEGMENT_BYTES - segment.bytes).min(free);
                segment.bytes += part;
                left -= part;
                self.written += part;
                self.appended[tier] += part;
                if tier > 0 {
                    self.spilled += part;
                }
                if segment.bytes == SEGMENT_BYTES {
                    self.seal(log);
                }
            }
        }
        Ok(())
    }

    fn seal(&mut self, log: usize) {
        if let Some(id) = self.active[log].take() {
            self.segments.get_mut(&id).unwrap().sealed_ms = Some(self.now_ms);
        }
    }

    fn place_next(&mut self, log: usize) -> Result<Option<u64>, String> {
        self.seal(log);
        let tiers = self.tiers();
        let fresh = NewSegment {
            home: Some(Place { tier: 0, path: 0 }),
            first_bytes: FIRST_BYTES,
            tier_min: 0,
            tier_max: usize::MAX,
        };
        let Some(placed) = place(&tiers, &fresh) else {
            return Ok(None);
        };
        let tier = placed.place.tier;
        if let Some(faster) = (0..tier).find(|faster| self.free(*faster) >= FIRST_BYTES) {
            return Err(format!("order: placed on {tier} with room on {faster}"));
        }
        let id = self.add(tier);
        self.active[log] = Some(id);
        Ok(Some(id))
    }

    /// The mover copies at its rate; a move that is done changes the tier of its segment at once.
    fn carry(&mut self) {
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
            let to = self.moves.remove(&id).unwrap().to;
            let segment = self.segments.get_mut(&id).unwrap();
            let sum = if to > segment.tier {
                &mut self.down
            } else {
                &mut self.up
            };
            *sum += segment.bytes;
            segment.tier = to;
            segment.arrived_ms = self.now_ms;
            segment.read_ms = None;
        }
    }

    fn retain(&mut self) {
        let sum = |world: &Self| world.segments.values().map(|s| s.bytes).sum::<u64>();
        while sum(self) > self.retention_mb.saturating_mul(MB) {
            let sealed = self.segments.iter().find(|(_, s)| s.sealed_ms.is_some());
            let Some((&id, _)) = sealed else {
                return;
            };
            self.delete(id);
        }
    }

    fn decide(&mut self) -> Result<(), String> {
        for (slope, appended) in self.slopes.iter_mut().zip(&self.appended) {
            slope.observe(self.now_ms, *appended);
        }
        if self.moves.len() == self.settings.threads {
            return Ok(());
        }
        let view = self.view();
        let decided = (self.policy)(&view, &self.settings);
        self.rate = decided.bytes_per_second;
        // Who asks only when it presses misses nothing.
        let by_fill =
            |order: &Move| !matches!(order.reason, MoveReason::Asked | MoveReason::Pinned);
        if !presses(&view.tiers, &self.settings) {
            let missed = decide(&view, &self.settings).moves;
            if missed.iter().any(by_fill) {
                return Err(format!("moves though nothing presses: {missed:?}"));
            }
        }
        for order in decided.moves {
            let id = order.segment.0;
            let (from, to) = (self.segments[&id].tier, order.to.tier);
            self.check_heat(id, from, to)?;
            let segment = &self.segments[&id];
            let after = self.used(to) + self.arriving(to) - self.leaving(to) + segment.bytes;
            let levels = Levels::of(&view.tiers[to], &self.settings);
            if segment.sealed_ms.is_none() || after > levels.hard_bytes {
                return Err(format!("room: {order:?} takes the tier into its reserve"));
            }
            let under_way = UnderWay {
                to,
                left: segment.bytes as f64,
                reason: order.reason,
            };
            self.moves.insert(id, under_way);
        }
        if self.moves.len() > self.settings.threads {
            return Err("more moves than threads".into());
        }
        for id in decided.rolls {
            let log = self.active.iter().position(|active| *active == Some(id.0));
            self.seal(log.unwrap());
        }
        Ok(())
    }

    fn check_heat(&self, id: u64, from: usize, to: usize) -> Result<(), String> {
        let segment = &self.segments[&id];
        let recent = |at_ms: Option<i64>, ms: u64| {
            at_ms.is_some_and(|at_ms| at_ms + i64::try_from(ms).unwrap() > self.now_ms)
        };
        let is_hot = recent(segment.read_ms, self.settings.heat_ms);
        let moved = segment
            .sealed_ms
            .is_some_and(|sealed_ms| segment.arrived_ms > sealed_ms);
        let is_young = moved && recent(Some(segment.arrived_ms), self.settings.residency_ms);
        let settled = self.used(from) + self.arriving(from) - self.leaving(from);
        let hard = Levels::of(&self.tier(from), &self.settings).hard_bytes;
        if to > from && (is_hot || is_young) && settled <= hard {
            return Err(format!(
                "heat: segment {id} goes down (hot {is_hot}, young {is_young})"
            ));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        for tier in 0..self.capacities.len() {
            if self.used(tier) + self.arriving(tier) > self.capacities[tier] {
                return Err(format!("room: tier {tier} holds more than its capacity"));
            }
        }
        let levels = Levels::of(&self.tier(0), &self.settings);
        let coming: u64 = self.arriving_up();
        if self.up + coming > self.deleted_above + levels.low_bytes + SEGMENT_BYTES {
            return Err(format!(
                "no thrash: {} MB came up, {} MB were deleted above",
                self.up / MB,
                self.deleted_above / MB
            ));
        }
        // With three tiers a byte goes down twice.
        let steps = self.capacities.len() as u64 - 1;
        if self.down > (self.written + self.up) * steps {
            return Err(format!("no thrash: {} MB went down", self.down / MB));
        }
        Ok(())
    }

    fn arriving_up(&self) -> u64 {
        let promoted = self
            .moves
            .iter()
            .filter(|(_, m)| m.reason == MoveReason::Promoted);
        promoted.map(|(id, _)| self.segments[id].bytes).sum()
    }

    fn tiers(&self) -> Vec<TierView> {
        (0..self.capacities.len())
            .map(|tier| self.tier(tier))
            .collect()
    }

    fn tier(&self, tier: usize) -> TierView {
        TierView {
            paths: vec![PathView {
                capacity_bytes: self.capacities[tier],
                used_bytes: self.used(tier),
                arriving_bytes: self.arriving(tier),
                leaving_bytes: self.leaving(tier),
                expected_bytes: 0,
                bytes_per_second: 0,
                state: PathState::Open,
            }],
            sealed_only: false,
            incoming_bytes_per_second: self.slopes[tier].bytes_per_second(),
        }
    }

    fn view(&self) -> View {
        let segment = |(id, segment): (&u64, &Segment)| SegmentView {
            id: SegmentId(*id),
            place: Place {
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
        };
        View {
            now_ms: self.now_ms,
            tiers: self.tiers(),
            segments: self.segments.iter().map(segment).collect(),
            free_slots: self.settings.threads - self.moves.len().min(self.settings.threads),
        }
    }
}
