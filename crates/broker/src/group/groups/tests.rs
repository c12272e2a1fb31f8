//! Offsets and groups as clients see them, and after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Clock;
use proptest::prelude::*;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{GroupId, OffsetCommitRequest, OffsetDeleteRequest, TopicName};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

use super::{Append, GroupOutcome, GroupRef, Groups, GroupsOptions};
use crate::access::Access;
use crate::group::classic::{
    ClassicGroup, ClassicGroupState, Join, Leaver, Limits, Reply, Sync, Token,
};
use crate::group::cluster::fake::FakeCluster;
use crate::group::consumer::ConsumerOptions;
use crate::group::consumer::record::{ConsumerRecord, Epoch};
use crate::group::records::{GroupRecord, RawRecord};
use crate::group::survey::Survey;
use crate::group::{
    CheckedCommit, ClockReading, Commit, GoneTopics, OffsetDeletion, OffsetFetchAnswer, Topics,
};
use crate::rests::tests::now;

mod replaced;

/// Topics "t" and "u" with three partitions each.
struct TwoTopics;

impl Topics for TwoTopics {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        let id = match name {
            "t" => 11,
            "u" => 12,
            _ => return None,
        };
        Some(TopicId(Uuid::from_u128(id)))
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        self.topic_id(name).is_some() && (0..3).contains(&partition)
    }
}

/// A consumer's subscription to "t", without user data.
const SUBSCRIPTION: &[u8] = b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff";

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Groups over a log in memory, with appends that the test ends.
struct Bench {
    groups: Groups,
    now: ClockReading,
    log: Vec<RawRecord>,
    queue: Vec<(u64, Append)>,
    replies: BTreeMap<u64, Reply>,
    sequence: u64,
    token: u64,
    /// Groups whose last state could not be written.
    unwritten: BTreeSet<StrBytes>,
}

fn options() -> GroupsOptions {
    GroupsOptions {
        classic: Limits {
            initial_rebalance_delay: Duration::ZERO,
            members_max: 10,
        },
        offset_metadata_max: 8,
        offsets_retention_ms: 1_000_000,
        consumer: ConsumerOptions::kafka(),
        state_bytes_max: 64 << 20,
    }
}

impl Groups {
    fn iter(&self) -> impl Iterator<Item = (&StrBytes, GroupRef<'_>)> {
        let all = self.by_id.iter().filter(|(_, group)| group.exists());
        all.map(|(id, group)| (id, group.kind()))
    }

    fn classics(&self) -> impl Iterator<Item = (&StrBytes, &ClassicGroup)> {
        self.iter().filter_map(|(id, kind)| match kind {
            GroupRef::Classic(group) => Some((id, group)),
            GroupRef::Consumer(_) => None,
        })
    }

    fn classic(&self, id: &StrBytes) -> Option<&ClassicGroup> {
        let mut all = self.classics();
        Some(all.find(|(found, _)| *found == id)?.1)
    }
}

impl Bench {
    fn new() -> Self {
        Self {
            groups: Groups::new(options()),
            now: ClockReading {
                at: Clock::system().now(),
                wall_ms: 50_000,
                step_ms: 0,
            },
            log: Vec::new(),
            queue: Vec::new(),
            replies: BTreeMap::new(),
            sequence: 0,
            token: 0,
            unwritten: BTreeSet::new(),
        }
    }

    fn write(&mut self, append: Append) {
        self.sequence += 1;
        self.groups.stage(self.sequence, &append.records, self.now);
        self.queue.push((self.sequence, append));
    }

    fn take(&mut self, outcome: GroupOutcome) {
        for (token, reply) in outcome.replies {
            assert!(self.replies.insert(token.0, reply).is_none());
        }
        outcome
            .appends
            .into_iter()
            .for_each(|append| self.write(append));
    }

    fn records(&mut self, records: Vec<GroupRecord>) {
        if !records.is_empty() {
            self.write(Append::of(records));
        }
    }

    fn settle(&mut self, fails: bool) {
        if self.queue.is_empty() {
            return;
        }
        let (sequence, append) = self.queue.remove(0);
        if !fails {
            self.log
                .extend(append.records.iter().map(GroupRecord::encode));
        }
        for record in &append.records {
            if let GroupRecord::Metadata { group, .. } = record {
                self.unwritten.remove(group);
                self.unwritten.extend(fails.then(|| group.clone()));
            }
        }
        let outcome = if fails {
            Err(ErrorCode::NotCoordinator)
        } else {
            Ok(())
        };
        let outcome = self
            .groups
            .settle(sequence, append, !fails, outcome, self.now);
        self.take(outcome);
    }

