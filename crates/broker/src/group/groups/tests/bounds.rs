//! What groups may take in bytes, in all and by address, and in numbers on the metrics page.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Bench, code, commit, text};
use crate::group::classic::{Join, Reply, Token};
use crate::group::cluster::fake::FakeCluster;
use crate::group::consumer::record::{ConsumerRecord, Epoch};
use crate::group::records::GroupRecord;
use crate::group::survey::Survey;

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
