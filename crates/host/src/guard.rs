//! The guard of a plan: bounds on lost packets and on the time of requests, at which an applied
//! plan is undone at once, without anybody's decision.
//!
//! The watchdog looks once a second while a plan waits for its confirmation; an experiment looks
//! after each block with the change. Pure, apart from [`Look::now`]. Invariants: what cannot be
//! measured (too few packets, no broker) is no violation; a counter that went backwards is not
//! compared.

mod metrics;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::counter::Counters;
use crate::root::Tree;

pub use metrics::Buckets;

/// Fewer packets within the window give no share of lost ones.
const PACKETS_MIN: u64 = 1_000;
/// Fewer requests give no percentile.
const REQUESTS_MIN: u64 = 200;
/// Limit on the remembered looks: one a second for the longest window.
const LOOKS_MAX: usize = 3_600;
const WINDOW_MS: u64 = 5 * 60_000;

/// The bounds, as they stand in a plan.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// Lost packets in a million received ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_ppm_max: Option<f64>,
    /// The 99th percentile of the time of requests, against the one before the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ratio_max: Option<f64>,
    /// The span in which both are measured, `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The metrics page of the broker, `http://127.0.0.1:9644/metrics`; the percentile is that of
    /// its produce requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

impl Guard {
    /// Returns what is wrong with the bounds.
    pub fn problem(&self) -> Option<String> {
        let is_share =
            |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value >= 0.0);
        let window = self.window.as_deref().map(window_ms);
        let metrics = self.metrics.as_deref().map(metrics::place);
        match () {
            () if self.drop_ppm_max.is_none() && self.p99_ratio_max.is_none() => {
                Some("it has neither drop_ppm_max nor p99_ratio_max".to_owned())
            }
            () if !is_share(self.drop_ppm_max) => {
                Some("drop_ppm_max is no number of packets".to_owned())
            }
            () if !is_share(self.p99_ratio_max) => Some("p99_ratio_max is no ratio".to_owned()),
            () if window == Some(None) => {
                Some("window is not like 30s, 5m or 1h, or is above 1h".to_owned())
            }
            () => match metrics {
                Some(Err(why)) => Some(format!("metrics: {why}")),
                _ => None,
            },
        }
    }

    /// Returns why it cannot guard a plan that waits for its confirmation.
    pub fn problem_for_apply(&self) -> Option<String> {
        let is_blind = self.p99_ratio_max.is_some() && self.metrics.is_none();
        let why = "p99_ratio_max needs metrics, the page on which the broker shows its times";
        self.problem().or_else(|| is_blind.then(|| why.to_owned()))
    }

    fn window_ms(&self) -> u64 {
        self.window
            .as_deref()
            .and_then(window_ms)
            .unwrap_or(WINDOW_MS)
    }

    /// Returns why a share of lost packets violates it.
    pub fn drops(&self, drops: f64, packets: f64) -> Option<String> {
        let most = self.drop_ppm_max?;
        if packets < PACKETS_MIN as f64 {
            return None;
        }
        let ppm = drops / packets * 1e6;
        let why = format!("{ppm:.0} of a million packets were lost, and drop_ppm_max is {most}");
        (ppm > most).then_some(why)
    }

    /// Returns why a percentile, against the one without the plan, violates it.
    pub fn p99(&self, before: f64, now: f64) -> Option<String> {
        let most = self.p99_ratio_max?;
        let why = format!(
            "the 99th percentile is {now:.1} ms, before it was {before:.1}, and p99_ratio_max is {most}"
        );
        (before > 0.0 && now > before * most).then_some(why)
    }
}

/// Parses a window of at most an hour.
fn window_ms(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let unit_ms = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?;
    let ms = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    (1_000..=3_600_000).contains(&ms).then_some(ms)
}

/// What was counted at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// When, by the boot's clock.
    pub at_ms: u64,
    /// Lost packets.
    pub drops: u64,
    /// Received packets.
    pub packets: u64,
    /// The times of requests; none without a broker.
    pub requests: Option<Buckets>,
}

impl Look {
    /// Reads the host's counters and the broker's times.
    pub fn now(tree: &dyn Tree, guard: &Guard, at_ms: u64) -> Look {
        let counters = Counters::read(tree);
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0_u64, u64::saturating_add);
        let page = guard
            .metrics
            .as_deref()
            .filter(|_| guard.p99_ratio_max.is_some());
        Look {
            at_ms,
            drops: sum(&mut counters.drops().into_values()),
            packets: counters.packets(),
            requests: page.and_then(metrics::read),
        }
    }
}

/// The looks of a watchdog, the first from before the plan.
#[derive(Debug)]
pub struct GuardLooks {
    before: Look,
    /// Bounded: `LOOKS_MAX`.
    looks: VecDeque<Look>,
}

impl GuardLooks {
    /// Begins, before anything is written.
    pub fn new(before: Look) -> GuardLooks {
        GuardLooks {
            looks: VecDeque::from([before.clone()]),
            before,
        }
    }