    fn settle_all(&mut self) {
        while !self.queue.is_empty() {
            self.settle(false);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now.at += Duration::from_millis(ms);
        self.now.wall_ms += i64::try_from(ms).unwrap();
        let outcome = self.groups.expire(self.now, &FakeCluster::default());
        self.take(outcome);
    }

    /// Lets time pass without handling deadlines.
    fn elapse(&mut self, ms: i64) {
        self.now.at += Duration::from_millis(ms.unsigned_abs());
        self.now.wall_ms += ms;
    }

    /// Returns the tombstones of expired offsets, searched group by group.
    fn expired(&self) -> Vec<Vec<GroupRecord>> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let (some, last) = self.groups.expire_offsets(after.as_ref(), 1, self.now);
            all.extend(some);
            match last {
                None => return all,
                last => after = last,
            }
        }
    }

    fn commit(&mut self, request: &OffsetCommitRequest, version: i16) -> Vec<i16> {
        let how = Commit::plain(version);
        let rules = (self.now.wall_ms, options().offset_metadata_max);
        let access = Access::unlimited();
        let mut readied = now(CheckedCommit::of(request, how, &TwoTopics, rules, &access));
        let verdict = self.groups.commit(request, &readied, self.now);
        self.records(readied.taken(verdict));
        let response = now(readied.told(request, verdict));
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    }

    fn join(&mut self, group: &str, id: &str, fresh: &str) -> u64 {
        self.token += 1;
        let join = Join {
            member_id: text(id),
            instance_id: None,
            client_id: text("c"),
            client_host: text("/::1"),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            protocol_type: text("consumer"),
            protocols: vec![(text("range"), Bytes::from_static(SUBSCRIPTION))],
            fresh_id: text(fresh),
            id_required: false,
            can_skip_assignment: false,
        };
        let outcome = self.groups.join(
            &text(group),
            join,
            Token(self.token),
            self.now,
            &FakeCluster::default(),
        );
        self.take(outcome);
        self.token
    }

    fn sync(&mut self, group: &str, id: &str, generation: i32) {
        self.token += 1;
        let sync = Sync {
            member_id: text(id),
            instance_id: None,
            generation,
            protocol_type: None,
            protocol: None,
            assignments: [(text(id), Bytes::from(self.token.to_string()))].into(),
        };
        let outcome = self.groups.sync(
            &text(group),
            sync,
            Token(self.token),
            self.now,
            &FakeCluster::default(),
        );
        self.take(outcome);
    }

    /// Makes "m" the only member of `group`, which becomes stable.
    fn stable(&mut self, group: &str) {
        self.join(group, "", "m");
        self.pass(0);
        let generation = self.groups.classic(&text(group)).unwrap().generation();
        self.sync(group, "m", generation);
        self.settle_all();
        assert_eq!(
            self.groups.classic(&text(group)).unwrap().state(),
            ClassicGroupState::Stable
        );
    }

    fn leave(&mut self, group: &str, id: &str) {
        let leaver = Leaver {
            member_id: text(id),
            instance_id: None,
        };
        let (_, outcome) =
            self.groups
                .leave(&text(group), &[leaver], self.now, &FakeCluster::default());
        self.take(outcome);
    }

    fn committed(&self, group: &str) -> BTreeMap<(String, i32), (i64, String)> {
        all_offsets(&self.groups, group)
    }

    fn reloaded(&self) -> Groups {
        let mut groups = Groups::new(options());
        for (key, value) in &self.log {
            let record = GroupRecord::decode(key, value.as_deref()).unwrap().unwrap();
            groups.load(&record, self.now);
        }
        let (mut after, mut outcome) = (None, GroupOutcome::default());
        loop {
            let now = (self.now, &FakeCluster::default() as &dyn super::Cluster);
            let (some, last) = groups.finish_load(after.as_ref(), 1, now);
            outcome.extend(some);
            after = last;
            if after.is_none() {
                break;
            }
        }
        assert!(outcome.replies.is_empty() && outcome.appends.is_empty());
        groups
    }
}

fn all_offsets(groups: &Groups, group: &str) -> BTreeMap<(String, i32), (i64, String)> {
    let request = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(text(group)))
        .with_topics(None);
    let mut offsets = BTreeMap::new();
    let mut found = OffsetFetchAnswer::default();
    while groups.fetch_some(&request, false, 1, &mut found).unwrap() {}
    for topic in found.into_topics() {
        for one in topic.partitions {
            let note = one.metadata.unwrap().to_string();
            offsets.insert(
                (topic.name.to_string(), one.partition_index),
                (one.committed_offset, note),
            );
        }
    }
    offsets
}

fn commit(group: &str, offsets: &[(&str, i32, i64)]) -> OffsetCommitRequest {
    let topics = offsets.iter().map(|(topic, partition, offset)| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset);
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(text(topic)))
            .with_partitions(vec![partition])
    });
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect())
}

fn as_member(
    mut request: OffsetCommitRequest,
    member: &str,
    generation: i32,
) -> OffsetCommitRequest {
    request.member_id = text(member);
    request.generation_id_or_member_epoch = generation;
    request
}

fn code(error: ErrorCode) -> i16 {
    error.code()
}

#[test]
fn a_simple_consumer_commits_without_joining() {
    let mut bench = Bench::new();
    let request = commit("g", &[("t", 0, 5), ("t", 7, 1), ("x", 0, 1)]);
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(bench.commit(&request, 9), [0, unknown, unknown]);
    // The offset is not in the log yet, so it is not visible.
    assert!(bench.committed("g").is_empty());
    bench.settle(false);
    assert_eq!(
        bench.committed("g"),
        [(("t".into(), 0), (5, String::new()))].into()
    );
    let listed: Vec<_> = bench.groups.classics().collect();
    assert_eq!(
        (listed.len(), listed[0].1.state()),
        (1, ClassicGroupState::Empty)
    );
}

/// This also holds for a machine with a deadline in the past: the shard has one thread.
#[test]
fn looking_at_deadlines_ends_and_leaves_none_behind() {
    let mut bench = Bench::new();
    for group in 0..250 {
        bench.join(&format!("g{group}"), "", "m");
    }
    bench.now.at += Duration::from_hours(1);
    for _ in 0..10 {
        let outcome = bench.groups.expire(bench.now, &FakeCluster::default());
        bench.take(outcome);
    }
    assert!(
        bench
            .groups
            .next_deadline()
            .is_none_or(|at| at > bench.now.at)
    );
    // A deadline at the time that was handled last waits for the clock to advance.
    bench.groups.arm_at(&text("g0"), bench.now.at);
    assert!(
        bench
            .groups
            .next_deadline()
            .is_some_and(|at| at > bench.now.at)
    );
}

