//! The change of one member while it is decided on: the group as it will be, and the records so
//! far.
//!
//! The steps, in order: [`Draft::subscribe`] (the member's subscription and the group epoch),
//! [`Draft::retarget`] (the target assignment), [`Draft::reconcile`] (the member's current
//! assignment).

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Uuid};

use super::member::{JOIN, Member, Progress};
use super::record::{ConsumerRecord, ResolvedRegex};
use super::timer_change::TimerChange;
use super::{Ask, ConsumerGroup, Decision, GroupRefusal};
use crate::group::assignor::Partitions;

pub(super) struct Draft<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) ask: Ask<'a>,
    pub(super) id: StrBytes,
    /// The member before the request.
    pub(super) before: Member,
    /// The member as it will be.
    pub(super) member: Member,
    pub(super) progress: Progress,
    /// The member that this one replaces.
    pub(super) replaced: Option<StrBytes>,
    /// The matches of expressions that this decision looked up.
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions.
    pub(super) fresh: BTreeMap<StrBytes, ResolvedRegex>,
    /// True when the member subscribes by other names or another expression than before.
    pub(super) resubscribed: bool,
    pub(super) epoch: i32,
    pub(super) target_epoch: i32,
    /// The member's target assignment.
    pub(super) target: Partitions,
    pub(super) decision: Decision<()>,
}

impl<'a> Draft<'a> {
    fn new(group: &'a ConsumerGroup, ask: Ask<'a>, id: StrBytes) -> Self {
        let before = group.member(&id).cloned().unwrap_or_default();
        Self {
            member: before.clone(),
            before,
            progress: group.progress(&id).clone(),
            replaced: None,
            fresh: BTreeMap::new(),
            resubscribed: false,
            epoch: group.epoch(),
            target_epoch: group.target_epoch(),
            target: group.target(&id).clone(),
            decision: Decision::of(()),
            group,
            ask,
            id,
        }
    }

    /// Begins the draft of a dynamic member, which may be new if `joins`.
    pub(super) fn of_dynamic(
        group: &'a ConsumerGroup,
        ask: Ask<'a>,
        id: &StrBytes,
        joins: bool,
    ) -> Result<Self, GroupRefusal> {
        if !joins && group.member(id).is_none() {
            return Err(GroupRefusal::unknown_member(id));
        }
        Ok(Self::new(group, ask, id.clone()))
    }

    /// Begins the draft of a static member.
    ///
    /// A member that `joins` under another id than before replaces the old one if that has left, or
    /// if one of the two has the classic protocol.
    pub(super) fn of_static(
        group: &'a ConsumerGroup,
        ask: Ask<'a>,
        id: &StrBytes,
        instance: &StrBytes,
        (joins, classic): (bool, bool),
    ) -> Result<Self, GroupRefusal> {
        let Some(holder) = group.static_member(instance) else {
            if joins {
                return Ok(Self::new(group, ask, id.clone()));
            }
            let message = format!("There is no member with instance id {instance} in the group.");
            return Err(GroupRefusal::new(ErrorCode::UnknownMemberId, message));
        };
        if !joins {
            group.check_instance(id, instance)?;
            return Ok(Self::new(group, ask, id.clone()));
        }
        let Some(old) = group.member(holder).cloned() else {
            let message = format!("There is no member with instance id {instance} in the group.");
            return Err(GroupRefusal::new(ErrorCode::UnknownMemberId, message));
        };
        let has_left = group.progress(holder).epoch == super::member::LEAVE_STATIC;
        if !classic && old.classic.is_none() && !has_left {
            return Err(GroupRefusal::new(
                ErrorCode::UnreleasedInstanceId,
                format!("Instance id {instance} is still in use by member {holder}."),
            ));
        }
        Ok(Self::replacing(group, ask, id, holder, old))
    }

