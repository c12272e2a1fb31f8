//! The membership of a consumer: carries out the steps of its member ([`crate::group`]).
//!
//! Partitions go through: given (the group's positions are asked for), read, to be given back (not
//! fetched any more; the application lets go; what it stored is committed), gone. What is lost
//! skips the last two. A coordinator without the consumer protocol gets a classic member instead.
//!
//! Invariant: the member hears that something was given up only after the commit for it has ended,
//! well or not: its time with the coordinator is limited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use platform::clock::Instant;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use wire::types::{ErrorCode, TopicPartition, Uuid};

use super::driver::{Driver, failed};
use super::tasks::{self, TaskOutcome, refusal_of};
use super::{Event, Revocation};
use crate::cluster::CoordinatorKind;
use crate::error::ClientError;
use crate::fetch::{Position, Whence};
use crate::group::assign::Strategy;
use crate::group::classic_protocol::ClassicMember;
use crate::group::consumer_protocol::ConsumerMember;
use crate::group::exchange::{GroupAnswer, GroupRequest};
use crate::group::{
    GroupFailure, Member, MemberSettings, Places, Step, TopicsSeen, is_of_another_coordinator,
};
use crate::offsets::PartitionResults;
use crate::pauses::Pauses;
use crate::settings::ClientSettings;

/// Partitions that the application is letting go of.
struct LettingGo {
    number: u64,
    places: Places,
}

/// Partitions whose positions are not found yet.
#[derive(Default)]
struct Finding {
    places: Places,
    is_asked: bool,
    not_before: Option<Instant>,
    failures: u32,
}

/// The membership.
pub(super) struct Membership {
    pub(super) settings: MemberSettings,
    member: Member,
    /// What the member has, as the application knows it.
    pub(super) owned: Places,
    /// Where the policy had reading begin. What the application stores comes in its place.
    beginnings: BTreeMap<TopicPartition, Position>,
    /// Partitions whose records the application was given.
    begun: Places,
    letting_go: Option<LettingGo>,
    revocations: u64,
    finding: Finding,
    /// Topics that the member wants to know of, until they are looked at.
    look: Option<(BTreeSet<Arc<str>>, Option<Instant>)>,
    exchange: Option<AbortHandle>,
    /// The farewell overtakes a join that waits.
    is_hasty: bool,
}

impl Membership {
    pub(super) fn new(
        client: &ClientSettings,
        topics: BTreeSet<String>,
        pauses: Pauses,
        random: (u64, u64),
        now: Instant,
    ) -> Result<Self, ClientError> {
        let group = &client.group;
        let invalid = |what: &str, reason: &str| ClientError::invalid(what, reason);
        let missing = || invalid("group.id", "a member of a group needs it");
        let strategies = group.strategies.iter().map(|name| {
            let strategy = Strategy::from_name(name);
            let reason = format!("there is no {name:?}");
            strategy.ok_or_else(|| invalid("partition.assignment.strategy", &reason))
        });
        let settings = MemberSettings {
            group: group.id.clone().ok_or_else(missing)?,
            instance_id: group.instance_id.clone(),
            rack: group.rack.clone(),
            topics: topics.into_iter().map(Arc::from).collect(),
            assignor: group.remote_assignor.clone(),
            strategies: strategies.collect::<Result<_, _>>()?,
            session_timeout: group.session_timeout,
            heartbeat_interval: group.heartbeat_interval,
            rebalance_timeout: group.max_poll_interval,
            metadata_max_age: client.metadata_max_age,
            pauses,
        };
        let member = if group.consumer_protocol {
            let id = Uuid::from_u64_pair(random.0, random.1);
            Member::Consumer(ConsumerMember::new(settings.clone(), id, now))
        } else {
            Member::Classic(ClassicMember::new(settings.clone(), now))
        };
        Ok(Self {
            settings,
            member,
            owned: Places::new(),
            beginnings: BTreeMap::new(),
            begun: Places::new(),
            letting_go: None,
            revocations: 0,
            finding: Finding::default(),
            look: None,
            exchange: None,
            is_hasty: false,
        })
    }