#[test]
fn a_commit_that_fails_leaves_no_trace() {
    let mut bench = Bench::new();
    bench.commit(&commit("g", &[("t", 0, 5)]), 9);
    bench.settle(true);
    assert!(bench.committed("g").is_empty());
    assert_eq!(bench.groups.classics().count(), 0);
    // The newer of two commits survives the failure of the older one.
    bench.commit(&commit("g", &[("t", 0, 5)]), 9);
    bench.commit(&commit("g", &[("t", 0, 6)]), 9);
    bench.settle(true);
    bench.settle(false);
    assert_eq!(bench.committed("g")[&("t".into(), 0)].0, 6);
}

#[test]
fn only_members_of_this_generation_commit() {
    let mut bench = Bench::new();
    let offsets = [("t", 0, 5)];
    let absent = as_member(commit("g", &offsets), "m", 1);
    assert_eq!(
        bench.commit(&absent, 8),
        [code(ErrorCode::IllegalGeneration)]
    );
    assert_eq!(bench.commit(&absent, 9), [code(ErrorCode::GroupIdNotFound)]);
    bench.stable("g");
    assert_eq!(bench.commit(&absent, 9), [0]);
    for (member, generation, error) in [
        ("m", 2, ErrorCode::IllegalGeneration),
        ("x", 1, ErrorCode::UnknownMemberId),
        ("", -1, ErrorCode::UnknownMemberId),
    ] {
        let request = as_member(commit("g", &offsets), member, generation);
        assert_eq!(
            bench.commit(&request, 9),
            [code(error)],
            "{member} {generation}"
        );
    }
    // While the next assignment is computed, the offsets may be those of a former owner.
    bench.join("g", "m", "");
    let request = as_member(commit("g", &offsets), "m", 2);
    assert_eq!(
        bench.commit(&request, 9),
        [code(ErrorCode::RebalanceInProgress)]
    );
}

#[test]
fn notes_have_a_largest_size() {
    let mut bench = Bench::new();
    let mut request = commit("g", &[("t", 0, 5), ("t", 1, 6)]);
    request.topics[0].partitions[0].committed_metadata = Some(text("123456789"));
    request.topics[1].partitions[0].committed_metadata = Some(text("12345678"));
    assert_eq!(
        bench.commit(&request, 9),
        [code(ErrorCode::OffsetMetadataTooLarge), 0]
    );
    bench.settle(false);
    assert_eq!(
        bench.committed("g"),
        [(("t".into(), 1), (6, "12345678".into()))].into()
    );
}

#[test]
fn offsets_are_fetched_by_partition_and_unknown_ones_are_minus_one() {
    let mut bench = Bench::new();
    let mut request = commit("g", &[("t", 0, 5)]);
    request.topics[0].partitions[0].committed_leader_epoch = 3;
    bench.commit(&request, 9);
    let topic = OffsetFetchRequestTopics::default()
        .with_name(TopicName(text("t")))
        .with_partition_indexes(vec![0, 1]);
    let fetch = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(text("g")))
        .with_topics(Some(vec![topic]));
    let offsets = |bench: &Bench, latest| {
        let mut found = OffsetFetchAnswer::default();
        while bench
            .groups
            .fetch_some(&fetch, latest, 1, &mut found)
            .unwrap()
        {}
        let topics = found.into_topics();
        let partitions = topics[0].partitions.iter();
        let each = partitions.map(|one| {
            (
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
            )
        });
        each.collect::<Vec<_>>()
    };
    assert_eq!(offsets(&bench, false), [(0, -1, -1), (1, -1, -1)]);
    assert_eq!(offsets(&bench, true), [(0, 5, 3), (1, -1, -1)]);
    bench.settle(false);
    assert_eq!(offsets(&bench, false), [(0, 5, 3), (1, -1, -1)]);
}

#[test]
fn offsets_of_topics_that_are_read_are_not_deleted() {
    let mut bench = Bench::new();
    let request = OffsetDeleteRequest::default().with_group_id(GroupId(text("g")));
    let missing = bench.groups.check_delete_offsets(&text("g"));
    assert_eq!(missing, Err(ErrorCode::GroupIdNotFound));
    bench.commit(&commit("g", &[("t", 0, 5), ("u", 0, 6), ("u", 1, 6)]), 9);
    bench.settle_all();
    bench.stable("g");
    let mut going = OffsetDeletion::default();
    let mut is_read = |topic| {
        bench
            .groups
            .find_going(&text("g"), &text(topic), 0, &mut going)
    };
    assert!(is_read("t"));
    assert!(!is_read("u") && !is_read("u") && !is_read("x"));
    let (records, read) = bench.groups.delete_offsets(&request, &going).unwrap();
    assert!(read.is_empty() && records.len() == 1);
    assert!(going.log_bytes() <= encoded(&records) + 7);
    bench.records(records);
    bench.settle_all();
    assert_eq!(
        bench.committed("g").into_keys().collect::<Vec<_>>(),
        [("t".into(), 0), ("u".into(), 1)]
    );
}

/// Bytes of keys and values.
fn encoded(records: &[GroupRecord]) -> usize {
    let each = records.iter().map(GroupRecord::encode);
    each.map(|(key, value)| key.len() + value.map_or(0, |value| value.len()))
        .sum()
}

#[test]
fn groups_are_deleted_with_their_offsets_when_nobody_is_in_them() {
    let mut bench = Bench::new();
    let g = text("g");
    assert_eq!(
        bench.groups.delete_group(&g),
        Err(ErrorCode::GroupIdNotFound)
    );
    bench.stable("g");
    bench.commit(&as_member(commit("g", &[("t", 0, 5)]), "m", 1), 9);
    assert_eq!(bench.groups.delete_group(&g), Err(ErrorCode::NonEmptyGroup));
    bench.leave("g", "m");
    let records = bench.groups.delete_group(&g).unwrap();
    assert_eq!(
        records.len(),
        2,
        "one tombstone for the offset, one for the group"
    );
    bench.records(records);
    assert_eq!(
        bench.groups.delete_group(&g),
        Err(ErrorCode::GroupIdNotFound)
    );
    bench.settle_all();
    assert!(bench.groups.classic(&g).is_none() && bench.committed("g").is_empty());
    assert_eq!(bench.reloaded().iter().count(), 0);
}

