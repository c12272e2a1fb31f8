//! The figures of a fleet that the search found.

use super::{
    BrokerRates, BurstAnswer, Depth, FleetFigures, RelaxedConstraint, TopicAnswer, UseAnswer,
};
use crate::constraint::{Balance, Constraint, Fit, Mode};
use crate::load::{Acks, Retention, Tier};
use crate::mix::{Devices, TierAnswer};
use crate::quantity::{Bytes, Dollars, Rate, Seconds};
use crate::search::{FoundFleet, PricedFleet, Problem};
use crate::software::BurstAbsorber;

/// Used share above which a constraint counts as nearly exhausted.
const NEARLY: f64 = 0.9;

/// Factor by which a constraint is relaxed.
const RELAXED: f64 = 1.1;

/// Returns the number of brokers in total.
pub(super) fn brokers(problem: &Problem<'_>, found: &FoundFleet) -> u64 {
    found.of_site() * u64::from(problem.scenario.fleet.sites)
}

/// Returns the constraint that fails with one broker less, or is nearest to failing.
pub(super) fn binding(problem: &Problem<'_>, found: &FoundFleet) -> String {
    binding_of(problem, found).map_or_else(String::new, |constraint| constraint.name().to_owned())
}

fn binding_of(problem: &Problem<'_>, found: &FoundFleet) -> Option<Constraint> {
    let mix = problem.mix(&found.choice)?;
    let flows = problem.flows(found.clusters);
    let fewer = match problem.scenario.given.brokers {
        Some(_) => None,
        None => found.brokers.checked_sub(1).filter(|fewer| *fewer > 0),
    };
    let tightest = |brokers: u32| {
        let uses = problem.fit(&flows, &mix, brokers).uses();
        uses.into_iter()
            .filter(|(constraint, _)| *constraint != Constraint::Copies)
            .max_by(|one, other| one.1.share().total_cmp(&other.1.share()))
    };
    if let Some(fewer) = fewer {
        return match tightest(fewer) {
            Some((constraint, used)) if used.share() > 1.0 => Some(constraint),
            // No other constraint requires as many.
            _ => Some(Constraint::Copies),
        };
    }
    Some(tightest(found.brokers)?.0)
}

/// Returns all figures of a fleet.
pub(super) fn chosen(
    problem: &Problem<'_>,
    priced: &PricedFleet,
    depth: Depth,
) -> Option<FleetFigures> {
    let found = priced.found;
    let mix = problem.mix(&found.choice)?;
    let flows = problem.flows(found.clusters);
    let fit = problem.fit(&flows, &mix, found.brokers);
    let scenario = problem.scenario;
    let balance = fit.balance().filter(|_| fit.mode() == Mode::Balanced);
    let relaxed = match depth {
        Depth::Answer => Vec::new(),
        Depth::Whole | Depth::Report => relaxed(problem, priced, &fit),
    };
    let sharing = fit.working().min(flows.spread_max);
    Some(FleetFigures {
        mix: mix.describe(),
        software: problem.software.id.clone(),
        server: mix.server.id.clone(),
        nic: mix.nic.map(|nic| nic.id.clone()),
        memory: mix.memory,
        cores: mix.server.cores,
        fast: mix.fast.map(|fast| tier(&fast, fast_fill(&fit, &fast))),
        bulk: tier(&mix.bulk, bulk_fill(&fit)),
        object: mix.object.map(|object| object.id.clone()),
        sites: scenario.fleet.sites,
        clusters: found.clusters.saturating_mul(scenario.fleet.sites),
        cluster_brokers: found.brokers,
        brokers: brokers(problem, &found),
        threshold: balance.map(|balance| balance.threshold),
        still: fit.mode() == Mode::Off,
        mover: balance.map(|balance| balance.drain),
        partitions: partitions(&fit),
        topics: topics(problem, &fit, found.clusters),
        segment: segment(&fit),
        burst: burst(&fit),
        uses: uses(&fit),
        binding: binding(problem, &found),
        relaxed,
        broker: BrokerRates {
            peak: flows.peak / sharing,
            taken: flows.peak_in / sharing,
            given: flows.peak_out / sharing,
            cpu: flows.cpu / sharing,
        },
        cost: problem.invoice(&found)?,
    })
}