    /// Adds a look; returns why it violates the guard.
    pub fn sees(&mut self, guard: &Guard, now: Look) -> Option<String> {
        let begin = now.at_ms.saturating_sub(guard.window_ms());
        while self.looks.len() > 1
            && (self.looks[1].at_ms <= begin || self.looks.len() >= LOOKS_MAX)
        {
            self.looks.pop_front();
        }
        let first = self.looks.front().cloned();
        let why = first.and_then(|first| self.violated(guard, &first, &now));
        self.looks.push_back(now);
        why
    }

    fn violated(&self, guard: &Guard, first: &Look, now: &Look) -> Option<String> {
        let added = |now: u64, first: u64| now.checked_sub(first).map(|added| added as f64);
        let drops = added(now.drops, first.drops).zip(added(now.packets, first.packets));
        let lost = drops.and_then(|(drops, packets)| guard.drops(drops, packets));
        lost.or_else(|| {
            let before = self.before.requests.as_ref()?;
            let since = now.requests.as_ref()?.since(first.requests.as_ref()?)?;
            if before.count() < REQUESTS_MIN || since.count() < REQUESTS_MIN {
                return None;
            }
            guard.p99(before.quantile(0.99)?, since.quantile(0.99)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard {
            drop_ppm_max: Some(50.0),
            p99_ratio_max: Some(1.1),
            window: Some("10s".to_owned()),
            metrics: Some("http://127.0.0.1:9644/metrics".to_owned()),
        }
    }

    fn look(at_ms: u64, drops: u64, packets: u64) -> Look {
        Look {
            at_ms,
            drops,
            packets,
            requests: None,
        }
    }

    #[test]
    fn packets_that_are_lost_violate_it() {
        let mut watched = GuardLooks::new(look(0, 100, 1_000_000));
        assert_eq!(watched.sees(&guard(), look(1_000, 100, 1_010_000)), None);
        assert_eq!(
            watched.sees(&guard(), look(2_000, 101, 1_100_000)),
            None,
            "10 ppm"
        );
        let why = watched.sees(&guard(), look(3_000, 200, 1_200_000)).unwrap();
        assert!(why.contains("500 of a million"), "{why}");
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut watched = GuardLooks::new(look(0, 0, 0));
        // Lost long ago, and nothing since.
        assert!(watched.sees(&guard(), look(1_000, 900, 10_000)).is_some());
        for second in 2..13 {
            watched.sees(&guard(), look(second * 1_000, 900, second * 10_000));
        }
        assert_eq!(watched.sees(&guard(), look(13_000, 900, 130_000)), None);
    }

    #[test]
    fn what_cannot_be_measured_is_no_violation() {
        let mut watched = GuardLooks::new(look(0, 0, 0));
        assert_eq!(
            watched.sees(&guard(), look(1_000, 9, 999)),
            None,
            "too few packets"
        );
        assert_eq!(
            watched.sees(&guard(), look(2_000, 0, 0)),
            None,
            "a driver was loaded again"
        );
    }

    #[test]
    fn slower_requests_violate_it() {
        let requests = |fast: u64, slow: u64| {
            Some(Buckets(vec![
                (1.0, fast),
                (10.0, fast + slow),
                (f64::INFINITY, fast + slow),
            ]))
        };
        let with = |at_ms: u64, requests: Option<Buckets>| Look {
            requests,
            ..look(at_ms, 0, 0)
        };
        let mut watched = GuardLooks::new(with(0, requests(10_000, 0)));
        assert_eq!(
            watched.sees(&guard(), with(1_000, requests(20_000, 0))),
            None
        );
        assert_eq!(watched.sees(&guard(), with(2_000, None)), None, "no broker");
        let why = watched
            .sees(&guard(), with(3_000, requests(21_000, 500)))
            .unwrap();
        assert!(why.contains("99th percentile"), "{why}");
    }

    #[test]
    fn bounds_that_make_no_sense_are_named() {
        let with = |change: fn(&mut Guard)| {
            let mut guard = guard();
            change(&mut guard);
            guard.problem_for_apply().unwrap_or_default()
        };
        assert_eq!(with(|_| ()), "");
        for (why, said) in [
            (
                "neither",
                with(|guard| (guard.drop_ppm_max, guard.p99_ratio_max) = (None, None)),
            ),
            (
                "drop_ppm_max",
                with(|guard| guard.drop_ppm_max = Some(f64::NAN)),
            ),
            (
                "p99_ratio_max",
                with(|guard| guard.p99_ratio_max = Some(-1.0)),
            ),
            (
                "window",
                with(|guard| guard.window = Some("5 minutes".to_owned())),
            ),
            ("window", with(|guard| guard.window = Some("2h".to_owned()))),
            // Letters of more than one byte, and none at all.
            (
                "window",
                with(|guard| guard.window = Some("5\u{b5}".to_owned())),
            ),
            ("window", with(|guard| guard.window = Some(String::new()))),
            (
                "this machine",
                with(|guard| guard.metrics = Some("http://10.0.0.1:1/m".to_owned())),
            ),
            ("needs metrics", with(|guard| guard.metrics = None)),
        ] {
            assert!(said.contains(why), "{why}: {said}");
        }
    }
}
