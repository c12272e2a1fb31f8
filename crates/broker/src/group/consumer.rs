//! One consumer group (KIP-848): its members, the target assignment and the current assignment of
//! each.
//!
//! Every durable part is a record, and the group is the latest version of each record. A decision
//! ([`ConsumerGroup::heartbeat`] and the others) reads the group and returns records;
//! [`ConsumerGroup::stage`] takes them in as being appended, [`ConsumerGroup::settle`] as written
//! or never written. There are three epochs: the group epoch grows when members or topics change;
//! the target epoch is the group epoch that the target assignment was computed for; a member epoch
//! is the target epoch that the member has reached. A group is `Assigning` while the target epoch
//! is behind the group epoch, and `Reconciling` while a member epoch is behind the target epoch.
//!
//! Invariants: at most one member holds a partition (assigned, or being revoked); a member gets a
//! partition only when no other member holds it; the group epoch never decreases. Timers are not
//! durable: after a load every member has a whole session. It reads no clock.

mod ahead;
mod classic_side;
mod convert;
mod decision;
mod describe;
mod draft;
mod heartbeat;
mod leave;
pub mod member;
mod pattern;
mod reconcile;
pub mod record;
mod subscribe;
mod successor;
mod target;
mod timer_change;
mod timers;

pub(crate) use pattern::Pattern;

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::assignor::Partitions;
use super::versioned::{Sequence, VersionedValue};
use ahead::AheadState;
pub use ahead::{Job, JobResult};
pub use classic_side::ClassicJoin;
pub use convert::upgrade;
pub use decision::{
    Ask, BoundedValue, ConsumerOptions, Decision, GroupRefusal, MigrationPolicy, Settings,
};
pub use heartbeat::{Heartbeat, HeartbeatAnswer};
pub use leave::Leave;
use member::{Member, Progress};
use record::{ConsumerRecord, Epoch, ResolvedRegex, TargetEpoch};
pub use timer_change::TimerChange;
use timers::Timers;

/// State of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerGroupState {
    /// No members.
    Empty,
    /// The members need a new target assignment, which is not computed yet.
    Assigning,
    /// Some member has not reached its target.
    Reconciling,
    /// Every member has reached its target.
    Stable,
}

impl ConsumerGroupState {
    /// Returns the name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

/// A consumer group.
#[derive(Debug, Default)]
pub struct ConsumerGroup {
    epoch: VersionedValue<Epoch>,
    target_epoch: VersionedValue<TargetEpoch>,
    /// Set while the log has topics in the format of old releases.
    old_topics: VersionedValue<()>,
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, and `group.consumer.max.size`.
    seats: BTreeMap<StrBytes, Seat>,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions, and
    // `groups::weight::GROUP_BYTES_MAX`.
    matched: BTreeMap<StrBytes, VersionedValue<ResolvedRegex>>,
    index: Index,
    timers: Timers,
    /// The cluster version that the group's topics were last compared with, and the group epoch
    /// then.
    ///
    /// If that epoch was never written, the topics count as not compared.
    compared: Option<(i64, i32)>,
    /// The cluster version in which expressions were last looked up, and the wall time then.
    looked: Option<(i64, i64)>,
    /// Long computations and their results.
    ahead: AheadState,
}

/// All records of one member id.
#[derive(Debug, Default)]
struct Seat {
    member: VersionedValue<Member>,
    target: VersionedValue<Partitions>,
    progress: VersionedValue<Progress>,
}

impl Seat {
    fn is_vacant(&self) -> bool {
        self.member.is_vacant() && self.target.is_vacant() && self.progress.is_vacant()
    }
}

/// State derived from the latest versions.
#[derive(Debug, Default, PartialEq)]
struct Index {
    /// Number of members.
    members: usize,
    /// Number of members with the classic protocol.
    classic: usize,
    /// Member id by instance id.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    statics: BTreeMap<StrBytes, StrBytes>,
    /// The member that holds a partition.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as what members hold.
    holders: BTreeMap<(Uuid, i32), StrBytes>,
    /// Approximate bytes of the whole group.
    bytes: usize,
    /// How many members subscribe by each expression.
    // Bounded: `groups::consumers::PATTERNS_MAX`.
    patterns: BTreeMap<StrBytes, usize>,
}

/// The epoch of a group before any of its records is written.
///
/// It is not 0, which a member sends to join: a member that gets 0 in its answer, because it
/// subscribes to nothing yet, would never become a member.
const FIRST_EPOCH: i32 = 1;

/// The progress of a member that has just joined.
static NEWCOMER: Progress = Progress {
    epoch: member::JOIN,
    previous_epoch: -1,
    state: member::MemberState::Stable,
    assigned: BTreeMap::new(),
    revoking: BTreeMap::new(),
};
static NOTHING: Partitions = Partitions::new();

impl ConsumerGroup {
    /// Returns true when the group has a member or an epoch.
    pub fn exists(&self) -> bool {
        self.index.members > 0
            || self.epoch.latest().is_some()
            || self.target_epoch.latest().is_some()
    }

