//! All groups of one partition of `__consumer_offsets`: their state machines, and their records in
//! the log or in flight. A group is either a classic or a consumer group.
//!
//! A group exists when a record of it is in the log or in flight, or when it has a member. Requests
//! decide on the latest state and return records; [`Groups::stage`] takes them in as in flight,
//! [`Groups::settle`] as committed or as never written. Reads of offsets return committed ones. Not
//! here: the order of appends, and the requests that wait for them ([`super::coordinator`]).

mod consumers;
mod machine;
mod pieces;
mod requests;
mod settling;
mod timers;
mod weight;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use platform::clock::Instant;
use wire::protocol::StrBytes;
use wire::records::offsets::{GroupMetadataValue, OffsetCommitValue};
use wire::types::ErrorCode;

use super::classic::{ClassicGroup, Effects, Limits, Reply, Token};
use super::consumer::{ConsumerGroup, ConsumerOptions, Job};
use super::open::OpenTransactions;
use super::records::GroupRecord;
use super::versioned::{Sequence, VersionedValue};
use super::{ClockReading, EventAge};
pub use consumers::GroupDecision;
pub(super) use consumers::of_group;
use machine::Continuation;
pub(super) use weight::{GROUP_BYTES, OFFSET_BYTES, Shares};

/// A job for a group.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) group: StrBytes,
    /// The address whose request needs the job.
    pub(super) host: StrBytes,
    pub(super) job: Job,
}

/// Most groups in one partition of `__consumer_offsets`.
const GROUPS_MAX: usize = 1_000_000;
/// Most groups whose deadlines are handled before other tasks have their turn.
const EXPIRED_AT_ONCE_MAX: usize = 100;
/// Least time between two checks of one group's deadlines.
const MOMENT: Duration = Duration::from_millis(1);

/// The number of records that a load takes in; those of appends begin at 1.
const LOADED: Sequence = 0;

const _: () = assert!(EXPIRED_AT_ONCE_MAX < GROUPS_MAX, "others get their turn");
const _: () = assert!(
    !MOMENT.is_zero(),
    "a deadline that is always due leaves no turn to others"
);

/// Limits of groups and offsets.
#[derive(Clone, Copy, Debug)]
pub struct GroupsOptions {
    /// Limits of a group.
    pub classic: Limits,
    /// Longest metadata of an offset, in UTF-16 units.
    pub offset_metadata_max: usize,
    /// How long the offsets of a group without members are retained, in milliseconds.
    pub offsets_retention_ms: i64,
    /// Limits of consumer groups.
    pub consumer: ConsumerOptions,
    /// Approximate bytes that the groups of a shard may take.
    pub state_bytes_max: usize,
}

/// The consequences of a request or a timer.
#[derive(Default, Debug)]
pub struct GroupOutcome {
    /// Answers to send.
    pub replies: Vec<(Token, Reply)>,
    /// Appends in order, each atomic.
    pub appends: Vec<Append>,
}

/// Records to append atomically.
#[derive(Debug)]
pub struct Append {
    /// The records.
    pub records: Vec<GroupRecord>,
    /// What a machine does after the append.
    pub then: Option<Continuation>,
    /// Answers to send when the records are in the log; if the append fails they become refusals.
    pub answers: Vec<(Token, Reply)>,
}

impl Append {
    /// Creates an append without a continuation and answers.
    pub fn of(records: Vec<GroupRecord>) -> Self {
        Self {
            records,
            then: None,
            answers: Vec::new(),
        }
    }
}

/// A group of either kind.
#[derive(Clone, Copy, Debug)]
pub enum GroupRef<'a> {
    /// A classic group.
    Classic(&'a ClassicGroup),
    /// A consumer group.
    Consumer(&'a ConsumerGroup),
}

/// Offsets of one group by topic and partition.
pub(super) type Offsets = BTreeMap<StrBytes, BTreeMap<i32, VersionedValue<Position>>>;

/// A committed offset.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) value: OffsetCommitValue,
    /// Its age since the commit.
    pub(super) since: EventAge,
}

