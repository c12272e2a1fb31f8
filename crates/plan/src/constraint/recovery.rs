//! Time until the data of a lost broker has all its copies again, on a broker that replaces it.

use super::{Fit, Unit, Use};
use crate::quantity::{Rate, Seconds};

pub(super) fn recovery(fit: &Fit<'_>) -> Use {
    let Some(within) = fit.goals.recovery else {
        return Use::nothing(Unit::Seconds);
    };
    let (flows, goals, mix) = (fit.flows, fit.goals, fit.mix);
    let bytes = flows.stored / f64::from(fit.brokers);
    let (inward, outward) = if goals.rebuild_at_peak {
        (flows.peak_in, flows.peak_out + flows.object_up)
    } else {
        (flows.average_in, flows.average_out + flows.object_up)
    };
    let network = mix.network() * goals.nic;
    let taken = network - fit.each(inward);
    // Every other broker sends a part.
    let given = (network - fit.each(outward)) * fit.working();
    let written = mix.bulk_write() * goals.disk - fit.each(flows.average_in);
    let rate = taken.min(given).min(written).max(Rate::ZERO);
    let used = if rate <= Rate::ZERO {
        Seconds(f64::INFINITY)
    } else {
        bytes / rate
    };
    Use::new(used.0, within.0, Unit::Seconds)
}
