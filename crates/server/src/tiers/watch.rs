//! The tiers over time: how fast each fills or empties, and the status computed from it.
//!
//! A task of the control runtime looks once a second; a request gets the state at its moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storage::tier::policy::{Levels, PolicySettings};
use storage::tier::{PathUse, TierPath, TierTable};

use super::{PathStatus, Status, TierStatus};

/// Interval of the looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of looks over which a rate is taken. After writing stops, the rate is zero after this
/// many looks.
const SLOPE_OVER: usize = 10;

/// Watches the tiers; clones share it.
#[derive(Clone, Debug)]
pub struct Watch {
    tiers: Arc<TierTable>,
    settings: PolicySettings,
    // Bounded: one for each of `storage.tiers`.
    trends: Arc<Mutex<Vec<Trend>>>,
}

/// Growth of the used bytes of a tier.
#[derive(Clone, Default, Debug)]
struct Trend {
    /// Used bytes at the last looks, oldest first.
    // Bounded: `SLOPE_OVER`.
    seen: VecDeque<u64>,
}

impl Trend {
    fn look(&mut self, bytes: u64) {
        if self.seen.len() > SLOPE_OVER {
            self.seen.pop_front();
        }
        self.seen.push_back(bytes);
    }

    #[expect(clippy::cast_precision_loss, reason = "a slope is an estimate")]
    fn bytes_per_second(&self) -> f64 {
        let (Some(first), Some(last)) = (self.seen.front(), self.seen.back()) else {
            return 0.0;
        };
        let seconds = self.seen.len().saturating_sub(1).max(1) as f64 * INTERVAL.as_secs_f64();
        (*last as f64 - *first as f64) / seconds
    }

    /// Returns the seconds in which it grows (or, with a negative `sign`, shrinks) by `bytes`.
    ///
    /// `None` if it does not, or not within a year, or if `bytes` is 0.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, and not negative"
    )]
    fn seconds_for(&self, bytes: u64, sign: f64) -> Option<u64> {
        const YEAR: f64 = 31_536_000.0;
        let rate = self.bytes_per_second() * sign;
        let seconds = bytes as f64 / rate;
        (bytes > 0 && rate >= 1.0 && seconds <= YEAR).then_some(seconds as u64)
    }
}

impl Watch {
    /// Watches these tiers.
    pub fn new(tiers: Arc<TierTable>, settings: PolicySettings) -> Self {
        let trends = vec![Trend::default(); tiers.tiers().len()];
        Self {
            tiers,
            settings,
            trends: Arc::new(Mutex::new(trends)),
        }
    }

    /// Returns the tiers.
    pub fn tiers(&self) -> &TierTable {
        &self.tiers
    }

    /// Looks once a second, until the future is dropped.
    pub async fn run(self) {
        loop {
            self.look();
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn look(&self) {
        let mut trends = self.trends.lock().unwrap_or_else(PoisonError::into_inner);
        for (tier, trend) in trends.iter_mut().enumerate() {
            trend.look(self.used_bytes(tier));
        }
    }

    fn used_bytes(&self, tier: usize) -> u64 {
        self.tiers
            .paths_of(tier)
            .map(|path| path.used_bytes())
            .fold(0, u64::saturating_add)
    }

    /// Returns the present status.
    pub fn status(&self) -> Status {
        let levels = self.tiers.levels(&self.settings);
        let trends = self
            .trends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let each = levels.into_iter().zip(trends).enumerate();
        Status {
            threshold: self.settings.threshold,
            hysteresis: self.settings.hysteresis,
            reserve: self.settings.reserve,
            bytes_per_second: self.settings.bytes_per_second,
            tiers: each
                .map(|(tier, (levels, trend))| self.tier(tier, &levels, &trend))
                .collect(),
        }
    }

    fn tier(&self, tier: usize, levels: &Levels, trend: &Trend) -> TierStatus {
        let options = &self.tiers.tiers()[tier];
        let is_last = tier + 1 == self.tiers.tiers().len();
        // The slowest tier moves nothing down.
        let backlog_bytes = if is_last { 0 } else { levels.excess_bytes() };
        let free_bytes = levels.capacity_bytes.saturating_sub(levels.settled_bytes);
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let fill_bytes_per_second = trend.bytes_per_second() as i64;
        TierStatus {
            name: options.name.to_string(),
            medium: options.medium.name().to_owned(),
            emulated: self.tiers.paths_of(tier).any(|path| path.is_emulated()),
            durability: options.safety.name().to_owned(),
            read_bytes_per_second: options.read_bytes_per_second,
            write_bytes_per_second: options.write_bytes_per_second,
            capacity_bytes: levels.capacity_bytes,
            used_bytes: self.used_bytes(tier),
            pooled_bytes: self
                .tiers
                .paths_of(tier)
                .map(|path| path.pooled_bytes())
                .fold(0, u64::saturating_add),
            reserve_bytes: levels.capacity_bytes.saturating_sub(levels.hard_bytes),
            backlog_bytes,
            segments: self
                .tiers
                .paths_of(tier)
                .map(|path| path.segments())
                .fold(0, u64::saturating_add),
            fill_bytes_per_second,
            seconds_to_full: trend.seconds_for(free_bytes, 1.0),
            seconds_to_drain: (backlog_bytes > 0)
                .then(|| trend.seconds_for(backlog_bytes, -1.0))
                .flatten(),
            paths: self
                .tiers
                .paths_of(tier)
                .map(|path| path_status(path))
                .collect(),
        }
    }
}

fn path_status(path: &TierPath) -> PathStatus {
    let (down, up) = (path.came_down(), path.came_up());
    let (arriving_bytes, leaving_bytes) = path.under_way();
    let state = match (path.failed(), path.using()) {
        (Some(_), _) => "failed",
        (None, PathUse::Open) => "open",
        (None, PathUse::Cordoned) => "cordoned",
        (None, PathUse::Draining) => "draining",
    };
    PathStatus {
        path: path.dir().display().to_string(),
        emulated: path.is_emulated(),
        state: state.to_owned(),
        failed: path.failed().map(ToString::to_string),
        capacity_bytes: path.capacity_bytes(),
        used_bytes: path.used_bytes(),
        pooled_bytes: path.pooled_bytes(),
        free_bytes: path.free_bytes(),
        segments: path.segments(),
        reads: path.hits(),
        read_bytes: path.read_bytes(),
        appended_bytes: path.appended_bytes(),
        moved_down_segments: down.0,
        moved_down_bytes: down.1,
        moved_up_segments: up.0,
        moved_up_bytes: up.1,
        move_errors: path.move_errors(),
        arriving_bytes,
        leaving_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_says_when_it_is_full_or_empty_and_nothing_once_it_stands_still() {
        let mut trend = Trend::default();
        for second in 0..100 {
            trend.look(1000 * second);
        }
        assert_eq!(trend.seconds_for(10_000, 1.0), Some(10));
        assert_eq!(trend.seconds_for(10_000, -1.0), None);
        assert_eq!(trend.seconds_for(0, 1.0), None, "it is full");
        for second in (0..100).rev() {
            trend.look(1000 * second);
        }
        assert_eq!(trend.seconds_for(5_000, -1.0), Some(5));
        // A gibibyte per second, then writing stops.
        for second in 0..20 {
            trend.look(second << 30);
        }
        for _ in 0..SLOPE_OVER {
            trend.look(19 << 30);
        }
        assert_eq!(trend.seconds_for(1 << 40, 1.0), None);
    }
}
