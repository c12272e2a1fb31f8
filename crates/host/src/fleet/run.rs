//! The loop of a rollout: determines the next step, records its begin, executes it, and records the
//! answers.

use std::collections::BTreeMap;

use super::carry::{Carrier, arguments, came};
use super::design::Rollout;
use super::next::{NextStep, next};
use super::state::{Event, HostAnswer, RolloutState, Step};
use crate::journal::Log;

/// Time that an unconfirmed host has beyond the soak of its stage, for the stage's other hosts; its
/// watchdog is the last resort.
const MORE_MS: u64 = 6 * 3_600_000;

/// Why everything is taken back if an operator wants it.
pub const ABORTED: &str = "an operator aborted it";

/// The controller's clock, and the operator's interface.
pub trait Desk {
    /// Milliseconds since 1970.
    fn now_ms(&mut self) -> i64;
    /// Waits until this time, or until something changes.
    fn wait(&mut self, until_ms: i64);
    /// Returns whether nothing more may begin.
    fn is_stopped(&mut self) -> bool;
    /// Returns whether an operator wants everything taken back.
    fn is_aborted(&mut self) -> bool;
    /// The wish to take everything back is recorded.
    fn forget_abort(&mut self);
    /// Reports to the operator.
    fn tell(&mut self, what: &str);
    /// Asks the gate of the rollout about a host; the error is why it did not pass.
    fn gate(&mut self, host: &str) -> Result<(), String>;
    /// Runs the program of a step (drain, restart, ready) for hosts; the errors are why it failed.
    fn service(&mut self, step: Step, hosts: &[String]) -> BTreeMap<String, Result<(), String>>;
}

/// Runs until everything is done, everything was taken back, or an operator must look; returns the
/// reason for the latter.
pub fn run(
    design: &Rollout,
    state: &mut RolloutState,
    log: &mut dyn Log<Event>,
    carrier: &mut dyn Carrier,
    desk: &mut dyn Desk,
) -> anyhow::Result<Option<String>> {
    loop {
        if desk.is_aborted() {
            let why = ABORTED.to_owned();
            note(state, log, desk, &Event::Fail { why })?;
            desk.forget_abort();
        }
        // A failure is taken back even if an operator wants a pause.
        if desk.is_stopped() && state.failed.is_none() && state.paused.is_none() {
            let why = "an operator paused it".to_owned();
            note(state, log, desk, &Event::Pause { why })?;
        }
        match next(design, state, desk.now_ms()) {
            NextStep::End => return Ok(None),
            NextStep::Pause(why) => {
                if state.paused.is_none() {
                    let why = why.clone();
                    note(state, log, desk, &Event::Pause { why })?;
                }
                return Ok(Some(why));
            }
            NextStep::Wait(until) => desk.wait(until),
            NextStep::Do(step, hosts) => {
                desk.tell(&format!("{step:?}: {}", hosts.join(", ")).to_lowercase());
                one(design, state, log, carrier, desk, step, hosts)?;
            }
        }
    }
}

fn one(
    design: &Rollout,
    state: &mut RolloutState,
    log: &mut dyn Log<Event>,
    carrier: &mut dyn Carrier,
    desk: &mut dyn Desk,
    step: Step,
    hosts: Vec<String>,
) -> anyhow::Result<()> {
    if step == Step::Settle {
        // Commands of a killed controller may still be in progress.
        let until = desk.now_ms().saturating_add(SETTLE_MS);
        desk.wait(until);
    }
    let begin = Event::Begin {
        step,
        hosts: hosts.clone(),
    };
    note(state, log, desk, &begin)?;
    if matches!(step, Step::Drain | Step::Restart | Step::Ready) {
        return service(state, log, desk, step, hosts);
    }
    let mut answers = ask(design, state, carrier, step, &hosts)?;
    if answers
        .values()
        .all(|came| *came == HostAnswer::Unreachable)
    {
        desk.tell("none of them answered");
    }
    if step == Step::Apply {
        ask_again(design, state, carrier, &mut answers)?;
    }
    if step == Step::Verify {
        ask_gate(&mut answers, desk);
    }
    let (mut failed, mut later) = (Vec::new(), false);
    for host in hosts {
        let came = answers.remove(&host).unwrap_or(HostAnswer::Unreachable);
        if let HostAnswer::Failed { why } = &came {
            failed.push(format!("{host}: {step:?}: {why}"));
        }
        later |= came == HostAnswer::Later
            || (step == Step::Settle && matches!(came, HostAnswer::Failed { .. }));
        note(state, log, desk, &Event::Answer { host, step, came })?;
    }
    // A host that cannot be taken back or queried is reported and skipped.
    if let Some(first) = failed.first() {
        desk.tell(first);
    }
    if later {
        let until = desk.now_ms().saturating_add(AGAIN_MS);
        desk.wait(until);
    }
    Ok(())
}