    fn replacing(
        group: &'a ConsumerGroup,
        ask: Ask<'a>,
        id: &StrBytes,
        holder: &StrBytes,
        old: Member,
    ) -> Self {
        let progress = Progress {
            epoch: JOIN,
            previous_epoch: JOIN,
            ..group.progress(holder).clone()
        };
        let mut draft = Self::new(group, ask, id.clone());
        draft.target = group.target(holder).clone();
        draft.progress = progress.clone();
        draft.before = old.clone();
        draft.member = old.clone();
        draft.replaced = Some(holder.clone()).filter(|holder| holder != id);
        let records = &mut draft.decision.records;
        if draft.replaced.is_some() {
            records.extend(removal(holder));
        }
        records.push(ConsumerRecord::Member(id.clone(), Some(old)));
        records.push(ConsumerRecord::Target(
            id.clone(),
            Some(draft.target.clone()),
        ));
        records.push(ConsumerRecord::Progress(id.clone(), Some(progress)));
        if draft.replaced.is_some() {
            draft.timer_of(holder.clone(), TimerChange::Gone);
        }
        draft
    }

    pub(super) fn timer(&mut self, change: TimerChange) {
        self.timer_of(self.id.clone(), change);
    }

    fn timer_of(&mut self, id: StrBytes, change: TimerChange) {
        self.decision.timers.push((id, change));
    }

    /// Returns the members as they will be.
    pub(super) fn members(&self) -> impl Iterator<Item = (&StrBytes, &Member)> {
        let others = self
            .group
            .members()
            .filter(|(id, _)| **id != self.id && Some(*id) != self.replaced.as_ref());
        others.chain(std::iter::once((&self.id, &self.member)))
    }

    /// Returns a member's target before this decision.
    pub(super) fn previous_target(&self, id: &StrBytes) -> &Partitions {
        match &self.replaced {
            Some(replaced) if *id == self.id => self.group.target(replaced),
            _ => self.group.target(id),
        }
    }

    /// Returns the topics that an expression matches.
    pub(super) fn matched(&self, regex: &StrBytes) -> Option<&ResolvedRegex> {
        self.fresh.get(regex).or_else(|| self.group.matched(regex))
    }

    /// Returns the names of the topics that any member reads.
    pub(super) fn topics(&self) -> BTreeSet<StrBytes> {
        let names = self.members().flat_map(|(_, member)| &member.topics);
        let patterns: BTreeSet<&StrBytes> = self.patterns();
        let matched = patterns.into_iter().filter_map(|regex| self.matched(regex));
        names
            .chain(matched.flat_map(|matched| &matched.topics))
            .cloned()
            .collect()
    }

    /// Returns the expressions that any member subscribes by.
    pub(super) fn patterns(&self) -> BTreeSet<&StrBytes> {
        if self.member.regex.is_empty() && self.group.index.patterns.is_empty() {
            return BTreeSet::new();
        }
        let all = self.members().map(|(_, member)| &member.regex);
        all.filter(|regex| !regex.is_empty()).collect()
    }

    /// Returns the ids of the existing topics that the member reads.
    pub(super) fn topic_ids(&self) -> BTreeSet<Uuid> {
        topics_of(self, &self.member)
            .filter_map(|topic| Some(self.ask.cluster.shape(topic)?.0))
            .collect()
    }
}

/// Returns the names of the topics that `member` reads.
fn topics_of<'b>(draft: &'b Draft<'_>, member: &'b Member) -> impl Iterator<Item = &'b StrBytes> {
    let matched = Some(&member.regex)
        .filter(|regex| !regex.is_empty())
        .and_then(|regex| draft.matched(regex));
    let matched = matched.into_iter().flat_map(|matched| &matched.topics);
    member.topics.iter().chain(matched)
}

/// Returns the tombstones of a member, in the order in which Kafka reads them.
pub(super) fn removal(id: &StrBytes) -> [ConsumerRecord; 3] {
    [
        ConsumerRecord::Progress(id.clone(), None),
        ConsumerRecord::Target(id.clone(), None),
        ConsumerRecord::Member(id.clone(), None),
    ]
}

impl ConsumerGroup {
    /// Checks that an instance id belongs to the member `id`.
    pub(super) fn check_instance(
        &self,
        id: &StrBytes,
        instance: &StrBytes,
    ) -> Result<(), GroupRefusal> {
        match self.static_member(instance) {
            None => Err(GroupRefusal::new(
                ErrorCode::UnknownMemberId,
                format!("There is no member with instance id {instance} in the group."),
            )),
            Some(holder) if holder != id => Err(GroupRefusal::new(
                ErrorCode::FencedInstanceId,
                format!("Instance id {instance} of member {id} now belongs to member {holder}."),
            )),
            Some(_) => Ok(()),
        }
    }
}
