//! The disk and memory that an experiment needs, and the refusal if the machine lacks them.
//!
//! Invariant: pure; the caller passes what the machine has. Estimates are on the safe side: an
//! unbounded load is assumed to reach the rate of a fast machine.

use std::collections::BTreeMap;

use super::file::{Device, DeviceKind, Experiment, TargetKind};
use super::plan::Action;
use crate::load::schedule::Schedule;
use crate::spec::{Load, Rate};

/// What the user of `forebay bench run` can do about a refusal.
const ADVICE: &str = "Make it smaller with --only, --seconds, --set bytes_max=BYTES or \
     --set device.NAME.size=BYTES, or name another disk with --dir.";

/// Bytes per second that an unlimited load without `bytes_max` is assumed to write.
const UNLIMITED_RATE: f64 = 3e9;

/// Bytes that a broker writes beyond records: internal topics, indexes, started segments.
const BROKER_BYTES: u64 = 200 << 20;

/// Bytes written to measure what a disk can do without a broker.
pub const LIMIT_BYTES: u64 = 1_000_000_000;

/// Memory of the generator.
const CLIENT_MEMORY: u64 = 512 << 20;

/// What the machine has available.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AvailableSpace {
    /// Free bytes for each device's data, by device; absent for kind memory.
    pub disk: BTreeMap<String, u64>,
    /// Memory that can be allocated.
    pub memory: u64,
}

/// Returns the bytes that each device must hold at the same time, by device name.
pub fn bytes_by_device(actions: &[Action]) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let (mut device, mut brokers) = (String::new(), 0);
    let (mut group, mut most) = (0_u64, 0_u64);
    for action in actions {
        match action {
            Action::Attach(attached) => {
                device.clone_from(&attached.name);
                (brokers, group, most) = (0, 0, 0);
            }
            Action::Start { .. } => brokers += BROKER_BYTES,
            Action::Warm { load, .. } => most = most.max(brokers + bytes_written(load)),
            Action::Measure(planned) => {
                group += bytes_written(&planned.load);
                most = most.max(brokers + group);
            }
            Action::Delete { .. } => group = 0,
            Action::Stop { .. } => {
                group = 0;
                brokers = brokers.saturating_sub(BROKER_BYTES);
            }
            Action::Detach => {
                found.insert(device.clone(), most);
            }
            Action::Limits { .. } => most = most.max(LIMIT_BYTES),
            Action::Create { .. } => {}
        }
    }
    found
}

/// Returns the bytes that a load may write.
fn bytes_written(load: &Load) -> u64 {
    let Some(produce) = &load.produce else {
        return 0;
    };
    let seconds = load.warmup_seconds + load.seconds;
    let due = match &produce.rate {
        // The content of the replay file is not known here.
        Rate::Unlimited | Rate::Replay { .. } => None,
        rate => Schedule::new(rate, load.warmup_seconds).ok().flatten(),
    };
    let due = due.map_or(UNLIMITED_RATE * seconds, |due| due.bytes_by(seconds));
    let by_time = bytes(due);
    load.bytes_max.map_or(by_time, |max| max.min(by_time))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate in bytes; a negative rate writes nothing"
)]
fn bytes(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// Returns why the experiment cannot run here and what to do about it, or none if it can.
pub fn refusal(
    experiment: &Experiment,
    actions: &[Action],
    available: &AvailableSpace,
) -> Option<String> {
    refusal_with(experiment, actions, available, ADVICE)
}

/// Returns the same with another advice.
pub fn refusal_with(
    experiment: &Experiment,
    actions: &[Action],
    available: &AvailableSpace,
    advice: &str,
) -> Option<String> {
    let needs = bytes_by_device(actions);
    let brokers = brokers_memory(experiment, actions);
    let mut problems = Vec::new();
    for device in &experiment.device {
        if let Some(&needed) = needs.get(&device.name) {
            problems.extend(device_problem(device, needed, brokers, available));
        }
    }
    for name in &experiment.targets {
        let target = experiment.target.get(name);
        let Some(first) = target.and_then(|target| target.first_tier.as_ref()) else {
            continue;
        };
        let free = available.disk.get(&first.device(name).name);
        if let Some(free) = free.filter(|free| **free < first.capacity) {
            problems.push(format!(
                "first tier of {name}: {} of disk are needed, {} are free",
                shown(first.capacity),
                shown(*free)
            ));
        }
    }
    if problems.is_empty() && available.memory < brokers + CLIENT_MEMORY {
        problems.push(format!(
            "memory: the brokers and the generator need {}, {} is available",
            shown(brokers + CLIENT_MEMORY),
            shown(available.memory)
        ));
    }
    (!problems.is_empty()).then(|| {
        format!(
            "{} does not fit this machine:\n  {}\n{advice}",
            experiment.name,
            problems.join("\n  ")
        )
    })
}

fn device_problem(
    device: &Device,
    needed: u64,
    brokers: u64,
    available: &AvailableSpace,
) -> Option<String> {
    let name = &device.name;
    if let Some(size) = device.size {
        // A file system keeps part of its space for itself.
        let room = size / 20 * 19;
        if needed > room {
            return Some(format!(
                "device {name}: up to {} are written at once, and its size of {} has room for {}",
                shown(needed),
                shown(size),
                shown(room)
            ));
        }
    }
    if device.kind == DeviceKind::Memory {
        let all = device.size.unwrap_or(needed) + brokers + CLIENT_MEMORY;
        return (available.memory < all).then(|| {
            format!(
                "device {name}: its {} in memory, the brokers' {} and the generator's {} are {}; \
                 {} is available",
                shown(device.size.unwrap_or(needed)),
                shown(brokers),
                shown(CLIENT_MEMORY),
                shown(all),
                shown(available.memory)
            )
        });
    }
    let wanted = device.size.unwrap_or(needed);
    let free = available.disk.get(name).copied()?;
    (free < wanted).then(|| {
        format!(
            "device {name}: {} of disk are needed, {} are free",
            shown(wanted),
            shown(free)
        )
    })
}

/// Returns the largest total memory of the brokers that run at the same time.
fn brokers_memory(experiment: &Experiment, actions: &[Action]) -> u64 {
    let of = |name: &String| {
        let target = experiment.target.get(name);
        let first = target.and_then(|target| target.first_tier.as_ref());
        let in_memory = first.filter(|tier| tier.kind == DeviceKind::Memory);
        let broker = match target.map(|target| target.kind) {
            Some(TargetKind::Kafka) => 1400 << 20,
            Some(TargetKind::Forebay) => 600 << 20,
            Some(TargetKind::Address) | None => 0,
        };
        broker + in_memory.map_or(0, |tier| tier.capacity)
    };
    let (mut now, mut most) = (0_u64, 0);
    for action in actions {
        match action {
            Action::Start { target, .. } => now += of(target),
            Action::Stop { target } => now = now.saturating_sub(of(target)),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Returns an amount of bytes as readable text.
pub fn shown(bytes: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "one digit behind the point is shown"
    )]
    let float = bytes as f64;
    if bytes >= 1_000_000_000 {
        format!("{:.1} GB", float / 1e9)
    } else {
        format!("{:.0} MB", float / 1e6)
    }
}

#[cfg(test)]
mod tests;
