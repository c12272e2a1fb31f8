//! Checks of a scenario beyond the types of its values.

use super::{KeyedLookups, Load, Retention, Scenario, Tier};
use crate::emit::{directory_name, topic_name};
use crate::quantity::{Seconds, YEAR};

/// Maximum number of variants; each is solved and written.
const VARIANTS_MAX: usize = 100;

/// Maximum length of a name, in characters.
const NAME_MAX: usize = 200;

/// Longest retention; a topic's `retention.ms` is a number of 64 bits.
const RETENTION_MAX: Seconds = Seconds(1000.0 * YEAR.0);

/// A key, and what is wrong with its value.
type WrongKey = (String, String);

fn wrong<T>(key: impl Into<String>, text: impl Into<String>) -> Result<T, WrongKey> {
    Err((key.into(), text.into()))
}

pub(super) fn check(scenario: &Scenario) -> Result<(), WrongKey> {
    check_name("name", &scenario.name)?;
    if scenario.load.is_empty() {
        return wrong("load", "at least one [[load]] is needed");
    }
    if scenario.load.len() > 1000 {
        return wrong("load", "allowed: at most 1,000");
    }
    for (at, load) in scenario.load.iter().enumerate() {
        check_load(load, scenario).map_err(|(key, text)| (format!("load[{at}].{key}"), text))?;
        let topic = topic_name(&load.name);
        let mut before = scenario.load.iter().take(at);
        if before.any(|other| topic_name(&other.name) == topic) {
            return wrong(
                format!("load[{at}].name"),
                format!("{:?} is there twice, as the topic {topic}", load.name),
            );
        }
    }
    check_variants(scenario)?;
    scenario
        .catalogue
        .check()
        .map_err(|(key, text)| (format!("catalogue.{key}"), text))?;
    check_goals(scenario)?;
    check_fleet(scenario)?;
    check_cost(scenario)
}

/// Checks a name that is shown to users, and becomes a file or a topic.
pub(crate) fn check_name(key: &str, name: &str) -> Result<(), WrongKey> {
    let is_short = name.chars().count() <= NAME_MAX;
    if is_short && !name.trim().is_empty() && !name.chars().any(char::is_control) {
        return Ok(());
    }
    wrong(
        key,
        format!("allowed: 1 to {NAME_MAX} letters that can be seen"),
    )
}

fn check_variants(scenario: &Scenario) -> Result<(), WrongKey> {
    if scenario.variant.len() > VARIANTS_MAX {
        return wrong("variant", format!("allowed: at most {VARIANTS_MAX}"));
    }
    for (at, variant) in scenario.variant.iter().enumerate() {
        let key = format!("variant[{at}].name");
        check_name(&key, &variant.name)?;
        let directory = directory_name(&variant.name);
        let mut before = scenario.variant.iter().take(at);
        if before.any(|other| directory_name(&other.name) == directory) {
            return wrong(
                key,
                format!(
                    "{:?} is there twice, as the directory {directory}",
                    variant.name
                ),
            );
        }
    }
    Ok(())
}

/// Checks each figure by itself.
fn check_figures(load: &Load) -> Result<(), WrongKey> {
    match (load.peak, load.messages) {
        (None, None) => return wrong("peak", "write peak, or messages and size"),
        (Some(_), Some(_)) => return wrong("messages", "write peak or messages, not both"),
        _ => {}
    }
    for (key, value, low, high) in [
        ("compression", load.compression, 0.5, 1000.0),
        ("fan_out", load.fan_out, 0.0, 10_000.0),
        ("growth", load.growth, -0.9, 100.0),
        ("replication", f64::from(load.replication), 1.0, 9.0),
        ("lag", load.lag.0, 0.0, 86_400.0),
        ("size", load.size.0, 1.0, 1e9),
        ("batch", load.batch().0, 1.0, 1e9),
        (
            "partitions",
            f64::from(load.partitions.unwrap_or(1)),
            1.0,
            1e7,
        ),
        ("consumers", f64::from(load.consumers), 0.0, 1e6),
    ] {
        within(key, value, low, high)?;
    }
    Ok(())
}

fn check_load(load: &Load, scenario: &Scenario) -> Result<(), WrongKey> {
    check_name("name", &load.name)?;
    check_figures(load)?;
    if load.peak().0 <= 0.0 {
        return wrong("peak", "allowed: more than nothing");
    }
    let peak = load.peak();
    if load.base() > peak {
        return wrong(
            "base",
            format!("{} is above the peak of {peak}", load.base()),
        );
    }
    if load.average() > peak {
        return wrong(
            "average",
            format!("{} is above the peak of {peak}", load.average()),
        );
    }
    check_burst(load)?;
    if let Retention::Time(kept) = load.retention
        && kept > RETENTION_MAX
    {
        return wrong(
            "retention",
            format!("allowed: at most {RETENTION_MAX}, or \"forever\""),
        );
    }
    if let Some(late) = load.catch_up
        && let Retention::Time(kept) = load.retention
        && late.age > kept
    {
        return wrong(
            "catch_up.age",
            format!("{} is more than is kept: {kept}", late.age),
        );
    }
    if load.kept().is_none() && scenario.hardware.object.is_none() {
        return wrong(
            "retention",
            "\"forever\" needs an object store: [hardware] object = \"s3\", and local_retention here",
        );
    }
    if load.kept().is_none() && load.local_retention.is_none() {
        return wrong(
            "local_retention",
            "\"forever\" on local tiers needs no end of devices: write how long it stays there",
        );
    }
    if load.tier_min > load.tier_max {
        return wrong("tier_min", "is slower than tier_max");
    }
    if load.newest.0 > 0.0 && load.tier_min == Tier::Bulk {
        return wrong(
            "newest",
            "is about the first tier, where tier_min lets nothing be",
        );
    }
    load.keyed.map_or(Ok(()), |keyed| check_keyed(&keyed))
}

