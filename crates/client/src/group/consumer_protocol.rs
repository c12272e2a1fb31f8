//! A member by the consumer protocol (KIP-848): heartbeats carry everything.
//!
//! The coordinator answers with the partitions that the member is to have. The member gives up what
//! is not among them, takes what is new, and tells with its next heartbeat what it has; only then
//! does the coordinator give away what was given up. A heartbeat says only what changed, and
//! everything after one without an answer.
//!
//! States: in the group or joining (epoch 0), stalled (it left because the application does not
//! look; it joins again when that is back), leaving, left, failed. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName,
};
use wire::types::{ErrorCode, TopicId, TopicPartition, Uuid};

use super::exchange::{GroupAnswer, GroupRequest};
use super::{GroupFailure, Identity, MemberSettings, Places, Step, TopicsSeen, passes, refused};
use crate::error::ClientError;
use crate::pauses::later;

/// The epoch that joins.
const JOIN: i32 = 0;
/// The epochs that leave: for good, and for a static member that will be back.
const LEAVE: i32 = -1;
const LEAVE_FOR_A_WHILE: i32 = -2;
/// The shortest interval between heartbeats, whatever the coordinator says.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// A partition, as the coordinator names it.
type ById = (TopicId, i32);

/// Where the life of the member stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Member,
    /// Has left, or is leaving, because the application does not look.
    Stalled {
        told: bool,
    },
    Leaving {
        told: bool,
    },
    Left,
    Failed,
}

/// The member.
#[derive(Debug)]
pub(crate) struct ConsumerMember {
    settings: MemberSettings,
    id: String,
    epoch: i32,
    life: Life,
    interval: Duration,
    /// When the next heartbeat is due, and before which time there is none.
    due: Instant,
    not_before: Option<Instant>,
    failures: u32,
    /// The time of the heartbeat under way.
    asked_at: Option<Instant>,
    /// The coordinator may have heard of the member.
    may_be_known: bool,
    /// The next heartbeat says everything.
    is_full: bool,
    /// What was said that the member has.
    said: Option<BTreeSet<ById>>,
    owned: BTreeSet<ById>,
    target: Option<BTreeSet<ById>>,
    /// What the application is letting go of.
    revoking: Option<BTreeSet<ById>>,
    names: BTreeMap<TopicId, Arc<str>>,
    is_looking: bool,
    look_not_before: Option<Instant>,
    /// Steps that come before any other.
    first: VecDeque<Step>,
}

