//! Quantiles of latencies, including requests that were never answered.
//!
//! A lost or late request counts as infinitely slow before a quantile is taken. Otherwise an arm
//! that drops its slow requests would look better than one that answers them.

/// A quantile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Quantile {
    /// A latency in microseconds.
    Micros(f64),
    /// In the part of the requests that were never answered.
    OverTheTimeout,
    /// There was no request.
    None,
}

/// Returns a quantile of answered latencies (in microseconds) and `lost` unanswered requests.
///
/// It is the smallest value that at least this share of all does not exceed.
pub fn quantile(answers: &mut [f64], lost: u64, share: f64) -> Quantile {
    let all = answers.len() as f64 + lost as f64;
    if all == 0.0 {
        return Quantile::None;
    }
    answers.sort_by(f64::total_cmp);
    // The rank is between 1 and the number of requests.
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
