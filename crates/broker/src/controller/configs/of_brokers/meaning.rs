//! Judges a broker setting's value beyond its kind and range: the checks that Kafka makes where it
//! uses the setting, with the messages that Kafka uses there.

use std::path::PathBuf;

use crate::controller::Refusal;
use crate::controller::configs::Change;
use crate::node_config::{CORDONED, CordonedDirs, OVERRIDES, parse_overrides};
use crate::topic_config::BrokerSettings;

use super::refuse;

const BUFFER: &str = "log.cleaner.dedupe.buffer.size";
const CLEANERS: &str = "log.cleaner.threads";
const PER_ADDRESS: &str = "max.connections.per.ip";

/// Settings for which 0 would admit no connection: accepted in the configuration file, refused at
/// run time.
const MORE_THAN_NONE: [&str; 2] = ["max.connections", "max.connection.creation.rate"];

/// Thread counts, which may change only in small steps.
const THREADS: [&str; 5] = [
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

/// Settings with another bound than in the table, or none: any negative number means unlimited.
const OWN_BOUNDS: [&str; 5] = [
    "log.flush.interval.ms",
    "log.retention.bytes",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
];

/// Returns true for a setting that only [`check`] bounds.
pub(super) fn has_own_bounds(name: &str) -> bool {
    OWN_BOUNDS.contains(&name)
}

/// Judges a value that has the kind of its setting.
pub(super) fn check(
    broker: &BrokerSettings<'_>,
    changes: &[Change],
    name: &str,
    value: &str,
) -> Result<(), Refusal> {
    let number = value.trim().parse::<i64>().unwrap_or(0);
    let required = |what: &str| Err(refuse(format!("requirement failed: {name} {what}")));
    match name {
        "log.roll.ms" if number < 1 => required("must be greater than or equal to 1"),
        "log.roll.jitter.ms" if number < 0 => required("must be greater than or equal to 0"),
        "log.retention.ms" if number == 0 => {
            required("must be unlimited (-1) or, greater than or equal to 1")
        }
        PER_ADDRESS if number == 0 && after(broker, changes, OVERRIDES).is_empty() => required(
            &format!("can be set to zero only if {OVERRIDES} property is set."),
        ),
        CLEANERS if number < 1 => Err(refuse(format!(
            "Invalid value {number} for configuration {name}: Value must be at least 1"
        ))),
        CLEANERS | BUFFER if is_too_little_for_each(broker, changes) => Err(refuse(format!(
            "requirement failed: {BUFFER} must be at least 1MB per cleaner thread."
        ))),
        CLEANERS => check_cleaners(broker, number),
        OVERRIDES => match parse_overrides(value) {
            Ok(_) => Ok(()),
            Err(entry) => Err(refuse(format!(
                "Error parsing configuration property '{name}': {entry} is not address:count"
            ))),
        },
        CORDONED => check_cordoned(broker, value),
        _ if MORE_THAN_NONE.contains(&name) && number == 0 => {
            Err(dynamic(&format!("Invalid {name} 0")))
        }
        _ if THREADS.contains(&name) => check_threads(broker, name, number),
        _ => Ok(()),
    }
}

/// Judges a setting of one of this broker's listeners, by the rules for all listeners that apply to
/// a single one.
pub(super) fn check_of_listener(
    broker: &BrokerSettings<'_>,
    name: &str,
    value: &str,
) -> Result<(), Refusal> {
    let number = value.trim().parse::<i64>().unwrap_or(0);
    match name {
        _ if MORE_THAN_NONE.contains(&name) && number == 0 => {
            Err(dynamic(&format!("Invalid {name} 0")))
        }
        "num.network.threads" => check_threads(broker, name, number),
        _ => Ok(()),
    }
}

/// Returns the value of `name` after the changes.
fn after<'a>(broker: &BrokerSettings<'a>, changes: &'a [Change], name: &str) -> &'a str {
    let mut changed = changes.iter().filter(|change| change.name == name);
    let changed = changed.find_map(|change| change.value.as_deref());
    changed.or_else(|| broker.value(name)).unwrap_or_default()
}

/// Returns true if each cleaner has less than a mebibyte.
fn is_too_little_for_each(broker: &BrokerSettings<'_>, changes: &[Change]) -> bool {
    let number = |name| after(broker, changes, name).trim().parse::<i64>();
    let (threads, bytes) = (number(CLEANERS).unwrap_or(1), number(BUFFER).unwrap_or(0));
    bytes / threads.max(1) < 1 << 20
}

fn check_cleaners(broker: &BrokerSettings<'_>, wanted: i64) -> Result<(), Refusal> {
    let now = broker
        .value(CLEANERS)
        .and_then(|text| text.trim().parse().ok());
    let now: i64 = now.unwrap_or(wanted);
    let refused = "Log cleaner threads cannot be";
    if wanted < now / 2 {
        let why = format!("{refused} reduced to less than half the current value {now}");
        return Err(dynamic(&why));
    }
    if wanted > now.saturating_mul(2) {
        let why = format!("{refused} increased to more than double the current value {now}");
        return Err(dynamic(&why));
    }
    Ok(())
}

fn check_threads(broker: &BrokerSettings<'_>, name: &str, wanted: i64) -> Result<(), Refusal> {
    let now = broker.value(name).and_then(|text| text.trim().parse().ok());
    let now: i64 = now.unwrap_or(wanted);
    let failed = "Dynamic thread count update validation failed for";
    if wanted < now / 2 {
        return Err(dynamic(&format!(
            "{failed} {name}={wanted}, value should be at least half the current value {now}"
        )));
    }
    if wanted > now.saturating_mul(2) {
        return Err(dynamic(&format!(
            "{failed} {name}={wanted}, value should not be greater than double the current value {now}"
        )));
    }
    Ok(())
}

fn check_cordoned(broker: &BrokerSettings<'_>, value: &str) -> Result<(), Refusal> {
    let CordonedDirs::Only(dirs) = CordonedDirs::parse(value) else {
        return Ok(());
    };
    let options = broker.options;
    let is_there =
        |dir: &PathBuf| options.log_dirs.contains(dir) || options.lower_dirs.contains(dir);
    let mut missing: Vec<String> = Vec::new();
    for dir in dirs.iter().filter(|dir| !is_there(dir)) {
        let dir = dir.display().to_string();
        if !missing.contains(&dir) {
            missing.push(dir);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(refuse(format!(
        "requirement failed: All entries in {CORDONED} must be present in log.dirs or log.dir. Missing entries : {}",
        missing.join(", ")
    )))
}

/// Returns the refusal of a part of Kafka's broker that reads the setting again.
fn dynamic(why: &str) -> Refusal {
    refuse(format!(
        "Invalid value org.apache.kafka.common.config.ConfigException: {why} for configuration \
         Invalid dynamic configuration"
    ))
}