    pub(super) fn identity(&self) -> Option<crate::group::Identity> {
        self.member.identity()
    }

    /// Returns where reading began in those of these partitions in which the policy decided it.
    pub(super) fn beginnings(&self, of: &Places) -> BTreeMap<TopicPartition, Position> {
        let begun = self.beginnings.iter();
        let begun = begun.filter(|(place, _)| of.contains(place));
        begun.map(|(place, at)| (place.clone(), *at)).collect()
    }

    /// Takes that the application is given records: a position that the policy finds from now on
    /// may be behind some that it has not seen.
    pub(super) fn begins(&mut self, place: &TopicPartition) {
        if !self.begun.contains(place) {
            self.begun.insert(place.clone());
        }
    }

    fn forget_beginnings(&mut self, gone: &Places) {
        self.beginnings.retain(|place, _| !gone.contains(place));
        self.begun.retain(|place| !gone.contains(place));
    }
}

impl Driver {
    /// Carries out what is due for the member, and returns when something will be.
    pub(super) fn go_on_in_group(&mut self, now: Instant) -> Option<Instant> {
        let away = self.check_presence(now);
        let wait = self.step_member(now);
        let look = self.look_for_member(now);
        let find = self.find_positions(now);
        [away, wait, look, find].into_iter().flatten().min()
    }

    /// Ends the membership while the application stays away for too long.
    fn check_presence(&mut self, now: Instant) -> Option<Instant> {
        let membership = self.membership.as_mut()?;
        if self.closing.is_some() {
            return None;
        }
        let longest = membership.settings.rebalance_timeout;
        let away = self.mailbox.away_until(longest);
        let is_away = away.is_some_and(|until| now >= until);
        if is_away {
            membership.member.stalled(now);
        } else {
            membership.member.polled(now);
        }
        self.mailbox.miss(is_away);
        away.filter(|_| !is_away)
    }