#[test]
fn a_deletion_that_fails_brings_the_group_back() {
    let mut bench = Bench::new();
    bench.stable("g");
    bench.commit(&as_member(commit("g", &[("t", 0, 5)]), "m", 1), 9);
    bench.leave("g", "m");
    bench.settle_all();
    let records = bench.groups.delete_group(&text("g")).unwrap();
    bench.records(records);
    bench.settle(true);
    let group = bench.groups.classic(&text("g")).unwrap();
    assert_eq!(
        (group.state(), group.generation()),
        (ClassicGroupState::Empty, 2)
    );
    assert_eq!(bench.committed("g").len(), 1);
}

#[test]
fn offsets_expire_when_the_group_has_been_empty_for_long() {
    let mut bench = Bench::new();
    bench.stable("g");
    bench.commit(&as_member(commit("g", &[("t", 0, 5)]), "m", 1), 9);
    bench.settle_all();
    bench.elapse(2_000_000);
    assert!(bench.expired().is_empty(), "it is being read");
    bench.leave("g", "m");
    bench.settle_all();
    bench.elapse(999_999);
    assert!(bench.expired().is_empty());
    bench.elapse(1);
    let expired = bench.expired();
    assert_eq!(expired.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    for records in expired {
        bench.records(records);
    }
    bench.settle_all();
    assert_eq!(bench.groups.classics().count(), 0);
}

/// There may be a million groups, and the shard has other work.
#[test]
fn groups_that_are_not_here_any_more_go_some_at_a_time() {
    let mut bench = Bench::new();
    for number in 0..5 {
        bench.commit(&commit(&format!("h{number}"), &[("t", 0, 5)]), 9);
        bench.settle_all();
    }
    let mut gone = bench.groups.take();
    assert!(bench.groups.iter().next().is_none() && bench.groups.bytes() == 0);
    for left in [3, 1] {
        assert!(gone.abandon(2, ErrorCode::NotCoordinator).is_some());
        assert_eq!(gone.iter().count(), left);
    }
    assert!(gone.abandon(2, ErrorCode::NotCoordinator).is_none());
    assert!(gone.iter().next().is_none());
}

/// The bytes of groups are bounded: new groups get an error to retry, members of existing groups
/// continue, and freed room is used again.
#[test]
fn groups_take_no_more_bytes_than_they_may_and_those_in_them_go_on() {
    let mut bench = Bench::new();
    bench.groups.options.state_bytes_max = 60_000;
    bench.stable("g");
    let full = code(ErrorCode::CoordinatorLoadInProgress);
    let mut stored = 0;
    loop {
        let told = bench.commit(&commit(&format!("h{stored}"), &[("t", 0, 5)]), 9);
        bench.settle_all();
        if told == [full] {
            break;
        }
        assert_eq!(told, [0]);
        stored += 1;
    }
    assert!((10..100).contains(&stored), "{stored} groups");
    assert!(bench.groups.bytes() <= 60_000);
    let token = bench.join("new", "", "n");
    let Reply::Join(refused) = &bench.replies[&token] else {
        panic!("a join was asked for")
    };
    assert_eq!(refused.error_code, full);
    assert_eq!(bench.commit(&commit("h0", &[("t", 0, 6)]), 9), [0]);
    bench.settle_all();
    let token = bench.join("g", "m", "unused");
    bench.pass(0);
    assert!(
        bench.replies.contains_key(&token),
        "a member may join again"
    );
    // After a load the groups have the same bytes, except for the members' other protocols.
    let reloaded = bench.reloaded();
    assert_eq!(reloaded.bytes(), bench.groups.bytes());
    for at in 0..stored {
        let id = text(&format!("h{at}"));
        let records = bench.groups.delete_group(&id).unwrap();
        bench.records(records);
    }
    bench.settle_all();
    assert!(bench.groups.bytes() < 10_000, "{}", bench.groups.bytes());
    assert_eq!(bench.commit(&commit("late", &[("t", 0, 5)]), 9), [0]);
}

/// A `JoinGroup` that gets `MEMBER_ID_REQUIRED` creates a group, which expires, as in Kafka.
#[test]
fn a_group_that_nobody_came_back_to_is_forgotten() {
    let mut bench = Bench::new();
    bench.token += 1;
    let join = Join {
        member_id: StrBytes::default(),
        instance_id: None,
        client_id: text("c"),
        client_host: text("/::1"),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocol_type: text("consumer"),
        protocols: vec![(text("range"), Bytes::new())],
        fresh_id: text("m"),
        id_required: true,
        can_skip_assignment: false,
    };
    let (token, now) = (Token(bench.token), bench.now);
    let cluster = FakeCluster::default();
    let outcome = bench.groups.join(&text("g"), join, token, now, &cluster);
    bench.take(outcome);
    bench.settle_all();
    assert!(bench.expired().is_empty(), "somebody may come");
    bench.pass(10_000);
    for records in bench.expired() {
        bench.records(records);
    }
    bench.settle_all();
    assert_eq!((bench.groups.iter().count(), bench.groups.bytes()), (0, 0));
}

/// A handed-out id begins with the client id, which may be 32 KiB long.
#[test]
fn ids_handed_out_to_clients_with_long_names_take_no_more_bytes_than_groups_may() {
    let mut bench = Bench::new();
    // All come from one address, which may have half.
    bench.groups.options.state_bytes_max = 2 << 20;
    let cluster = FakeCluster::default();
    let mut handed_out = 0;
    loop {
        assert!(handed_out < 100, "more is kept than groups may take");
        bench.token += 1;
        let name = format!("{handed_out:030000}");
        let join = Join {
            member_id: StrBytes::default(),
            instance_id: None,
            client_id: text(&name),
            client_host: text("/::1"),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            protocol_type: text("consumer"),
            protocols: vec![(text("range"), Bytes::new())],
            fresh_id: text(&format!("{name}-id")),
            id_required: true,
            can_skip_assignment: false,
        };
        let (token, now) = (Token(bench.token), bench.now);
        let outcome = bench.groups.join(&text("g"), join, token, now, &cluster);
        bench.take(outcome);
        bench.settle_all();
        let Reply::Join(told) = &bench.replies[&token.0] else {
            panic!("a join was asked for")
        };
        if told.error_code == code(ErrorCode::CoordinatorLoadInProgress) {
            break;
        }
        assert_eq!(told.error_code, code(ErrorCode::MemberIdRequired));
        handed_out += 1;
    }
    assert!(handed_out > 20, "{handed_out}");
    assert!(bench.groups.bytes() <= 1 << 20);
    bench.pass(10_000);
    for records in bench.expired() {
        bench.records(records);
    }
    bench.settle_all();
    assert_eq!(bench.groups.bytes(), 0, "nobody came back with an id");
}

/// Holds for any jump of the wall clock, whether or not it is corrected after a restart.
#[test]
fn offsets_live_as_long_as_time_passes_and_not_as_the_wall_clock_jumps() {
    const DAY_MS: i64 = 86_400_000;
    for jump in [-DAY_MS, -1_000_001, -1, 1, 999_999, DAY_MS] {
        for (retention_ms, lives_ms) in [(-1, 1_000_000), (10_000, 10_000)] {
            let mut bench = Bench::new();
            bench.now.wall_ms = 100 * DAY_MS;
            let mut request = commit("g", &[("t", 0, 5)]);
            request.retention_time_ms = retention_ms;
            bench.commit(&request, 4);
            bench.settle_all();
            bench.now.wall_ms += jump;
            bench.elapse(lives_ms - 1);
            assert!(bench.expired().is_empty(), "{jump}");
            bench.elapse(1);
            assert!(!bench.expired().is_empty(), "{jump}");
            // Loaded under a clock that was set back: the time counts from the load, not from when
            // the clock catches up.
            bench.now.wall_ms = 50 * DAY_MS;
            let mut again = bench.reloaded();
            std::mem::swap(&mut again, &mut bench.groups);
            assert!(bench.expired().is_empty(), "{jump}");
            bench.elapse(lives_ms);
            assert!(!bench.expired().is_empty(), "{jump}");
        }
    }
}

#[test]
fn a_group_that_was_left_is_forgotten_after_its_time_and_not_as_the_wall_clock_jumps() {
    for jump in [-86_400_000, 86_400_000] {
        let mut bench = Bench::new();
        bench.now.wall_ms = 1_000_000_000;
        bench.stable("g");
        bench.commit(&as_member(commit("g", &[("t", 0, 5)]), "m", 1), 9);
        bench.settle_all();
        bench.elapse(5_000_000);
        bench.leave("g", "m");
        bench.settle_all();
        bench.now.wall_ms += jump;
        bench.elapse(999_999);
        assert!(bench.expired().is_empty(), "{jump}");
        bench.elapse(1);
        assert_eq!(bench.expired().len(), 1, "{jump}");
    }
}

/// Sessions, rebalances and syncs are deadlines of the monotonic clock.
#[test]
fn no_member_is_given_up_nor_kept_because_the_wall_clock_jumps() {
    for jump in [-86_400_000, 86_400_000] {
        let mut bench = Bench::new();
        bench.now.wall_ms = 1_000_000_000;
        bench.stable("g");
        bench.now.wall_ms += jump;
        bench.pass(9_999);
        assert_eq!(
            bench.groups.classic(&text("g")).unwrap().state(),
            ClassicGroupState::Stable
        );
        bench.pass(1);
        assert_eq!(
            bench.groups.classic(&text("g")).unwrap().state(),
            ClassicGroupState::Empty
        );
    }
}

#[test]
fn a_retention_that_the_client_asked_for_counts_from_the_commit() {
    let mut bench = Bench::new();
    let mut request = commit("g", &[("t", 0, 5)]);
    request.retention_time_ms = 10;
    bench.commit(&request, 4);
    bench.commit(&commit("g", &[("u", 0, 6)]), 4);
    bench.settle_all();
    bench.elapse(10);
    let expired = bench.expired();
    assert_eq!(expired.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
    for records in expired {
        bench.records(records);
    }
    bench.settle_all();
    assert_eq!(
        bench.committed("g").into_keys().collect::<Vec<_>>(),
        [("u".into(), 0)]
    );
}

#[test]
fn offsets_go_with_their_topic_but_not_with_its_successor() {
    let mut bench = Bench::new();
    bench.commit(&commit("g", &[("t", 0, 5), ("u", 0, 6)]), 9);
    bench.settle_all();
    let successor = [(text("t"), TopicId(Uuid::from_u128(99)))];
    let lost = |bench: &Bench, gone| {
        let gone = GoneTopics::of(gone);
        bench.groups.topics_deleted(&gone, None, usize::MAX).0
    };
    assert!(lost(&bench, successor).is_empty());
    let gone = [(text("t"), TopicId(Uuid::from_u128(11)))];
    for records in lost(&bench, gone) {
        bench.records(records);
    }
    bench.settle_all();
    assert_eq!(
        bench.committed("g").into_keys().collect::<Vec<_>>(),
        [("u".into(), 0)]
    );
}

#[test]
fn offsets_of_a_deleted_topic_are_found_in_some_groups_at_a_time() {
    let mut bench = Bench::new();
    let names = ["a", "b", "c"];
    for name in names {
        bench.commit(&commit(name, &[("t", 0, 5), ("u", 0, 6)]), 9);
    }
    bench.settle_all();
    let gone = GoneTopics::of([(text("t"), TopicId(Uuid::from_u128(11)))]);
    let (mut after, mut turns) = (None, Vec::new());
    loop {
        let (lost, last) = bench.groups.topics_deleted(&gone, after.as_ref(), 2);
        turns.push(lost.len());
        for records in lost {
            bench.records(records);
        }
        after = last;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(turns, [2, 1]);
    bench.settle_all();
    for name in names {
        assert!(bench.committed(name).into_keys().eq([("u".into(), 0)]));
    }
}

#[test]
fn a_group_that_cannot_be_created_is_not_there() {
    let mut bench = Bench::new();
    let token = bench.join("g", "", "m");
    assert_eq!(bench.queue.len(), 1, "the new group is written");
    bench.settle(true);
    let Reply::Join(answer) = &bench.replies[&token] else {
        panic!("a join was asked for")
    };
    assert_eq!(answer.error_code, code(ErrorCode::NotCoordinator));
    assert_eq!(bench.groups.classics().count(), 0);
    let late = bench.join("g", "m", "");
    let Reply::Join(answer) = &bench.replies[&late] else {
        panic!("a join was asked for")
    };
    assert_eq!(answer.error_code, code(ErrorCode::UnknownMemberId));
}

#[derive(Clone, Debug)]
enum Step {
    Commit {
        group: u8,
        partition: u8,
        offset: i64,
    },
    Join {
        group: u8,
        member: u8,
    },
    Sync {
        group: u8,
        member: u8,
    },
    Leave {
        group: u8,
        member: u8,
    },
    Delete {
        group: u8,
    },
    Expire,
    Pass {
        ms: u64,
    },
    Settle {
        fails: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (group, member) = (0..3u8, 0..2u8);
    let who = (group.clone(), member);
    prop_oneof![
        4 => (group.clone(), 0..3u8, 0..100i64)
            .prop_map(|(group, partition, offset)| Step::Commit { group, partition, offset }),
        2 => who.clone().prop_map(|(group, member)| Step::Join { group, member }),
        2 => who.clone().prop_map(|(group, member)| Step::Sync { group, member }),
        1 => who.prop_map(|(group, member)| Step::Leave { group, member }),
        1 => group.prop_map(|group| Step::Delete { group }),
        1 => Just(Step::Expire),
        2 => prop_oneof![Just(1), Just(11_000), Just(1_100_000)].prop_map(|ms| Step::Pass { ms }),
        4 => prop::bool::weighted(0.2).prop_map(|fails| Step::Settle { fails }),
    ]
}

fn run(bench: &mut Bench, step: &Step) {
    let name = |group: u8| format!("g{group}");
    let id = |member: u8| format!("m{member}");
    match *step {
        Step::Commit {
            group,
            partition,
            offset,
        } => {
            let request = commit(&name(group), &[("t", i32::from(partition), offset)]);
            let generation = bench
                .groups
                .classic(&text(&name(group)))
                .map(ClassicGroup::generation);
            let member = bench
                .groups
                .classic(&text(&name(group)))
                .and_then(|one| one.members().next().map(|(id, _)| id.to_string()));
            let request = match (member, generation) {
                (Some(member), Some(generation)) => as_member(request, &member, generation),
                _ => request,
            };
            bench.commit(&request, 9);
        }
        Step::Join { group, member } => {
            let known = bench
                .groups
                .classic(&text(&name(group)))
                .is_some_and(|one| one.members().any(|(known, _)| known.as_str() == id(member)));
            let (old, fresh) = if known {
                (id(member), String::new())
            } else {
                (String::new(), id(member))
            };
            bench.join(&name(group), &old, &fresh);
        }
        Step::Sync { group, member } => {
            let generation = bench
                .groups
                .classic(&text(&name(group)))
                .map_or(0, ClassicGroup::generation);
            bench.sync(&name(group), &id(member), generation);
        }
        Step::Leave { group, member } => bench.leave(&name(group), &id(member)),
        Step::Delete { group } => {
            if let Ok(records) = bench.groups.delete_group(&text(&name(group))) {
                bench.records(records);
            }
        }
        Step::Expire => {
            for records in bench.expired() {
                bench.records(records);
            }
        }
        Step::Pass { ms } => bench.pass(ms),
        Step::Settle { fails } => bench.settle(fails),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// At any time the log has what readers see; at rest it also has the groups and their
    /// generations.
    #[test]
    fn what_is_reloaded_is_what_was_there(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::new();
        for step in steps {
            run(&mut bench, &step);
            let reloaded = bench.reloaded();
            for group in ["g0", "g1", "g2"] {
                prop_assert_eq!(bench.committed(group), all_offsets(&reloaded, group));
            }
        }
        bench.settle_all();
        let reloaded = bench.reloaded();
        let ids = |groups: &Groups| groups.classics().map(|(id, _)| id.to_string()).collect::<Vec<_>>();
        let unwritten = |group: &ClassicGroup| {
            matches!(group.state(), ClassicGroupState::PreparingRebalance | ClassicGroupState::CompletingRebalance)
        };
        for (id, group) in bench.groups.classics().filter(|(_, group)| !unwritten(group)) {
            if bench.unwritten.contains(id) {
                continue;
            }
            let Some(again) = reloaded.classic(id) else {
                return Err(TestCaseError::fail(format!("{id:?} is lost")));
            };
            prop_assert_eq!(again.state(), group.state());
            prop_assert_eq!(again.generation(), group.generation());
            let members = |group: &ClassicGroup| {
                let members = group.members();
                members.map(|(id, one)| (id.clone(), one.assignment.clone())).collect::<Vec<_>>()
            };
            prop_assert_eq!(members(again), members(group));
        }
        for id in ids(&reloaded) {
            prop_assert!(ids(&bench.groups).contains(&id), "{} came back", id);
        }
    }
}

#[test]
fn the_groups_that_an_address_makes_take_half_of_what_all_may() {
    let mut bench = Bench::new();
    bench.groups.options.state_bytes_max = 200_000;
    let mut made = |host: &str, group: &str| {
        bench.groups.asker = None;
        bench.groups.asked_by(&text(host));
        let request = commit(group, &[("t", 0, 1)]);
        let code = bench.commit(&request, 8)[0];
        bench.settle_all();
        ErrorCode::try_from_code(code)
    };
    let refused = Some(ErrorCode::CoordinatorLoadInProgress);
    let names = |host: &str| {
        (0..200)
            .map(move |n| format!("{host}-{n:0>1000}"))
            .collect::<Vec<_>>()
    };
    let (mine, theirs) = (names("a"), names("b"));
    let first = mine.iter().filter(|name| made("/10.0.0.1", name).is_none());
    let first = first.count();
    assert!((30..60).contains(&first), "{first}: ids count");
    // An address that has used up its share keeps using its groups and does not hinder others.
    assert_eq!(made("/10.0.0.1", &mine[0]), None);
    assert_eq!(made("/10.0.0.1", &"another".repeat(500)), refused);
    let second = theirs
        .iter()
        .filter(|name| made("/10.0.0.2", name).is_none());
    let second = second.count();
    assert!(second.abs_diff(first) <= 1, "{first} {second}");
    let shares = Rc::clone(&bench.groups.shares);
    assert!(shares.of(&text("/10.0.0.1")) > 90_000);
    assert!(bench.groups.bytes() <= 200_000);
    bench.groups = bench.reloaded();
    assert_eq!(shares.of(&text("/10.0.0.1")), 0, "groups that are gone");
    assert_eq!(
        bench.groups.shares.of(&text("/10.0.0.1")),
        0,
        "a start forgets"
    );
}

#[test]
fn two_addresses_that_take_all_that_groups_may_leave_a_third_a_fair_share() {
    let mut bench = Bench::new();
    bench.groups.options.state_bytes_max = 400_000;
    let mut made = |host: &str, group: &str| {
        bench.groups.asker = None;
        bench.groups.asked_by(&text(host));
        let code = bench.commit(&commit(group, &[("t", 0, 1)]), 8)[0];
        bench.settle_all();
        code == 0
    };
    let mut all = |host: &str| {
        let names = (0..200).map(|n| format!("{host}-{n:0>1000}"));
        names.filter(|name| made(host, name)).count()
    };
    let (first, second) = (all("/10.0.0.1"), all("/10.0.0.2"));
    assert!(
        first.abs_diff(second) <= 1 && first >= 30,
        "{first} {second}"
    );
    assert_eq!(all("/10.0.0.1"), first, "what it has it keeps, and no more");
    let third = all("/10.0.0.3");
    // Half of the last quarter, beside what was left.
    assert!((5..=first / 2 + 1).contains(&third), "{third}");
    // An IPv6 network counts as one address.
    let fourth: usize = (0..20).map(|n| all(&format!("/2001:db8::{n}"))).sum();
    assert!((3..=third).contains(&fourth), "{fourth}");
    assert!(bench.groups.bytes() <= 500_000);
}

#[test]
fn however_many_networks_come_for_their_fair_share_groups_stay_near_their_bound() {
    let bound = 400_000;
    let mut bench = Bench::new();
    bench.groups.options.state_bytes_max = bound;
    // Each network creates groups until one is refused.
    let come = |bench: &mut Bench, networks: std::ops::Range<usize>| {
        for network in networks {
            let host = text(&format!("/2001:db8:0:{network:x}::1"));
            for group in 0..1000 {
                bench.groups.asker = None;
                bench.groups.asked_by(&host);
                let name = format!("{network}-{group}");
                let code = bench.commit(&commit(&name, &[("t", 0, 1)]), 8)[0];
                bench.settle_all();
                if code != 0 {
                    break;
                }
            }
        }
        bench.groups.bytes()
    };
    let bytes = come(&mut bench, 0..500);
    assert!(bytes > bound && bytes <= bound + bound * 3 / 10, "{bytes}");
    // No address pays for groups that a restart has loaded.
    bench.groups.shares = Rc::default();
    let bytes = come(&mut bench, 500..1000);
    assert!(bytes <= bound + bound * 3 / 10, "{bytes}");
}

#[test]
fn thirty_networks_that_take_all_they_get_keep_the_next_one_from_no_group() {
    let mut bench = Bench::new();
    bench.groups.options.state_bytes_max = 16 << 20;
    let mut made = |host: &str, group: &str| {
        bench.groups.asker = None;
        bench.groups.asked_by(&text(host));
        let code = bench.commit(&commit(group, &[("t", 0, 1)]), 8)[0];
        bench.settle_all();
        code == 0
    };
    for host in 0..32 {
        let host = format!("/10.0.0.{host}");
        // It creates groups until one is refused, with ever shorter names.
        for bytes in [30_000, 1000, 10] {
            let full = (0..1000).find(|n| !made(&host, &format!("{host}-{n:0>bytes$}")));
            assert!(full.is_some());
        }
    }
    assert!(made("/10.0.1.1", "orders"));
    assert!(
        made("/10.0.0.7", "/10.0.0.7-0000000000"),
        "it has what it has"
    );
}

/// A client may create the group that others will use, to keep them from it.
#[test]
fn an_address_that_has_used_up_its_share_keeps_nobody_from_a_group_that_it_made() {
    let mut bench = Bench::new();
    bench.groups.options.state_bytes_max = 200_000;
    let mut made = |host: &str, group: &str, partition: i32| {
        bench.groups.asker = None;
        bench.groups.asked_by(&text(host));
        let codes = bench.commit(&commit(group, &[("t", partition, 1)]), 8);
        bench.settle_all();
        ErrorCode::try_from_code(codes[0])
    };
    let refused = Some(ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(made("/10.0.0.1", "orders", 0), None);
    let full = (0..200).find(|n| made("/10.0.0.1", &format!("{n:0>1000}"), 0).is_some());
    assert!(full.is_some());
    for n in 0..20 {
        made("/10.0.0.1", &format!("{n:0>1000}"), 1);
    }
    assert_eq!(made("/10.0.0.1", "orders", 1), refused);
    assert_eq!(made("/10.0.0.2", "orders", 1), None, "it pays for it");
    let shares = Rc::clone(&bench.groups.shares);
    let counted: usize = ["/10.0.0.1", "/10.0.0.2"]
        .iter()
        .map(|host| shares.of(&text(host)))
        .sum();
    assert!(shares.of(&text("/10.0.0.2")) > 1000);
    assert_eq!(counted, bench.groups.bytes());
}

#[test]
fn metrics_show_groups_whole_or_only_count_them() {
    let mut bench = Bench::new();
    bench.stable("a");
    for group in ["b", "c"] {
        bench.commit(&commit(group, &[("t", 0, 5), ("t", 1, 6), ("u", 2, 7)]), 8);
    }
    bench.settle_all();
    let look = |bytes_max: usize| {
        let mut survey = Survey::new(bytes_max);
        let mut after = None;
        loop {
            after = bench.groups.survey(after.as_ref(), 1, &mut survey);
            if after.is_none() {
                return survey;
            }
            survey.rested();
        }
    };
    let all = look(1 << 20);
    let states = BTreeMap::from([(("classic", "Empty"), 2), (("classic", "Stable"), 1)]);
    assert_eq!((&all.states, all.left_out), (&states, 0));
    let members: Vec<(&str, usize)> = all
        .groups
        .iter()
        .map(|group| (group.id.as_str(), group.members))
        .collect();
    assert_eq!(members, [("a", 1), ("b", 0), ("c", 0)]);
    let offsets = [(text("t"), 0, 5), (text("t"), 1, 6), (text("u"), 2, 7)];
    assert_eq!(all.groups[2].offsets, offsets);
    // Room for the first group and a part of the second.
    let some = look(1024);
    assert_eq!((&some.states, some.left_out), (&states, 2));
    assert_eq!(some.groups.len(), 1);
}

#[test]
fn a_name_takes_room_on_the_metrics_page_in_every_row_and_as_long_as_it_is_written() {
    let shown = |id: &str, bytes_max| {
        let mut bench = Bench::new();
        bench.commit(&commit(id, &[("t", 0, 1), ("t", 1, 1), ("t", 2, 1)]), 8);
        bench.settle_all();
        let mut survey = Survey::new(bytes_max);
        assert!(bench.groups.survey(None, usize::MAX, &mut survey).is_none());
        assert_eq!(survey.left_out, 1 - survey.groups.len() as u64);
        survey.groups.len()
    };
    // 9 rows: the group, and offset and lag of 3 partitions and their sums.
    assert_eq!(shown("g", 9 * 130), 1);
    let long = "g".repeat(256);
    assert_eq!(shown(&long, 9 * 256), 0);
    assert_eq!(shown(&long, 9 * (256 + 130)), 1);
    // The page writes a bell as `\u{7}`, the backslash twice: six characters.
    let bells = "\u{7}".repeat(42);
    assert_eq!(shown(&bells, 9 * (42 + 130)), 0);
    assert_eq!(shown(&bells, 9 * (42 * 6 + 130)), 1);
    // Written in more than 256 bytes.
    assert_eq!(shown(&"\u{7}".repeat(43), usize::MAX), 0);
}

#[test]
fn rebalances_are_counted_when_their_records_are_in_the_log_and_not_when_they_are_read_again() {
    let mut bench = Bench::new();
    let sync = |bench: &mut Bench, fails| {
        let generation = bench.groups.classic(&text("g")).unwrap().generation();
        bench.sync("g", "m", generation);
        assert_eq!(bench.groups.take_rebalances().classic, 0, "not settled");
        bench.settle(fails);
        bench.groups.take_rebalances().classic
    };
    bench.join("g", "", "m");
    bench.settle_all();
    bench.pass(0);
    assert_eq!(bench.groups.take_rebalances().classic, 0, "not assigned");
    assert_eq!(sync(&mut bench, true), 0);
    bench.join("g", "m", "");
    assert_eq!(sync(&mut bench, false), 1);
    assert_eq!(bench.groups.take_rebalances().classic, 0);
    assert_eq!(bench.reloaded().take_rebalances().classic, 0);
}

#[test]
fn an_epoch_of_a_consumer_group_is_counted_when_it_is_in_the_log() {
    let mut bench = Bench::new();
    let mut epoch = |epoch, fails| {
        let epoch = Epoch {
            epoch,
            ..Epoch::default()
        };
        bench.records(vec![GroupRecord::Consumer {
            group: text("g"),
            record: ConsumerRecord::Epoch(Some(epoch)),
        }]);
        assert_eq!(bench.groups.take_rebalances().consumer, 0, "not settled");
        bench.settle(fails);
        bench.groups.take_rebalances().consumer
    };
    assert_eq!(epoch(1, true), 0);
    assert_eq!(epoch(1, false), 1);
    assert_eq!(bench.reloaded().take_rebalances().consumer, 0);
}
