//! Executes the actions of a plan one by one, and keeps what is attached and running.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};

use super::RunLocation;
use super::hosts::Generators;
use super::progress::{Progress, name_of};
use super::record::Record;
use super::work::WorkDir;
use crate::device::{self, Device};
use crate::experiment::plan::{Action, PlannedMeasurement};
use crate::experiment::{Device as Wanted, Experiment, Target};
use crate::limit;
use crate::load::{self, Control, Stop};
use crate::outcome::{Cell, LoadOutcome, Surge};
use crate::spec::{Load, Rate};
use crate::target::{self, BrokerPlace, RunningBroker};
use crate::tiers;
use crate::usage::{self, Sampler, now_ms};

/// The attached device, the running brokers and the state of a run.
pub(super) struct Steps<'a> {
    experiment: &'a Experiment,
    /// The run's own directory, on the disk of `--dir`.
    work: WorkDir,
    /// Directory for the logs of brokers.
    notes: PathBuf,
    /// Address for brokers to listen on.
    broker_host: String,
    generators: Generators,
    stop: Stop,
    device: Option<(Device, Wanted)>,
    running: BTreeMap<String, RunningBroker>,
    /// The devices of first tiers, by target.
    first_tiers: BTreeMap<String, Device>,
    /// The measurements to send to a receiver that discards them.
    sockets: Vec<PlannedMeasurement>,
    /// Counted bytes that each target has written and not yet deleted.
    written: BTreeMap<String, u64>,
}

impl<'a> Steps<'a> {
    pub(super) fn begin(
        experiment: &'a Experiment,
        whereabouts: &RunLocation<'_>,
        generators: Generators,
        stop: Stop,
        sockets: Vec<PlannedMeasurement>,
    ) -> anyhow::Result<Self> {
        let make = |dir: PathBuf| {
            std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
            std::fs::canonicalize(&dir).with_context(|| format!("finding {}", dir.display()))
        };
        Ok(Self {
            experiment,
            work: WorkDir::make(whereabouts.disk)?,
            notes: make(whereabouts.out.join("brokers"))?,
            broker_host: whereabouts.broker_host.clone(),
            generators,
            stop,
            device: None,
            running: BTreeMap::new(),
            first_tiers: BTreeMap::new(),
            sockets,
            written: BTreeMap::new(),
        })
    }

    pub(super) fn take(
        &mut self,
        action: &Action,
        record: &mut Record,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        match action {
            Action::Attach(wanted) => self.attach(wanted, record),
            Action::Limits { .. } => self.limits(record),
            Action::Start { target, cold } => self.start(target, *cold, record),
            Action::Warm { target, load } => self.warm(target, load, progress),
            Action::Create { target, topics } => self
                .running(target)?
                .create(topics)
                .with_context(|| format!("making topics on {target}")),
            Action::Measure(planned) => self.measure(planned, record, progress),
            Action::Delete { target, topics } => {
                self.written.remove(target);
                self.running(target)?
                    .delete(topics)
                    .with_context(|| format!("deleting topics on {target}"))
            }
            Action::Stop { target } => {
                let stopped = self
                    .running
                    .remove(target)
                    .map_or(Ok(()), RunningBroker::stop);
                let tier = self.first_tiers.remove(target);
                stopped.and(tier.map_or(Ok(()), Device::detach))
            }
            Action::Detach => self
                .device
                .take()
                .map_or(Ok(()), |(device, _)| device.detach()),
        }
    }