fn tier(devices: &Devices<'_>, fill: f64) -> TierAnswer {
    TierAnswer {
        device: devices.device.id.clone(),
        count: devices.count,
        capacity: devices.capacity(),
        fill,
        untouched: devices.device.untouched,
        read: devices.device.read,
        write: devices.device.write,
        dax: devices.device.dax,
        volatile: devices.device.volatile,
    }
}

fn fast_fill(fit: &Fit<'_>, fast: &Devices<'_>) -> f64 {
    let kept = fit.flows.stored / fit.working() / fast.capacity();
    match (fit.mode(), fit.balance()) {
        (Mode::Balanced, Some(balance)) => balance.threshold.min(kept),
        _ => kept.min(1.0),
    }
}

fn bulk_fill(fit: &Fit<'_>) -> f64 {
    let above = fit
        .mix
        .fast
        .map_or(Bytes::ZERO, |fast| fast.capacity() * fast_fill(fit, &fast));
    let here = (fit.flows.stored / fit.working() - above).max(Bytes::ZERO);
    here / fit.mix.bulk.capacity()
}

/// Returns the partitions that are needed, rounded up so that every broker leads as many as any
/// other.
///
/// If a load fixes its partitions, the number is not rounded.
fn partitions(fit: &Fit<'_>) -> f64 {
    let needed = fit.flows.partitions;
    if fit.flows.spread_max.is_finite() {
        return needed;
    }
    let brokers = f64::from(fit.brokers);
    (needed / brokers).ceil().max(1.0) * brokers
}

/// Returns a topic for each load, with a share of the partitions.
fn topics(problem: &Problem<'_>, fit: &Fit<'_>, clusters: u32) -> Vec<TopicAnswer> {
    let scenario = problem.scenario;
    let share = 1.0 / (f64::from(scenario.fleet.sites) * f64::from(clusters));
    let sharing = fit.working().min(fit.flows.spread_max);
    let brokers = f64::from(fit.brokers);
    let loads = scenario.load.iter().map(|load| load.share(share));
    loads
        .map(|load| {
            let by_rate = (load.peak() / problem.software.partition_rate).ceil();
            let needed = by_rate.max(f64::from(load.consumers)).max(1.0);
            let spread = (needed / brokers).ceil() * brokers;
            let partitions = load.partitions.map_or(spread, f64::from);
            let (keep_time, keep_bytes) = match load.retention {
                Retention::Time(time) => (Some(time), None),
                // Kafka's limit is per partition.
                Retention::Bytes(bytes) => (None, Some(bytes / partitions)),
                Retention::Forever => (None, None),
            };
            TopicAnswer {
                name: load.name.clone(),
                partitions,
                replication: load.replication,
                keep_time,
                keep_bytes,
                compacted: load.keyed.is_some(),
                only_bulk: load.tier_min == Tier::Bulk,
                only_fast: load.tier_max == Tier::Fast,
                acks: match load.acks {
                    Acks::None => 0,
                    Acks::Leader => 1,
                    Acks::All => -1,
                },
                record: load.size,
                batch: load.batch(),
                peak: load.peak() / sharing,
                base: load.base() / sharing,
                groups: load.fan_out,
            }
        })
        .collect()
}

/// Returns the segment size of the software, halved until it fits the first tier.
///
/// The hysteresis of the first tier must be at least two segments, and the room for a burst at
/// least twenty-four. A segment is not made smaller than 16 MiB by this.
fn segment(fit: &Fit<'_>) -> Bytes {
    let usual = fit.mix.software.segment;
    let (Some(fast), Mode::Balanced, Some(balance)) = (fit.mix.fast, fit.mode(), fit.balance())
    else {
        return usual;
    };
    let most = super::rests::segment_most(fast.capacity(), balance.free);
    let mut segment = usual;
    while segment > most && segment > Bytes(16.0 * 1_048_576.0) {
        segment = segment / 2.0;
    }
    segment
}

