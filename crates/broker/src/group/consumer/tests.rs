//! The rules of a consumer group: epochs, reconciliation, fencing, static members, expressions,
//! settings, and failed appends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use platform::Clock;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::member::{JOIN, LEAVE, LEAVE_STATIC, MemberState};
use super::record::ConsumerRecord;
use super::{
    Ask, ConsumerGroup, ConsumerGroupState, ConsumerOptions, GroupRefusal, Heartbeat,
    HeartbeatAnswer, Leave,
};
use crate::group::assignor::Partitions;
use crate::group::cluster::fake::{FakeCluster, id_of};
use crate::group::{Client, ClockReading};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn partitions(topics: &[(&str, &[i32])]) -> Partitions {
    let topics = topics
        .iter()
        .map(|(topic, partitions)| (id_of(topic), partitions.iter().copied().collect()));
    topics.collect()
}

/// A group whose records are written at once.
struct Bench {
    group: ConsumerGroup,
    cluster: FakeCluster,
    options: ConsumerOptions,
    now: ClockReading,
    sequence: u64,
}

fn beat(id: &str, epoch: i32) -> Heartbeat {
    Heartbeat {
        member_id: text(id),
        epoch,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: None,
        topics: None,
        regex: None,
        assignor: None,
        owned: None,
        client: Client {
            id: text("c"),
            host: text("/::1"),
        },
    }
}

fn joining(id: &str, topics: &[&str]) -> Heartbeat {
    Heartbeat {
        rebalance_timeout_ms: Some(10_000),
        topics: Some(topics.iter().map(|topic| text(topic)).collect()),
        owned: Some(Partitions::new()),
        ..beat(id, JOIN)
    }
}

fn owning(id: &str, epoch: i32, owned: &Partitions) -> Heartbeat {
    Heartbeat {
        owned: Some(owned.clone()),
        ..beat(id, epoch)
    }
}

impl Bench {
    fn new(topics: &[(&str, i32)]) -> Self {
        let mut options = ConsumerOptions::kafka();
        options.assignment_interval_ms.value = 0;
        Self {
            group: ConsumerGroup::default(),
            cluster: FakeCluster::of(topics),
            options,
            now: ClockReading {
                at: Clock::system().now(),
                wall_ms: 50_000,
                step_ms: 0,
            },
            sequence: 0,
        }
    }

    fn ask(&self) -> Ask<'_> {
        Ask {
            cluster: &self.cluster,
            options: self.options,
            settings: self.options.for_group("g", &self.cluster),
            now: self.now,
        }
    }

    fn write(&mut self, records: &[ConsumerRecord]) {
        self.sequence += 1;
        for record in records {
            self.group.stage(self.sequence, record);
        }
        for record in records {
            self.group.settle(self.sequence, record, true);
        }
        let mut again = ConsumerGroup::default();
        std::mem::swap(&mut again, &mut self.group);
        let index = std::mem::take(&mut again.index);
        again.reindex();
        assert_eq!(again.index, index, "the index follows from the records");
        self.group = again;
    }

    fn beat(&mut self, beat: &Heartbeat) -> Result<HeartbeatAnswer, GroupRefusal> {
        let decision = self.group.heartbeat(beat, self.ask())?;
        self.group.note(&decision);
        self.write(&decision.records);
        Ok(decision.answer)
    }

    fn ok(&mut self, request: &Heartbeat) -> (i32, Option<Partitions>) {
        let answer = self.beat(request).unwrap();
        (answer.epoch, answer.assignment)
    }

    fn refused(&mut self, request: &Heartbeat) -> ErrorCode {
        self.beat(request).unwrap_err().code
    }

    fn fence(&mut self, ids: &[&str]) {
        let gone: BTreeSet<StrBytes> = ids.iter().map(|id| text(id)).collect();
        let decision = self.group.fence(&gone, self.ask());
        self.group.note(&decision);
        self.write(&decision.records);
    }

    fn leave(
        &mut self,
        id: &str,
        instance: Option<&str>,
        epoch: i32,
    ) -> Result<HeartbeatAnswer, GroupRefusal> {
        let (id, instance) = (text(id), instance.map(text));
        let leave = Leave {
            member_id: &id,
            instance_id: instance.as_ref(),
            epoch,
        };
        let (decision, gone) = self.group.leave(&leave)?;
        self.group.note(&decision);
        self.write(&decision.records);
        let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
        self.fence(&gone.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(decision.answer)
    }
}

