//! The state of each host, from the steps begun and the answers received.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::design::Turn;

/// A step on hosts.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Takes the host out of service, for a restart.
    Drain,
    /// Restarts it, and waits until it is back.
    Restart,
    /// Waits until it serves again.
    Ready,
    /// Applies the plan, with a watchdog.
    Apply,
    /// Finds out whether it was applied, after the controller was killed before the answer.
    Settle,
    /// Compares the applied values with the host.
    Verify,
    /// Keeps it.
    Confirm,
    /// Takes it back.
    Undo,
}

/// The answer of a host to a step.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "came", rename_all = "lowercase")]
pub enum HostAnswer {
    /// The step succeeded; for `apply` and `settle` with the transaction, if there is one.
    Done {
        /// The transaction on that host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transaction: Option<String>,
    },
    /// The step failed.
    Failed {
        /// The reason.
        why: String,
    },
    /// The step is still in progress.
    Later,
    /// The host was not reached.
    Unreachable,
}

/// An event on the controller.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// The rollout begins.
    Init {
        /// Digest of the plan.
        plan: String,
        /// The hosts and their stages.
        turns: Vec<Turn>,
        /// Whether the plan comes into effect by a restart.
        #[serde(default)]
        restarts: bool,
    },
    /// A step is about to be sent to hosts; on disk before it is sent.
    Begin {
        /// The step.
        step: Step,
        /// The hosts.
        hosts: Vec<String>,
    },
    /// A host answered.
    Answer {
        /// The host.
        host: String,
        /// The step.
        step: Step,
        /// Its answer.
        #[serde(flatten)]
        came: HostAnswer,
    },
    /// An operator wants everything taken back.
    Fail {
        /// The reason.
        why: String,
    },
    /// Nothing more may begin.
    Pause {
        /// The reason.
        why: String,
    },
    /// The rollout continues.
    Resume,
}

/// The state of a host.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(tag = "stands", rename_all = "lowercase")]
pub enum HostStanding {
    /// Not begun.
    Planned,
    /// It is out of service, and has nothing of the plan.
    Drained,
    /// It may have the plan: the answer is missing.
    Applying,
    /// It has the plan.
    Applied,
    /// It has the plan and has restarted, and is not in service yet.
    Restarted,
    /// It has the plan, and its values matched.
    Verified,
    /// The plan is kept.
    Confirmed,
    /// It has its own values again, and is not in service yet.
    Reverted,
    /// It has its own values again.
    Undone,
    /// It is unreachable; its watchdog takes back what was not confirmed, and a rollout that fails
    /// tries once.
    Quarantined,
}

/// A host and its state.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct HostInRollout {
    /// The host and its stage.
    #[serde(flatten)]
    pub turn: Turn,
    /// Its state.
    #[serde(flatten)]
    pub stands: HostStanding,
    /// The transaction on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Whether it may be out of service: the answer is missing.
    #[serde(skip)]
    pub leaving: bool,
    /// Whether it is out of service.
    pub drained: bool,
    /// Whether it has to restart before its values are in effect.
    pub due: bool,
    /// When its values last matched.
    #[serde(skip)]
    pub verified_ms: i64,
    /// When the plan was applied.
    #[serde(skip)]
    pub applied_ms: i64,
    /// What was tried while it was out of reach.
    #[serde(skip)]
    pub lost: OutOfReach,
}

/// What was tried with a host that is out of reach.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OutOfReach {
    /// How often it was asked in vain what a killed controller did to it. At most `SETTLES_MAX`.
    asked: u32,
    /// Whether it was told to take the change back.
    pub told: bool,
    /// Whether an operator goes on without it.
    pub given_up: bool,
}

/// Questions in vain after which a host counts as out of reach: some minutes.
const SETTLES_MAX: u32 = 60;

impl HostInRollout {
    /// Returns whether a change that can be taken back is, or may be, in effect on it.
    pub fn has(&self) -> bool {
        use HostStanding::{Applied, Applying, Confirmed, Restarted, Verified};
        matches!(
            self.stands,
            Applying | Applied | Restarted | Verified | Confirmed
        )
    }
}

/// The state of a rollout.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RolloutState {
    /// Digest of the plan.
    pub plan: String,
    /// Hosts by name.
    pub hosts: BTreeMap<String, HostInRollout>,
    /// Whether the plan comes into effect by a restart.
    pub restarts: bool,
    /// Why everything must be taken back.
    pub failed: Option<String>,
    /// Why nothing may begin.
    pub paused: Option<String>,
}

