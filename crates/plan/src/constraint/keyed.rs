//! Lookups of keys: device reads, and the place of the index.

use super::{Fit, Unit, Use};
use crate::catalogue::Class;

/// Returns the bytes moved per changed byte, when stale records are collected from segments filled
/// to `goals.fill`.
pub(super) fn defragmentation(fit: &Fit<'_>) -> f64 {
    // The load includes the bytes of the change itself.
    1.0 / (1.0 - fit.goals.fill.min(0.95)) - 1.0
}

pub(super) fn lookups(fit: &Fit<'_>) -> Use {
    if fit.flows.lookup_reads <= 0.0 {
        return Use::nothing(Unit::Frequency);
    }
    let used = fit.flows.lookup_reads / fit.sharing();
    Use::new(used, fit.mix.bulk.iops() * fit.goals.disk, Unit::Frequency)
}

pub(super) fn index(fit: &Fit<'_>) -> Use {
    if !fit.flows.index_on_pmem {
        return Use::nothing(Unit::Bytes);
    }
    let pmem = fit.mix.fast.filter(|fast| fast.device.class == Class::Pmem);
    let used = fit.flows.index / fit.sharing();
    let allowed = pmem.map_or(0.0, |fast| fast.capacity().0 * fit.goals.fill);
    Use::new(used.0, allowed, Unit::Bytes)
}