#[test]
fn the_first_member_gets_everything_and_a_second_its_share_once_it_is_given_up() {
    let mut bench = Bench::new(&[("t", 4)]);
    let all = partitions(&[("t", &[0, 1, 2, 3])]);
    assert_eq!(bench.ok(&joining("a", &["t"])), (2, Some(all.clone())));
    assert_eq!(bench.group.state(), ConsumerGroupState::Stable);
    assert_eq!(bench.ok(&beat("a", 2)), (2, None), "nothing new");

    // b waits: a holds all partitions.
    let nothing = Some(Partitions::new());
    assert_eq!(bench.ok(&joining("b", &["t"])), (3, nothing));
    assert_eq!(bench.group.state(), ConsumerGroupState::Reconciling);
    // a has to give up half and stays in its epoch until it has; until then the partitions are not
    // assigned.
    let half = partitions(&[("t", &[0, 1])]);
    assert_eq!(bench.ok(&owning("a", 2, &all)), (2, Some(half.clone())));
    assert_eq!(
        bench.group.progress(&text("a")).state,
        MemberState::Unrevoked
    );
    assert_eq!(bench.ok(&beat("b", 3)), (3, None));
    assert_eq!(
        bench.ok(&owning("a", 2, &all)),
        (2, None),
        "not given up yet"
    );
    assert_eq!(bench.ok(&owning("a", 2, &half)), (3, None));
    let rest = partitions(&[("t", &[2, 3])]);
    assert_eq!(bench.ok(&beat("b", 3)), (3, Some(rest.clone())));
    assert_eq!(bench.group.state(), ConsumerGroupState::Stable);

    bench.leave("a", None, LEAVE).unwrap();
    assert_eq!(bench.group.state(), ConsumerGroupState::Assigning);
    assert_eq!(bench.ok(&owning("b", 3, &rest)), (4, Some(all)));
    bench.leave("b", None, LEAVE).unwrap();
    assert_eq!(bench.group.state(), ConsumerGroupState::Empty);
    for record in bench.group.removal() {
        bench.write(&[record]);
    }
    assert!(bench.group.is_vacant(), "{:?}", bench.group);
}

#[test]
fn who_subscribes_to_nothing_yet_is_in_all_the_same() {
    let mut bench = Bench::new(&[("t", 1)]);
    let nothing = Some(Partitions::new());
    assert_eq!(bench.ok(&joining("a", &[])), (1, nothing.clone()));
    assert_eq!(bench.ok(&joining("b", &[])), (1, nothing));
    assert_eq!(bench.group.state(), ConsumerGroupState::Stable);
    let some = Heartbeat {
        topics: Some([text("t")].into()),
        ..beat("a", 1)
    };
    let all = partitions(&[("t", &[0])]);
    assert_eq!(bench.ok(&some), (2, Some(all)));
}

#[test]
fn epochs_fence_whoever_is_behind_or_ahead() {
    let mut bench = Bench::new(&[("t", 2)]);
    assert_eq!(bench.refused(&beat("a", 2)), ErrorCode::UnknownMemberId);
    bench.ok(&joining("a", &["t"]));
    let all = partitions(&[("t", &[0, 1])]);
    assert_eq!(bench.refused(&beat("a", 3)), ErrorCode::FencedMemberEpoch);
    bench.cluster = FakeCluster::of(&[("t", 2), ("u", 1)]);
    bench.cluster.version = 1;
    let more = Heartbeat {
        topics: Some([text("t"), text("u")].into()),
        ..owning("a", 2, &all)
    };
    let both = partitions(&[("t", &[0, 1]), ("u", &[0])]);
    assert_eq!(bench.ok(&more), (3, Some(both)));
    // The answer was lost: the previous epoch is accepted with the partitions of that time, but
    // only if the request names them.
    assert_eq!(bench.ok(&owning("a", 2, &all)).0, 3);
    assert_eq!(bench.refused(&beat("a", 2)), ErrorCode::FencedMemberEpoch);
    let foreign = partitions(&[("t", &[7])]);
    assert_eq!(
        bench.refused(&owning("a", 2, &foreign)),
        ErrorCode::FencedMemberEpoch
    );
    // After fencing it joins again and gets the whole assignment.
    assert_eq!(bench.ok(&joining("a", &["t", "u"])).0, 3);
}