    /// Stops and removes everything that is left.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        let mut ended = Vec::new();
        for (_, running) in std::mem::take(&mut self.running) {
            ended.push(running.stop());
        }
        for (_, tier) in std::mem::take(&mut self.first_tiers) {
            ended.push(tier.detach());
        }
        if let Some((device, _)) = self.device.take() {
            ended.push(device.detach());
        }
        ended.push(self.work.remove());
        ended.into_iter().collect()
    }

    fn attach(&mut self, wanted: &Wanted, record: &mut Record) -> anyhow::Result<()> {
        let pid = std::process::id();
        let dir = match &wanted.path {
            Some(path) => path.join(format!("data-{pid}-{}", wanted.name)),
            None => self.work.dir().join(&wanted.name),
        };
        let device = device::attach(wanted, &dir, Some(pid))
            .with_context(|| format!("making device {}", wanted.name))?;
        record.device(&device)?;
        self.device = Some((device, wanted.clone()));
        Ok(())
    }

    fn limits(&mut self, record: &mut Record) -> anyhow::Result<()> {
        let (device, wanted) = self.device.as_ref().context("no device is attached")?;
        if limit::fio_missing().is_none() {
            record.limits(limit::fio(device, wanted.kind)?)?;
        }
        // Sockets are the same for every device, so they are measured once.
        for point in std::mem::take(&mut self.sockets) {
            if !self.stop.is_set() {
                record.limits(vec![limit::sockets(&point, &self.stop)?])?;
            }
        }
        Ok(())
    }

    fn start(&mut self, name: &str, cold: bool, record: &mut Record) -> anyhow::Result<()> {
        self.first_tier(name, record)?;
        let (device, _) = self.device.as_ref().context("no device is attached")?;
        if cold {
            device.settle()?;
            let dropped = match std::fs::write("/proc/sys/vm/drop_caches", "3") {
                Ok(()) => "dropped before every cold measurement".to_owned(),
                Err(error) => format!("not dropped before cold measurements: {error}"),
            };
            record.fact("page cache", &dropped);
        }
        let wanted = self
            .experiment
            .target
            .get(name)
            .context("an unknown target")?;
        let place = BrokerPlace {
            dir: &device.dir,
            notes: &self.notes,
            join: device.join.as_deref(),
            host: &self.broker_host,
            first_tier: self.first_tiers.get(name).map(|tier| tier.dir.as_path()),
        };
        let started =
            target::start(name, wanted, &place).with_context(|| format!("starting {name}"));
        let (running, _) = started?;
        record.target(name, &running.facts);
        record.emulated(&running.emulated);
        self.running.insert(name.to_owned(), running);
        Ok(())
    }

    /// Makes the device of a target's first tier, if it has one.
    fn first_tier(&mut self, name: &str, record: &mut Record) -> anyhow::Result<()> {
        let wanted = self.experiment.target.get(name);
        let Some(first) = wanted.and_then(|target| target.first_tier.as_ref()) else {
            return Ok(());
        };
        let wanted = first.device(name);
        let pid = std::process::id();
        let dir = match &wanted.path {
            Some(path) => path.join(format!("data-{pid}-{}", wanted.name)),
            None => self.work.dir().join(&wanted.name),
        };
        let device = device::attach(&wanted, &dir, Some(pid))
            .with_context(|| format!("making the first tier of {name}"))?;
        record.device(&device)?;
        self.first_tiers.insert(name.to_owned(), device);
        Ok(())
    }

    fn running(&self, name: &str) -> anyhow::Result<&RunningBroker> {
        self.running
            .get(name)
            .with_context(|| format!("{name} does not run"))
    }

    fn warm(&mut self, name: &str, load: &Load, progress: &Progress) -> anyhow::Result<()> {
        let running = self.running(name)?;
        let bootstrap = running.bootstrap.clone();
        let load = &running.reached(load);
        let control = Control {
            stop: self.stop.clone(),
            ..Control::default()
        };
        // If the broker was not ready for the load, it may be now.
        let generators = &mut self.generators;
        let outcome = generators
            .put_on(&bootstrap, load, &control)
            .or_else(|error| {
                progress.say(&format!("warming {name} up, once more: {error:#}"));
                generators.put_on(&bootstrap, load, &control)
            })
            .with_context(|| format!("warming {name} up"))?;
        for (error, count) in &outcome.errors {
            progress.say(&format!("warming {name} up: {count} x {error}"));
        }
        Ok(())
    }

    fn measure(
        &mut self,
        planned: &PlannedMeasurement,
        record: &mut Record,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        if let Some((device, _)) = &self.device {
            device.settle()?;
        }
        let measured = self.outcome(planned, progress).or_else(|error| {
            // The load could not begin, so nothing was written and nothing is counted twice.
            progress.say(&format!("{}, once more: {error:#}", name_of(planned)));
            self.outcome(planned, progress)
        });
        let outcome = match measured {
            Ok(outcome) => outcome,
            Err(error) => {
                let running = self.running.get_mut(&planned.target);
                // If the broker ended, nothing more can be measured on it; any other failure may
                // concern only this load.
                running.map_or(Ok(()), RunningBroker::must_run)?;
                LoadOutcome {
                    started_ms: now_ms(),
                    aborted: Some(format!("{error:#}")),
                    ..LoadOutcome::default()
                }
            }
        };
        let bytes = outcome.produce.as_ref().map_or(0, |side| side.bytes);
        *self.written.entry(planned.target.clone()).or_default() += bytes;
        record.cell(Cell {
            phase: planned.phase.clone(),
            target: planned.target.clone(),
            device: planned.device.clone(),
            cold: planned.cold,
            parameters: planned.parameters.clone(),
            repetition: planned.repetition,
            surge: self.surge(planned),
            outcome,
        })
    }

    /// Returns the bursts of a load and the capacities that absorb them.
    fn surge(&self, planned: &PlannedMeasurement) -> Option<Surge> {
        let produce = planned.load.produce.as_ref()?;
        let &Rate::Burst {
            base,
            peak,
            length,
            interval,
            ..
        } = &produce.rate
        else {
            return None;
        };
        let target = self.experiment.target.get(&planned.target);
        let first = target.and_then(|target| target.first_tier.as_ref());
        let first_tier = first.map(|tier| tier.capacity as f64);
        let device = self.device.as_ref().and_then(|(_, wanted)| wanted.rate);
        Some(Surge {
            base,
            peak,
            length,
            interval,
            first_tier,
            threshold: target
                .and_then(threshold)
                .zip(first_tier)
                .map(|(share, all)| share * all),
            drain: device.map(|rate| rate as f64),
        })
    }

    fn outcome(
        &mut self,
        planned: &PlannedMeasurement,
        progress: &Progress,
    ) -> anyhow::Result<LoadOutcome> {
        let running = self.running(&planned.target)?;
        let (bootstrap, pid) = (running.bootstrap.clone(), running.pid());
        let tiers = running.tiers().to_vec();
        let mut load = running.reached(&planned.load);
        if planned.reads {
            let there = self.written.get(&planned.target).copied().unwrap_or(0);
            if there == 0 {
                bail!("nothing had been written");
            }
            if load.produce.is_none() {
                load.bytes_max = Some(load.bytes_max.map_or(there, |max| max.min(there)));
            }
        }
        let control = Control {
            stop: self.stop.clone(),
            progress: Some(shown(planned, progress, load.interval_seconds)),
            ..Control::default()
        };
        let fill = (!tiers.is_empty())
            .then(|| tiers::Sampler::start(bootstrap.clone(), tiers))
            .transpose()?;
        let broker = pid.map(Sampler::start).transpose()?;
        let client = Sampler::start(std::process::id())?;
        let outcome = self.generators.put_on(&bootstrap, &load, &control);
        let (broker, client) = (broker.map(Sampler::finish), client.finish());
        let fill = fill.map(tiers::Sampler::finish);
        let mut outcome = outcome?;
        let from = outcome.started_ms;
        match fill {
            Some(Ok(samples)) => tiers::put(&samples, from, &mut outcome.intervals),
            Some(Err(error)) => {
                let why = format!("what is on the tiers is not known: {error:#}");
                outcome.errors.insert(why, 1);
            }
            None => {}
        }
        let to = from + (outcome.seconds * 1000.0) as i64;
        outcome.broker = broker.and_then(|samples| usage::between(&samples, from, to));
        if outcome.client.is_none() {
            outcome.client = usage::between(&client, from, to);
        }
        Ok(outcome)
    }
}

/// Returns the part of a target's first tier above which segments move down; none if it is not set,
/// or if they do not move.
fn threshold(target: &Target) -> Option<f64> {
    let set = target.settings.get("storage.migrate.threshold")?;
    set.parse().ok().filter(|share| (0.0..=1.0).contains(share))
}

/// Returns a callback that shows the rate of every interval.
fn shown(
    planned: &PlannedMeasurement,
    progress: &Progress,
    seconds: f64,
) -> load::control::Progress {
    let name = name_of(planned);
    let bar = progress.live();
    Arc::new(move |interval| {
        let bytes = interval.produced + interval.consumed;
        bar.rate(&name, bytes as f64 / seconds.max(0.001));
    })
}