fn uses(fit: &Fit<'_>) -> Vec<UseAnswer> {
    let mut all = Vec::new();
    for (constraint, used) in fit.uses() {
        let is_asked = used.used > 0.0 || used.allowed.is_finite();
        if !is_asked {
            continue;
        }
        all.push(UseAnswer {
            name: constraint.name().to_owned(),
            used: used.used,
            allowed: used.allowed,
            share: used.share(),
            text: (used.unit.show(used.used), used.unit.show(used.allowed)),
            checked: constraint != Constraint::Latency || used.used > 0.0,
        });
    }
    all
}

fn relaxed(problem: &Problem<'_>, best: &PricedFleet, fit: &Fit<'_>) -> Vec<RelaxedConstraint> {
    let mut wanted: Vec<Constraint> = fit
        .uses()
        .into_iter()
        .filter(|(_, used)| used.share() >= NEARLY)
        .map(|(constraint, _)| constraint)
        .collect();
    // The constraint that requires the last broker may be far from exhausted with it.
    wanted.extend(binding_of(problem, &best.found));
    wanted.sort_unstable();
    wanted.dedup();
    let mut all: Vec<RelaxedConstraint> = wanted
        .into_iter()
        .filter(|constraint| *constraint != Constraint::Copies)
        .filter_map(|constraint| {
            let cheaper = problem.relaxing(constraint, RELAXED).best().ok()??;
            Some(RelaxedConstraint {
                name: constraint.name().to_owned(),
                saves: (best.cost - cheaper.cost).max(Dollars::ZERO),
            })
        })
        .collect();
    all.sort_by(|one, other| other.saves.0.total_cmp(&one.saves.0));
    all
}

fn burst(fit: &Fit<'_>) -> Option<BurstAnswer> {
    let (length, interval) = fit.flows.burst?;
    let balance = fit.balance().filter(|_| fit.mode() != Mode::Off)?;
    let (surge, gap) = (balance.surge(), balance.gap(length));
    Some(BurstAnswer {
        asked: length,
        lasts: surge.lasts(),
        rule: surge.rule(),
        gap: gap.lasts(),
        allowed: interval - length,
        drain: balance.drain,
        curve: curve(fit, &balance, length, interval),
        in_page_cache: fit.mix.fast.is_none()
            && fit.mix.software.absorbs == BurstAbsorber::PageCache,
    })
}

/// Returns the fill of what absorbs a burst, over two bursts.
fn curve(fit: &Fit<'_>, balance: &Balance, length: Seconds, interval: Seconds) -> Vec<(f64, f64)> {
    let capacity = match fit.mix.fast {
        Some(fast) => fast.capacity(),
        None => balance.free,
    };
    if capacity <= Bytes::ZERO {
        return Vec::new();
    }
    let taken = balance.gap(length).used / capacity;
    let gone = balance.gap(length).lasts().min(interval - length);
    let drained = (balance.drain - balance.base).max(Rate::ZERO) * gone / capacity;
    let (low, high) = (balance.threshold, balance.threshold + taken);
    let mut points = Vec::new();
    for round in 0..2 {
        let start = interval.0 * f64::from(round);
        points.push((start, low));
        points.push((start + length.0, high));
        points.push((start + length.0 + gone.0, (high - drained).max(low)));
    }
    points.push((interval.0 * 2.0, low));
    points
}

/// Returns true if a load may only be on the first tier: its data never moves.
pub(super) fn is_pinned(problem: &Problem<'_>) -> bool {
    problem
        .scenario
        .load
        .iter()
        .any(|load| load.tier_max == Tier::Fast)
}
