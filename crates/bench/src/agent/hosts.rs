//! Runs one load from many hosts: divides it, starts every share at the same time, merges the
//! outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

use super::arguments::HostsArguments;
use super::clock::now_us;
use super::connection::Agent;
use super::message::{Request, ShareResult, Start};
use crate::load::Control;
use crate::load::control::Progress;
use crate::load::schedule::portable;
use crate::outcome::{Host, Interval, LoadOutcome};
use crate::spec::Load;
use crate::verify::ledger::AcknowledgedRange;

/// Distance of the common start from now; the last agent must have read its share by then.
const START_AHEAD_US: i64 = 1_000_000;

/// Agents that are ready.
pub struct Hosts {
    agents: Vec<Agent>,
}

impl Hosts {
    /// Connects to the agents of all hosts; the error names the host that could not be reached.
    pub async fn reach(arguments: &HostsArguments) -> anyhow::Result<Self> {
        ensure!(!arguments.hosts.is_empty(), "no hosts");
        let mut reaching = JoinSet::new();
        for (index, name) in arguments.hosts.iter().cloned().enumerate() {
            let arguments = arguments.clone();
            reaching.spawn(async move { (index, Agent::reach(&name, &arguments).await) });
        }
        let mut agents = BTreeMap::new();
        while let Some(reached) = reaching.join_next().await {
            let (index, agent) = reached.context("reaching the hosts")?;
            agents.insert(index, agent?);
        }
        Ok(Self {
            agents: agents.into_values().collect(),
        })
    }

    /// Runs a load whose topics exist already, every host its share from a common start.
    ///
    /// With a numbering (id and run) records carry numbers, and the acknowledged ones are returned
    /// beside the outcome.
    ///
    /// A lost host is an error in the outcome, which then lacks that host's part and is marked as
    /// aborted; the other hosts continue. This returns an error only if no host is left.
    pub async fn run(
        &mut self,
        bootstrap: &str,
        load: &Load,
        control: &Control,
        numbering: Option<(u64, u64)>,
    ) -> anyhow::Result<(LoadOutcome, Vec<AcknowledgedRange>)> {
        let mut load = load.clone();
        if let Some(produce) = &mut load.produce {
            produce.rate = portable(&produce.rate)?;
        }
        let mut lost = LostHosts::default();
        let mut agents = Vec::new();
        for mut agent in self.agents.drain(..) {
            match agent.ask_clock().await {
                Ok(()) => agents.push(agent),
                Err(error) => lost.add(&agent.name, &error),
            }
        }
        let earliest = now_us() + START_AHEAD_US;
        let start_us = control
            .start_at
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .and_then(|at| i64::try_from(at.as_micros()).ok())
            .map_or(earliest, |at| at.max(earliest));
        let mut shares = JoinSet::new();
        let of = u32::try_from(agents.len())?;
        let curve = Arc::new(Curve::of(of, control.progress.clone()));
        for (index, agent) in (0..).zip(agents) {
            let start = Start {
                bootstrap: bootstrap.to_owned(),
                load: load.clone(),
                index,
                of,
                start_at_us: start_us + agent.clock.ahead_us,
                numbering,
            };
            let (stop, curve) = (control.stop.clone(), Arc::clone(&curve));
            shares.spawn(async move {
                let mut agent = agent;
                let done = match agent.send(&Request::Start(Box::new(start))).await {
                    Ok(()) => {
                        agent
                            .ended(&stop, |interval| curve.add(index, interval))
                            .await
                    }
                    Err(error) => Err(error),
                };
                curve.ended(index);
                (index, agent, done)
            });
        }
        let mut ended = BTreeMap::new();
        while let Some(share) = shares.join_next().await {
            let (index, agent, done) = share.context("a task of a host")?;
            ended.insert(index, (agent, done));
        }
        self.add_up(ended.into_values(), lost)
    }