#[test]
fn a_static_member_keeps_its_place_while_it_is_away() {
    let mut bench = Bench::new(&[("t", 2)]);
    let named = |id: &str, request: Heartbeat| Heartbeat {
        instance_id: Some(text("one")),
        member_id: text(id),
        ..request
    };
    let all = Some(partitions(&[("t", &[0, 1])]));
    assert_eq!(
        bench.ok(&named("a", joining("a", &["t"]))),
        (2, all.clone())
    );
    let second = named("b", joining("b", &["t"]));
    assert_eq!(bench.refused(&second), ErrorCode::UnreleasedInstanceId);
    let error = bench.leave("x", Some("one"), LEAVE_STATIC).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedInstanceId);
    bench.leave("a", Some("one"), LEAVE_STATIC).unwrap();
    assert_eq!(bench.group.epoch(), 2, "nobody else is to notice");
    assert_eq!(bench.ok(&second), (2, all));
    assert_eq!(
        bench.refused(&named("a", beat("a", 2))),
        ErrorCode::FencedInstanceId
    );
    assert_eq!(bench.group.size(), 1);
}

#[test]
fn expressions_follow_the_topics_there_are() {
    let mut bench = Bench::new(&[("a-1", 1), ("b", 1)]);
    let by = |regex: &str| Heartbeat {
        topics: None,
        regex: Some(text(regex)),
        ..joining("m", &[])
    };
    assert_eq!(bench.refused(&by("(")), ErrorCode::InvalidRegularExpression);
    assert!(bench.group.is_vacant());
    let one = partitions(&[("a-1", &[0])]);
    // As in Kafka: the member is in the group immediately, and the matches are known one heartbeat
    // later.
    assert_eq!(bench.ok(&by("a-.*")), (1, Some(Partitions::new())));
    assert_eq!(bench.ok(&beat("m", 1)), (2, Some(one.clone())));
    bench.cluster = FakeCluster::of(&[("a-1", 1), ("a-2", 1), ("b", 1)]);
    bench.cluster.version = 1;
    assert_eq!(bench.ok(&beat("m", 2)).0, 2, "not looked for again so soon");
    bench.now.wall_ms += 10_001;
    let two = partitions(&[("a-1", &[0]), ("a-2", &[0])]);
    assert_eq!(bench.ok(&beat("m", 2)), (3, Some(two)));
    // Another expression: partitions that it does not match are given up, and the old expression is
    // removed.
    let change = Heartbeat {
        regex: Some(text("b")),
        ..owning("m", 3, &one)
    };
    bench.ok(&change);
    bench.ok(&owning("m", 3, &Partitions::new()));
    assert_eq!(bench.ok(&beat("m", 4)), (4, None));
    let names: Vec<&StrBytes> = bench.group.matched.keys().collect();
    assert_eq!(names, [&text("b")]);
}

#[test]
fn topics_that_grow_are_assigned_anew() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&joining("a", &["t", "missing"]));
    bench.cluster = FakeCluster::of(&[("t", 2), ("missing", 1)]);
    bench.cluster.version = 1;
    let all = partitions(&[("t", &[0, 1]), ("missing", &[0])]);
    assert_eq!(bench.ok(&beat("a", 2)), (3, Some(all)));
    bench.cluster.version = 2;
    assert_eq!(
        bench.ok(&beat("a", 3)),
        (3, None),
        "nothing of ours changed"
    );
}

#[test]
fn assignments_are_made_at_intervals() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.options.assignment_interval_ms.value = 1_000;
    bench.ok(&joining("a", &["t"]));
    assert_eq!(
        bench.ok(&joining("b", &["t"])).0,
        2,
        "the old target, and nothing of it"
    );
    assert_eq!(bench.group.state(), ConsumerGroupState::Assigning);
    bench.now.wall_ms += 1_000;
    assert_eq!(bench.ok(&beat("b", 2)).0, 3);
    bench.now.wall_ms += 999;
    assert_eq!(bench.ok(&joining("c", &["t"])).0, 3);
    bench.cluster.group_settings = BTreeMap::from([("consumer.assignment.interval.ms".into(), 0)]);
    assert_eq!(
        bench.ok(&beat("c", 3)).0,
        4,
        "the group's own setting counts"
    );
}

