//! The order of everything that an experiment does, as a list of actions.
//!
//! Invariants: the targets of one measurement follow each other directly, and the first of them
//! alternates from pair to pair and from repetition to repetition. A phase that reads follows the
//! phase that wrote directly. The data of one group of measurements is deleted before the next
//! group begins. Cold measurements come before warm ones, while no other broker runs.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};

use super::choice::OnlyPatterns;
use super::file::{Device, DeviceKind, Experiment, Phase, TargetKind};
use super::sweep::{self, Point};
use crate::spec::{Load, Rate, Topics};

/// One step of a plan.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Makes a device ready.
    Attach(Device),
    /// Measures what the machine and the device can do without a broker.
    Limits {
        /// The device.
        device: String,
    },
    /// Starts a broker on an empty directory of the device.
    Start {
        /// The target.
        target: String,
        /// With a page cache as empty as this process can make it.
        cold: bool,
    },
    /// Runs a load without measuring it.
    Warm {
        /// The target.
        target: String,
        /// The load.
        load: Load,
    },
    /// Creates the topics of a group of measurements.
    Create {
        /// The target.
        target: String,
        /// The topics.
        topics: Topics,
    },
    /// Runs one measurement.
    Measure(PlannedMeasurement),
    /// Deletes the topics of a group of measurements, and waits until their data is gone.
    Delete {
        /// The target.
        target: String,
        /// The topics.
        topics: Topics,
    },
    /// Stops a broker and removes its directory.
    Stop {
        /// The target.
        target: String,
    },
    /// Removes the device.
    Detach,
}

/// One planned measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedMeasurement {
    /// Phase.
    pub phase: String,
    /// Target.
    pub target: String,
    /// Device.
    pub device: String,
    /// Whether a broker is started for this measurement.
    pub cold: bool,
    /// The values of the varied parameters.
    pub parameters: BTreeMap<String, String>,
    /// The repetition, 0-based.
    pub repetition: u32,
    /// The load; its topics exist already.
    pub load: Load,
    /// Whether it reads exactly what was written just before.
    pub reads: bool,
}

/// Returns all actions in order; fails if there is nothing to measure.
pub fn plan(experiment: &Experiment, only: &OnlyPatterns) -> anyhow::Result<Vec<Action>> {
    let mut planner = Planner {
        experiment,
        only,
        actions: Vec::new(),
        groups: 0,
        pairs: BTreeMap::new(),
    };
    for device in &experiment.device {
        planner.device(device)?;
    }
    if measurements(&planner.actions).next().is_none() {
        bail!("there is nothing to measure: --only fits no combination of the phases");
    }
    Ok(planner.actions)
}

/// Returns the measurements of a plan.
pub fn measurements(actions: &[Action]) -> impl Iterator<Item = &PlannedMeasurement> {
    actions.iter().filter_map(|action| match action {
        Action::Measure(planned) => Some(planned),
        _ => None,
    })
}

/// Returns the measurements that are also sent to a receiver that discards them.
///
/// These are the combinations of the first warm phase that only writes, without a rate limit; each
/// once.
pub fn without_broker(actions: &[Action]) -> Vec<PlannedMeasurement> {
    let writes = |planned: &&PlannedMeasurement| {
        let rate = planned.load.produce.as_ref().map(|produce| &produce.rate);
        rate == Some(&Rate::Unlimited) && planned.load.consume.is_none() && !planned.cold
    };
    let Some(first) = measurements(actions).find(writes) else {
        return Vec::new();
    };
    let same = |planned: &&PlannedMeasurement| {
        planned.phase == first.phase
            && planned.target == first.target
            && planned.device == first.device
            && planned.repetition == 0
    };
    measurements(actions).filter(same).cloned().collect()
}

struct Planner<'a> {
    experiment: &'a Experiment,
    only: &'a OnlyPatterns,
    actions: Vec<Action>,
    groups: u32,
    /// Number of pairs of each phase so far.
    pairs: BTreeMap<String, usize>,
}

