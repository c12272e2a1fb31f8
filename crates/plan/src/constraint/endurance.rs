//! Bytes that may be written to flash before it wears out.

use super::{Fit, Mode, Unit, Use};
use crate::mix::Devices;
use crate::quantity::{DAY, Rate};

pub(super) fn fast(fit: &Fit<'_>) -> Use {
    let all = fit.flows.average_in - fit.flows.average_bulk_only;
    fit.mix
        .fast
        .map_or(Use::nothing(Unit::Bytes), |fast| worn(fit, fast, all))
}

pub(super) fn bulk(fit: &Fit<'_>) -> Use {
    let keyed = fit.flows.updates * super::keyed::defragmentation(fit);
    let all = match (fit.mode(), fit.mix.fast) {
        // Only the spill is written here: the part that the first tier has no room for.
        (Mode::Off, Some(fast)) => {
            let kept = (fit.flows.stored / fit.sharing() / fast.capacity()).max(1.0);
            fit.flows.average_in * (1.0 - 1.0 / kept)
        }
        _ => fit.flows.average_in,
    };
    worn(fit, fit.mix.bulk, all + keyed)
}

/// Returns the bytes per day on a broker's devices.
fn worn(fit: &Fit<'_>, devices: Devices<'_>, rate: Rate) -> Use {
    let device = devices.device;
    let Some(dwpd) = device.dwpd else {
        return Use::nothing(Unit::Bytes);
    };
    let used = fit.each(rate) * DAY * device.amplification;
    let allowed = devices.capacity() * dwpd * (device.dwpd_years / fit.goals.years);
    Use::new(used.0, allowed.0, Unit::Bytes)
}
