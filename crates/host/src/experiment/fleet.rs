//! Hosts of a fleet, half of each site with the change: what their days before and after say.
//!
//! The unit is the host: the mean of the logarithms of its days after, less that of its days before (a difference of
//! differences, so that what happened to all of them is not taken for the change). Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::assign::Arm;
use crate::statistics::{Interval, bootstrap, mean, permute};

/// The days of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Days {
    /// Its site and model: it is compared with hosts of the same.
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
    /// Drops a host and day, before.
    pub before: f64,
    /// Drops a host and day, after.
    pub after: f64,
}

impl OfArm {
    /// How many times as many.
    pub fn factor(&self) -> f64 {
        self.after / self.before
    }
}

/// What a fleet says.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Compared {
    /// Without the change.
    pub control: OfArm,
    /// With it.
    pub test: OfArm,
    /// Drops a host and day that the change saved: how much less the test arm rose.
    pub saved: f64,
    /// Of what there would have been after, so much less.
    pub share: f64,
    /// The same from the hosts' logarithms, with its interval: the figure that decides.
    pub benefit: Interval,
    /// How likely as much would be by chance.
    pub p: f64,
}

/// Compares the arms; none where a block has only one of them, or a host has no days.
pub fn compare(hosts: &[Days], seed: u64) -> Option<Compared> {
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
    // Sites differ, and that is not what is asked: each block around its own mean.
    let (mut test, mut control) = (Vec::new(), Vec::new());
    for block in &blocks {
        let scores: Vec<f64> = block.iter().map(|(score, _)| *score).collect();
        let middle = mean(&scores);
        for (score, is_test) in block {
            if *is_test { &mut test } else { &mut control }.push(score - middle);
        }
    }
    let spread = bootstrap::of_arms(&test, &control, seed);
    // The permutation's own difference weighs blocks; the spread around it is that of the hosts.
    let difference = permute::difference(&blocks)?;
    let share = |difference: f64| 1.0 - difference.exp();
    let (control, test) = (of_arm(hosts, Arm::Control), of_arm(hosts, Arm::Test));
    let saved = (control.after - control.before) - (test.after - test.before);
    Some(Compared {
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
