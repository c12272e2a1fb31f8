//! The effect that an experiment of a given size can detect, and the size that an effect needs.
//!
//! The smallest effect that four of five experiments detect, at 5 %: (t of 0.975 + t of 0.8)
//! deviations over the square root of the pairs. For many pairs the factor is the well-known 2.8;
//! for few it is larger, and 2.8 would promise too much.

/// Quantiles of the normal distribution at 0.975 and 0.8.
const Z_OF_TEST: f64 = 1.959_963_984_540_054;
const Z_OF_POWER: f64 = 0.841_621_233_572_914;

/// Largest number of pairs considered.
const PAIRS_MAX: usize = 100_000;

/// Returns the smallest effect that this many pairs detect, in the unit of the deviation; none for
/// fewer than two pairs.
pub fn effect(deviation: f64, pairs: usize) -> Option<f64> {
    let freedom = pairs.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let times = student(Z_OF_TEST, freedom) + student(Z_OF_POWER, freedom);
    Some(times * deviation / (pairs as f64).sqrt())
}

/// Returns how many pairs detect an effect; none if no number does.
pub fn pairs(deviation: f64, wanted: f64) -> Option<usize> {
    let shows = |pairs: &usize| effect(deviation, *pairs).is_some_and(|effect| effect <= wanted);
    if !shows(&PAIRS_MAX) {
        return None;
    }
    // More pairs never detect less.
    let (mut few, mut many) = (1, PAIRS_MAX);
    while many - few > 1 {
        let middle = usize::midpoint(few, many);
        if shows(&middle) {
            many = middle;
        } else {
            few = middle;
        }
    }
    Some(many)
}

/// Returns the factor by which an interval from so few values must be wider than that of its
/// resamples.
pub(super) fn wider(values: usize) -> f64 {
    let freedom = values as f64 - 1.0;
    student(Z_OF_TEST, freedom) / Z_OF_TEST * (values as f64 / freedom).sqrt()
}

/// Returns a quantile of Student's distribution from that of the normal one (the expansion of
/// Cornish and Fisher, to 1/freedom^4).
fn student(z: f64, freedom: f64) -> f64 {
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5)
            - 1920.0 * z.powi(3)
            - 945.0 * z)
            / 92_160.0,
    ];
    let mut power = 1.0;
    let mut quantile = z;
    for term in terms {
        power *= freedom;
        quantile += term / power;
    }
    quantile
}
