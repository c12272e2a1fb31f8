//! Bytes that need room on the tiers.

use super::{Fit, Mode, Unit, Use};
use crate::quantity::Bytes;

/// Returns the newest records, on the first tier.
pub(super) fn fast(fit: &Fit<'_>) -> Use {
    let newest = fit.flows.newest / fit.sharing();
    let Some(fast) = fit.mix.fast else {
        // A single tier holds everything, the newest records included.
        return Use::nothing(Unit::Bytes);
    };
    let allowed = match (fit.mode(), fit.balance()) {
        (Mode::Balanced, Some(balance)) => fast.capacity() * balance.threshold,
        _ => fast.capacity() * fit.goals.fill,
    };
    Use::new(newest.0, allowed.0, Unit::Bytes)
}

/// Returns everything that is kept, and the active segments.
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
