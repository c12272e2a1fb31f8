//! Compares the days before and after a change of a fleet in which half the hosts of each site have
//! the change.
//!
//! The unit is the host: the mean of the logarithms of its days after, minus that of its days
//! before (a difference of differences, so that an event on all hosts does not count as an effect
//! of the change). Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::assign::Arm;
use crate::statistics::{Interval, bootstrap, mean, permute};

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