impl Planner<'_> {
    fn device(&mut self, device: &Device) -> anyhow::Result<()> {
        let before = self.actions.len();
        self.actions.push(Action::Attach(device.clone()));
        if self.experiment.limits {
            let device = device.name.clone();
            self.actions.push(Action::Limits { device });
        }
        let empty = self.actions.len();
        let experiment = self.experiment;
        for phase in experiment.phase.iter().filter(|phase| phase.cold) {
            self.cold(device, phase)?;
        }
        self.warm(device)?;
        if self.actions.len() == empty {
            self.actions.truncate(before);
        } else {
            self.actions.push(Action::Detach);
        }
        Ok(())
    }

    fn cold(&mut self, device: &Device, phase: &Phase) -> anyhow::Result<()> {
        let targets = self.targets(phase, device);
        for point in self.points(phase, device)? {
            for repetition in 0..self.repetitions(phase) {
                let load = self.grouped(&point.load);
                for target in self.turn(phase, &targets) {
                    self.start(&target, true);
                    self.create(&target, &point.load, &load);
                    self.measure(phase, &target, device, &point, &load, repetition);
                    self.stop(&target);
                }
            }
        }
        Ok(())
    }

    fn warm(&mut self, device: &Device) -> anyhow::Result<()> {
        let experiment = self.experiment;
        let writers = experiment
            .phase
            .iter()
            .filter(|phase| !phase.cold && phase.reads.is_none());
        let begin = self.actions.len();
        let mut used: Vec<String> = Vec::new();
        for phase in writers {
            for target in self.phase(device, phase)? {
                if !used.contains(&target) {
                    used.push(target);
                }
            }
        }
        let measured = self.actions.split_off(begin);
        if measured.is_empty() {
            return Ok(());
        }
        let in_order = experiment.targets.iter();
        let used: Vec<_> = in_order
            .filter(|name| used.contains(name))
            .cloned()
            .collect();
        for target in &used {
            self.start(target, false);
        }
        for load in &experiment.warm {
            for target in &used {
                let (target, load) = (target.clone(), load.clone());
                self.actions.push(Action::Warm { target, load });
            }
        }
        self.actions.extend(measured);
        for target in &used {
            self.stop(target);
        }
        Ok(())
    }

    /// Plans a phase that writes, with the phases that read its records; returns the targets it
    /// uses.
    fn phase(&mut self, device: &Device, phase: &Phase) -> anyhow::Result<Vec<String>> {
        let targets = self.targets(phase, device);
        let experiment = self.experiment;
        let readers: Vec<_> = experiment
            .phase
            .iter()
            .filter(|other| other.reads.as_ref() == Some(&phase.name))
            .map(|reader| anyhow::Ok((reader, all_points(reader)?)))
            .collect::<Result<_, _>>()?;
        let mut any = false;
        for point in all_points(phase)? {
            let reading: Vec<_> = readers
                .iter()
                .filter(|(reader, _)| self.wants(reader, device, &point))
                .filter_map(|(reader, points)| {
                    let fits = |p: &&Point| {
                        let mut pairs = p.parameters.iter();
                        pairs.all(|(name, value)| point.parameters.get(name) == Some(value))
                    };
                    Some((*reader, points.iter().find(fits)?))
                })
                .collect();
            if reading.is_empty() && !self.wants(phase, device, &point) {
                continue;
            }
            any = true;
            for repetition in 0..self.repetitions(phase) {
                let load = self.grouped(&point.load);
                for target in &targets {
                    self.create(target, &point.load, &load);
                }
                for target in self.turn(phase, &targets) {
                    self.measure(phase, &target, device, &point, &load, repetition);
                }
                for (reader, reader_point) in &reading {
                    let theirs = self.targets(reader, device);
                    let both: Vec<_> = theirs.into_iter().filter(|t| targets.contains(t)).collect();
                    let mut load_of_reader = reader_point.load.clone();
                    load_of_reader.topics = load.topics.clone();
                    for target in self.turn(reader, &both) {
                        self.measure(reader, &target, device, &point, &load_of_reader, repetition);
                    }
                }
                for target in &targets {
                    self.delete(target, &point.load, &load);
                }
            }
        }
        Ok(if any { targets } else { Vec::new() })
    }

    fn targets(&self, phase: &Phase, device: &Device) -> Vec<String> {
        let here = |name: &&String| {
            // The data of a broker that this program did not start does not move with the device:
            // such a broker is measured once.
            let kind = self.experiment.target.get(*name).map(|target| target.kind);
            let first = self.experiment.device.first();
            kind != Some(TargetKind::Address) || first == Some(device)
        };
        let all = self.experiment.targets.iter().filter(here);
        all.filter(|name| {
            phase
                .targets
                .as_ref()
                .is_none_or(|some| some.contains(name))
        })
        .cloned()
        .collect()
    }

    fn repetitions(&self, phase: &Phase) -> u32 {
        phase.repetitions.unwrap_or(self.experiment.repetitions)
    }

    fn wants(&self, phase: &Phase, device: &Device, point: &Point) -> bool {
        let on = phase.devices.as_ref();
        on.is_none_or(|some| some.contains(&device.name))
            && self
                .only
                .wants(&phase.name, &device.name, |name| point.parameters.get(name))
    }

    fn points(&self, phase: &Phase, device: &Device) -> anyhow::Result<Vec<Point>> {
        let mut points = all_points(phase)?;
        points.retain(|point| self.wants(phase, device, point));
        Ok(points)
    }

    /// Returns the targets in the order of this phase's next pair.
    fn turn(&mut self, phase: &Phase, targets: &[String]) -> Vec<String> {
        let pairs = self.pairs.entry(phase.name.clone()).or_default();
        *pairs += 1;
        let mut order = targets.to_vec();
        if pairs.is_multiple_of(2) {
            order.reverse();
        }
        order
    }

    /// Returns the load with its own topics, which this plan creates and deletes.
    fn grouped(&mut self, load: &Load) -> Load {
        let mut load = load.clone();
        if !load.topics.existing {
            self.groups += 1;
            load.topics.prefix = format!("{}-{}", load.topics.prefix, self.groups);
            load.topics.existing = true;
        }
        load
    }

    fn start(&mut self, target: &str, cold: bool) {
        let target = target.to_owned();
        self.actions.push(Action::Start { target, cold });
    }

    fn stop(&mut self, target: &str) {
        let target = target.to_owned();
        self.actions.push(Action::Stop { target });
    }

    fn create(&mut self, target: &str, written: &Load, load: &Load) {
        if !written.topics.existing {
            let (target, topics) = (target.to_owned(), load.topics.clone());
            self.actions.push(Action::Create { target, topics });
        }
    }

    fn delete(&mut self, target: &str, written: &Load, load: &Load) {
        if !written.topics.existing {
            let (target, topics) = (target.to_owned(), load.topics.clone());
            self.actions.push(Action::Delete { target, topics });
        }
    }

    fn measure(
        &mut self,
        phase: &Phase,
        target: &str,
        device: &Device,
        point: &Point,
        load: &Load,
        repetition: u32,
    ) {
        self.actions.push(Action::Measure(PlannedMeasurement {
            phase: phase.name.clone(),
            target: target.to_owned(),
            device: device.name.clone(),
            cold: phase.cold,
            parameters: point.parameters.clone(),
            repetition,
            load: load.clone(),
            reads: phase.reads.is_some(),
        }));
    }
}

