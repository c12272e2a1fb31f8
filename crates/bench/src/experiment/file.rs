//! The file format of experiments: the TOML keys, and the errors that make a file invalid.
//!
//! Invariant: a parsed [`Experiment`] is complete. Every name in a phase exists, every combination
//! of its sweeps is a valid load. An error names the file, the line and the allowed values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::anyhow;
use serde::Deserialize;

use super::sweep;
use crate::spec::Load;

/// A whole experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it shows, in one paragraph.
    pub about: String,
    /// Names of the targets, Forebay first; ratios compare the first with each other one.
    ///
    /// `forebay`, `kafka` and `kafka-flush` are predefined, others are described in `target`.
    pub targets: Vec<String>,
    /// How often each phase is measured on each target.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Targets beyond the predefined ones, or other settings for those.
    #[serde(default)]
    pub target: BTreeMap<String, Target>,
    /// The devices for the brokers' data; if empty, a plain directory on the disk.
    #[serde(default)]
    pub device: Vec<Device>,
    /// Loads that run in this order on every broker before any warm measurement.
    #[serde(default)]
    pub warm: Vec<Load>,
    /// The phases, in the order of their measurement.
    pub phase: Vec<Phase>,
    /// Whether to also measure the limits of the machine (socket sink, fio).
    #[serde(default = "yes")]
    pub limits: bool,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// A broker under test.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The kind of broker.
    pub kind: TargetKind,
    /// For kind forebay: the binary; by default the running one.
    #[serde(default)]
    pub binary: Option<PathBuf>,
    /// For kind address: the address of a broker that this program did not start.
    #[serde(default)]
    pub address: Option<String>,
    /// For kind address: a file of properties as Kafka's tools take it, for TLS and logins.
    #[serde(default)]
    pub command_config: Option<PathBuf>,
    /// For kind forebay: a first tier in front of the device, which becomes the second tier.
    #[serde(default)]
    pub first_tier: Option<FirstTier>,
    /// Settings beyond those that the broker needs to run here.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// The first of two tiers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstTier {
    /// Memory, or the disk as it is.
    pub kind: DeviceKind,
    /// Bytes that the broker may use of it.
    pub capacity: u64,
    /// For kind disk: a directory on the disk in question; by default the directory of the run.
    #[serde(default)]
    pub path: Option<PathBuf>,
}

impl FirstTier {
    /// Returns the device of the first tier, named after its target.
    ///
    /// It is larger than `capacity` because a file system needs some space of its own.
    pub fn device(&self, target: &str) -> Device {
        let in_memory = self.kind == DeviceKind::Memory;
        Device {
            name: format!("{target}-first-tier"),
            kind: self.kind,
            size: in_memory.then_some(self.capacity / 20 * 21 + (64 << 20)),
            rate: None,
            path: self.path.clone(),
        }
    }
}

/// The kind of a broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Forebay.
    Forebay,
    /// Apache Kafka, in the version that `target::kafka` pins.
    Kafka,
    /// A broker that already runs.
    Address,
}

/// A place where the brokers put their data.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name in the results.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// For kinds memory and limited: bytes of the file system.
    #[serde(default)]
    pub size: Option<u64>,
    /// For kind limited: bytes per second, for reads and for writes each.
    #[serde(default)]
    pub rate: Option<u64>,
    /// For kinds disk and limited: a directory on the disk in question; by default the directory of
    /// the run.
    #[serde(default)]
    pub path: Option<PathBuf>,
}

/// The kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A file system in memory.
    Memory,
    /// A plain directory on a disk.
    Disk,
    /// A file system on a throttled loop device.
    Limited,
}

/// A group of measurements of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// The targets it runs on; by default all.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// The devices it runs on; by default all.
    #[serde(default)]
    pub devices: Option<Vec<String>>,
    /// Overrides the repetitions of the experiment.
    #[serde(default)]
    pub repetitions: Option<u32>,
    /// Whether each measurement starts its own broker, with an empty directory and page cache.
    #[serde(default)]
    pub cold: bool,
    /// The phase whose records this one reads.
    ///
    /// The read follows the write with the same parameters, on the same topics. This phase may only
    /// vary what the other one varies.
    #[serde(default)]
    pub reads: Option<String>,
    /// The load.
    pub load: Load,
    /// The parameters that are varied.
    ///
    /// Every combination is measured; the last parameter varies fastest.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
}

