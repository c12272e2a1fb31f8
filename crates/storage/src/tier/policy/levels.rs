//! The levels of a tier: where movement begins and ends, in bytes, and how pressing it is.
//!
//! With capacity C, threshold t, hysteresis h and reserve r:
//!
//! ```text
//! hard   = C (1 - r)                 sealed segments above it must go, hot and young ones too
//! high   = C t, at most hard         above it the oldest go down; C (t - h/2) at the nearest to full
//! middle = C (t - h/2)               nothing comes up beyond it
//! low    = C (t - h)                 below it the newest come up
//! ```
//!
//! Going down ends above `high - one segment`, coming up ends at or below `middle`. A segment of at most h/2 of the tier
//! that has just gone down therefore leaves the tier above `low`: only deletions make it come up again.

use super::settings::PolicySettings;
use super::view::TierView;

/// Levels of one tier, over its open paths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Levels {
    /// What its open paths may hold.
    pub capacity_bytes: u64,
    /// What they will hold when the moves under way are done.
    pub settled_bytes: u64,
    /// Above this sealed segments must go.
    pub hard_bytes: u64,
    /// Above this the oldest go down; `None` with movement off.
    pub high_bytes: Option<u64>,
    /// The threshold itself: between `high_bytes` and this, moves are early.
    pub threshold_bytes: Option<u64>,
    /// Nothing comes up beyond this.
    pub middle_bytes: u64,
    /// Below this the newest come up.
    pub low_bytes: u64,
    /// Seconds to full at the present slope; `None`: it does not fill.
    pub seconds_to_full: Option<f64>,
    /// 0: no hurry; 1: it is as good as full.
    pub pressure: f64,
}

impl Levels {
    /// The levels of `tier` now.
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

    /// True when sealed segments are in the reserve.
    pub fn is_hard(&self) -> bool {
        self.settled_bytes > self.hard_bytes
    }

    /// Bytes that ought to go down.
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

/// That share of a number of bytes; no bound stays no bound.
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
