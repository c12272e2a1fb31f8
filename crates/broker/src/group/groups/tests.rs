//! Offsets and groups as clients see them, and after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use platform::Clock;
use proptest::prelude::*;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{GroupId, OffsetCommitRequest, TopicName};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

use super::{Append, GroupOutcome, GroupRef, Groups, GroupsOptions};
use crate::access::Access;
use crate::group::classic::{
    ClassicGroup, ClassicGroupState, Join, Leaver, Limits, Reply, Sync, Token,
};
use crate::group::cluster::fake::FakeCluster;
use crate::group::consumer::ConsumerOptions;
use crate::group::records::{GroupRecord, RawRecord};
use crate::group::{CheckedCommit, ClockReading, Commit, OffsetFetchAnswer, Topics};
use crate::rests::tests::now;

mod bounds;
mod expiry;
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
            let now = (
                self.now,
                &FakeCluster::default() as &dyn crate::group::cluster::Cluster,
            );
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

/// Bytes of keys and values.
fn encoded(records: &[GroupRecord]) -> usize {
    let each = records.iter().map(GroupRecord::encode);
    each.map(|(key, value)| key.len() + value.map_or(0, |value| value.len()))
        .sum()
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
