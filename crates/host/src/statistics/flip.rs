//! The sign-flip test for pairs of blocks on one host: if the arms were equal, each difference
//! could equally have the other sign.

use super::random::Random;
use super::{ASSIGNMENTS_MAX, tolerance};

/// Returns the share of all sign flips whose sum is at least as far from zero as the observed one.
///
/// It is exact up to [`ASSIGNMENTS_MAX`] flips, otherwise estimated from that many drawn ones.
pub fn p(differences: &[f64], seed: u64) -> f64 {
    let seen = differences.iter().sum::<f64>().abs();
    let least = seen - tolerance(seen);
    let pairs = differences.len();
    if pairs < usize::BITS as usize && 1_usize << pairs <= ASSIGNMENTS_MAX {
        let all = 1_usize << pairs;
        let sum = |flips: usize| {
            let signed = differences.iter().enumerate();
            signed
                .map(|(at, value)| {
                    if flips & (1 << at) == 0 {
                        *value
                    } else {
                        -value
                    }
                })
                .sum::<f64>()
        };
        let as_far = (0..all).filter(|flips| sum(*flips).abs() >= least).count();
        return as_far as f64 / all as f64;
    }
    let mut random = Random::new(seed);
    let mut as_far = 0;
    for _ in 0..ASSIGNMENTS_MAX {
        let sum: f64 = differences
            .iter()
            .map(|value| if random.coin() { *value } else { -value })
            .sum();
        as_far += usize::from(sum.abs() >= least);
    }
    // The observed assignment is one of them.
    (as_far + 1) as f64 / (ASSIGNMENTS_MAX + 1) as f64
}

/// Returns the smallest p that this many pairs can give.
pub fn p_min(pairs: usize) -> f64 {
    2.0 / 2_f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX))
}