impl RolloutState {
    /// Returns the state after events, each with its time.
    pub fn of<'a>(events: impl IntoIterator<Item = (i64, &'a Event)>) -> RolloutState {
        let mut state = RolloutState::default();
        for (at, event) in events {
            state.replay(at, event);
        }
        state
    }

    /// Applies one more event.
    pub fn replay(&mut self, at: i64, event: &Event) {
        match event {
            Event::Init {
                plan,
                turns,
                restarts,
            } => {
                self.plan.clone_from(plan);
                self.restarts = *restarts;
                let of = |turn: &Turn| {
                    let of = HostInRollout {
                        turn: turn.clone(),
                        stands: HostStanding::Planned,
                        transaction: None,
                        leaving: false,
                        drained: false,
                        due: false,
                        verified_ms: 0,
                        applied_ms: 0,
                        lost: OutOfReach::default(),
                    };
                    (turn.host.name.clone(), of)
                };
                self.hosts = turns.iter().map(of).collect();
            }
            Event::Begin { step, hosts } => {
                for name in hosts {
                    if let Some(of) = self.hosts.get_mut(name).filter(|_| *step == Step::Drain) {
                        of.leaving = true;
                    }
                    if let Some(of) = self.hosts.get_mut(name).filter(|_| *step == Step::Apply) {
                        of.stands = HostStanding::Applying;
                    }
                }
            }
            Event::Answer { host, step, came } => {
                let restarts = self.restarts;
                if let Some(of) = self.hosts.get_mut(host) {
                    of.answer(at, *step, came, restarts);
                }
                // Follows from the answer itself, because the controller may be killed directly
                // after it.
                // A host that does not come back from a restart is a failure of the plan.
                if let (
                    Step::Apply | Step::Restart | Step::Ready | Step::Verify | Step::Confirm,
                    HostAnswer::Failed { why },
                ) = (step, came)
                {
                    self.fail(format!("{host}: {why}"));
                }
            }
            Event::Fail { why } => self.fail(why.clone()),
            Event::Pause { why } => self.paused = Some(why.clone()),
            Event::Resume => {
                self.paused = None;
                for of in self.hosts.values_mut() {
                    of.lost.given_up = of.stands == HostStanding::Quarantined;
                }
            }
        }
    }
}

impl RolloutState {
    /// Records a failure; the first reason stays.
    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }
}

impl HostInRollout {
    /// Applies a step on the host's service.
    fn served(&mut self, step: Step) {
        use HostStanding::{Applied, Drained, Planned, Restarted, Reverted, Undone};
        match step {
            Step::Drain => {
                self.drained = true;
                if self.stands == Planned {
                    self.stands = Drained;
                }
            }
            Step::Restart => {
                self.due = false;
                let has_plan = self.stands == Applied;
                self.stands = if has_plan { Restarted } else { Reverted };
            }
            _ => {
                self.drained = false;
                let has_plan = self.stands == Restarted;
                self.stands = if has_plan { Applied } else { Undone };
            }
        }
    }

    fn answer(&mut self, at: i64, step: Step, came: &HostAnswer, restarts: bool) {
        self.leaving &= step != Step::Drain;
        self.lost.told |= step == Step::Undo;
        match (step, came) {
            // An operator must look at a host that is unreachable or cannot be taken back, drained
            // or brought back: nothing is forced.
            (_, HostAnswer::Unreachable)
            | (Step::Undo | Step::Drain | Step::Restart | Step::Ready, HostAnswer::Failed { .. }) =>
            {
                self.stands = HostStanding::Quarantined;
            }
            (Step::Drain | Step::Restart | Step::Ready, HostAnswer::Done { .. }) => {
                self.served(step);
            }
            (Step::Apply, HostAnswer::Done { transaction }) => {
                self.due = restarts;
                self.transaction.clone_from(transaction);
                self.stands = HostStanding::Applied;
                self.applied_ms = at;
            }
            (
                Step::Settle,
                HostAnswer::Done {
                    transaction: Some(id),
                },
            ) => {
                self.due = restarts;
                self.transaction = Some(id.clone());
                self.stands = HostStanding::Applied;
                self.applied_ms = at;
            }
            // Never begun, or taken back by the watchdog.
            (Step::Settle, HostAnswer::Done { transaction: None }) => {
                self.stands = if self.drained {
                    HostStanding::Drained
                } else {
                    HostStanding::Planned
                };
            }
            (Step::Verify, HostAnswer::Done { .. }) => {
                self.stands = HostStanding::Verified;
                self.verified_ms = at;
            }
            (Step::Confirm, HostAnswer::Done { .. }) => self.stands = HostStanding::Confirmed,
            // A host that could not apply everything takes it back by itself.
            (Step::Undo, HostAnswer::Done { .. }) | (Step::Apply, HostAnswer::Failed { .. }) => {
                // One that is out of service comes back by a restart.
                self.due = self.drained;
                self.stands = if self.drained {
                    HostStanding::Reverted
                } else {
                    HostStanding::Undone
                };
            }
            // It answers nothing that decides: it must not hold the others for ever.
            (Step::Settle, HostAnswer::Failed { .. } | HostAnswer::Later) => {
                self.lost.asked = self.lost.asked.saturating_add(1);
                if self.lost.asked >= SETTLES_MAX {
                    self.stands = HostStanding::Quarantined;
                }
            }
            (Step::Verify | Step::Confirm, HostAnswer::Failed { .. }) | (_, HostAnswer::Later) => {}
        }
    }
}