impl Position {
    fn new(value: OffsetCommitValue, now: ClockReading) -> Self {
        let since = EventAge::of(value.commit_timestamp, now);
        Self { value, since }
    }
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    /// Invariant: idle while this is a consumer group.
    pub(super) machine: ClassicGroup,
    /// How many machines the group had before this one.
    machine_number: u64,
    consumer: Option<Box<ConsumerGroup>>,
    metadata: VersionedValue<GroupMetadataValue>,
    pub(super) offsets: Offsets,
    /// Its entry in `Groups::deadlines`.
    armed: Option<Instant>,
    /// Approximate bytes of its offsets.
    offsets_bytes: usize,
    /// Its part of `Groups::bytes`.
    counted: usize,
    /// The address that pays for it.
    paid: Option<weight::PaidBytes>,
    /// [`Groups::refusals`] when an append of its offsets last failed.
    refused_at: u64,
}

impl Group {
    fn new(limits: Limits) -> Self {
        Self {
            machine: ClassicGroup::new(limits),
            machine_number: 0,
            consumer: None,
            metadata: VersionedValue::default(),
            offsets: Offsets::new(),
            armed: None,
            offsets_bytes: 0,
            counted: 0,
            paid: None,
            refused_at: 0,
        }
    }

    pub(super) fn offsets_bytes(&self) -> usize {
        self.offsets_bytes
    }

    pub(super) fn exists(&self) -> bool {
        !self.machine.is_idle()
            || self.metadata.latest().is_some()
            || self.consumer().is_some()
            || self
                .offsets
                .values()
                .flat_map(BTreeMap::values)
                .any(|one| one.latest().is_some())
    }

    fn is_vacant(&self) -> bool {
        let consumer = self.consumer.as_ref();
        self.machine.is_idle()
            && self.metadata.is_vacant()
            && self.offsets.is_empty()
            && consumer.is_none_or(|consumer| consumer.is_vacant())
    }

    /// Returns the consumer group, if it is one.
    pub(super) fn consumer(&self) -> Option<&ConsumerGroup> {
        let consumer = self.consumer.as_deref();
        consumer.filter(|consumer| consumer.exists())
    }

    pub(super) fn kind(&self) -> GroupRef<'_> {
        self.consumer()
            .map_or(GroupRef::Classic(&self.machine), GroupRef::Consumer)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let consumer = self.consumer.as_ref();
        let consumer = consumer.and_then(|consumer| consumer.next_deadline());
        self.machine
            .next_deadline()
            .into_iter()
            .chain(consumer)
            .min()
    }
}

/// The groups of a partition.
#[derive(Debug)]
pub struct Groups {
    pub(super) options: GroupsOptions,
    /// Offsets in transactions that have not ended.
    pub(super) open: OpenTransactions,
    // Bounded: `GROUPS_MAX`, and `groups::weight::check_growth` in bytes.
    // In boxes: nodes of a map are half empty where names come in order.
    by_id: BTreeMap<StrBytes, Box<Group>>,
    // Bounded: one for each group, `GROUPS_MAX`.
    deadlines: BTreeSet<(Instant, StrBytes)>,
    /// Earliest time for which a deadline is set: one moment after the time that [`Groups::expire`]
    /// last handled.
    ///
    /// No machine can therefore set a deadline for the same time again.
    not_before: Option<Instant>,
    /// Approximate bytes of all groups.
    bytes: usize,
    /// Bytes of the groups in the shard's other partitions.
    pub(super) bytes_elsewhere: usize,
    /// The bytes that each address pays for, on this shard.
    pub(super) shares: Rc<Shares>,
    /// The address whose request is being decided, if a request is.
    pub(super) asker: Option<StrBytes>,
    /// Jobs that the last decisions left.
    // Bounded: the coordinator takes it after each decision.
    pub(super) jobs: Vec<Work>,
    /// Number of appends that failed so far.
    refusals: u64,
    rebalances: Rebalances,
}

/// Numbers of rebalances whose records are in the log.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rebalances {
    /// Assignments of new generations of classic groups.
    pub(super) classic: u64,
    /// New epochs of consumer groups.
    pub(super) consumer: u64,
}

impl Groups {
    /// Creates an empty set of groups.
    pub fn new(options: GroupsOptions) -> Self {
        Self {
            options,
            open: OpenTransactions::default(),
            by_id: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            not_before: None,
            bytes: 0,
            bytes_elsewhere: 0,
            shares: Rc::default(),
            asker: None,
            jobs: Vec::new(),
            refusals: 0,
            rebalances: Rebalances::default(),
        }
    }