#[test]
fn newcomers_get_their_share_at_once_after_the_wall_clock_was_set_back() {
    for hours in [1, 24, 24 * 365] {
        let mut bench = Bench::new(&[("t", 2)]);
        bench.now.wall_ms = 40_000_000_000;
        bench.options.assignment_interval_ms.value = 1_000;
        bench.ok(&joining("a", &["t"]));
        bench.now.wall_ms -= hours * 3_600_000;
        assert_eq!(bench.ok(&joining("b", &["t"])).0, 3, "{hours} hours");
        assert_ne!(bench.group.state(), ConsumerGroupState::Assigning);
        // After a jump forward, too, no member waits.
        bench.now.wall_ms += 2 * hours * 3_600_000;
        bench.ok(&joining("c", &["t"]));
        assert_ne!(bench.group.state(), ConsumerGroupState::Assigning);
    }
}

#[test]
fn expressions_are_looked_up_again_after_the_wall_clock_jumped() {
    for jump in [-3_600_000, 3_600_000] {
        let mut bench = Bench::new(&[("ta", 1)]);
        bench.now.wall_ms = 40_000_000_000;
        let by_regex = Heartbeat {
            topics: None,
            regex: Some(text("t.*")),
            ..joining("a", &[])
        };
        // As in Kafka: the member is in the group immediately, and the matches are known one
        // heartbeat later.
        assert_eq!(bench.ok(&by_regex).0, 1);
        assert_eq!(bench.ok(&beat("a", 1)).0, 2);
        bench.now.wall_ms += jump;
        bench.cluster.topics.insert("tb".into(), 1);
        bench.cluster.version += 1;
        let epoch = bench.group.progress(&text("a")).epoch;
        bench.ok(&beat("a", epoch));
        assert!(bench.group.is_subscribed_to(&text("tb")), "{jump}");
    }
}

/// Sessions and rebalances are deadlines of the monotonic clock.
#[test]
fn no_member_is_overdue_because_the_wall_clock_jumped() {
    for jump in [-3_600_000, 3_600_000] {
        let mut bench = Bench::new(&[("t", 2)]);
        bench.now.wall_ms = 40_000_000_000;
        bench.ok(&joining("a", &["t"]));
        bench.now.wall_ms += jump;
        bench.now.at += Duration::from_millis(44_999);
        assert!(bench.group.overdue(bench.now.at).is_empty());
        bench.now.at += Duration::from_millis(1);
        assert_eq!(bench.group.overdue(bench.now.at), [text("a")]);
    }
}

#[test]
fn silence_and_slowness_have_an_end() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&joining("a", &["t"]));
    bench.ok(&joining("b", &["t"]));
    let all = partitions(&[("t", &[0, 1])]);
    bench.ok(&owning("a", 2, &all));
    // a does not give up its partitions, though it sends heartbeats.
    bench.now.at += Duration::from_secs(9);
    bench.ok(&owning("a", 2, &all));
    assert!(bench.group.overdue(bench.now.at).is_empty());
    bench.now.at += Duration::from_secs(1);
    assert_eq!(bench.group.overdue(bench.now.at), [text("a")]);
    bench.fence(&["a"]);
    assert_eq!(bench.ok(&beat("b", 3)), (4, Some(all)));
    bench.now.at += Duration::from_secs(45);
    assert_eq!(bench.group.next_deadline(), Some(bench.now.at));
    assert_eq!(bench.group.overdue(bench.now.at), [text("b")]);
}

#[test]
fn a_full_group_takes_nobody_in() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.options.members_max = 1;
    bench.ok(&joining("a", &["t"]));
    assert_eq!(
        bench.refused(&joining("b", &["t"])),
        ErrorCode::GroupMaxSizeReached
    );
    bench.ok(&joining("a", &["t"]));
}

#[test]
fn what_was_not_written_leaves_no_trace() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&joining("a", &["t"]));
    let before = format!(
        "{:?}",
        (
            bench.group.epoch(),
            bench.group.target_epoch(),
            &bench.group.index
        )
    );
    let decision = bench
        .group
        .heartbeat(&joining("b", &["t"]), bench.ask())
        .unwrap();
    for record in &decision.records {
        bench.group.stage(9, record);
    }
    assert_eq!(bench.group.size(), 2);
    for record in &decision.records {
        bench.group.settle(9, record, false);
        bench.group.reindex();
    }
    let after = format!(
        "{:?}",
        (
            bench.group.epoch(),
            bench.group.target_epoch(),
            &bench.group.index
        )
    );
    assert_eq!(after, before);
}

mod churn;

