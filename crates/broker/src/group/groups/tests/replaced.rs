//! Appends that are in flight when their group is deleted, created again or converted.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::types::ErrorCode;

use super::{Bench, Reply, code, commit, text};
use crate::group::Client;
use crate::group::classic::{ClassicGroupState, Sync, Token};
use crate::group::cluster::fake::FakeCluster;
use crate::group::consumer::Heartbeat;
use crate::group::consumer::member::JOIN;
use crate::group::groups::Append;

impl Bench {
    fn state(&self) -> (ClassicGroupState, i32) {
        let group = self.groups.classic(&text("g")).unwrap();
        (group.state(), group.generation())
    }

    fn delete(&mut self) {
        let records = self.groups.delete_group(&text("g")).unwrap();
        self.records(records);
    }

    fn error_of_join(&self, token: u64) -> Option<i16> {
        match self.replies.get(&token)? {
            Reply::Join(answer) => Some(answer.error_code),
            Reply::Sync(_) => panic!("a join was asked for"),
        }
    }
}

/// Leaves two groups named "g" in flight, one after the other, each with an assignment of its
/// generation 1; returns the token of the second one's sync.
fn deleted_and_joined_again(bench: &mut Bench) -> u64 {
    bench.join("g", "", "m");
    bench.pass(1);
    bench.sync("g", "m", 1);
    bench.leave("g", "m");
    bench.delete();
    bench.join("g", "", "m");
    bench.pass(1);
    assert_eq!(bench.state(), (ClassicGroupState::CompletingRebalance, 1));
    bench.sync("g", "m", 1);
    assert_eq!(
        bench.queue.len(),
        6,
        "created, assigned, emptied and deleted; created and assigned"
    );
    bench.token
}

#[test]
fn the_assignment_of_a_deleted_group_is_none_of_the_next_group_with_its_name() {
    let mut bench = Bench::new();
    let token = deleted_and_joined_again(&mut bench);
    for _ in 0..5 {
        bench.settle(false);
        assert_eq!(bench.state(), (ClassicGroupState::CompletingRebalance, 1));
        assert!(
            !bench.replies.contains_key(&token),
            "no assignment before its record"
        );
    }
    bench.settle(false);
    assert_eq!(bench.state(), (ClassicGroupState::Stable, 1));
    let Reply::Sync(answer) = &bench.replies[&token] else {
        panic!("a sync was asked for")
    };
    let told = answer.assignment.clone();
    assert_eq!(told, token.to_string(), "its own leader's assignment");
    let reloaded = bench.reloaded();
    let mut members = reloaded.classic(&text("g")).unwrap().members();
    assert_eq!(members.next().unwrap().1.assignment, told);
}

#[test]
fn an_assignment_that_is_not_written_is_told_to_nobody_even_if_that_of_a_deleted_group_was() {
    let mut bench = Bench::new();
    let token = deleted_and_joined_again(&mut bench);
    for _ in 0..5 {
        bench.settle(false);
    }
    bench.settle(true);
    let Reply::Sync(answer) = &bench.replies[&token] else {
        panic!("a sync was asked for")
    };
    assert_eq!(answer.error_code, code(ErrorCode::NotCoordinator));
    assert_eq!(bench.state().0, ClassicGroupState::PreparingRebalance);
}

#[test]
fn a_creation_that_failed_before_a_deletion_refuses_no_join_after_it() {
    let mut bench = Bench::new();
    bench.join("g", "", "m");
    bench.leave("g", "m");
    bench.pass(1);
    bench.delete();
    let token = bench.join("g", "", "n");
    bench.settle(true);
    assert_eq!(bench.error_of_join(token), None);
    bench.settle_all();
    bench.pass(1);
    assert_eq!(bench.error_of_join(token), Some(0));
    assert_eq!(bench.state(), (ClassicGroupState::CompletingRebalance, 1));
}

#[test]
fn members_that_a_failed_deletion_brings_back_are_given_up_after_a_session() {
    let mut bench = Bench::new();
    bench.stable("g");
    bench.leave("g", "m");
    bench.settle(true);
    bench.delete();
    bench.settle(true);
    assert_eq!(
        bench.state(),
        (ClassicGroupState::Stable, 1),
        "as in the log"
    );
    bench.pass(11_000);
    assert_eq!(bench.state(), (ClassicGroupState::Empty, 2));
}

#[test]
fn a_group_keeps_its_generation_if_neither_its_deletion_nor_a_creation_after_it_is_written() {
    let mut bench = Bench::new();
    bench.stable("g");
    bench.leave("g", "m");
    bench.settle_all();
    bench.delete();
    let token = bench.join("g", "", "n");
    bench.settle(true);
    bench.settle(true);
    assert_eq!(
        bench.error_of_join(token),
        Some(code(ErrorCode::NotCoordinator))
    );
    assert_eq!(bench.state(), (ClassicGroupState::Empty, 2));
    let reloaded = bench.reloaded();
    assert_eq!(reloaded.classic(&text("g")).unwrap().generation(), 2);
}

#[test]
fn a_group_without_a_record_keeps_its_generation_while_its_first_one_is_written() {
    let mut bench = Bench::new();
    bench.commit(&commit("g", &[("t", 0, 5)]), 9);
    bench.join("g", "", "m");
    bench.settle(true);
    bench.pass(1);
    assert!(bench.queue.is_empty(), "nothing of the group is in the log");
    bench.pass(11_000);
    assert_eq!(bench.state(), (ClassicGroupState::Empty, 2));
    bench.settle_all();
    assert_eq!(bench.state(), (ClassicGroupState::Empty, 2));
    let reloaded = bench.reloaded();
    assert_eq!(reloaded.classic(&text("g")).unwrap().generation(), 2);
}

fn beat(bench: &mut Bench, member: &str) {
    let beat = Heartbeat {
        member_id: text(member),
        epoch: JOIN,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: Some(20_000),
        topics: Some(BTreeSet::from([text("t")])),
        regex: None,
        assignor: None,
        owned: None,
        client: Client {
            id: text("c"),
            host: text("/::1"),
        },
    };
    let around = (
        bench.now,
        &FakeCluster::default() as &dyn crate::group::cluster::Cluster,
    );
    let decided = bench.groups.consumer_heartbeat(&text("g"), &beat, around);
    let (records, _, outcome) = decided.unwrap();
    bench.write(Append::of(records));
    bench.take(outcome);
}

#[test]
fn members_stay_if_neither_an_upgrade_of_their_group_nor_what_follows_it_is_written() {
    let mut bench = Bench::new();
    bench.join("g", "", "m");
    bench.pass(1);
    let sync = Sync {
        member_id: text("m"),
        instance_id: None,
        generation: 1,
        protocol_type: None,
        protocol: None,
        assignments: [(
            text("m"),
            Bytes::from_static(b"\0\0\0\0\0\0\xff\xff\xff\xff"),
        )]
        .into(),
    };
    let cluster = FakeCluster::default();
    let outcome = bench
        .groups
        .sync(&text("g"), sync, Token(1_000), bench.now, &cluster);
    bench.take(outcome);
    bench.settle_all();
    assert_eq!(bench.state(), (ClassicGroupState::Stable, 1));
    beat(&mut bench, "n");
    beat(&mut bench, "o");
    assert!(bench.groups.classic(&text("g")).is_none());
    bench.settle(true);
    bench.settle(true);
    assert_eq!(bench.state(), (ClassicGroupState::Stable, 1));
    let group = bench.groups.classic(&text("g")).unwrap();
    assert!(group.members().map(|(id, _)| id).eq([&text("m")]));
}
