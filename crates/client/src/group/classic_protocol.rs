//! A member by the classic protocol: all members join, one of them leads and divides, all get their
//! part.
//!
//! States: outside (joins as soon as it may), joining, counting (the leader looks topics up),
//! syncing, inside (heartbeats), stalled and leaving as in [`super::consumer_protocol`], left,
//! failed. When the group rebalances, a member of an eager strategy gives up everything before it
//! joins again; one of a cooperative strategy keeps what it has, gives up what its new assignment
//! lacks, and joins once more. Heartbeats go on while the application lets go of partitions. Pure.
//! Answers are taken in `classic_protocol/answers.rs`.

mod answers;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use platform::clock::Instant;

use super::assign::{GroupMember, Strategy, TopicSizes};
use super::embedded::{NO_GENERATION, Subscription, encode_assignment};
use super::exchange::{Assigned, GroupRequest, JoinAsk};
use super::{Identity, MemberSettings, Places, Step, TopicsSeen};
use crate::pauses::later;

/// Where the life of the member stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Outside,
    Joining,
    Counting,
    Syncing,
    Inside,
    Stalled { told: bool },
    Leaving { told: bool },
    Left,
    Failed,
}

/// The request under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnderWay {
    Join,
    Sync,
    Heartbeat,
    Leave,
}

/// What the leader of a group knows.
#[derive(Default, Debug)]
struct Leading {
    members: Vec<GroupMember>,
    /// The topics of all members.
    topics: BTreeSet<Arc<str>>,
    /// The sizes by which it divided.
    sizes: Option<TopicSizes>,
    /// What the members get, until it is sent.
    assigned: Vec<Assigned>,
}

/// The member.
#[derive(Debug)]
pub(crate) struct ClassicMember {
    settings: MemberSettings,
    id: String,
    generation: i32,
    strategy: Option<Strategy>,
    phase: Phase,
    leading: Option<Leading>,
    owned: Places,
    target: Option<Places>,
    /// What the application is letting go of.
    revoking: Option<Places>,
    /// It joins again once nothing is being let go of.
    rejoins: bool,
    under_way: Option<(UnderWay, Instant)>,
    due: Instant,
    not_before: Option<Instant>,
    failures: u32,
    is_looking: bool,
    look_at: Option<Instant>,
    /// Steps that come before any other.
    first: VecDeque<Step>,
}