impl ConsumerMember {
    /// Makes a member that joins at once. The id is its own choice.
    pub(crate) fn new(settings: MemberSettings, id: Uuid, now: Instant) -> Self {
        Self {
            interval: settings.heartbeat_interval,
            settings,
            id: wire::types::uuid_to_base64(id),
            epoch: JOIN,
            life: Life::Member,
            due: now,
            not_before: None,
            failures: 0,
            asked_at: None,
            may_be_known: false,
            is_full: true,
            said: None,
            owned: BTreeSet::new(),
            target: None,
            revoking: None,
            names: BTreeMap::new(),
            is_looking: false,
            look_not_before: None,
            first: VecDeque::new(),
        }
    }

    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if let Some(step) = self.first.pop_front() {
            return step;
        }
        match self.life {
            Life::Left => return Step::Left,
            Life::Failed => return Step::Wait(None),
            Life::Stalled { told } | Life::Leaving { told } => return self.step_out(told, now),
            Life::Member => {}
        }
        if let Some(step) = self.reconcile(now) {
            return step;
        }
        if self.asked_at.is_some() {
            return Step::Wait(self.look_not_before.filter(|at| *at > now));
        }
        let due = self.next_heartbeat(now);
        if now < due {
            let look = self.look_not_before.filter(|at| *at > now);
            return Step::Wait(Some(look.map_or(due, |look| look.min(due))));
        }
        self.asked_at = Some(now);
        self.may_be_known = true;
        Step::Ask(GroupRequest::Beat(Box::new(self.heartbeat())))
    }

    /// Tells the coordinator that the member goes.
    fn step_out(&mut self, told: bool, now: Instant) -> Step {
        if self.asked_at.is_some() {
            return Step::Wait(None);
        }
        if !told {
            let is_leaving = matches!(self.life, Life::Leaving { .. });
            self.life = match self.life {
                Life::Leaving { .. } => Life::Leaving { told: true },
                _ => Life::Stalled { told: true },
            };
            if std::mem::take(&mut self.may_be_known) {
                self.asked_at = Some(now);
                return Step::Ask(GroupRequest::Beat(Box::new(self.farewell(is_leaving))));
            }
        }
        if matches!(self.life, Life::Leaving { .. }) {
            self.life = Life::Left;
            return Step::Left;
        }
        Step::Wait(None)
    }

    fn next_heartbeat(&self, now: Instant) -> Instant {
        let has_news = self.revoking.is_none() && self.said.as_ref() != Some(&self.owned);
        let due = if has_news { now } else { self.due };
        self.not_before.map_or(due, |at| at.max(due))
    }

    /// Brings what the member has closer to what it is to have.
    fn reconcile(&mut self, now: Instant) -> Option<Step> {
        if self.epoch <= JOIN || self.revoking.is_some() {
            return None;
        }
        let target = self.target.as_ref()?;
        let gone: BTreeSet<_> = self.owned.difference(target).copied().collect();
        if !gone.is_empty() {
            let places = self.named(&gone);
            self.revoking = Some(gone);
            return Some(Step::Revoke(places));
        }
        let new: BTreeSet<_> = target.difference(&self.owned).copied().collect();
        let (known, unknown): (BTreeSet<_>, BTreeSet<_>) = new
            .into_iter()
            .partition(|(topic, _)| self.names.contains_key(topic));
        if !known.is_empty() {
            let places = self.named(&known);
            self.owned.extend(known);
            return Some(Step::Assign(places));
        }
        let may_look = !self.is_looking && self.look_not_before.is_none_or(|at| now >= at);
        if !unknown.is_empty() && may_look {
            self.is_looking = true;
            return Some(Step::Look(self.settings.topics.clone()));
        }
        None
    }

    fn named(&self, partitions: &BTreeSet<ById>) -> Places {
        let places = partitions.iter().filter_map(|(topic, partition)| {
            Some(TopicPartition {
                topic: Arc::clone(self.names.get(topic)?),
                partition: *partition,
            })
        });
        places.collect()
    }

    fn heartbeat(&mut self) -> ConsumerGroupHeartbeatRequest {
        let is_full = self.is_full || self.epoch == JOIN;
        let has_news = self.said.as_ref() != Some(&self.owned) && self.revoking.is_none();
        let mut request = self.request(self.epoch);
        if is_full {
            let timeout = self.settings.rebalance_timeout.as_millis();
            let topics = self.settings.topics.iter();
            let topics = topics.map(|topic| TopicName(text(topic)));
            let assignor = self.settings.assignor.as_deref();
            request = request
                .with_rebalance_timeout_ms(i32::try_from(timeout).unwrap_or(i32::MAX))
                .with_subscribed_topic_names(Some(topics.collect()))
                .with_server_assignor(assignor.map(text))
                .with_rack_id(self.settings.rack.as_deref().map(text));
        }
        if is_full || has_news {
            request = request.with_topic_partitions(Some(by_topic(&self.owned)));
            self.said = Some(self.owned.clone());
        }
        request
    }

    fn farewell(&self, is_leaving: bool) -> ConsumerGroupHeartbeatRequest {
        // A static member that closes keeps its partitions for its next life.
        let comes_back = is_leaving && self.settings.instance_id.is_some();
        self.request(if comes_back { LEAVE_FOR_A_WHILE } else { LEAVE })
    }

    fn request(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(&self.settings.group)))
            .with_member_id(text(&self.id))
            .with_member_epoch(epoch)
            .with_instance_id(self.settings.instance_id.as_deref().map(text))
            .with_rebalance_timeout_ms(-1)
    }

    pub(crate) fn answered(&mut self, answer: Result<GroupAnswer, ClientError>, now: Instant) {
        let Some(asked_at) = self.asked_at.take() else {
            return;
        };
        if self.life != Life::Member {
            // Whatever became of it: a member that is gone is forgotten after its session.
            return;
        }
        match answer {
            Ok(GroupAnswer::Beat(answer)) => match ErrorCode::try_from_code(answer.error_code) {
                None => self.beaten(&answer, asked_at),
                Some(code) => {
                    let message = answer.error_message.as_ref();
                    let message = message.map(|message| message.as_str().to_owned());
                    self.refused(code, message, now);
                }
            },
            Ok(_) => self.fail(GroupFailure::Other(ClientError::Fatal {
                reason: "an answer to another request of the group".to_owned(),
            })),
            Err(error @ ClientError::Unsupported { .. }) => {
                self.fail(GroupFailure::NotServed(error));
            }
            Err(ClientError::Refused(refusal)) => self.refused(refusal.code, refusal.message, now),
            Err(error) if error.is_retriable() => self.try_again(now),
            Err(error) => self.fail(GroupFailure::Other(error)),
        }
    }

    fn beaten(&mut self, answer: &ConsumerGroupHeartbeatResponse, asked_at: Instant) {
        // A join that is always followed by a refusal is no success.
        if self.epoch > JOIN {
            self.failures = 0;
        }
        self.epoch = answer.member_epoch;
        if let Some(id) = answer.member_id.as_ref().filter(|id| !id.is_empty()) {
            self.id = id.to_string();
        }
        let interval_ms = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(0);
        self.interval = Duration::from_millis(interval_ms).max(INTERVAL_MIN);
        self.due = later(asked_at, self.interval);
        self.is_full = false;
        self.not_before = None;
        if let Some(assignment) = &answer.assignment {
            let topics = assignment.topic_partitions.iter();
            let target = topics.flat_map(|topic| {
                let id = TopicId(topic.topic_id);
                topic.partitions.iter().map(move |one| (id, *one))
            });
            let target = Some(target.collect());
            if self.target != target {
                self.target = target;
                // It is confirmed, even if there is nothing to change.
                self.said = None;
            }
        }
    }

    fn refused(&mut self, code: ErrorCode, message: Option<String>, now: Instant) {
        match code {
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => self.begin_anew(now),
            // Of a member that joined before, the group is gone.
            ErrorCode::GroupIdNotFound if self.epoch > JOIN => self.begin_anew(now),
            ErrorCode::UnsupportedVersion => {
                let error = ClientError::from(code);
                self.fail(GroupFailure::NotServed(error));
            }
            code if passes(code) => self.try_again(now),
            code => self.fail(refused(code, message)),
        }
    }

    /// Sends everything again, after a pause.
    fn try_again(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(self.settings.pauses.next(self.failures, now));
        self.due = now;
        self.is_full = true;
        self.said = None;
    }

    /// Loses everything and joins again.
    fn begin_anew(&mut self, now: Instant) {
        self.lose();
        // The first time at once.
        let again = self.settings.pauses.next(self.failures, now);
        self.not_before = (self.failures > 0).then_some(again);
        self.failures = self.failures.saturating_add(1);
        self.due = now;
    }

    fn lose(&mut self) {
        let lost = std::mem::take(&mut self.owned);
        let lost = self.named(&lost);
        self.revoking = None;
        self.target = None;
        self.said = None;
        self.is_full = true;
        self.epoch = JOIN;
        if !lost.is_empty() {
            self.first.push_back(Step::Lost(lost));
        }
    }

    fn fail(&mut self, failure: GroupFailure) {
        self.lose();
        self.life = Life::Failed;
        self.first.push_back(Step::Failed(failure));
    }

    pub(crate) fn revoked(&mut self, _now: Instant) {
        if let Some(gone) = self.revoking.take() {
            self.owned.retain(|one| !gone.contains(one));
        }
    }

    pub(crate) fn looked(&mut self, seen: &TopicsSeen, now: Instant) {
        if !std::mem::take(&mut self.is_looking) {
            return;
        }
        let names = seen.names.iter();
        self.names
            .extend(names.map(|(id, name)| (*id, Arc::clone(name))));
        // Brokers may learn of a new topic later than the coordinator.
        self.look_not_before = Some(self.settings.pauses.next(3, now));
    }

    pub(crate) fn stalled(&mut self, _now: Instant) {
        if self.life != Life::Member {
            return;
        }
        self.lose();
        self.life = Life::Stalled { told: false };
    }

    pub(crate) fn polled(&mut self, now: Instant) {
        // What it had was told as lost, so it joins again, even if it has not left yet.
        if matches!(self.life, Life::Stalled { .. }) && self.asked_at.is_none() {
            self.life = Life::Member;
            self.due = now;
            self.not_before = None;
        }
    }

    pub(crate) fn leave(&mut self, _now: Instant) {
        match self.life {
            Life::Member => self.life = Life::Leaving { told: false },
            Life::Stalled { told } => self.life = Life::Leaving { told },
            Life::Failed => self.life = Life::Left,
            Life::Leaving { .. } | Life::Left => {}
        }
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        let is_in = self.epoch > JOIN && self.life != Life::Failed && self.life != Life::Left;
        is_in.then(|| Identity {
            member_id: self.id.clone(),
            epoch: self.epoch,
            is_consumer_protocol: true,
        })
    }
}

fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}

fn by_topic(partitions: &BTreeSet<ById>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(*topic).or_default().push(*partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        TopicPartitions::default()
            .with_topic_id(topic.0)
            .with_partitions(partitions)
    });
    topics.collect()
}

#[cfg(test)]
mod tests;