/// One parameter that is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Its name in the results.
    pub name: String,
    /// The fields of the load that take the value, as paths such as `produce.record`.
    pub set: Vec<String>,
    /// The values.
    pub values: Vec<toml::Value>,
}

/// Parses an experiment; `origin` is the file name.
pub fn parse(text: &str, origin: &str) -> anyhow::Result<Experiment> {
    let mut experiment: Experiment =
        toml::from_str(text).map_err(|error| anyhow!("{origin}: {error}"))?;
    known_targets(&mut experiment);
    if experiment.device.is_empty() {
        experiment.device.push(Device {
            name: "disk".to_owned(),
            kind: DeviceKind::Disk,
            size: None,
            rate: None,
            path: None,
        });
    }
    check(&experiment)
        .map_err(|FileProblem { near, why }| anyhow!("{origin}:{}: {why}", line_of(text, &near)))?;
    Ok(experiment)
}

fn known_targets(experiment: &mut Experiment) {
    let flush = BTreeMap::from([("log.flush.interval.messages".to_owned(), "1".to_owned())]);
    for (name, kind, settings) in [
        ("forebay", TargetKind::Forebay, BTreeMap::new()),
        ("kafka", TargetKind::Kafka, BTreeMap::new()),
        ("kafka-flush", TargetKind::Kafka, flush),
    ] {
        let known = Target {
            kind,
            binary: None,
            address: None,
            command_config: None,
            first_tier: None,
            settings,
        };
        let wanted = experiment.targets.iter().any(|target| target == name);
        if wanted {
            experiment.target.entry(name.to_owned()).or_insert(known);
        }
    }
}

/// An error, and the texts that lead to its line: each is searched for after the previous one.
struct FileProblem {
    near: Vec<String>,
    why: String,
}

fn wrong<T>(near: &[&str], why: impl Into<String>) -> Result<T, FileProblem> {
    let near = near.iter().map(|&text| text.to_owned()).collect();
    Err(FileProblem {
        near,
        why: why.into(),
    })
}

/// Returns the 1-based line of the last text, each searched for after the previous one.
fn line_of(text: &str, near: &[String]) -> usize {
    let mut at = 0;
    for part in near {
        at += text.get(at..).and_then(|rest| rest.find(part)).unwrap_or(0);
    }
    text.get(..at)
        .map_or(1, |before| before.matches('\n').count() + 1)
}

fn check(experiment: &Experiment) -> Result<(), FileProblem> {
    if experiment.targets.is_empty() {
        return wrong(&["targets"], "targets: at least one is needed");
    }
    for name in &experiment.targets {
        let Some(target) = experiment.target.get(name) else {
            let why = format!(
                "targets: {name} is neither forebay, kafka nor kafka-flush, and there is no [target.{name}]"
            );
            return wrong(&["targets", name], why);
        };
        check_target(name, target)?;
    }
    unique("[[device]]", experiment.device.iter().map(|d| &d.name))?;
    unique("[[phase]]", experiment.phase.iter().map(|p| &p.name))?;
    for device in &experiment.device {
        check_device(device)?;
    }
    if experiment.phase.is_empty() {
        return wrong(&["phase"], "phase: at least one is needed");
    }
    for phase in &experiment.phase {
        check_phase(experiment, phase)?;
    }
    Ok(())
}

fn unique<'a>(table: &str, names: impl Iterator<Item = &'a String>) -> Result<(), FileProblem> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            let why = format!("{table}: the name {name} is there twice");
            return wrong(&[&format!("name = \"{name}\"")], why);
        }
    }
    Ok(())
}

fn check_target(name: &str, target: &Target) -> Result<(), FileProblem> {
    let near = format!("[target.{name}]");
    if let Some(first) = &target.first_tier {
        if target.kind != TargetKind::Forebay {
            let why = format!("target.{name}: `first_tier` is for kind forebay only");
            return wrong(&[&near, "first_tier"], why);
        }
        if first.kind == DeviceKind::Limited {
            let why = format!("target.{name}: first_tier: kind is memory or disk");
            return wrong(&[&near, "first_tier"], why);
        }
        first
            .device(name)
            .check()
            .or_else(|why| wrong(&[&near, "first_tier"], why))?;
    }
    match (target.kind, &target.address, &target.binary) {
        (TargetKind::Address, None, _) => wrong(
            &[&near],
            format!("target.{name}: kind address needs `address`, as host:port"),
        ),
        (TargetKind::Forebay | TargetKind::Kafka, Some(_), _) => wrong(
            &[&near],
            format!("target.{name}: `address` is for kind address only"),
        ),
        (TargetKind::Forebay | TargetKind::Kafka, ..) if target.command_config.is_some() => wrong(
            &[&near],
            format!("target.{name}: `command_config` is for kind address only"),
        ),
        (TargetKind::Kafka | TargetKind::Address, _, Some(_)) => wrong(
            &[&near],
            format!("target.{name}: `binary` is for kind forebay only"),
        ),
        _ => Ok(()),
    }
}