    fn add_up(
        &mut self,
        ended: impl Iterator<Item = (Agent, anyhow::Result<ShareResult>)>,
        mut lost: LostHosts,
    ) -> anyhow::Result<(LoadOutcome, Vec<AcknowledgedRange>)> {
        let (mut parts, mut acknowledged) = (Vec::new(), Vec::new());
        for (agent, done) in ended {
            match done {
                Ok(done) => {
                    parts.push(by_our_clock(done.outcome, &agent));
                    acknowledged.extend(done.acknowledged);
                    self.agents.push(agent);
                }
                Err(error) => lost.add(&agent.name, &error),
            }
        }
        ensure!(!parts.is_empty(), "no host is left: {}", lost.said());
        let mut whole = LoadOutcome::merge(&parts)?;
        for point in &mut whole.intervals {
            // Only the merge needs the histogram of a point.
            point.latency = crate::outcome::Latency::default();
        }
        if !lost.0.is_empty() {
            let said = lost.said();
            whole.aborted = Some(match whole.aborted {
                Some(reason) => format!("{said}; {reason}"),
                None => said,
            });
            whole.errors.extend(lost.0.into_iter().map(|why| (why, 1)));
        }
        Ok((whole, acknowledged))
    }

    /// Returns the offsets of the hosts' clocks.
    pub fn clocks(&self) -> Vec<Host> {
        self.agents.iter().map(host).collect()
    }
}

fn host(agent: &Agent) -> Host {
    Host {
        name: agent.name.clone(),
        clock_ahead_us: agent.clock.ahead_us,
        clock_uncertainty_us: agent.clock.uncertainty_us,
    }
}

fn by_our_clock(mut outcome: LoadOutcome, agent: &Agent) -> LoadOutcome {
    outcome.started_ms -= (agent.clock.ahead_us as f64 / 1e3).round() as i64;
    outcome.aborted = outcome
        .aborted
        .map(|reason| format!("host {}: {reason}", agent.name));
    outcome.hosts = vec![host(agent)];
    outcome
}

/// Hosts that were lost, with the reasons.
#[derive(Default)]
struct LostHosts(Vec<String>);

impl LostHosts {
    fn add(&mut self, name: &str, why: &anyhow::Error) {
        self.0.push(format!("host {name} was lost: {why:#}"));
    }

    fn said(&self) -> String {
        self.0.join("; ")
    }
}

/// The curve while it grows: a point is shown as soon as every running host has sent its part.
struct Curve {
    progress: Option<Progress>,
    growing: Mutex<OpenIntervals>,
}

struct OpenIntervals {
    /// Shares that are still running.
    running: BTreeSet<u32>,
    /// The parts that shares sent, by the time at which their interval ends, in milliseconds.
    points: BTreeMap<i64, BTreeMap<u32, Interval>>,
}

impl Curve {
    fn of(shares: u32, progress: Option<Progress>) -> Self {
        let running = (0..shares).collect();
        let points = BTreeMap::new();
        Self {
            progress,
            growing: Mutex::new(OpenIntervals { running, points }),
        }
    }

    fn add(&self, share: u32, point: Interval) {
        let Some(progress) = &self.progress else {
            return;
        };
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let at = (point.at * 1e3).round() as i64;
        growing.points.entry(at).or_default().insert(share, point);
        for point in growing.whole() {
            progress(&point);
        }
    }

    /// Stops waiting for the points of a host that has ended.
    fn ended(&self, share: u32) {
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        growing.running.remove(&share);
        let points = growing.whole();
        if let Some(progress) = &self.progress {
            for point in &points {
                progress(point);
            }
        }
    }
}

impl OpenIntervals {
    /// Takes the points that every running host has sent its part of.
    fn whole(&mut self) -> Vec<Interval> {
        let running = &self.running;
        let whole = self.points.extract_if(.., |_, parts| {
            running.iter().all(|share| parts.contains_key(share))
        });
        let sums = whole.filter_map(|(_, intervals)| {
            let part = |interval: Interval| LoadOutcome {
                intervals: vec![interval],
                ..LoadOutcome::default()
            };
            let at = intervals.values().next()?.at;
            let parts: Vec<_> = intervals.into_values().map(part).collect();
            let mut sum = LoadOutcome::merge(&parts).ok()?.intervals.pop()?;
            sum.at = at;
            Some(sum)
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests;
