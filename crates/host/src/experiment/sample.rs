//! Sample data from a seeded model, labelled as such: it reproduces the figures that an operator of
//! 20,000 servers published.
//!
//! Nothing here was measured. Invariant: figures are computed from the hosts' days by the same
//! functions that evaluate real ones; the model is scaled so that the means are the published ones,
//! and its noise follows from its seed.

use super::assign::Arm;
use super::fleet::{Days, FleetComparison, compare};
use crate::statistics::random::Random;

const SITES: usize = 6;
const HOSTS: usize = 8;
const WEEK: usize = 7;
const SEED: u64 = 1;

/// Days of a fleet, and their comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Fleet {
    /// The days of each host.
    pub hosts: Vec<Days>,
    /// The comparison of the arms.
    pub compared: FleetComparison,
}

/// Mean drops per server and day of an arm, before and after.
type Means = (f64, f64);

/// Returns a fleet with `noise`, scaled so that the arms have these means.
fn fleet(seed: u64, noise: f64, control: Means, test: Means) -> Option<Fleet> {
    let mut random = Random::new(seed);
    let mut hosts = Vec::new();
    for site in 0..SITES {
        for host in 0..HOSTS {
            let arm = if host % 2 == 0 {
                Arm::Control
            } else {
                Arm::Test
            };
            let (before, after) = if arm == Arm::Test { test } else { control };
            // Sites differ by much, hosts by little.
            let size = 1.0 + site as f64 * 0.1;
            let mut days = |mean: f64| {
                let day = |_| mean * size * (random.normal() * noise).exp();
                (0..WEEK).map(day).collect::<Vec<f64>>()
            };
            hosts.push(Days {
                block: format!("site {}", site + 1),
                arm,
                before: days(before),
                after: days(after),
            });
        }
    }
    for (arm, (before, after)) in [(Arm::Control, control), (Arm::Test, test)] {
        scale(&mut hosts, arm, |host| &mut host.before, before);
        scale(&mut hosts, arm, |host| &mut host.after, after);
    }
    let compared = compare(&hosts, seed)?;
    Some(Fleet { hosts, compared })
}

fn scale(hosts: &mut [Days], arm: Arm, of: fn(&mut Days) -> &mut Vec<f64>, mean: f64) {
    let (mut sum, mut count) = (0.0, 0.0);
    for host in hosts.iter_mut().filter(|host| host.arm == arm) {
        for day in of(host).iter() {
            sum += *day;
            count += 1.0;
        }
    }
    let factor = mean * count / sum;
    for host in hosts.iter_mut().filter(|host| host.arm == arm) {
        for day in of(host) {
            *day *= factor;
        }
    }
}

/// Returns a failover: the old group rises from 4 to 55 drops per server and day, the new one
/// to 27.
pub fn failover() -> Option<Fleet> {
    fleet(SEED, 0.3, (4.0, 55.0), (4.0, 27.0))
}

/// Returns a week with sites halved: nineteen of twenty drops are gone.
pub fn week() -> Option<Fleet> {
    fleet(SEED + 1, 0.3, (400.0, 400.0), (400.0, 20.0))
}

/// Returns both steps and the rest: more than 98 of 100 drops are gone.
pub fn all() -> Option<Fleet> {
    fleet(SEED + 2, 0.3, (1_000.0, 1_000.0), (1_000.0, 16.0))
}

/// A health metric of one day; smaller is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Health {
    /// The median in the valley.
    pub valley_median: f64,
    /// The 95th percentile in the valley.
    pub valley_p95: f64,
    /// The median in the peak.
    pub peak_median: f64,
    /// The 95th percentile in the peak.
    pub peak_p95: f64,
}

/// The days on which the two groups of [`split`] were switched.
pub const SWITCHES: [usize; 2] = [7, 14];
const SPLIT_DAYS: usize = 21;

