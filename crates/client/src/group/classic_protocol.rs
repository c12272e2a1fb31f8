//! A member by the classic protocol: all members join, one of them leads and divides, all get their
//! part.
//!
//! States: outside (joins as soon as it may), joining, counting (the leader looks topics up),
//! syncing, inside (heartbeats), stalled and leaving as in [`super::consumer_protocol`], left,
//! failed. When the group rebalances, a member of an eager strategy gives up everything before it
//! joins again; one of a cooperative strategy keeps what it has, gives up what its new assignment
//! lacks, and joins once more. Heartbeats go on while the application lets go of partitions. Pure.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use platform::clock::Instant;
use wire::messages::{HeartbeatResponse, JoinGroupResponse, SyncGroupResponse};
use wire::types::ErrorCode;

use super::assign::{GroupMember, Strategy, TopicSizes};
use super::embedded::{NO_GENERATION, Subscription, decode_assignment, encode_assignment};
use super::exchange::{Assigned, GroupAnswer, GroupRequest, JoinAsk};
use super::{GroupFailure, Identity, MemberSettings, Places, Step, TopicsSeen, passes, refused};
use crate::error::ClientError;
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
            Phase::Joining | Phase::Syncing => Step::Wait(None),
            Phase::Inside => self.step_inside(now),
            Phase::Stalled { told } | Phase::Leaving { told } => self.step_out(told, now),
            Phase::Left => Step::Left,
            Phase::Failed => Step::Wait(None),
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

    pub(crate) fn answered(&mut self, answer: Result<GroupAnswer, ClientError>, now: Instant) {
        let Some((asked, asked_at)) = self.under_way.take() else {
            return;
        };
        let is_out = matches!(
            self.phase,
            Phase::Stalled { .. } | Phase::Leaving { .. } | Phase::Left | Phase::Failed
        );
        match answer {
            // Who has just joined, or been given an id, has to leave.
            Ok(GroupAnswer::Join(answer)) if is_out => {
                if !answer.member_id.is_empty() {
                    self.id = answer.member_id.as_str().to_owned();
                }
            }
            _ if is_out => {}
            Ok(GroupAnswer::Join(answer)) if asked == UnderWay::Join => self.joined(answer, now),
            Ok(GroupAnswer::Sync(answer)) if asked == UnderWay::Sync => {
                self.synced(&answer, asked_at, now);
            }
            Ok(GroupAnswer::Heartbeat(answer)) if asked == UnderWay::Heartbeat => {
                self.beaten(&answer, asked_at, now);
            }
            Ok(_) => self.fail(GroupFailure::Other(ClientError::Fatal {
                reason: "an answer to another request of the group".to_owned(),
            })),
            Err(error) if error.is_retriable() => self.try_again(now),
            Err(ClientError::Refused(refusal)) => self.refused(refusal.code, refusal.message, now),
            Err(error) => self.fail(GroupFailure::Other(error)),
        }
    }

    fn joined(&mut self, answer: JoinGroupResponse, now: Instant) {
        if let Some(code) = ErrorCode::try_from_code(answer.error_code) {
            if code == ErrorCode::MemberIdRequired {
                // The second time it is no news.
                if !self.id.is_empty() {
                    self.try_again(now);
                }
                self.id = answer.member_id.as_str().to_owned();
                self.phase = Phase::Outside;
                return;
            }
            return self.refused(code, None, now);
        }
        let name = answer.protocol_name.as_ref().map(|name| name.as_str());
        let mut strategies = self.settings.strategies.iter();
        let strategy = strategies.find(|strategy| Some(strategy.name()) == name);
        let Some(strategy) = strategy.copied() else {
            let name = name.unwrap_or("none").to_owned();
            return self.fail(GroupFailure::Other(ClientError::Fatal {
                reason: format!("the group chose a strategy that this member lacks: {name:?}"),
            }));
        };
        self.strategy = Some(strategy);
        self.generation = answer.generation_id;
        let is_leader = !answer.leader.is_empty() && answer.leader == answer.member_id;
        self.id = answer.member_id.as_str().to_owned();
        self.not_before = None;
        if !is_leader {
            self.phase = Phase::Syncing;
            return;
        }
        let members = answer.members.into_iter().filter_map(|member| {
            // A member that cannot be understood gets nothing.
            Some(GroupMember {
                id: member.member_id.as_str().to_owned(),
                instance_id: member.group_instance_id.map(|id| id.as_str().to_owned()),
                subscription: Subscription::decode(&member.metadata)?,
            })
        });
        let members: Vec<_> = members.collect();
        let topics = members
            .iter()
            .flat_map(|member| &member.subscription.topics);
        let topics = topics.cloned().collect();
        self.leading = Some(Leading {
            members,
            topics,
            ..Leading::default()
        });
        self.phase = if answer.skip_assignment {
            Phase::Syncing
        } else {
            Phase::Counting
        };
        self.is_looking = false;
    }

    fn synced(&mut self, answer: &SyncGroupResponse, asked_at: Instant, now: Instant) {
        if let Some(code) = ErrorCode::try_from_code(answer.error_code) {
            return self.refused(code, None, now);
        }
        let Some(target) = decode_assignment(&answer.assignment) else {
            return self.fail(GroupFailure::Other(ClientError::Fatal {
                reason: "the leader of the group sent no assignment that can be read".to_owned(),
            }));
        };
        self.target = Some(target);
        self.failures = 0;
        self.phase = Phase::Inside;
        self.due = later(asked_at, self.settings.heartbeat_interval);
        self.look_at = Some(later(now, self.settings.metadata_max_age));
    }

    fn beaten(&mut self, answer: &HeartbeatResponse, asked_at: Instant, now: Instant) {
        self.due = later(asked_at, self.settings.heartbeat_interval);
        match ErrorCode::try_from_code(answer.error_code) {
            None => {
                self.failures = 0;
                self.not_before = None;
            }
            Some(code) => self.refused(code, None, now),
        }
    }

    fn refused(&mut self, code: ErrorCode, message: Option<String>, now: Instant) {
        match code {
            ErrorCode::RebalanceInProgress if self.phase == Phase::Joining => self.try_again(now),
            ErrorCode::RebalanceInProgress if self.phase == Phase::Syncing => {
                self.phase = Phase::Outside;
                self.pause_from_the_second(now);
            }
            ErrorCode::RebalanceInProgress => self.rejoins = true,
            ErrorCode::UnknownMemberId => {
                self.id = String::new();
                self.begin_anew(now);
            }
            ErrorCode::IllegalGeneration => self.begin_anew(now),
            code if passes(code) => self.try_again(now),
            code => self.fail(refused(code, message)),
        }
    }

    /// Asks again after a pause: joins, or sends a heartbeat.
    fn try_again(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(self.settings.pauses.next(self.failures, now));
        if self.phase != Phase::Inside {
            self.phase = Phase::Outside;
        }
    }

    /// Loses everything and joins again.
    fn begin_anew(&mut self, now: Instant) {
        self.lose();
        self.phase = Phase::Outside;
        self.pause_from_the_second(now);
    }

    /// Lets the next join begin at once, unless something failed just before.
    fn pause_from_the_second(&mut self, now: Instant) {
        let again = self.settings.pauses.next(self.failures, now);
        self.not_before = (self.failures > 0).then_some(again);
        self.failures = self.failures.saturating_add(1);
    }

    fn lose(&mut self) {
        self.generation = NO_GENERATION;
        self.leading = None;
        self.target = None;
        self.revoking = None;
        self.rejoins = false;
        self.look_at = None;
        let lost = std::mem::take(&mut self.owned);
        if !lost.is_empty() {
            self.first.push_back(Step::Lost(lost));
        }
    }

    fn fail(&mut self, failure: GroupFailure) {
        self.lose();
        self.phase = Phase::Failed;
        self.first.push_back(Step::Failed(failure));
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

    /// Takes that nobody waits for the answer under way; returns true if it is one that a broker
    /// may hold back until all members have joined.
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