fn check_device(device: &Device) -> Result<(), FileProblem> {
    let near = format!("name = \"{}\"", device.name);
    device.check().or_else(|why| wrong(&[&near], why))
}

impl Device {
    /// Checks that it has the fields that its kind needs, and no others.
    pub fn check(&self) -> Result<(), String> {
        let named = |why: &str| Err(format!("device {}: {why}", self.name));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return named("a name is of letters, digits, `-`, `_` and `.`");
        }
        match self.kind {
            DeviceKind::Memory if self.size.is_none() => {
                named("kind memory needs `size`, in bytes")
            }
            DeviceKind::Limited if self.size.is_none() || self.rate.is_none() => {
                named("kind limited needs `size`, in bytes, and `rate`, in bytes a second")
            }
            DeviceKind::Memory | DeviceKind::Disk if self.rate.is_some() => {
                named("`rate` is for kind limited only")
            }
            DeviceKind::Disk if self.size.is_some() => named("`size` is not for kind disk"),
            DeviceKind::Memory if self.path.is_some() => named("`path` is not for kind memory"),
            _ => Ok(()),
        }
    }
}

fn check_phase(experiment: &Experiment, phase: &Phase) -> Result<(), FileProblem> {
    let near = format!("name = \"{}\"", phase.name);
    let targets = phase.targets.iter().flatten();
    if let Some(target) = targets
        .into_iter()
        .find(|name| !experiment.targets.contains(name))
    {
        let known = experiment.targets.join(", ");
        let why = format!(
            "phase {}: target {target} is not one of the experiment's: {known}",
            phase.name
        );
        return wrong(&[&near, target], why);
    }
    let devices: Vec<_> = experiment.device.iter().map(|d| d.name.as_str()).collect();
    if let Some(device) = phase
        .devices
        .iter()
        .flatten()
        .find(|name| !devices.contains(&name.as_str()))
    {
        let why = format!(
            "phase {}: there is no device {device}, only {}",
            phase.name,
            devices.join(", ")
        );
        return wrong(&[&near, device], why);
    }
    for sweep in &phase.sweep {
        if sweep.values.is_empty() || sweep.set.is_empty() {
            let why = format!(
                "phase {}: sweep {}: `set` and `values` must not be empty",
                phase.name, sweep.name
            );
            return wrong(&[&near, &format!("name = \"{}\"", sweep.name)], why);
        }
    }
    if let Err(sweep::UnsoundLoad { sweep, why }) = sweep::loads(phase) {
        let near_sweep = sweep.map(|name| format!("name = \"{name}\""));
        let near: Vec<&str> = [Some(near.as_str()), near_sweep.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        return wrong(&near, format!("phase {}: {why}", phase.name));
    }
    check_reads(experiment, phase, &near)
}

fn check_reads(experiment: &Experiment, phase: &Phase, near: &str) -> Result<(), FileProblem> {
    let Some(written) = &phase.reads else {
        return Ok(());
    };
    let named = |why: String| {
        wrong(
            &[near, "reads"],
            format!("phase {}: reads: {why}", phase.name),
        )
    };
    let Some(writer) = experiment.phase.iter().find(|other| other.name == *written) else {
        return named(format!("there is no phase {written}"));
    };
    if writer.reads.is_some() || writer.load.produce.is_none() {
        return named(format!("phase {written} writes nothing of its own"));
    }
    if phase.cold {
        return named("a cold phase has nothing to read".to_owned());
    }
    if phase.load.consume.is_none() {
        return named("the load does not consume".to_owned());
    }
    for sweep in &phase.sweep {
        let same = writer.sweep.iter().any(|other| {
            other.name == sweep.name && sweep.values.iter().all(|v| other.values.contains(v))
        });
        if !same {
            return named(format!(
                "phase {written} does not write every value of sweep {}",
                sweep.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