/// Runs a job to its end and takes in the result.
fn take_in(bench: &mut Bench, job: Option<super::Job>) {
    let mut job = job.expect("there is a job");
    // Each step compares one name.
    let done = loop {
        match job.go_on(&|| true) {
            Ok(done) => break done,
            Err(rest) => job = rest,
        }
    };
    bench.group.take_in(done);
}

/// Returns the answer to a heartbeat, and its job.
fn decide(bench: &mut Bench, beat: &Heartbeat) -> (HeartbeatAnswer, Option<super::Job>) {
    let mut decision = bench.group.heartbeat(beat, bench.ask()).unwrap();
    bench.group.note(&decision);
    bench.write(&decision.records);
    (decision.answer, decision.job.take())
}

#[test]
fn a_target_that_takes_long_is_made_ahead_and_the_next_heartbeat_finds_it() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let (answer, job) = decide(&mut bench, &joining("a", &["much"]));
    // The member is in the group, without partitions.
    assert!(answer.epoch > JOIN && answer.assignment == Some(Partitions::new()));
    assert_eq!(bench.group.state(), ConsumerGroupState::Assigning);
    let epoch = answer.epoch;
    // One job at a time.
    let (again, none) = decide(&mut bench, &beat("a", epoch));
    assert!(again.epoch == epoch && none.is_none());
    take_in(&mut bench, job);
    let (answer, none) = decide(&mut bench, &beat("a", epoch));
    assert!(none.is_none() && answer.epoch == bench.group.epoch());
    let all = answer.assignment.unwrap();
    assert_eq!(all[&id_of("much")].len(), 30_000);
    assert_eq!(bench.group.state(), ConsumerGroupState::Stable);
}

#[test]
fn a_target_that_members_came_and_went_beside_is_that_of_its_epoch_and_the_next_follows() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let (first, job) = decide(&mut bench, &joining("a", &["much"]));
    let made_for = bench.group.epoch();
    let (second, none) = decide(&mut bench, &joining("b", &["much"]));
    assert!(none.is_none(), "there is a job already");
    decide(&mut bench, &joining("c", &["much"]));
    bench.fence(&["c"]);
    take_in(&mut bench, job);
    let (answer, none) = decide(&mut bench, &beat("b", second.epoch));
    assert!(none.is_none() && answer.epoch == made_for);
    assert_eq!(bench.group.target(&text("b")), &Partitions::new());
    assert_eq!(
        bench.group.state(),
        ConsumerGroupState::Assigning,
        "b waits for the next"
    );
    let (answer, job) = decide(&mut bench, &beat("a", first.epoch));
    assert_eq!(answer.assignment.unwrap()[&id_of("much")].len(), 30_000);
    take_in(&mut bench, job);
    decide(&mut bench, &beat("a", made_for));
    assert_eq!(bench.group.target_epoch(), bench.group.epoch());
    assert_eq!(bench.group.target(&text("b"))[&id_of("much")].len(), 15_000);
}

#[test]
fn a_target_of_before_is_given_to_one_of_two_members_that_have_its_id_and_its_instance() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let named = |id: &str| Heartbeat {
        instance_id: Some(text("i")),
        ..joining(id, &["much"])
    };
    let (_, job) = decide(&mut bench, &named("a"));
    let (other, _) = decide(&mut bench, &joining("z", &["much"]));
    bench.fence(&["a"]);
    decide(&mut bench, &joining("a", &["much"]));
    decide(&mut bench, &named("b"));
    take_in(&mut bench, job);
    decide(&mut bench, &beat("z", other.epoch));
    let target = |id| bench.group.target(&text(id)).values().map(BTreeSet::len);
    assert_eq!(target("b").sum::<usize>(), 30_000, "the instance goes on");
    assert_eq!(target("a").sum::<usize>(), 0, "another has its partitions");
}

#[test]
fn a_group_whose_members_change_faster_than_its_target_is_made_gets_targets() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let (mut stays, mut job) = decide(&mut bench, &joining("a", &["much"]));
    let mut targets = BTreeSet::new();
    for round in 0..20 {
        // One member joins and one leaves while the job runs.
        let (_, begun) = decide(&mut bench, &joining(&format!("b{round}"), &["much"]));
        job = job.or(begun);
        if round > 0 {
            bench.fence(&[&format!("b{}", round - 1)]);
        }
        take_in(&mut bench, job.take());
        let held = Partitions::from([(id_of("much"), BTreeSet::new())]);
        let (answer, next) = decide(&mut bench, &owning("a", stays.epoch, &held));
        (stays, job) = (answer, next);
        targets.insert(bench.group.target_epoch());
    }
    assert!(targets.len() >= 10, "only {targets:?}");
}

