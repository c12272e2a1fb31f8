//! Compares the days before and after a change of a fleet in which half the hosts of each site have
//! the change.
//!
//! The unit is the host: the mean of the logarithms of its days after, minus that of its days
//! before (a difference of differences, so that an event on all hosts does not count as an effect
//! of the change). Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::assign::Arm;
use super::decide::Verdict;
use crate::statistics::{Interval, bootstrap, deviation, mean, permute, power};

/// Accepted probability of a false alarm.
const ALPHA: f64 = 0.05;
/// Arms that differ before the change with less than this probability cannot be compared.
const SAME_P_MIN: f64 = 0.01;

/// The days of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Days {
    /// Its site and model; it is compared with hosts of the same block.
    pub block: String,
    /// Its arm.
    pub arm: Arm,
    /// Drops of each day before.
    pub before: Vec<f64>,
    /// Drops of each day after.
    pub after: Vec<f64>,
}

/// The days of an arm.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct OfArm {
    /// Drops per host and day, before.
    pub before: f64,
    /// Drops per host and day, after.
    pub after: f64,
}

impl OfArm {
    /// Returns the ratio of after to before.
    pub fn factor(&self) -> f64 {
        self.after / self.before
    }
}

/// The comparison of a fleet's arms.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct FleetComparison {
    /// Without the change.
    pub control: OfArm,
    /// With it.
    pub test: OfArm,
    /// Drops per host and day that the change saved: how much less the test arm rose.
    pub saved: f64,
    /// The saved drops as a share of those expected without the change.
    pub share: f64,
    /// The same share from the hosts' logarithms, with its interval; this one decides.
    pub benefit: Interval,
    /// Probability of this much by chance.
    pub p: f64,
}

/// Compares the arms; none if a block has only one of them, or a host has no days.
pub fn compare(hosts: &[Days], seed: u64) -> Option<FleetComparison> {
    if hosts
        .iter()
        .any(|host| host.before.is_empty() || host.after.is_empty())
    {
        return None;
    }
    let mut blocks: BTreeMap<&str, permute::Block> = BTreeMap::new();
    for host in hosts {
        let scored = (score(host), host.arm == Arm::Test);
        blocks.entry(&host.block).or_default().push(scored);
    }
    let blocks: Vec<permute::Block> = blocks.into_values().collect();
    let p = permute::p(&blocks, seed)?;
    // Centers each block on its own mean, because the differences between sites are not the
    // question.
    let (mut test, mut control) = (Vec::new(), Vec::new());
    for block in &blocks {
        let scores: Vec<f64> = block.iter().map(|(score, _)| *score).collect();
        let middle = mean(&scores);
        for (score, is_test) in block {
            if *is_test { &mut test } else { &mut control }.push(score - middle);
        }
    }
    let spread = bootstrap::of_arms(&test, &control, seed);
    // The permutation's difference weights blocks; the interval around it comes from the hosts.
    let difference = permute::difference(&blocks)?;
    let share = |difference: f64| 1.0 - difference.exp();
    let (control, test) = (of_arm(hosts, Arm::Control), of_arm(hosts, Arm::Test));
    let saved = (control.after - control.before) - (test.after - test.before);
    Some(FleetComparison {
        saved,
        share: saved / (control.after - control.before + test.before),
        benefit: Interval {
            estimate: share(difference),
            low: share(difference + (spread.high - spread.estimate)),
            high: share(difference + (spread.low - spread.estimate)),
        },
        control,
        test,
        p,
    })
}

/// The verdict on a change of a fleet.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct FleetVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub why: String,
    /// The comparison it follows from.
    pub compared: FleetComparison,
    /// The smallest decrease, as a share, that four of five experiments with these hosts show.
    pub least: Option<f64>,
}

/// Judges a change by the rules of experiments on one host; none if the arms cannot be compared.
///
/// The days before the change are an experiment without one: if the arms differ between its halves,
/// something else is going on.
pub fn judge(hosts: &[Days], threshold: f64, seed: u64) -> Option<FleetVerdict> {
    let compared = compare(hosts, seed)?;
    let same = without_change(hosts).and_then(|hosts| compare(&hosts, seed));
    let benefit = compared.benefit;
    let is_certain = compared.p < ALPHA;
    let (verdict, why) = match () {
        () if same.as_ref().is_some_and(|same| same.p < SAME_P_MIN) => (
            Verdict::Inconclusive,
            "the arms differ already in the days before the change",
        ),
        () if benefit.high < 0.0 && is_certain => {
            (Verdict::Harmful, "the whole interval is on the wrong side")
        }
        () if benefit.low > threshold && is_certain => {
            (Verdict::Adopt, "the whole interval is beyond the threshold")
        }
        () if benefit.high < threshold => {
            (Verdict::NoBenefit, "the interval excludes the threshold")
        }
        () => (
            Verdict::Inconclusive,
            "more hosts or more days would decide",
        ),
    };
    Some(FleetVerdict {
        verdict,
        why: why.to_owned(),
        least: least(hosts),
        compared,
    })
}

/// Returns the hosts with their days before the change alone, halved; none if one has fewer than
/// two.
fn without_change(hosts: &[Days]) -> Option<Vec<Days>> {
    let halves = |host: &Days| {
        let (before, after) = host.before.split_at(host.before.len() / 2);
        (!before.is_empty()).then(|| Days {
            before: before.to_vec(),
            after: after.to_vec(),
            ..host.clone()
        })
    };
    hosts.iter().map(halves).collect()
}

/// Returns the smallest decrease that arms of this size and variance show.
fn least(hosts: &[Days]) -> Option<f64> {
    let of = |arm: Arm| -> Vec<f64> {
        let arm = hosts.iter().filter(|host| host.arm == arm);
        arm.map(score).collect()
    };
    let (test, control) = (of(Arm::Test), of(Arm::Control));
    let few = test.len().min(control.len());
    // The difference of two means varies by the variances of both.
    let both = deviation(&test).hypot(deviation(&control));
    power::effect(both, few).map(|effect| 1.0 - (-effect).exp())
}

fn score(host: &Days) -> f64 {
    let of = |days: &[f64]| {
        let logarithms: Vec<f64> = days
            .iter()
            .map(|drops| (drops.max(0.0) + 1.0).ln())
            .collect();
        mean(&logarithms)
    };
    of(&host.after) - of(&host.before)
}

fn of_arm(hosts: &[Days], arm: Arm) -> OfArm {
    let of = |days: fn(&Days) -> &[f64]| {
        let means: Vec<f64> = hosts
            .iter()
            .filter(|host| host.arm == arm)
            .map(|host| mean(days(host)))
            .collect();
        mean(&means)
    };
    OfArm {
        before: of(|host| &host.before),
        after: of(|host| &host.after),
    }
}

#[cfg(test)]
mod tests;
