//! Takes the answers of the coordinator: what a member has become, and what it does about errors.

use platform::clock::Instant;
use wire::messages::{HeartbeatResponse, JoinGroupResponse, SyncGroupResponse};
use wire::types::ErrorCode;

use super::{ClassicMember, Leading, Phase, UnderWay};
use crate::error::ClientError;
use crate::group::assign::GroupMember;
use crate::group::embedded::{NO_GENERATION, Subscription, decode_assignment};
use crate::group::exchange::GroupAnswer;
use crate::group::{GroupFailure, Step, passes, refused};
use crate::pauses::later;

impl ClassicMember {
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
                    answer.member_id.as_str().clone_into(&mut self.id);
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
                answer.member_id.as_str().clone_into(&mut self.id);
                self.phase = Phase::Outside;
                return;
            }
            return self.refused(code, None, now);
        }
        let name = answer.protocol_name.as_ref().map(wire::StrBytes::as_str);
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
        answer.member_id.as_str().clone_into(&mut self.id);
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

    pub(super) fn lose(&mut self) {
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
}
