//! Quantiles of latencies of which some never came.
//!
//! A request that was lost or late counts as infinitely slow before a quantile is taken. Without that an arm that drops its
//! slow requests looks better than one that answers them.

/// A quantile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Quantile {
    /// So many microseconds.
    Micros(f64),
    /// Among those that never came.
    OverTheTimeout,
    /// There was no request.
    None,
}

/// The quantile of answers (in microseconds) and so many requests that had none. The smallest value that a share of all is
/// not above.
pub fn quantile(answers: &mut [f64], lost: u64, share: f64) -> Quantile {
    let all = answers.len() as f64 + lost as f64;
    if all == 0.0 {
        return Quantile::None;
    }
    answers.sort_by(f64::total_cmp);
    // Between 1 and all of them.
    let rank = (share.clamp(0.0, 1.0) * all).ceil().max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank of a list"
    )]
    let place = rank as usize - 1;
    answers
        .get(place)
        .map_or(Quantile::OverTheTimeout, |value| Quantile::Micros(*value))
}
