//! The levels of a tier: the fill, in bytes, at which movement begins and ends, and the pressure of
//! appends.
//!
//! With capacity C, threshold t, hysteresis h and reserve r:
//!
//! ```text
//! hard   = C (1 - r)           above it sealed segments must be demoted, even hot and recent ones
//! high   = C t, at most hard   above it the oldest are demoted; C (t - h/2) under full pressure
//! middle = C (t - h/2)         no promotion leads beyond it
//! low    = C (t - h)           below it the newest are promoted
//! ```
//!
//! Demotion ends above `high - one segment`, promotion at or below `middle`. Demoting a segment of
//! at most h/2 of the tier therefore leaves the tier above `low`: only deletions can cause its
//! promotion.

use super::settings::PolicySettings;
use super::view::TierView;

/// The levels of one tier, over its open paths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Levels {
    /// The capacity of its open paths.
    pub capacity_bytes: u64,
    /// What the open paths will hold when the current moves are done.
    pub settled_bytes: u64,
    /// Above this level sealed segments must be demoted.
    pub hard_bytes: u64,
    /// Above this level the oldest segments are demoted; `None` with movement off.
    pub high_bytes: Option<u64>,
    /// The threshold itself; moves between `high_bytes` and this are early.
    pub threshold_bytes: Option<u64>,
    /// No promotion leads beyond this level.
    pub middle_bytes: u64,
    /// Below this level the newest segments are promoted.
    pub low_bytes: u64,
    /// Seconds until the tier is full at the current rate; `None` if it does not fill.
    pub seconds_to_full: Option<f64>,
    /// From 0, no pressure, to 1, practically full.
    pub pressure: f64,
}

impl Levels {
    /// Returns the levels of `tier` now.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share of a tier need not be exact to the byte"
    )]
    pub fn of(tier: &TierView, settings: &PolicySettings) -> Self {
        let sum = |bytes: fn(&super::PathView) -> u64| {
            let each = tier.open_paths().map(|(_, path)| bytes(path));
            each.fold(0, u64::saturating_add)
        };
        let capacity_bytes = sum(|path| path.capacity_bytes);
        let settled_bytes = sum(super::PathView::settled_bytes);
        let free_bytes = capacity_bytes.saturating_sub(settled_bytes);
        let seconds_to_full = (tier.incoming_bytes_per_second > 0 && capacity_bytes < u64::MAX)
            .then(|| free_bytes as f64 / tier.incoming_bytes_per_second as f64);
        let pressure = pressure(seconds_to_full, settings.horizon_ms);
        let hard_bytes = share(capacity_bytes, 1.0 - settings.reserve);
        let at = |below: f64| {
            let threshold = settings.threshold.unwrap_or(1.0);
            share(capacity_bytes, threshold - below * settings.hysteresis).min(hard_bytes)
        };
        let moves = settings.threshold.is_some();
        Self {
            capacity_bytes,
            settled_bytes,
            hard_bytes,
            high_bytes: moves.then(|| at(pressure / 2.0)),
            threshold_bytes: moves.then(|| at(0.0)),
            middle_bytes: at(0.5),
            low_bytes: at(1.0),
            seconds_to_full,
            pressure,
        }
    }

    /// Returns true when sealed segments use the reserve.
    pub fn is_hard(&self) -> bool {
        self.settled_bytes > self.hard_bytes
    }

    /// Returns the bytes that should be demoted.
    pub fn excess_bytes(&self) -> u64 {
        self.high_bytes
            .map_or(0, |high| self.settled_bytes.saturating_sub(high))
    }
}

fn pressure(seconds_to_full: Option<f64>, horizon_ms: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of minutes")]
    let horizon = horizon_ms as f64 / 1000.0;
    match seconds_to_full {
        Some(seconds) if seconds < horizon => 1.0 - seconds / horizon,
        _ => 0.0,
    }
}

/// Returns that share of a number of bytes; an unlimited number stays unlimited.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share need not be exact to the byte, and is neither negative nor above the whole"
)]
pub(super) fn share(bytes: u64, part: f64) -> u64 {
    if bytes == u64::MAX {
        return u64::MAX;
    }
    (bytes as f64 * part.clamp(0.0, 1.0)) as u64
}