impl ClassicMember {
    /// Makes a member that joins at once.
    pub(crate) fn new(settings: MemberSettings, now: Instant) -> Self {
        Self {
            settings,
            id: String::new(),
            generation: NO_GENERATION,
            strategy: None,
            phase: Phase::Outside,
            leading: None,
            owned: Places::new(),
            target: None,
            revoking: None,
            rejoins: false,
            under_way: None,
            due: now,
            not_before: None,
            failures: 0,
            is_looking: false,
            look_at: None,
            first: VecDeque::new(),
        }
    }

    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if let Some(step) = self.first.pop_front() {
            return step;
        }
        if let Some(step) = self.reconcile() {
            return step;
        }
        match self.phase {
            Phase::Outside => self.step_outside(now),
            Phase::Counting => self.look().unwrap_or(Step::Wait(None)),
            Phase::Syncing if self.under_way.is_none() => {
                let leading = self.leading.as_mut();
                let assigned = leading.map(|leading| std::mem::take(&mut leading.assigned));
                let request = GroupRequest::Sync {
                    generation: self.generation,
                    member_id: self.id.clone(),
                    strategy: self.strategy.map(Strategy::name),
                    assigned: assigned.unwrap_or_default(),
                };
                self.ask(UnderWay::Sync, request, now)
            }
            Phase::Joining | Phase::Syncing | Phase::Failed => Step::Wait(None),
            Phase::Inside => self.step_inside(now),
            Phase::Stalled { told } | Phase::Leaving { told } => self.step_out(told, now),
            Phase::Left => Step::Left,
        }
    }

    fn ask(&mut self, what: UnderWay, request: GroupRequest, now: Instant) -> Step {
        self.under_way = Some((what, now));
        Step::Ask(request)
    }

    /// Gives up what is not its own any more, then takes what is new.
    fn reconcile(&mut self) -> Option<Step> {
        if self.revoking.is_some() {
            return None;
        }
        let target = self.target.take()?;
        let gone: Places = self.owned.difference(&target).cloned().collect();
        if !gone.is_empty() {
            self.target = Some(target);
            self.rejoins = true;
            return Some(self.revoke(gone));
        }
        let new: Places = target.difference(&self.owned).cloned().collect();
        self.owned.extend(new.iter().cloned());
        // Also with nothing: the application hears that the group has settled.
        Some(Step::Assign(new))
    }

    fn revoke(&mut self, gone: Places) -> Step {
        self.revoking = Some(gone.clone());
        Step::Revoke(gone)
    }

    fn step_outside(&mut self, now: Instant) -> Step {
        if self.revoking.is_some() {
            return self.heartbeat_or_wait(now);
        }
        let is_eager = !self
            .settings
            .strategies
            .iter()
            .all(|one| one.is_cooperative());
        if is_eager && !self.owned.is_empty() {
            let all = self.owned.clone();
            return self.revoke(all);
        }
        if self.under_way.is_some() {
            return Step::Wait(None);
        }
        if let Some(at) = self.not_before.filter(|at| now < *at) {
            return Step::Wait(Some(at));
        }
        self.phase = Phase::Joining;
        self.leading = None;
        self.rejoins = false;
        let request = GroupRequest::Join(self.join());
        self.ask(UnderWay::Join, request, now)
    }

    fn join(&self) -> JoinAsk {
        let strategies = self.settings.strategies.iter().map(|strategy| {
            let is_cooperative = strategy.is_cooperative();
            let subscription = Subscription {
                topics: self.settings.topics.clone(),
                owned: self.owned.clone(),
                generation: self.generation,
            };
            (strategy.name(), subscription.encode(is_cooperative))
        });
        JoinAsk {
            member_id: self.id.clone(),
            strategies: strategies.collect(),
        }
    }

    fn step_inside(&mut self, now: Instant) -> Step {
        if self.rejoins && self.revoking.is_none() {
            self.phase = Phase::Outside;
            return self.step_outside(now);
        }
        if self.leading.is_some()
            && self.look_at.is_some_and(|at| now >= at)
            && let Some(step) = self.look()
        {
            return step;
        }
        self.heartbeat_or_wait(now)
    }

    fn heartbeat_or_wait(&mut self, now: Instant) -> Step {
        if self.under_way.is_some() || self.generation == NO_GENERATION {
            return Step::Wait(None);
        }
        let due = self.not_before.map_or(self.due, |at| at.max(self.due));
        if now < due {
            let look = self.look_at.filter(|at| *at > now);
            return Step::Wait(Some(look.map_or(due, |look| look.min(due))));
        }
        let request = GroupRequest::Heartbeat {
            generation: self.generation,
            member_id: self.id.clone(),
        };
        self.ask(UnderWay::Heartbeat, request, now)
    }

    /// Returns the step that looks up the topics of all members, unless it is being done.
    fn look(&mut self) -> Option<Step> {
        let topics = self.leading.as_ref()?.topics.clone();
        if self.is_looking {
            return None;
        }
        self.is_looking = true;
        self.look_at = None;
        Some(Step::Look(topics))
    }

    fn step_out(&mut self, told: bool, now: Instant) -> Step {
        if self.under_way.is_some() {
            return Step::Wait(None);
        }
        let is_leaving = matches!(self.phase, Phase::Leaving { .. });
        if !told {
            self.phase = if is_leaving {
                Phase::Leaving { told: true }
            } else {
                Phase::Stalled { told: true }
            };
            // A static member is waited for.
            if !self.id.is_empty() && self.settings.instance_id.is_none() {
                let member_id = std::mem::take(&mut self.id);
                return self.ask(UnderWay::Leave, GroupRequest::Leave { member_id }, now);
            }
        }
        if is_leaving {
            self.phase = Phase::Left;
            return Step::Left;
        }
        Step::Wait(None)
    }

    pub(crate) fn revoked(&mut self, _now: Instant) {
        if let Some(gone) = self.revoking.take() {
            self.owned.retain(|place| !gone.contains(place));
        }
    }

    pub(crate) fn looked(&mut self, seen: &TopicsSeen, now: Instant) {
        if !std::mem::take(&mut self.is_looking) {
            return;
        }
        let Some(leading) = &mut self.leading else {
            return;
        };
        let wanted = seen.sizes.iter();
        let wanted = wanted.filter(|(topic, _)| leading.topics.contains(*topic));
        let sizes: TopicSizes = wanted
            .map(|(topic, size)| (Arc::clone(topic), *size))
            .collect();
        self.look_at = Some(later(now, self.settings.metadata_max_age));
        match self.phase {
            Phase::Counting => {
                let strategy = self.strategy.unwrap_or(Strategy::Range);
                let all = strategy.assign(&leading.members, &sizes);
                let all = all.into_iter().map(|(member_id, places)| Assigned {
                    member_id,
                    assignment: encode_assignment(&places),
                });
                leading.assigned = all.collect();
                leading.sizes = Some(sizes);
                self.phase = Phase::Syncing;
            }
            Phase::Inside if leading.sizes.is_none() => leading.sizes = Some(sizes),
            Phase::Inside => self.rejoins |= leading.sizes.as_ref() != Some(&sizes),
            _ => {}
        }
    }

    pub(crate) fn stalled(&mut self, _now: Instant) {
        let is_member = matches!(
            self.phase,
            Phase::Outside | Phase::Joining | Phase::Counting | Phase::Syncing | Phase::Inside
        );
        if is_member {
            self.lose();
            self.phase = Phase::Stalled { told: false };
        }
    }

    pub(crate) fn polled(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Stalled { .. }) && self.under_way.is_none() {
            self.phase = Phase::Outside;
            self.due = now;
            self.not_before = None;
        }
    }

    /// Takes note that no task waits for the answer under way any more; returns true if a broker
    /// may hold that answer back until all members have joined.
    pub(crate) fn abandon(&mut self) -> bool {
        let join = self.under_way.take_if(|(what, _)| *what == UnderWay::Join);
        join.is_some()
    }

    pub(crate) fn leave(&mut self, _now: Instant) {
        self.target = None;
        self.revoking = None;
        self.phase = match self.phase {
            Phase::Stalled { told } | Phase::Leaving { told } => Phase::Leaving { told },
            Phase::Left | Phase::Failed => Phase::Left,
            _ => Phase::Leaving { told: false },
        };
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        let is_in =
            self.generation != NO_GENERATION && !matches!(self.phase, Phase::Left | Phase::Failed);
        is_in.then(|| Identity {
            member_id: self.id.clone(),
            epoch: self.generation,
            is_consumer_protocol: false,
        })
    }
}

#[cfg(test)]
mod tests;
