//! What an answer rests on: assumptions, prices with their age, and where the model is known to be
//! coarse.

use serde::Serialize;

use super::{Plan, SolveError};
use crate::catalogue::{Catalogue, Class, Confidence, Month, Price, STALE_MONTHS, WARN_MONTHS};
use crate::load::Scenario;
use crate::mix::Mix;
use crate::quantity::Bytes;
use crate::search::{PricedFleet, Problem};

/// The default of `storage.migrate.hysteresis`.
const HYSTERESIS: f64 = 0.05;

/// Returns the largest segment with which the closed form of bursts and gaps is within a tenth of
/// the policy.
pub(super) fn segment_most(capacity: Bytes, free: Bytes) -> Bytes {
    (capacity * HYSTERESIS / 2.0).min(free / 24.0)
}

/// A price that was used.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PriceNote {
    /// The entry of the catalogue.
    pub id: String,
    /// The price.
    pub price: Price,
    /// Its age in months.
    pub months: i32,
    /// Its source, or that it is an assumption.
    pub source: String,
}

/// Checks that the catalogue has every name in a scenario.
pub(super) fn names_exist(scenario: &Scenario, catalogue: &Catalogue) -> Result<(), SolveError> {
    let given = &scenario.given;
    let hardware = &scenario.hardware;
    let ids = |all: Vec<&String>| all.into_iter().cloned().collect::<Vec<_>>();
    let servers = ids(catalogue.server.iter().map(|entry| &entry.id).collect());
    let devices = ids(catalogue.device.iter().map(|entry| &entry.id).collect());
    let nics = ids(catalogue.nic.iter().map(|entry| &entry.id).collect());
    let objects = ids(catalogue.object.iter().map(|entry| &entry.id).collect());
    let tiers = given
        .fast
        .iter()
        .chain(&given.bulk)
        .map(|tier| &tier.device);
    let wanted = [
        (
            "hardware.servers",
            hardware
                .servers
                .iter()
                .chain(&given.server)
                .collect::<Vec<_>>(),
            servers,
        ),
        (
            "hardware.devices",
            hardware.devices.iter().chain(tiers).collect(),
            devices,
        ),
        (
            "hardware.nics",
            hardware.nics.iter().chain(&given.nic).collect(),
            nics,
        ),
        ("hardware.object", hardware.object.iter().collect(), objects),
    ];
    for (key, names, known) in wanted {
        if let Some(name) = names.into_iter().find(|name| !known.contains(name)) {
            return Err(SolveError::Unknown {
                key,
                name: name.clone(),
                known: known.join(", "),
            });
        }
    }
    Ok(())
}

/// Adds the assumptions, warnings and prices to a plan.
pub(super) fn say(problem: &Problem<'_>, best: Option<&PricedFleet>, plan: &mut Plan) {
    let mix = best.and_then(|best| problem.mix(&best.found.choice));
    if let Some(mix) = &mix {
        parts(problem, mix, plan);
        prices(problem, mix, plan);
        coarse(problem, mix, plan);
    }
    software(problem, plan);
    loads(problem, plan);
    left_out(problem, plan);
    if let Some(best) = best
        && !best.is_priced
    {
        plan.warnings.push(
            "no mix has a price for every part: the one with the fewest brokers was chosen, not the cheapest".to_owned(),
        );
    }
    plan.assumptions.dedup();
    plan.warnings.dedup();
}

fn parts(problem: &Problem<'_>, mix: &Mix<'_>, plan: &mut Plan) {
    if mix.server.source.is_none() {
        plan.assumptions.push(format!(
            "{}: cores, places and memory are an example, not a product",
            mix.server.id
        ));
    }
    for devices in mix.fast.iter().chain([&mix.bulk]) {
        let device = devices.device;
        if device.source.is_none() {
            plan.assumptions.push(format!(
                "{}: {} read and {} written are assumptions",
                device.id, device.read, device.write
            ));
        }
        if device.untouched {
            plan.assumptions
                .push(format!("{}: nobody of this project has had one", device.id));
        }
        if device.volatile {
            plan.warnings.push(format!(
                "{}: what is on it is gone with the power",
                device.id
            ));
        }
        if device.dwpd.is_none() && device.class <= Class::Flash {
            plan.warnings.push(format!(
                "{}: endurance is not checked, its DWPD is not known",
                device.id
            ));
        }
    }
    if mix.fast.is_none() && mix.bulk.device.class == Class::Disk {
        plan.warnings.push(format!(
            "{}: disks are counted by what they write in sequence; seeks between many logs, and waiting for syncs, are not modelled",
            mix.bulk.device.id
        ));
    }
    if super::chosen::is_pinned(problem) {
        plan.warnings
            .push("a load with tier_max = \"fast\" keeps all of it on the first tier".to_owned());
    }
}