    /// Returns the number of rebalances since the last call.
    pub(super) fn take_rebalances(&mut self) -> Rebalances {
        std::mem::take(&mut self.rebalances)
    }

    /// Returns the number of appends that failed so far.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Returns whether an append of the group's offsets may have failed since [`Groups::refusals`]
    /// was `refusals`.
    pub(super) fn was_refused_since(&self, id: &StrBytes, refusals: u64) -> bool {
        let group = self.by_id.get(id);
        group.is_none_or(|group| group.refused_at > refusals)
    }

    /// Returns a group.
    pub fn get(&self, id: &StrBytes) -> Option<GroupRef<'_>> {
        self.existing_group(id).map(Group::kind)
    }

    /// Returns all groups after `after`, by id.
    pub(super) fn all_after(
        &self,
        after: Option<&StrBytes>,
    ) -> impl Iterator<Item = (&StrBytes, &Group)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let after = self.by_id.range::<StrBytes, _>((from, Bound::Unbounded));
        after.map(|(id, group)| (id, &**group))
    }

    pub(super) fn existing_group(&self, id: &StrBytes) -> Option<&Group> {
        self.recorded_group(id).filter(|group| group.exists())
    }

    /// Returns a group with its records in the log, even if it is being deleted.
    pub(super) fn recorded_group(&self, id: &StrBytes) -> Option<&Group> {
        self.by_id.get(id).map(|group| &**group)
    }

    pub(super) fn machine(&mut self, id: &StrBytes) -> Option<&mut ClassicGroup> {
        let group = self.by_id.get_mut(id).filter(|group| group.exists())?;
        match group.consumer() {
            None => Some(&mut group.machine),
            Some(_) => None,
        }
    }

    /// Removes and returns all groups.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let none = Self::new(self.options);
        std::mem::replace(self, none)
    }

    /// Removes `count` groups and returns the answers for requests that wait in them; `None` when
    /// none is left.
    pub fn abandon(&mut self, count: usize, error: ErrorCode) -> Option<Vec<(Token, Reply)>> {
        let mut replies = Vec::new();
        for _ in 0..count {
            self.deadlines.pop_first();
            let Some((_, mut group)) = self.by_id.pop_first() else {
                return (!replies.is_empty()).then_some(replies);
            };
            replies.extend(group.machine.abandon(error).replies);
        }
        Some(replies)
    }

    /// Turns a machine's effects into an outcome, and notes the group's deadline.
    pub(super) fn carry(&mut self, id: &StrBytes, effects: Effects) -> GroupOutcome {
        self.arm(id);
        let classic = &mut self.rebalances.classic;
        *classic = classic.saturating_add(effects.rebalanced.into());
        let appends = effects.stores.into_iter().map(|store| {
            let record = GroupRecord::Metadata {
                group: id.clone(),
                value: Some(store.metadata),
            };
            Append {
                then: self.continuation(id, store.then),
                ..Append::of(vec![record])
            }
        });
        GroupOutcome {
            replies: effects.replies,
            appends: appends.collect(),
        }
    }

    /// Removes a group that no longer exists.
    fn sweep(&mut self, id: &StrBytes) {
        self.weigh(id);
        let Some(group) = self.by_id.get(id).filter(|group| group.is_vacant()) else {
            return;
        };
        if let Some(armed) = group.armed {
            self.deadlines.remove(&(armed, id.clone()));
        }
        if let Some(group) = self.by_id.remove(id) {
            assert!(self.bytes >= group.counted, "the sum of what groups take");
            self.bytes = self.bytes.saturating_sub(group.counted);
        }
    }
}

impl GroupOutcome {
    /// Returns true when it has records of this group.
    fn writes_to(&self, id: &StrBytes) -> bool {
        let records = self.appends.iter().flat_map(|append| &append.records);
        records.map(GroupRecord::group).any(|group| group == id)
    }

    /// Appends the consequences of another outcome.
    pub(super) fn extend(&mut self, other: Self) {
        self.replies.extend(other.replies);
        self.appends.extend(other.appends);
    }
}

#[cfg(test)]
mod tests;
