//! Processors, memory, replicas of partitions, and the measured latency.

use super::{Fit, Unit, Use};
use crate::quantity::{Bytes, Rate};

pub(super) fn time(fit: &Fit<'_>) -> Use {
    let used = fit.flows.cpu / fit.sharing();
    Use::new(used, fit.mix.cores() * fit.goals.cpu, Unit::Cores)
}

pub(super) fn memory(fit: &Fit<'_>) -> Use {
    let software = fit.mix.software;
    let index = if fit.flows.index_on_pmem {
        Bytes::ZERO
    } else {
        fit.flows.index
    };
    let shared = fit.flows.tail + software.partition_memory * fit.flows.replicas + index;
    let used = shared / fit.sharing() + software.memory;
    Use::new(used.0, fit.mix.memory.0 * fit.goals.memory, Unit::Bytes)
}

pub(super) fn partitions(fit: &Fit<'_>) -> Use {
    let software = fit.mix.software;
    let used = fit.flows.replicas / fit.sharing();
    let pool = fit.mix.fast.filter(|fast| fast.device.dax).map(|fast| {
        // The pool holds segments made in advance, on 99 % of the tier; each active partition needs
        // one.
        (fast.capacity() * POOL_SHARE / software.segment).floor()
    });
    let allowed = software.partitions_max.min(pool.unwrap_or(f64::INFINITY));
    Use::new(used, allowed, Unit::Count)
}

/// The value of `storage.pool.ratio` in Pafka.
pub(crate) const POOL_SHARE: f64 = 0.99;

pub(super) fn latency(fit: &Fit<'_>) -> Use {
    let Some((asked, record)) = fit.flows.latency else {
        return Use::nothing(Unit::Seconds);
    };
    let of_a_core: Rate = fit.each(fit.flows.peak) / fit.mix.cores();
    match fit.mix.software.latency(record, of_a_core) {
        Some((p99, is_measured)) if is_measured || p99 > asked => {
            Use::new(p99.0, asked.0, Unit::Seconds)
        }
        // There is no measurement near this load: it is not checked, and the answer warns about
        // that.
        _ => Use::new(0.0, asked.0, Unit::Seconds),
    }
}
