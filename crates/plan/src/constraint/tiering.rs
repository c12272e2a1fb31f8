//! Busy time of devices, and how two tiers share the work: the drain, and the fill of the first
//! tier.

use super::{Fit, Unit, Use};
use crate::quantity::{Bytes, Rate, Seconds};
use crate::software::BurstAbsorber;

/// Bounds of a planned threshold: the policy needs room on both sides.
const THRESHOLD_LEAST: f64 = 0.05;
const THRESHOLD_MOST: f64 = 0.95;

/// The threshold unless the load needs another.
const THRESHOLD: f64 = 0.5;

/// How the local tiers work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// There is one tier.
    Single,
    /// Above the threshold, the oldest segments move down.
    Balanced,
    /// Nothing moves: what does not fit is written to the second tier.
    Off,
}

/// The balance of the first tier of one broker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Balance {
    /// The fill at which it is held.
    pub threshold: f64,
    /// Bytes that are free for a burst.
    pub free: Bytes,
    /// Rate into the first tier at the peak.
    pub peak: Rate,
    /// Rate into it between bursts.
    pub base: Rate,
    /// Rate from it to the second tier.
    pub drain: Rate,
}

impl Fit<'_> {
    /// Returns how the tiers of the mix work.
    pub fn mode(&self) -> Mode {
        match (self.mix.fast, self.goals.threshold) {
            (None, _) => Mode::Single,
            (Some(_), Some(threshold)) if threshold < 0.0 => Mode::Off,
            (Some(_), _) => Mode::Balanced,
        }
    }

    /// Returns the rates of late readers from the bulk tier, and from the first tier where it holds
    /// their records.
    fn late(&self) -> (Rate, Rate) {
        let newest = self.flows.newest / self.flows.average_in;
        let (mut bulk, mut fast) = (Rate::ZERO, Rate::ZERO);
        for (rate, age) in &self.flows.late {
            let is_local = *age <= self.flows.kept_locally;
            let is_fast = self.mix.fast.is_some() && *age < newest;
            match (is_local, is_fast) {
                (false, _) => {}
                (true, true) => fast += *rate,
                (true, false) => bulk += *rate,
            }
        }
        (self.each(bulk), self.each(fast))
    }

    /// Returns the share of the bulk tier's time for late readers and for changes of keyed records.
    fn other_time(&self) -> f64 {
        let late = self.late().0 / self.mix.bulk_read();
        let moved = self.flows.updates * super::keyed::defragmentation(self);
        late + self.each(moved) / self.mix.bulk_write()
    }

    /// Returns the rate that the bulk tier has left for moves from the first tier.
    fn bulk_left(&self, direct: Rate) -> Rate {
        let share = (self.goals.disk - self.other_time()).max(0.0);
        (self.mix.bulk_write() * share - self.each(direct)).max(Rate::ZERO)
    }

    /// Returns the balance of the first tier, or of the page cache that takes its place.
    pub fn balance(&self) -> Option<Balance> {
        let peak = self.each(self.flows.peak_in_fast());
        let base = self.each(self.flows.base_in - self.flows.base_bulk_only);
        let left = self.bulk_left(self.flows.peak_bulk_only);
        let Some(fast) = self.mix.fast else {
            let is_cached = self.mix.software.absorbs == BurstAbsorber::PageCache;
            return is_cached.then(|| Balance {
                threshold: 0.0,
                free: self.mix.dirty(),
                peak,
                base,
                drain: left,
            });
        };
        let busy = peak / fast.write() + self.late().1 / fast.read();
        let read_left = fast.read() * (self.goals.disk - busy).max(0.0);
        let drain = left.min(read_left);
        let threshold = self.threshold(fast.capacity(), peak, drain);
        Some(Balance {
            threshold,
            free: fast.capacity() * (1.0 - threshold),
            peak,
            base,
            drain,
        })
    }

    /// Returns the threshold: one half, unless a burst or the newest records need more room.
    fn threshold(&self, capacity: Bytes, peak: Rate, drain: Rate) -> f64 {
        if let Some(threshold) = self.goals.threshold {
            return threshold.max(0.0);
        }
        let length = self.flows.burst.map_or(Seconds::ZERO, |(length, _)| length);
        let needed = (peak - drain).max(Rate::ZERO) * length;
        let most = (1.0 - needed / capacity).min(THRESHOLD_MOST);
        let least = (self.flows.newest / self.sharing() / capacity).max(THRESHOLD_LEAST);
        THRESHOLD.min(most).max(least).min(THRESHOLD_MOST)
    }

    /// Returns the rates that have to be written permanently: the peak, or the average if the load
    /// has bursts.
    fn sustained(&self) -> (Rate, Rate) {
        if self.flows.burst.is_some() {
            (self.flows.average_in, self.flows.average_bulk_only)
        } else {
            (self.flows.peak_in, self.flows.peak_bulk_only)
        }
    }
}

/// Returns the busy time of the first tier's devices: writes at the peak, moves down, and late
/// readers.
pub(super) fn fast(fit: &Fit<'_>) -> Use {
    let Some(fast) = fit.mix.fast else {
        return Use::nothing(Unit::Share);
    };
    let written = fit.each(fit.flows.peak_in_fast()) / fast.write();
    let (all, direct) = fit.sustained();
    let moved = match fit.mode() {
        Mode::Balanced => fit.each(all - direct) / fast.read(),
        Mode::Single | Mode::Off => 0.0,
    };
    let late = fit.late().1 / fast.read();
    Use::new(written + moved + late, fit.goals.disk, Unit::Share)
}

/// Returns the busy time of the bulk tier's devices.
pub(super) fn bulk(fit: &Fit<'_>) -> Use {
    let (all, direct) = fit.sustained();
    let written = match fit.mode() {
        // A tier with neither a first tier nor a page cache before it takes the peak itself.
        Mode::Single if fit.balance().is_none() => fit.flows.peak_in,
        Mode::Single | Mode::Balanced => all,
        Mode::Off => direct,
    };
    let used = fit.each(written) / fit.mix.bulk_write() + fit.other_time();
    Use::new(used, fit.goals.disk, Unit::Share)
}

/// Returns the sustained rate while nothing moves.
///
/// If k times the first tier is kept, the second tier takes what the first has no room for: 1 - 1/k
/// of the rate.
pub(super) fn steady(fit: &Fit<'_>) -> Use {
    let (Mode::Off, Some(fast)) = (fit.mode(), fit.mix.fast) else {
        return Use::nothing(Unit::Rate);
    };
    let peak = fit.each(fit.flows.peak_in_fast());
    let kept = fit.flows.stored / fit.sharing() / fast.capacity();
    let fast_write = fast.write() * fit.goals.disk;
    let bulk_write = fit.bulk_left(fit.flows.peak_bulk_only);
    let allowed = if kept <= 1.0 {
        fast_write
    } else {
        fast_write.min(bulk_write * (kept / (kept - 1.0)))
    };
    Use::new(peak.0, allowed.0, Unit::Rate)
}