    fn step_member(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let step = self.membership.as_mut()?.member.step(now);
            match step {
                Step::Ask(request) => self.ask_coordinator(request, now),
                Step::Revoke(places) => self.revoke(&places),
                Step::Assign(places) => self.assign(places),
                Step::Lost(places) => self.lose(&places),
                Step::Look(topics) => {
                    let membership = self.membership.as_mut()?;
                    membership.look = Some((topics, None));
                }
                Step::Wait(until) => return until,
                Step::Failed(GroupFailure::NotServed(error)) => self.fall_back(error, now),
                Step::Failed(GroupFailure::Other(error)) => {
                    let place = None;
                    self.mailbox.put(Event::Failed { place, error });
                }
                Step::Left => {
                    if let Some(closing) = &mut self.closing {
                        closing.has_left = true;
                    }
                    return None;
                }
            }
        }
    }

    fn ask_coordinator(&mut self, request: GroupRequest, now: Instant) {
        let patience = self.patience(now);
        let Some(membership) = &mut self.membership else {
            return;
        };
        let aside = membership.is_hasty.then(|| self.data.clone());
        let settings = membership.settings.clone();
        let ask = tasks::ask_group(self.control.clone(), aside, settings, request, patience);
        membership.exchange = Some(self.tasks.spawn_local(ask));
    }

    pub(super) fn group_answered(
        &mut self,
        answer: Result<GroupAnswer, ClientError>,
        now: Instant,
    ) {
        let code = match &answer {
            Ok(GroupAnswer::Beat(answer)) => answer.error_code,
            Ok(GroupAnswer::Join(answer)) => answer.error_code,
            Ok(GroupAnswer::Sync(answer)) => answer.error_code,
            Ok(GroupAnswer::Heartbeat(answer)) => answer.error_code,
            Ok(GroupAnswer::Leave(answer)) => answer.error_code,
            Err(_) => 0,
        };
        if ErrorCode::try_from_code(code).is_some_and(is_of_another_coordinator) {
            self.forget_coordinator();
        }
        if let Err(error) = &answer
            && error.is_retriable()
        {
            self.forget_coordinator();
            self.trouble(error.clone(), now);
        }
        if let Some(membership) = &mut self.membership {
            membership.exchange = None;
            membership.member.answered(answer, now);
        }
    }

    pub(super) fn forget_coordinator(&self) {
        if let Some(membership) = &self.membership {
            let group = &membership.settings.group;
            self.control.coordinator_lost(CoordinatorKind::Group, group);
        }
    }

    /// Goes on by the classic protocol, if that was not the one.
    fn fall_back(&mut self, error: ClientError, now: Instant) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        if matches!(membership.member, Member::Consumer(_)) && self.closing.is_none() {
            tracing::info!(%error, "the consumer protocol is not served: joining by the classic one");
            let classic = ClassicMember::new(membership.settings.clone(), now);
            membership.member = Member::Classic(classic);
        } else {
            let place = None;
            self.mailbox.put(Event::Failed { place, error });
        }
    }

    /// Takes where the policy has reading of a partition begin.
    pub(super) fn begins_at(&mut self, place: &TopicPartition, offset: i64) {
        if let Some(membership) = &mut self.membership
            && membership.owned.contains(place)
            && !membership.begun.contains(place)
        {
            let epoch = None;
            let at = Position { offset, epoch };
            membership.beginnings.insert(place.clone(), at);
        }
    }

    /// Asks the application to let go of partitions.
    fn revoke(&mut self, places: &Places) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        for place in places {
            self.fetcher.end(place);
            membership.finding.places.remove(place);
        }
        membership.revocations = membership.revocations.wrapping_add(1);
        let number = membership.revocations;
        membership.letting_go = Some(LettingGo {
            number,
            places: places.clone(),
        });
        let (held, dropped) = oneshot::channel::<()>();
        let revocation = Revocation {
            places: places.clone(),
            _held: held,
        };
        self.mailbox.put_first(places, Event::Revoking(revocation));
        self.tasks.spawn_local(async move {
            // It is dropped, never sent.
            drop(dropped.await);
            TaskOutcome::LetGo(number)
        });
    }

    /// Takes that the application has let go: what it stored is committed.
    pub(super) fn let_go(&mut self, number: u64, now: Instant) {
        let Some(membership) = &self.membership else {
            return;
        };
        let current = membership.letting_go.as_ref();
        let current = current.filter(|letting_go| letting_go.number == number);
        if let Some(letting_go) = current {
            let places = letting_go.places.clone();
            self.commit_to_revoke(number, &places, now);
        }
    }

    /// Takes that the commit before a revocation has ended.
    pub(super) fn give_up(&mut self, number: u64, now: Instant) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        let current = membership
            .letting_go
            .take_if(|letting_go| letting_go.number == number);
        if let Some(gone) = current {
            membership
                .owned
                .retain(|place| !gone.places.contains(place));
            membership.forget_beginnings(&gone.places);
            membership.member.revoked(now);
            self.mailbox.forget_stored(&gone.places);
            self.commits.forget(&gone.places);
        }
    }

    fn assign(&mut self, places: Places) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        membership.owned.extend(places.iter().cloned());
        membership.finding.places.extend(places.iter().cloned());
        membership.forget_beginnings(&places);
        // What was stored in an earlier life of it may be behind the group's position.
        self.mailbox.forget_stored(&places);
        self.mailbox.put(Event::Assigned(places));
    }

    fn lose(&mut self, places: &Places) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        for place in places {
            self.fetcher.end(place);
            membership.finding.places.remove(place);
            membership.owned.remove(place);
        }
        membership.letting_go = None;
        membership.forget_beginnings(places);
        self.mailbox.forget_stored(places);
        self.commits.forget(places);
        self.mailbox.put_first(places, Event::Lost(places.clone()));
    }

    /// Looks at the topics that the member wants to know of.
    fn look_for_member(&mut self, now: Instant) -> Option<Instant> {
        let patience = self.patience(now);
        let membership = self.membership.as_mut()?;
        let (_, not_before) = membership.look.as_ref()?;
        if let Some(at) = not_before.filter(|at| now < *at) {
            return Some(at);
        }
        let (topics, _) = membership.look.take()?;
        let see = tasks::see(self.control.clone(), topics, patience);
        self.tasks.spawn_local(see);
        None
    }

    pub(super) fn seen(
        &mut self,
        topics: BTreeSet<Arc<str>>,
        seen: Result<TopicsSeen, ClientError>,
        now: Instant,
    ) {
        match seen {
            Ok(seen) => {
                if let Some(membership) = &mut self.membership {
                    membership.member.looked(&seen, now);
                }
            }
            Err(error) => {
                if let Some(membership) = &mut self.membership {
                    membership.look = Some((topics, Some(self.pauses.next(2, now))));
                }
                self.trouble(error, now);
            }
        }
    }

    /// Asks where the group stands in partitions that are new.
    fn find_positions(&mut self, now: Instant) -> Option<Instant> {
        let patience = self.patience(now);
        let membership = self.membership.as_mut()?;
        let identity = membership.member.identity();
        let finding = &mut membership.finding;
        if finding.is_asked || finding.places.is_empty() {
            return None;
        }
        if let Some(at) = finding.not_before.filter(|at| now < *at) {
            return Some(at);
        }
        finding.is_asked = true;
        let who = (membership.settings.group.clone(), identity);
        let places = finding.places.clone();
        let find = tasks::find_positions(self.control.clone(), who, places, patience);
        self.tasks.spawn_local(find);
        None
    }

    pub(super) fn positioned(
        &mut self,
        places: &Places,
        found: Result<PartitionResults<Option<Position>>, ClientError>,
        now: Instant,
    ) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        let finding = &mut membership.finding;
        finding.is_asked = false;
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                finding.failures = finding.failures.saturating_add(1);
                finding.not_before = Some(self.pauses.next(finding.failures, now));
                let refusal = refusal_of(&error);
                if refusal.is_none_or(|refusal| is_of_another_coordinator(refusal.code)) {
                    self.forget_coordinator();
                }
                // A member that is not known finds it out by its heartbeat.
                if refusal.is_none_or(|refusal| !will_pass(refusal.code)) {
                    self.trouble(error, now);
                }
                return;
            }
        };
        finding.not_before = None;
        let mut is_refused = false;
        for place in places {
            // What was given up meanwhile is not read.
            if !finding.places.contains(place) {
                continue;
            }
            match found.remove(place) {
                Some(Ok(Some(position))) => {
                    finding.places.remove(place);
                    let whence = Whence::At(position.offset, position.epoch);
                    self.fetcher.begin(place.clone(), whence);
                }
                Some(Ok(None)) => {
                    finding.places.remove(place);
                    if !self.fetcher.begin_by_policy(place.clone()) {
                        let reason = "the group has no position, and auto.offset.reset is none";
                        let error = ClientError::invalid("position", reason);
                        self.mailbox.put(failed(place.clone(), error));
                    }
                }
                Some(Err(refusal)) if !will_pass(refusal.code) => {
                    finding.places.remove(place);
                    self.mailbox.put(failed(place.clone(), refusal.into()));
                }
                Some(Err(_)) | None => is_refused = true,
            }
        }
        if is_refused {
            finding.failures = finding.failures.saturating_add(1);
            finding.not_before = Some(self.pauses.next(finding.failures, now));
        } else {
            finding.failures = 0;
        }
    }

    /// Leaves the group; nothing is read any more, and what was stored is committed.
    pub(super) fn leave_group(&mut self, now: Instant) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        membership.letting_go = None;
        membership.finding = Finding::default();
        membership.look = None;
        if let Member::Classic(member) = &mut membership.member
            && member.abandon()
        {
            // The answer to the join may come only when all other members have joined.
            membership.is_hasty = true;
            if let Some(exchange) = membership.exchange.take() {
                exchange.abort();
            }
        }
        membership.member.leave(now);
    }
}

/// Returns true for refusals after which a group's positions are asked for again.
fn will_pass(code: ErrorCode) -> bool {
    code.is_retriable()
        || matches!(
            code,
            ErrorCode::UnknownMemberId
                | ErrorCode::StaleMemberEpoch
                | ErrorCode::IllegalGeneration
                | ErrorCode::UnknownServerError
        )
}