fn check_burst(load: &Load) -> Result<(), WrongKey> {
    let Some(burst) = load.burst else {
        return Ok(());
    };
    if burst.length <= Seconds::ZERO {
        return wrong("burst.length", "allowed: more than nothing");
    }
    if burst.length > burst.interval {
        return wrong(
            "burst.length",
            format!(
                "{} is longer than the interval of {}",
                burst.length, burst.interval
            ),
        );
    }
    if load.base.is_none() && load.average.is_none() {
        return wrong(
            "base",
            "a burst needs base (or average): what comes in between",
        );
    }
    Ok(())
}

fn check_keyed(keyed: &KeyedLookups) -> Result<(), WrongKey> {
    within("keyed.keys", keyed.keys, 0.0, 1e18)?;
    within("keyed.hit_locality", keyed.hit_locality, 0.0, 1.0)
}

fn check_goals(scenario: &Scenario) -> Result<(), WrongKey> {
    let goals = &scenario.goals;
    for (key, value) in [
        ("goals.fill", goals.fill),
        ("goals.nic", goals.nic),
        ("goals.disk", goals.disk),
        ("goals.cpu", goals.cpu),
        ("goals.memory", goals.memory),
    ] {
        within(key, value, 0.01, 1.0)?;
    }
    within("goals.years", goals.years, 0.1, 20.0)?;
    match goals.threshold {
        Some(-1.0) | None => {}
        Some(threshold) => within("goals.threshold", threshold, 0.05, 0.95)
            .map_err(|(key, text)| (key, format!("{text}, or -1: nothing moves")))?,
    }
    match goals.recovery {
        Some(recovery) if recovery <= Seconds::ZERO => {
            wrong("goals.recovery", "allowed: more than nothing")
        }
        None if goals.rebuild_at_peak => wrong(
            "goals.rebuild_at_peak",
            "needs goals.recovery: within which time",
        ),
        _ => Ok(()),
    }
}

fn check_fleet(scenario: &Scenario) -> Result<(), WrongKey> {
    let fleet = &scenario.fleet;
    for (key, value, high) in [
        ("fleet.sites", fleet.sites, 10_000),
        ("fleet.racks", fleet.racks, 10_000),
        (
            "fleet.cluster_brokers_max",
            fleet.cluster_brokers_max,
            100_000,
        ),
        (
            "fleet.brokers_max",
            fleet.brokers_max.unwrap_or(1),
            10_000_000,
        ),
        (
            "given.brokers",
            scenario.given.brokers.unwrap_or(1),
            10_000_000,
        ),
    ] {
        within(key, f64::from(value), 1.0, f64::from(high))?;
    }
    if scenario.goals.survive == super::Survive::Site && fleet.sites < 2 {
        return wrong("goals.survive", "\"site\" needs fleet.sites of 2 or more");
    }
    if scenario.goals.survive == super::Survive::Rack && fleet.racks < 2 {
        return wrong("goals.survive", "\"rack\" needs fleet.racks of 2 or more");
    }
    match scenario.hardware.tiers {
        Some(tiers) if !(1..=2).contains(&tiers) => wrong("hardware.tiers", "allowed: 1, 2"),
        _ => Ok(()),
    }
}

fn check_cost(scenario: &Scenario) -> Result<(), WrongKey> {
    let cost = &scenario.cost;
    for (key, value, high) in [
        ("cost.kwh_usd", cost.kwh_usd, 100.0),
        (
            "cost.rack_unit_month_usd",
            cost.rack_unit_month_usd,
            100_000.0,
        ),
        ("cost.support", cost.support, 10.0),
        ("cost.spares", cost.spares, 10.0),
        ("cost.zone_gb_usd", cost.zone_gb_usd, 100.0),
    ] {
        within(key, value.unwrap_or(0.0), 0.0, high)?;
    }
    within("cost.pue", cost.pue.unwrap_or(1.0), 1.0, 10.0)
}

fn within(key: &str, value: f64, low: f64, high: f64) -> Result<(), WrongKey> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    wrong(
        key,
        format!("{value} is not allowed; allowed: {low} to {high}"),
    )
}