    /// Returns true when nothing of the group is in the log or being appended.
    pub fn is_vacant(&self) -> bool {
        self.epoch.is_vacant()
            && self.target_epoch.is_vacant()
            && self.old_topics.is_vacant()
            && self.seats.is_empty()
            && self.matched.is_empty()
    }

    /// Returns true when the group has no members.
    pub fn is_empty(&self) -> bool {
        self.index.members == 0
    }

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        self.index.members
    }

    /// Returns the state.
    pub fn state(&self) -> ConsumerGroupState {
        let target = self.target_epoch();
        if self.is_empty() {
            ConsumerGroupState::Empty
        } else if self.epoch() > target {
            ConsumerGroupState::Assigning
        } else if self
            .members()
            .all(|(id, _)| self.progress(id).is_at(target))
        {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }

    /// Returns the group epoch.
    pub fn epoch(&self) -> i32 {
        self.epoch.latest().map_or(FIRST_EPOCH, |value| value.epoch)
    }

    /// Returns the group epoch that the target assignment was computed for.
    pub fn target_epoch(&self) -> i32 {
        self.target_epoch.latest().map_or(0, |value| value.epoch)
    }

    fn metadata_hash(&self) -> i64 {
        self.epoch.latest().map_or(0, |value| value.metadata_hash)
    }

    /// Returns the members.
    pub fn members(&self) -> impl Iterator<Item = (&StrBytes, &Member)> {
        let seats = self.seats.iter();
        seats.filter_map(|(id, seat)| Some((id, seat.member.latest()?)))
    }

    /// Returns a member.
    pub fn member(&self, id: &StrBytes) -> Option<&Member> {
        self.seats.get(id)?.member.latest()
    }

    /// Returns a member's epoch and current assignment.
    pub fn progress(&self, id: &StrBytes) -> &Progress {
        let progress = self.seats.get(id).and_then(|seat| seat.progress.latest());
        progress.unwrap_or(&NEWCOMER)
    }

    /// Returns a member's target assignment.
    pub fn target(&self, id: &StrBytes) -> &Partitions {
        let target = self.seats.get(id).and_then(|seat| seat.target.latest());
        target.unwrap_or(&NOTHING)
    }

    /// Returns the member id that has an instance id.
    pub fn static_member(&self, instance: &StrBytes) -> Option<&StrBytes> {
        self.index.statics.get(instance)
    }

    /// Returns the topics that an expression matched.
    fn matched(&self, regex: &StrBytes) -> Option<&ResolvedRegex> {
        self.matched.get(regex)?.latest()
    }

    /// Returns the topics that the members read.
    pub fn topics(&self) -> BTreeSet<StrBytes> {
        let names = self.members().flat_map(|(_, member)| &member.topics);
        let matched = self.index.patterns.keys();
        let matched = matched.filter_map(|regex| self.matched(regex));
        names
            .chain(matched.flat_map(|matched| &matched.topics))
            .cloned()
            .collect()
    }

    /// Returns true when a member reads `topic`.
    pub fn is_subscribed_to(&self, topic: &StrBytes) -> bool {
        let by_name = self
            .members()
            .any(|(_, member)| member.topics.contains(topic));
        let mut patterns = self.index.patterns.keys();
        by_name
            || patterns.any(|regex| {
                self.matched(regex)
                    .is_some_and(|matched| matched.topics.contains(topic))
            })
    }

    /// Returns the approximate bytes that the group takes.
    pub fn bytes(&self) -> usize {
        self.index.bytes
    }

    /// Returns by how many bytes a heartbeat enlarges the group.
    pub fn growth(&self, beat: &Heartbeat) -> usize {
        let before = self.member(&beat.member_id);
        let names = beat.topics.as_ref().map_or(0, record::bytes_of);
        let said = names.saturating_add(beat.regex.as_ref().map_or(0, |regex| regex.len()));
        match before {
            None => {
                let client = &beat.client;
                let texts = [
                    beat.member_id.len(),
                    client.id.len(),
                    client.host.len(),
                    beat.instance_id.as_ref().map_or(0, |text| text.len()),
                    beat.rack_id.as_ref().map_or(0, |text| text.len()),
                ];
                let texts = texts.into_iter().fold(said, usize::saturating_add);
                texts.saturating_add(SEAT_BYTES)
            }
            Some(member) => said.saturating_sub(record::bytes_of(&member.topics)),
        }
    }

    /// Returns true when a member subscribes by an expression that has not been looked up.
    fn has_unknown_patterns(&self) -> bool {
        let mut patterns = self.index.patterns.keys();
        patterns.any(|regex| self.matched(regex).is_none())
    }

    /// Returns the number of different expressions of the members, including `regex`.
    pub fn patterns_with(&self, regex: &StrBytes) -> usize {
        let is_new = !regex.is_empty() && !self.index.patterns.contains_key(regex);
        self.index.patterns.len() + usize::from(is_new)
    }

    /// Takes in a record that is about to be appended.
    pub fn stage(&mut self, sequence: Sequence, record: &ConsumerRecord) {
        match record {
            ConsumerRecord::Epoch(value) => self.epoch.stage(sequence, *value),
            ConsumerRecord::TargetEpoch(value) => self.target_epoch.stage(sequence, *value),
            ConsumerRecord::OldTopics(value) => {
                self.old_topics.stage(sequence, value.as_ref().map(|_| ()));
            }
            ConsumerRecord::Member(id, value) => {
                let seat = self.seats.entry(id.clone()).or_default();
                self.index.leave(id, seat.member.latest());
                seat.member.stage(sequence, value.clone());
                self.index.enter(id, seat.member.latest());
            }
            ConsumerRecord::Target(id, value) => {
                let seat = self.seats.entry(id.clone()).or_default();
                self.index.lighten(target_bytes(seat.target.latest()));
                seat.target.stage(sequence, value.clone());
                self.index.weigh(target_bytes(seat.target.latest()));
            }
            ConsumerRecord::Progress(id, value) => {
                let seat = self.seats.entry(id.clone()).or_default();
                self.index.release(id, seat.progress.latest());
                seat.progress.stage(sequence, value.clone());
                self.index.hold(id, seat.progress.latest());
            }
            ConsumerRecord::Regex(regex, value) => {
                let matched = self.matched.entry(regex.clone()).or_default();
                self.index.lighten(matched_bytes(matched.latest()));
                matched.stage(sequence, value.clone());
                self.index.weigh(matched_bytes(matched.latest()));
            }
        }
    }

    /// Ends the append of a record: it is in the log, or never will be.
    ///
    /// If it failed, the caller calls [`Self::reindex`] afterwards, once for all records of the
    /// append.
    pub fn settle(&mut self, sequence: Sequence, record: &ConsumerRecord, appended: bool) {
        if !appended {
            self.ahead.forget();
        }
        match record {
            ConsumerRecord::Epoch(_) => self.epoch.settle(sequence, appended),
            ConsumerRecord::TargetEpoch(_) => self.target_epoch.settle(sequence, appended),
            ConsumerRecord::OldTopics(_) => self.old_topics.settle(sequence, appended),
            ConsumerRecord::Member(id, _)
            | ConsumerRecord::Target(id, _)
            | ConsumerRecord::Progress(id, _) => {
                if let Some(seat) = self.seats.get_mut(id) {
                    seat.member.settle(sequence, appended);
                    seat.target.settle(sequence, appended);
                    seat.progress.settle(sequence, appended);
                    if seat.is_vacant() {
                        self.seats.remove(id);
                    }
                }
            }
            ConsumerRecord::Regex(regex, _) => {
                if let Some(matched) = self.matched.get_mut(regex) {
                    matched.settle(sequence, appended);
                    if matched.is_vacant() {
                        self.matched.remove(regex);
                    }
                }
            }
        }
    }

    /// Rebuilds the index after versions were dropped or after a load.
    pub fn reindex(&mut self) {
        let mut index = Index::default();
        for (id, seat) in &self.seats {
            index.enter(id, seat.member.latest());
            index.hold(id, seat.progress.latest());
            index.weigh(target_bytes(seat.target.latest()));
        }
        for matched in self.matched.values() {
            index.weigh(matched_bytes(matched.latest()));
        }
        self.index = index;
    }
}

const _: () = assert!(
    FIRST_EPOCH > member::JOIN,
    "who joins has no epoch of the group"
);

/// Bytes that a member takes beside its own texts: entries in maps.
const SEAT_BYTES: usize = 1024;
/// Bytes that a partition takes in a current or a target assignment.
const PARTITION_BYTES: usize = 32;

fn member_bytes(id: &StrBytes, member: &Member) -> usize {
    let names = record::bytes_of(&member.topics);
    names
        .saturating_add(id.len())
        .saturating_add(member.size())
        .saturating_add(SEAT_BYTES)
}

fn target_bytes(target: Option<&Partitions>) -> usize {
    let all = target.into_iter().flat_map(BTreeMap::values);
    all.fold(0, |bytes, partitions| {
        bytes.saturating_add(partitions.len().saturating_mul(PARTITION_BYTES))
    })
}

fn matched_bytes(matched: Option<&ResolvedRegex>) -> usize {
    matched.map_or(0, |matched| record::bytes_of(&matched.topics))
}

impl Index {
    fn weigh(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn lighten(&mut self, bytes: usize) {
        assert!(self.bytes >= bytes, "the sum of what is kept of members");
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn enter(&mut self, id: &StrBytes, member: Option<&Member>) {
        let Some(member) = member else { return };
        self.weigh(member_bytes(id, member));
        self.members += 1;
        self.classic += usize::from(member.classic.is_some());
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        if !member.regex.is_empty() {
            *self.patterns.entry(member.regex.clone()).or_default() += 1;
        }
    }

    fn leave(&mut self, id: &StrBytes, member: Option<&Member>) {
        let Some(member) = member else { return };
        self.lighten(member_bytes(id, member));
        assert!(
            self.classic <= self.members,
            "members with the classic protocol are members"
        );
        self.members -= 1;
        self.classic -= usize::from(member.classic.is_some());
        if let Some(instance) = &member.instance_id
            && self.statics.get(instance) == Some(id)
        {
            self.statics.remove(instance);
        }
        if let Some(count) = self.patterns.get_mut(&member.regex) {
            *count -= 1;
            if *count == 0 {
                self.patterns.remove(&member.regex);
            }
        }
    }

    fn hold(&mut self, id: &StrBytes, progress: Option<&Progress>) {
        for partition in progress.into_iter().flat_map(Progress::held) {
            self.weigh(PARTITION_BYTES);
            self.holders.insert(partition, id.clone());
        }
    }

    fn release(&mut self, id: &StrBytes, progress: Option<&Progress>) {
        for partition in progress.into_iter().flat_map(Progress::held) {
            self.lighten(PARTITION_BYTES);
            if self.holders.get(&partition) == Some(id) {
                self.holders.remove(&partition);
            }
        }
    }
}

#[cfg(test)]
mod tests;