fn all_points(phase: &Phase) -> anyhow::Result<Vec<Point>> {
    sweep::loads(phase).map_err(|unsound| anyhow!("phase {}: {}", phase.name, unsound.why))
}

/// Returns roughly how long an action takes, in seconds.
pub fn estimate(action: &Action, experiment: &Experiment) -> f64 {
    let kind = |target: &str| experiment.target.get(target).map(|target| target.kind);
    match action {
        Action::Attach(device) => match device.kind {
            DeviceKind::Limited => 1.5,
            DeviceKind::Memory | DeviceKind::Disk => 0.1,
        },
        Action::Limits { .. } => 17.0,
        Action::Start { target, .. } => match kind(target) {
            Some(TargetKind::Kafka) => 5.0,
            _ => 0.5,
        },
        Action::Warm { load, .. } => load.warmup_seconds + load.seconds + 0.8,
        Action::Create { .. } => 0.1,
        Action::Measure(planned) if planned.reads => planned.load.seconds * 0.6 + 0.5,
        Action::Measure(planned) => planned.load.warmup_seconds + planned.load.seconds + 0.8,
        Action::Delete { .. } => 0.4,
        Action::Stop { target } => match kind(target) {
            Some(TargetKind::Kafka) => 1.5,
            _ => 0.3,
        },
        Action::Detach => 0.3,
    }
}

#[cfg(test)]
mod tests;
