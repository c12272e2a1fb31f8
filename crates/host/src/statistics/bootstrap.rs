//! Intervals by resampling hosts or pairs, never requests.

use super::random::Random;
use super::{Interval, mean, median};

/// Number of resamples.
const RESAMPLES: usize = 2_000;

/// Returns the mean of pairs' differences, with its interval.
pub fn of_pairs(differences: &[f64], seed: u64) -> Interval {
    let resampled = |random: &mut Random| {
        let drawn = differences
            .iter()
            .map(|_| differences[random.below(differences.len())]);
        drawn.sum::<f64>() / differences.len() as f64
    };
    interval(mean(differences), seed, differences.len(), resampled)
}

/// Returns the difference between the means of two arms, with its interval.
pub fn of_arms(test: &[f64], control: &[f64], seed: u64) -> Interval {
    let resample = |random: &mut Random, arm: &[f64]| {
        let drawn = arm.iter().map(|_| arm[random.below(arm.len())]);
        drawn.sum::<f64>() / arm.len() as f64
    };
    let few = test.len().min(control.len());
    let resampled = |random: &mut Random| resample(random, test) - resample(random, control);
    interval(mean(test) - mean(control), seed, few, resampled)
}

/// Returns the shift between paired values by Hodges and Lehmann: the median of the means of all
/// pairs of differences.
///
/// A single outlier moves it little.
pub fn shift(differences: &[f64]) -> f64 {
    let mut means = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (at, one) in differences.iter().enumerate() {
        means.extend(
            differences[at..]
                .iter()
                .map(|other| f64::midpoint(*one, *other)),
        );
    }
    median(&means)
}

/// Returns the interval between the 2.5th and 97.5th percentiles of the resamples, widened by a
/// correction for few values.
///
/// Resamples of `few` values are too narrow: they have the deviation of a population instead of a
/// sample, and lack the tails of Student's distribution.
fn interval(
    estimate: f64,
    seed: u64,
    few: usize,
    resampled: impl FnMut(&mut Random) -> f64,
) -> Interval {
    if few < 2 || !estimate.is_finite() {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        return Interval {
            estimate,
            low,
            high,
        };
    }
    let (low, high) = percentiles(seed, resampled);
    let wider = super::power::wider(few);
    Interval {
        estimate,
        low: estimate - (estimate - low) * wider,
        high: estimate + (high - estimate) * wider,
    }
}

/// Returns the 2.5th and 97.5th percentiles of the resamples.
fn percentiles(seed: u64, mut resampled: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
    let mut random = Random::new(seed);
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| resampled(&mut random)).collect();
    values.sort_by(f64::total_cmp);
    let from_end = RESAMPLES / 40;
    (values[from_end], values[RESAMPLES - 1 - from_end])
}