/// Returns two groups over three weeks, each switched on its day to separate CPUs for server and
/// interrupts.
pub fn split() -> [Vec<Health>; 2] {
    let mut random = Random::new(SEED + 3);
    SWITCHES.map(|switch| {
        let day = |day: usize| {
            let mut around = |value: f64| value * (random.normal() * 0.03).exp();
            let (median, p95) = if day < switch {
                (1.0, 1.0)
            } else {
                (0.7, 0.55)
            };
            Health {
                valley_median: around(10.0),
                valley_p95: around(25.0),
                peak_median: around(40.0) * median,
                peak_p95: around(120.0) * p95,
            }
        };
        (0..SPLIT_DAYS).map(day).collect()
    })
}

/// A day of six weeks of upgrades: the share of hosts with the new kernel, and the p99 of all
/// hosts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UpgradeDay {
    /// Share of all hosts.
    pub share: f64,
    /// The 99th percentile in milliseconds.
    pub p99: f64,
}

/// Returns six weeks of upgrades to a kernel four years newer.
pub fn kernel() -> Vec<UpgradeDay> {
    const DAYS: usize = 42;
    let mut random = Random::new(SEED + 4);
    let day = |day: usize| {
        let share = (day as f64 / (DAYS - 1) as f64 * 1.2 - 0.1).clamp(0.0, 1.0);
        UpgradeDay {
            share,
            p99: 80.0 * (1.0 - 0.25 * share) * (random.normal() * 0.02).exp(),
        }
    };
    (0..DAYS).map(day).collect()
}

/// Returns the capacity at an objective by load profile, as (name, factor).
pub fn capacity() -> [(&'static str, f64); 3] {
    [
        ("large objects", 1.10),
        ("mixed", 1.25),
        ("small objects", 1.40),
    ]
}

/// The reduction of the health metric, as a share.
pub const HEALTH_SHARE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::mean;

    #[test]
    fn the_published_figures_come_out() {
        let failover = failover().unwrap().compared;
        assert!(
            (failover.control.factor() - 13.75).abs() < 1e-9,
            "{failover:?}"
        );
        assert!((failover.test.factor() - 6.75).abs() < 1e-9, "{failover:?}");
        assert!((failover.saved - 28.0).abs() < 1e-9, "{failover:?}");
        assert!((failover.share - 0.51).abs() < 0.005, "{failover:?}");
        let week = week().unwrap().compared;
        assert!((week.share - 0.95).abs() < 1e-9, "{week:?}");
        assert!(
            week.benefit.low > 0.9 && week.benefit.high < 0.98 && week.p < 0.001,
            "{week:?}"
        );
        let all = all().unwrap().compared;
        assert!(all.share > 0.98 && all.benefit.low > 0.97, "{all:?}");
        assert!(
            capacity()
                .iter()
                .all(|(_, times)| (1.10..=1.40).contains(times))
        );
    }

    #[test]
    fn the_split_helps_in_the_peaks_alone() {
        for (days, switch) in split().iter().zip(SWITCHES) {
            let of = |figure: fn(&Health) -> f64| {
                let all: Vec<f64> = days.iter().map(figure).collect();
                mean(&all[switch..]) / mean(&all[..switch])
            };
            for valley in [of(|day| day.valley_median), of(|day| day.valley_p95)] {
                assert!((valley - 1.0).abs() < 0.05, "{valley}");
            }
            assert!((of(|day| day.peak_median) - 0.7).abs() < 0.05);
            assert!((of(|day| day.peak_p95) - 0.55).abs() < 0.05);
        }
    }

    #[test]
    fn the_p99_falls_as_hosts_are_upgraded() {
        let days = kernel();
        assert_eq!((days[0].share, days[41].share), (0.0, 1.0));
        let p99 = |days: &[UpgradeDay]| mean(&days.iter().map(|day| day.p99).collect::<Vec<_>>());
        assert!(p99(&days[35..]) < 0.8 * p99(&days[..5]));
    }
}