fn prices(problem: &Problem<'_>, mix: &Mix<'_>, plan: &mut Plan) {
    let module = problem.module(mix);
    let mut used: Vec<(&str, Option<&Price>)> = vec![(&mix.server.id, mix.server.price.as_ref())];
    used.extend(mix.nic.map(|nic| (nic.id.as_str(), nic.price.as_ref())));
    used.extend(module.map(|module| (module.id.as_str(), module.price.as_ref())));
    used.extend(
        mix.fast
            .map(|fast| (fast.device.id.as_str(), fast.device.price.as_ref())),
    );
    used.push((&mix.bulk.device.id, mix.bulk.device.price.as_ref()));
    used.extend(
        mix.object
            .map(|object| (object.id.as_str(), object.price.as_ref())),
    );
    for (id, price) in used {
        let Some(price) = price else { continue };
        let months = price.age(problem.today);
        if months > STALE_MONTHS {
            plan.warnings.push(format!("{id}: its price is of {}, {months} months old, and used because that was asked for", price.date));
        } else if months > WARN_MONTHS {
            plan.warnings.push(format!(
                "{id}: its price is of {}, {months} months old",
                price.date
            ));
        } else if months < 0 {
            plan.warnings.push(format!(
                "{id}: its price is of {}, after {}: how old it is, is not checked",
                price.date, problem.today
            ));
        }
        if price.confidence == Confidence::Low {
            let why = price.source.as_deref().unwrap_or("an assumption");
            plan.assumptions
                .push(format!("{id}: its price is weak: {why}"));
        }
        plan.prices.push(PriceNote {
            id: id.to_owned(),
            price: price.clone(),
            months,
            source: price
                .source
                .clone()
                .unwrap_or_else(|| "an assumption".to_owned()),
        });
    }
}

/// Warns where the closed form is inexact.
fn coarse(problem: &Problem<'_>, mix: &Mix<'_>, plan: &mut Plan) {
    let Some(chosen) = &plan.chosen else { return };
    if let (Some(fast), Some(threshold)) = (mix.fast, chosen.threshold) {
        let most = segment_most(fast.capacity(), fast.capacity() * (1.0 - threshold));
        if chosen.segment > most {
            plan.warnings.push(format!(
                "segments of {} are large for this first tier (two in its hysteresis, twenty-four in what a burst may take): burst and gap are coarse",
                chosen.segment
            ));
        } else if chosen.segment < mix.software.segment {
            plan.warnings.push(format!(
                "segments of {} instead of {}, so that the first tier holds enough of them",
                chosen.segment, mix.software.segment
            ));
        }
        if problem
            .scenario
            .load
            .iter()
            .any(|load| load.catch_up.is_some())
        {
            plan.warnings.push(
                "what late readers have just read from the disk stays where it is (storage.migrate.heat.ms): bursts may find less room".to_owned(),
            );
        }
    }
    for used in &chosen.uses {
        if !used.checked {
            plan.warnings.push(format!(
                "{}: not checked, nothing was measured near this load",
                used.name
            ));
        }
    }
}

fn software(problem: &Problem<'_>, plan: &mut Plan) {
    let flows = problem.flows(1);
    for measured in problem.software.measured() {
        plan.assumptions.push(format!("processor time was measured on {measured}: a core here is taken for one there, until --verify has run"));
    }
    if flows.cpu_extrapolated {
        plan.warnings.push("extrapolated: records or batches are more than four times outside of what processor time was measured with".to_owned());
    }
    if problem
        .scenario
        .load
        .iter()
        .any(|load| load.keyed.is_some())
    {
        plan.warnings.push("keyed records are designed, and not released: bytes of an index and time of a lookup are not measured".to_owned());
    }
    plan.assumptions
        .push("latency is not modelled: only what was measured near a load is compared".to_owned());
}

fn loads(problem: &Problem<'_>, plan: &mut Plan) {
    let bursts = problem
        .scenario
        .load
        .iter()
        .filter(|load| load.burst.is_some())
        .count();
    if bursts > 1 {
        plan.assumptions
            .push("all loads burst together: the longest burst, the shortest interval".to_owned());
    }
    if problem.scenario.fleet.cluster_brokers_max == 100
        && plan
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.clusters > chosen.sites)
    {
        plan.assumptions
            .push("a cluster has 100 brokers at most (fleet.cluster_brokers_max)".to_owned());
    }
}

/// Warns about entries that were left out because their prices are too old.
fn left_out(problem: &Problem<'_>, plan: &mut Plan) {
    if problem.scenario.cost.old_prices {
        return;
    }
    let old = |price: Option<&Price>, today: Month| crate::cost::is_stale(price, today);
    let mut ids: Vec<&str> = Vec::new();
    let devices = problem.catalogue.device.iter();
    ids.extend(
        devices
            .filter(|entry| old(entry.price.as_ref(), problem.today))
            .map(|entry| entry.id.as_str()),
    );
    let named = &problem.scenario.hardware.servers;
    let servers = problem
        .catalogue
        .server
        .iter()
        .filter(|entry| !entry.only_by_name || named.contains(&entry.id));
    ids.extend(
        servers
            .filter(|entry| old(entry.price.as_ref(), problem.today))
            .map(|entry| entry.id.as_str()),
    );
    if !ids.is_empty() {
        plan.warnings.push(format!(
            "left out, prices older than {STALE_MONTHS} months (--old-prices takes them): {}",
            ids.join(", ")
        ));
    }
}