#[test]
fn a_static_member_that_comes_back_while_its_target_is_made_keeps_it() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let named = |id: &str| Heartbeat {
        instance_id: Some(text("i")),
        ..joining(id, &["much"])
    };
    let (_, job) = decide(&mut bench, &named("a"));
    bench.leave("a", Some("i"), LEAVE_STATIC).unwrap();
    let (again, none) = decide(&mut bench, &named("b"));
    assert!(none.is_none());
    take_in(&mut bench, job);
    let beat = Heartbeat {
        instance_id: Some(text("i")),
        ..beat("b", again.epoch)
    };
    let (answer, _) = decide(&mut bench, &beat);
    assert_eq!(answer.assignment.unwrap()[&id_of("much")].len(), 30_000);
}

#[test]
fn a_target_of_an_epoch_that_was_never_written_is_not_used() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let decision = bench.group.heartbeat(&joining("a", &["much"]), bench.ask());
    let mut decision = decision.unwrap();
    bench.group.note(&decision);
    for record in &decision.records {
        bench.group.stage(1, record);
    }
    for record in &decision.records {
        bench.group.settle(1, record, false);
    }
    bench.group.reindex();
    take_in(&mut bench, decision.job.take());
    let (_, job) = decide(&mut bench, &joining("b", &["much"]));
    assert!(job.is_some(), "nothing is left of the job before");
}

#[test]
fn what_was_begun_for_a_group_that_is_gone_is_not_taken_for_one_of_the_same_name() {
    let mut bench = Bench::new(&[("much", 30_000)]);
    let (_, of_old) = decide(&mut bench, &joining("a", &["much"]));
    let mut bench = Bench::new(&[("much", 30_000)]);
    let (_, of_new) = decide(&mut bench, &joining("a", &["much"]));
    assert!(!bench.group.awaits(&of_old.unwrap()));
    assert!(bench.group.awaits(&of_new.unwrap()));
}

#[test]
fn expressions_that_take_long_are_looked_up_ahead() {
    let mut bench = Bench::new(&[("topic-1", 1), ("other", 1)]);
    let large = "\\pL{20}|topic-1";
    let join = Heartbeat {
        topics: None,
        regex: Some(text(large)),
        ..joining("a", &[])
    };
    let (answer, none) = decide(&mut bench, &join);
    assert!(
        none.is_none(),
        "it is not looked up with the heartbeat that brings it"
    );
    let (again, job) = decide(&mut bench, &beat("a", answer.epoch));
    assert_eq!(again.epoch, answer.epoch);
    take_in(&mut bench, job);
    let (answer, _) = decide(&mut bench, &beat("a", answer.epoch));
    assert_eq!(answer.assignment, Some(partitions(&[("topic-1", &[0])])));
    let mut idle = bench
        .group
        .heartbeat(&beat("a", answer.epoch), bench.ask())
        .unwrap();
    assert!(idle.records.is_empty() && idle.job.take().is_none());
}

#[test]
fn expressions_that_come_while_others_are_looked_up_are_all_found() {
    let mut bench = Bench::new(&[("topic-1", 1), ("topic-2", 1)]);
    let join = |id: &str, large: &str| Heartbeat {
        topics: None,
        regex: Some(text(large)),
        ..joining(id, &[])
    };
    let (a, _) = decide(&mut bench, &join("a", "\\pL{20}|topic-1"));
    let (_, job) = decide(&mut bench, &beat("a", a.epoch));
    let (b, none) = decide(&mut bench, &join("b", "\\pL{20}|topic-2"));
    assert!(none.is_none(), "there is a job already");
    take_in(&mut bench, job);
    let (mut jobs, mut epochs) = (0, [("a", a.epoch), ("b", b.epoch)]);
    for _ in 0..10 {
        for (id, epoch) in &mut epochs {
            let (answer, job) = decide(&mut bench, &beat(id, *epoch));
            *epoch = answer.epoch;
            if job.is_some() {
                jobs += 1;
                take_in(&mut bench, job);
            }
        }
    }
    assert_eq!(
        jobs, 1,
        "the other one, and then nothing is asked for again"
    );
}
