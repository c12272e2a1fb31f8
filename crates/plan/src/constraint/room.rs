//! Bytes that have to be somewhere.

use super::{Fit, Mode, Unit, Use};
use crate::quantity::Bytes;

/// The newest, on the first tier.
pub(super) fn fast(fit: &Fit<'_>) -> Use {
    let newest = fit.flows.newest / fit.sharing();
    let Some(fast) = fit.mix.fast else {
        // All of it is as fast as it gets.
        return Use::nothing(Unit::Bytes);
    };
    let allowed = match (fit.mode(), fit.balance()) {
        (Mode::Balanced, Some(balance)) => fast.capacity() * balance.threshold,
        _ => fast.capacity() * fit.goals.fill,
    };
    Use::new(newest.0, allowed.0, Unit::Bytes)
}

/// All that is kept, and the segments that are being written.
pub(super) fn all(fit: &Fit<'_>) -> Use {
    let active = fit.mix.software.segment * fit.flows.replicas;
    let used = (fit.flows.stored + active) / fit.sharing();
    let bulk = fit.mix.bulk.capacity() * fit.goals.fill;
    let first = match (fit.mix.fast, fit.mode(), fit.balance()) {
        (Some(fast), Mode::Balanced, Some(balance)) => fast.capacity() * balance.threshold,
        (Some(fast), ..) => fast.capacity() * fit.goals.fill,
        (None, ..) => Bytes::ZERO,
    };
    Use::new(used.0, (bulk + first).0, Unit::Bytes)
}
