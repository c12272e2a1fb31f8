//! When offsets and groups go: by age, with their topic, by request, and never by a jump of the
//! clock.

use bytes::Bytes;
use wire::messages::{GroupId, OffsetDeleteRequest};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

use super::{Bench, as_member, commit, encoded, text};
use crate::group::classic::{ClassicGroupState, Join, Token};
use crate::group::cluster::fake::FakeCluster;
use crate::group::{GoneTopics, OffsetDeletion};

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
