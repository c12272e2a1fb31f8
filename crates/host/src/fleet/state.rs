//! Where each host stands: from what was begun and what was answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::design::Turn;

/// What is done on hosts.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The plan is applied, with a watchdog.
    Apply,
    /// Looks whether it was: the controller was killed before it was told.
    Settle,
    /// What was applied is compared with the host.
    Verify,
    /// It is kept.
    Confirm,
    /// It is taken back.
    Undo,
}

/// What came of a step on a host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "came", rename_all = "lowercase")]
pub enum Came {
    /// It was done; of `apply` and `settle` with the transaction, if there is one.
    Done {
        /// The transaction on that host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transaction: Option<String>,
    },
    /// It was not.
    Failed {
        /// Why.
        why: String,
    },
    /// It is being done still.
    Later,
    /// The host was not reached.
    Unreachable,
}

/// What happened, on the controller.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// It begins.
    Init {
        /// Digest of the plan.
        plan: String,
        /// Who has its turn when.
        turns: Vec<Turn>,
    },
    /// A step is about to be carried to hosts. On disk before it is.
    Begin {
        /// What.
        step: Step,
        /// Where.
        hosts: Vec<String>,
    },
    /// A host answered.
    Answer {
        /// The host.
        host: String,
        /// The step.
        step: Step,
        /// What came of it.
        #[serde(flatten)]
        came: Came,
    },
    /// An operator wants everything taken back.
    Fail {
        /// Why.
        why: String,
    },
    /// Nothing is begun.
    Pause {
        /// Why.
        why: String,
    },
    /// It goes on.
    Resume,
}

/// Where a host stands.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(tag = "stands", rename_all = "lowercase")]
pub enum Stands {
    /// Its turn has not come.
    Planned,
    /// It may have the plan: nobody has told yet.
    Applying,
    /// It has it.
    Applied,
    /// It has it, and was found as it was left.
    Verified,
    /// It keeps it.
    Confirmed,
    /// It has its own values.
    Undone,
    /// It is out of reach: its watchdog takes back what was not confirmed.
    Quarantined,
}

/// A host.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Of {
    /// Who it is, and its stage.
    #[serde(flatten)]
    pub turn: Turn,
    /// Where it stands.
    #[serde(flatten)]
    pub stands: Stands,
    /// The transaction on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// When it was found as it was left for the last time.
    #[serde(skip)]
    pub verified_ms: i64,
    /// When the plan was applied.
    #[serde(skip)]
    pub applied_ms: i64,
}

impl Of {
    /// Whether something is, or may be, in effect on it that can be taken back.
    pub fn has(&self) -> bool {
        use Stands::{Applied, Applying, Confirmed, Verified};
        matches!(self.stands, Applying | Applied | Verified | Confirmed)
    }
}

/// Everything.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct State {
    /// Digest of the plan.
    pub plan: String,
    /// Hosts by name.
    pub hosts: BTreeMap<String, Of>,
    /// Why everything is to be taken back.
    pub failed: Option<String>,
    /// Why nothing is begun.
    pub paused: Option<String>,
}

impl State {
    /// From the events, each with its time.
    pub fn of<'a>(events: impl IntoIterator<Item = (i64, &'a Event)>) -> State {
        let mut state = State::default();
        for (at, event) in events {
            state.replay(at, event);
        }
        state
    }

    /// What one more event makes of it.
    pub fn replay(&mut self, at: i64, event: &Event) {
        match event {
            Event::Init { plan, turns } => {
                self.plan.clone_from(plan);
                let of = |turn: &Turn| {
                    let of = Of {
                        turn: turn.clone(),
                        stands: Stands::Planned,
                        transaction: None,
                        verified_ms: 0,
                        applied_ms: 0,
                    };
                    (turn.host.name.clone(), of)
                };
                self.hosts = turns.iter().map(of).collect();
            }
            Event::Begin { step, hosts } => {
                for name in hosts {
                    if let Some(of) = self.hosts.get_mut(name).filter(|_| *step == Step::Apply) {
                        of.stands = Stands::Applying;
                    }
                }
            }
            Event::Answer { host, step, came } => {
                if let Some(of) = self.hosts.get_mut(host) {
                    of.answer(at, *step, came);
                }
                // It follows from the answer itself: a controller may be killed behind it.
                if let (Step::Apply | Step::Verify | Step::Confirm, Came::Failed { why }) =
                    (step, came)
                {
                    self.fail(format!("{host}: {why}"));
                }
            }
            Event::Fail { why } => self.fail(why.clone()),
            Event::Pause { why } => self.paused = Some(why.clone()),
            Event::Resume => self.paused = None,
        }
    }
}

impl State {
    /// The first reason stays.
    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }
}

impl Of {
    fn answer(&mut self, at: i64, step: Step, came: &Came) {
        match (step, came) {
            // An operator has to look at what is out of reach, or cannot be taken back.
            (_, Came::Unreachable) | (Step::Undo, Came::Failed { .. }) => {
                self.stands = Stands::Quarantined;
            }
            (Step::Apply, Came::Done { transaction }) => {
                self.transaction.clone_from(transaction);
                self.stands = Stands::Applied;
                self.applied_ms = at;
            }
            (
                Step::Settle,
                Came::Done {
                    transaction: Some(id),
                },
            ) => {
                self.transaction = Some(id.clone());
                self.stands = Stands::Applied;
                self.applied_ms = at;
            }
            // Never begun, or taken back by the watchdog.
            (Step::Settle, Came::Done { transaction: None }) => self.stands = Stands::Planned,
            (Step::Verify, Came::Done { .. }) => {
                self.stands = Stands::Verified;
                self.verified_ms = at;
            }
            (Step::Confirm, Came::Done { .. }) => self.stands = Stands::Confirmed,
            // What is not applied whole takes itself back.
            (Step::Undo, Came::Done { .. }) | (Step::Apply, Came::Failed { .. }) => {
                self.stands = Stands::Undone;
            }
            (Step::Settle | Step::Verify | Step::Confirm, Came::Failed { .. })
            | (_, Came::Later) => {}
        }
    }
}