/// Asks hosts that refused the plan whether they have it: both a killed controller and this one may
/// have sent the command.
fn ask_again(
    design: &Rollout,
    state: &RolloutState,
    carrier: &mut dyn Carrier,
    answers: &mut BTreeMap<String, HostAnswer>,
) -> anyhow::Result<()> {
    let refused = answers
        .iter()
        .filter(|(_, came)| matches!(came, HostAnswer::Failed { .. }));
    let again: Vec<String> = refused.map(|(host, _)| host.clone()).collect();
    if again.is_empty() {
        return Ok(());
    }
    for (host, came) in ask(design, state, carrier, Step::Settle, &again)? {
        let has_it = matches!(
            came,
            HostAnswer::Done {
                transaction: Some(_)
            }
        );
        if has_it {
            answers.insert(host, came);
        }
    }
    Ok(())
}

/// Takes hosts out of service, restarts them, or waits until they serve.
fn service(
    state: &mut RolloutState,
    log: &mut dyn Log<Event>,
    desk: &mut dyn Desk,
    step: Step,
    hosts: Vec<String>,
) -> anyhow::Result<()> {
    let mut ended = desk.service(step, &hosts);
    for host in hosts {
        let came = match ended.remove(&host) {
            Some(Ok(())) => HostAnswer::Done { transaction: None },
            Some(Err(why)) => HostAnswer::Failed { why },
            None => HostAnswer::Failed {
                why: "it was not run".to_owned(),
            },
        };
        if let HostAnswer::Failed { why } = &came {
            desk.tell(&format!("{host}: {step:?}: {why}"));
        }
        note(state, log, desk, &Event::Answer { host, step, came })?;
    }
    Ok(())
}

/// Asks the gate about the hosts whose values are those that were applied.
fn ask_gate(answers: &mut BTreeMap<String, HostAnswer>, desk: &mut dyn Desk) {
    let verified = answers
        .iter_mut()
        .filter(|(_, came)| matches!(came, HostAnswer::Done { .. }));
    for (host, came) in verified {
        if let Err(why) = desk.gate(host) {
            *came = HostAnswer::Failed { why };
        }
    }
}

fn ask(
    design: &Rollout,
    state: &RolloutState,
    carrier: &mut dyn Carrier,
    step: Step,
    hosts: &[String],
) -> anyhow::Result<BTreeMap<String, HostAnswer>> {
    let within = design.soak_ms.saturating_add(MORE_MS);
    let arguments = |name: &String| {
        let transaction = state
            .hosts
            .get(name)
            .and_then(|of| of.transaction.as_deref());
        (
            name.clone(),
            arguments(step, transaction, within, &design.class_max),
        )
    };
    let answers = carrier.carry(&hosts.iter().map(arguments).collect())?;
    let came = |name: &String| {
        (
            name.clone(),
            came(step, answers.get(name), &state.plan, within),
        )
    };
    Ok(hosts.iter().map(came).collect())
}

/// Wait before hosts are asked what a killed controller did to them.
const SETTLE_MS: i64 = 500;
/// Wait before a host is asked again.
const AGAIN_MS: i64 = 5_000;

fn note(
    state: &mut RolloutState,
    log: &mut dyn Log<Event>,
    desk: &mut dyn Desk,
    event: &Event,
) -> anyhow::Result<()> {
    log.append(event.clone())?;
    state.replay(desk.now_ms(), event);
    Ok(())
}
