//! Members with an instance id: they come back unnoticed, are waited for, and leave by name.

use wire::types::ErrorCode;

use super::{Bench, again, code, fixed, text};
use crate::group::classic::{ClassicGroup, ClassicGroupState, Join};

/// Seven ordinary requests: two static members become stable, rejoin without a rebalance timeout,
/// and one of them leaves.
#[test]
fn static_members_without_a_rebalance_timeout_are_waited_for_in_time_that_passes() {
    for timeout in [i32::MIN, -1, 0, 1] {
        let mut bench = Bench::new(0, 100);
        bench.join(fixed("a", "A"));
        bench.join(fixed("b", "B"));
        bench.pass(0);
        let generation = bench.group.generation();
        let leader = bench.group.leader.clone().unwrap();
        for id in ["b", "a"] {
            let assigned = [("a", "0"), ("b", "1")];
            let leads = leader.as_str() == id;
            bench.sync(id, generation, if leads { &assigned } else { &[] });
        }
        assert_eq!(bench.group.state(), ClassicGroupState::Stable);
        for (id, instance) in [("a2", "A"), ("b2", "B")] {
            bench.join(Join {
                rebalance_timeout_ms: timeout,
                ..fixed(id, instance)
            });
        }
        assert_eq!(bench.group.state(), ClassicGroupState::Stable);
        assert_eq!(bench.leave("b2", Some("B")), None);
        bench.pass(5_000);
        assert_eq!(bench.group.state(), ClassicGroupState::PreparingRebalance);
        // It rejoins and is the whole group.
        let back = bench.join(Join {
            rebalance_timeout_ms: timeout,
            ..fixed("a3", "A")
        });
        assert_eq!(bench.joined(back).generation_id, generation + 1);
    }
}

#[test]
fn a_static_member_comes_back_unnoticed_and_its_old_id_is_fenced() {
    let mut bench = Bench::new(0, 100);
    bench.join(fixed("i-1", "i"));
    bench.join(fixed("j-1", "j"));
    bench.pass(0);
    bench.sync("i-1", 1, &[("i-1", "0"), ("j-1", "1")]);
    bench.sync("j-1", 1, &[]);
    bench.held = Some(Vec::new());
    let back = bench.join(Join {
        can_skip_assignment: true,
        ..fixed("i-2", "i")
    });
    assert!(
        !bench.replies.contains_key(&back),
        "answered before it is in the log"
    );
    let store = bench.held.take().unwrap().remove(0);
    assert!(
        store
            .metadata
            .members
            .iter()
            .any(|member| member.member_id == "i-2")
    );
    bench.stored(store, Ok(()));
    let answer = bench.joined(back);
    assert_eq!((answer.generation_id, answer.leader.as_str()), (1, "i-2"));
    assert!(answer.skip_assignment);
    assert_eq!(answer.members.len(), 2);
    assert_eq!(bench.group.state(), ClassicGroupState::Stable);
    let fenced = bench
        .group
        .heartbeat(&text("i-1"), Some(&text("i")), 1, bench.now);
    assert_eq!(fenced, Err(ErrorCode::FencedInstanceId));
    let synced = bench.sync("i-2", 1, &[]);
    assert_eq!(bench.synced(synced).assignment.as_ref(), b"0");
}

#[test]
fn an_old_client_that_comes_back_as_leader_is_not_told_so() {
    let mut bench = Bench::new(0, 100);
    bench.join(fixed("i-1", "i"));
    bench.pass(0);
    bench.sync("i-1", 1, &[("i-1", "0")]);
    let back = bench.join(fixed("i-2", "i"));
    let answer = bench.joined(back);
    assert_eq!(
        (answer.member_id.as_str(), answer.leader.as_str()),
        ("i-2", "i-1")
    );
    assert!(answer.members.is_empty() && !answer.skip_assignment);
}

#[test]
fn a_replacement_that_cannot_be_written_is_undone() {
    let mut bench = Bench::new(0, 100);
    bench.join(fixed("i-1", "i"));
    bench.pass(0);
    bench.sync("i-1", 1, &[("i-1", "0")]);
    bench.held = Some(Vec::new());
    let back = bench.join(fixed("i-2", "i"));
    let store = bench.held.take().unwrap().remove(0);
    bench.stored(store, Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(
        bench.joined(back).error_code,
        code(ErrorCode::CoordinatorNotAvailable)
    );
    assert_eq!(
        bench
            .group
            .heartbeat(&text("i-1"), Some(&text("i")), 1, bench.now),
        Ok(())
    );
    assert_eq!(bench.group.leader.as_deref(), Some("i-1"));
}

#[test]
fn static_members_are_waited_for_beyond_the_rebalance_timeout_but_not_beyond_their_session() {
    let mut bench = Bench::new(0, 100);
    let long = |id: &str, name: &str| Join {
        session_timeout_ms: 120_000,
        ..fixed(id, name)
    };
    bench.join(long("i-1", "i"));
    bench.join(long("j-1", "j"));
    bench.pass(0);
    bench.sync("i-1", 1, &[]);
    bench.sync("j-1", 1, &[]);
    let rejoin = Join {
        instance_id: Some(text("i")),
        ..again("i-1")
    };
    let token = bench.join(Join {
        session_timeout_ms: 120_000,
        ..rejoin
    });
    bench.pass(60_000);
    // The rebalance ended without it, and it is still a member.
    assert_eq!(bench.joined(token).generation_id, 2);
    assert_eq!(bench.joined(token).members.len(), 2);
}

#[test]
fn a_static_member_leaves_by_name() {
    let mut bench = Bench::new(0, 100);
    bench.join(fixed("i-1", "i"));
    bench.pass(0);
    assert_eq!(bench.leave("", Some("x")), Some(ErrorCode::UnknownMemberId));
    assert_eq!(
        bench.leave("z", Some("i")),
        Some(ErrorCode::FencedInstanceId)
    );
    assert_eq!(bench.leave("", Some("i")), None);
    assert_eq!(bench.group.state(), ClassicGroupState::Empty);
}

#[test]
fn a_static_member_joins_a_group_whose_record_names_one_member_twice() {
    let mut bench = Bench::stable(&["a"]);
    let mut value = bench.group.value();
    let mut member = value.members.remove(0);
    for instance in ["x", "y"] {
        member.group_instance_id = Some(instance.to_owned());
        value.members.push(member.clone());
    }
    bench.group = ClassicGroup::load(bench.group.limits, &value, bench.now);
    assert_eq!(bench.leave("", Some("y")), None);
    let again = bench.join(fixed("x-1", "x"));
    bench.pass(10_000);
    assert_eq!(bench.joined(again).error_code, 0);
}
