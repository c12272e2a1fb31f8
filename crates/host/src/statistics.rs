//! Tests, intervals and power for experiments with few hosts or few pairs of blocks.
//!
//! All methods work by counting: permutations, sign flips, resampling. No distribution is assumed,
//! and no test is over packets or requests, which are not independent. Pure; randomness comes from
//! a seed. Verified against scipy's figures.

pub mod bootstrap;
pub mod flip;
pub mod holm;
pub mod martingale;
pub mod permute;
pub mod power;
pub mod quantile;
pub mod random;

use serde::{Deserialize, Deserializer, Serialize};

/// Number of assignments up to which all are tried; beyond it, this many are drawn.
pub const ASSIGNMENTS_MAX: usize = 20_000;

/// A value with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Interval {
    /// The point estimate.
    #[serde(deserialize_with = "or_none")]
    pub estimate: f64,
    /// The lower end.
    #[serde(deserialize_with = "or_none")]
    pub low: f64,
    /// The upper end.
    #[serde(deserialize_with = "or_none")]
    pub high: f64,
}

/// Reads `null` as NaN, because JSON has no infinity and no NaN.
pub(crate) fn or_none<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(value)?.unwrap_or(f64::NAN))
}

/// Returns the mean; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the standard deviation of a sample; NaN for fewer than two values.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// Returns the median; NaN without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Returns the distance within which sums are equal: in another order, sums differ in their last
/// bits.
fn tolerance(value: f64) -> f64 {
    1e-9 * value.abs().max(1e-9)
}

#[cfg(test)]
mod tests;
