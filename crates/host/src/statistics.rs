//! Tests, intervals and power for experiments on few hosts or few pairs of blocks.
//!
//! Everything is by counting: permutations, flips of signs, resampling. No distribution is assumed, and nothing is a test
//! over packets or requests, which are not independent. Pure; randomness comes from a seed. Checked against scipy's figures.

pub mod bootstrap;
pub mod flip;
pub mod holm;
pub mod martingale;
pub mod permute;
pub mod power;
pub mod quantile;
pub mod random;

use serde::{Deserialize, Deserializer, Serialize};

/// So many assignments are all tried; of more, so many are drawn.
pub const ASSIGNMENTS_MAX: usize = 20_000;

/// A value with the interval it is in, at 95 %.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Interval {
    /// The best guess.
    #[serde(deserialize_with = "or_none")]
    pub estimate: f64,
    /// The lower end.
    #[serde(deserialize_with = "or_none")]
    pub low: f64,
    /// The upper end.
    #[serde(deserialize_with = "or_none")]
    pub high: f64,
}

/// JSON has no infinity: what is not known is `null` there, and not a number here.
pub(crate) fn or_none<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(value)?.unwrap_or(f64::NAN))
}

/// The mean; not a number for none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a sample; not a number for fewer than two.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// The median; not a number for none.
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

/// What counts as equal to an observed value: sums in another order differ in their last bits.
fn tolerance(value: f64) -> f64 {
    1e-9 * value.abs().max(1e-9)
}

#[cfg(test)]
mod tests;
