//! Bytes over the network: every copy comes in once; copies and readers take it out.

use super::{Fit, Unit, Use};
use crate::quantity::Rate;

/// Returns the rate into a broker whose data is being restored, if that may happen at the peak.
fn restore(fit: &Fit<'_>) -> Rate {
    match fit.goals.recovery {
        Some(within) if fit.goals.rebuild_at_peak => {
            fit.flows.stored / f64::from(fit.brokers) / within
        }
        _ => Rate::ZERO,
    }
}

pub(super) fn inward(fit: &Fit<'_>) -> Use {
    let used = fit.each(fit.flows.peak_in) + restore(fit);
    let allowed = fit.mix.network() * fit.goals.nic;
    Use::new(used.0, allowed.0, Unit::Rate)
}

pub(super) fn outward(fit: &Fit<'_>) -> Use {
    let lasting = fit.flows.peak_out + fit.flows.object_up;
    let used = fit.each(lasting) + restore(fit) / fit.working();
    let allowed = fit.mix.network() * fit.goals.nic;
    Use::new(used.0, allowed.0, Unit::Rate)
}
