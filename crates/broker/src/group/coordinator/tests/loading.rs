//! Loads, unloads, restarts, and a log that stops.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::sim::SimPlatform;
use platform::task;
use wire::messages::{JoinGroupResponse, ListGroupsRequest};
use wire::protocol::StrBytes;
use wire::records::offsets::GroupMetadataValue;
use wire::types::{ErrorCode, LeaderEpoch, Offset, ProducerId, TimestampMs};

use super::{
    FREE, TestLog, beat, code, commit, coordinator, fetched, join, load_nothing, options, settle,
    simulate, sync, text,
};
use crate::answers::Answers;
use crate::group::coordinator::{
    GroupAppendError, GroupCoordinator, LoggedRecord, OpenTransactions, VISITED_AT_ONCE,
};
use crate::group::metrics::Metrics;
use crate::group::partition_for;
use crate::group::records::GroupRecord;
use crate::handler;
use crate::room::Room;

/// The session timeout is ten seconds, and for an hour no heartbeat was handled.
#[test]
fn no_member_is_given_up_for_a_time_in_which_the_log_took_nothing() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let clock = coordinator.platform.clock().clone();
        let member = join(&coordinator, "g", "", 3).await;
        assert_eq!(sync(&coordinator, "g", &member).await.error_code, 0);
        log.0.held.set(true);
        // A commit of another group in the partition, which the log does not accept.
        let mut names = (0..).map(|at| format!("n{at}"));
        let beside = names.find(|name| partition_for(name, 4) == partition_for("g", 4));
        let asked = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { commit(&coordinator, &beside.unwrap(), 1).await })
        };
        clock.sleep(Duration::from_secs(7)).await;
        assert_eq!(beat(&coordinator, "g", &member), 0);
        clock.sleep(Duration::from_hours(1)).await;
        asked.await.unwrap();
        log.0.held.set(false);
        log.end(Ok(())).await;
        clock.sleep(Duration::from_secs(9)).await;
        assert_eq!(beat(&coordinator, "g", &member), 0);
        clock.sleep(Duration::from_secs(11)).await;
        assert_eq!(
            beat(&coordinator, "g", &member),
            code(ErrorCode::UnknownMemberId)
        );
    });
}

#[test]
fn groups_of_which_nobody_knows_what_the_log_has_are_loaded_again() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        for attempt in 1..3 {
            log.0.held.set(true);
            let asked = {
                let coordinator = Rc::clone(&coordinator);
                task::spawn(async move { commit(&coordinator, "g", 1).await })
            };
            settle().await;
            log.end(Err(GroupAppendError::Unknown)).await;
            log.0.held.set(false);
            let not_here = code(ErrorCode::NotCoordinator);
            assert_eq!(asked.await.unwrap(), not_here);
            assert_eq!(commit(&coordinator, "g", 2).await, not_here);
            assert_eq!(coordinator.failed_slots(), 1);
            assert_eq!(coordinator.metrics.failed_partitions.get(), 1);
            assert_eq!(log.0.again.borrow_mut().pop(), Some((partition, attempt)));
            let mut loading = coordinator.begin_load(partition);
            if attempt == 1 {
                // The first reload fails, too.
                coordinator.fail_load((partition, loading));
                assert_eq!(log.0.again.borrow_mut().pop(), Some((partition, 2)));
                loading = coordinator.begin_load(partition);
            }
            coordinator.finish_load((partition, loading), LeaderEpoch(1));
            assert_eq!(commit(&coordinator, "g", 3).await, 0);
            assert_eq!(coordinator.failed_slots(), 0);
            assert_eq!(coordinator.metrics.failed_partitions.get(), 0);
            if attempt == 1 {
                // A load that succeeds resets the count.
                assert!(coordinator.failures.borrow().is_empty());
                break;
            }
        }
    });
}

#[test]
fn a_partition_that_is_loaded_or_elsewhere_says_so() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        coordinator.begin_load(partition);
        let loading = code(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(commit(&coordinator, "g", 1).await, loading);
        assert_eq!(join(&coordinator, "g", "", 9).await.error_code, loading);
        // A loading partition answers heartbeats without an error, so that members stay.
        assert_eq!(beat(&coordinator, "g", &JoinGroupResponse::default()), 0);
        let list = handler::list_groups::handle(
            &coordinator,
            &ListGroupsRequest::default(),
            &Room::some(),
            &FREE,
        )
        .await;
        assert_eq!(list.error_code, loading);
        coordinator.unload(partition);
        assert_eq!(
            commit(&coordinator, "g", 1).await,
            code(ErrorCode::NotCoordinator)
        );
        load_nothing(&coordinator, partition, LeaderEpoch(1));
        assert_eq!(commit(&coordinator, "g", 1).await, 0);
        log.0.gone.set(true);
        assert_eq!(
            commit(&coordinator, "g", 1).await,
            code(ErrorCode::NotCoordinator)
        );
    });
}

#[test]
fn who_waits_when_the_partition_goes_is_told() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        log.0.held.set(true);
        let waiting = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { join(&coordinator, "g", "", 3).await.error_code })
        };
        let queued = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move {
                settle().await;
                commit(&coordinator, "h", 1).await
            })
        };
        settle().await;
        for partition in 0..4 {
            coordinator.unload(partition);
        }
        let mut pending = log.0.pending.borrow_mut().split_off(0);
        pending.drain(..).for_each(|(_, sender)| drop(sender));
        let not_here = code(ErrorCode::NotCoordinator);
        assert_eq!(waiting.await.unwrap(), not_here);
        assert_eq!(queued.await.unwrap(), not_here);
    });
}

#[test]
fn a_restart_finds_groups_and_offsets_and_members_have_a_session_to_be_heard() {
    simulate(async {
        let log = TestLog::default();
        let before = coordinator(&log);
        let joined = join(&before, "g", "", 3).await;
        sync(&before, "g", &joined).await;
        commit(&before, "simple", 42).await;
        let after = GroupCoordinator::new(
            SimPlatform::new(2),
            options(),
            log.clone(),
            Metrics::default(),
        );
        let loads: Vec<_> = (0..4)
            .map(|partition| after.begin_load(partition))
            .collect();
        for (at, (key, value)) in log.0.records.borrow().iter().enumerate() {
            let group = GroupRecord::decode(key, value.as_deref()).unwrap().unwrap();
            let partition = partition_for(group.group(), 4);
            let offset = Offset(i64::try_from(at).unwrap());
            let load = loads[usize::try_from(partition).unwrap()];
            after.replay(
                (partition, load),
                key,
                value.as_ref(),
                offset,
                TimestampMs(0),
            );
        }
        for (partition, load) in (0..4).zip(loads) {
            after.finish_load((partition, load), LeaderEpoch(1));
        }
        assert_eq!(fetched(&after, "simple", false).await, Some(42));
        assert_eq!(beat(&after, "g", &joined), 0);
        assert_eq!(
            sync(&after, "g", &joined).await.assignment,
            joined.member_id.as_bytes()
        );
        after.platform.clock().sleep(Duration::from_secs(11)).await;
        assert_eq!(beat(&after, "g", &joined), code(ErrorCode::UnknownMemberId));
    });
}

#[test]
fn a_log_that_cannot_be_read_is_not_served() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let partition = partition_for("g", 4);
        let replay = |load: u64, key: &'static [u8]| {
            let key = Bytes::from_static(key);
            coordinator.replay((partition, load), &key, None, Offset(0), TimestampMs(0));
        };
        let load = coordinator.begin_load(partition);
        // A record of an unknown type is ignored.
        replay(load, b"\x00\x63");
        coordinator.finish_load((partition, load), LeaderEpoch(0));
        assert_eq!(commit(&coordinator, "g", 1).await, 0);
        let load = coordinator.begin_load(partition);
        replay(load, b"\x00\x01\x00\x05");
        coordinator.finish_load((partition, load), LeaderEpoch(0));
        assert_eq!(
            commit(&coordinator, "g", 1).await,
            code(ErrorCode::NotCoordinator)
        );
    });
}

#[test]
fn what_a_loading_reads_that_is_over_moves_no_position_of_the_next_one() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        for offset in [1, 2] {
            assert_eq!(commit(&coordinator, "g", offset).await, 0);
        }
        let records = log.0.records.borrow().clone();
        let written = |index: usize| LoggedRecord {
            key: records[index].0.clone(),
            value: records[index].1.clone(),
            offset: Offset(i64::try_from(index).unwrap()),
            timestamp: TimestampMs(0),
        };
        let replay = |load: u64, one: &LoggedRecord| {
            let value = one.value.as_ref();
            coordinator.replay(
                (partition, load),
                &one.key,
                value,
                one.offset,
                one.timestamp,
            );
        };
        let old = coordinator.begin_load(partition);
        let new = coordinator.begin_load(partition);
        assert!(!coordinator.is_here(partition, old));
        // A slow disk delivers the records of the first load, and its end, only now.
        replay(old, &written(0));
        let mut open = OpenTransactions::default();
        open.add(ProducerId(5), written(0));
        coordinator.keep_open((partition, old), open);
        coordinator.finish_load((partition, old), LeaderEpoch(1));
        let loading = code(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(
            commit(&coordinator, "g", 3).await,
            loading,
            "half a log is not served"
        );
        coordinator.fail_load((partition, old));
        assert_eq!(coordinator.failed_slots(), 0);
        replay(new, &written(1));
        coordinator.finish_load((partition, new), LeaderEpoch(1));
        assert_eq!(
            fetched(&coordinator, "g", true).await,
            Some(2),
            "nothing of it is open"
        );
        replay(old, &written(0));
        assert_eq!(fetched(&coordinator, "g", false).await, Some(2));
    });
}

#[test]
fn many_groups_are_loaded_and_listed_some_at_a_time() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        let loading = coordinator.begin_load(partition);
        let names = (0..).map(|number| format!("g-{number}"));
        let names = names.filter(|name| partition_for(name, 4) == partition);
        let names: std::collections::BTreeSet<String> = names.take(3000).collect();
        for (at, name) in names.iter().enumerate() {
            let record = GroupRecord::Metadata {
                group: StrBytes::from_string(name.clone()),
                value: Some(GroupMetadataValue {
                    protocol_type: "consumer".to_owned(),
                    ..GroupMetadataValue::default()
                }),
            };
            let (key, value) = record.encode();
            let offset = Offset(i64::try_from(at).unwrap());
            coordinator.replay(
                (partition, loading),
                &key,
                value.as_ref(),
                offset,
                TimestampMs(0),
            );
        }
        let mut rounds = 0;
        while coordinator.load_some(partition, loading) {
            rounds += 1;
            let busy = code(ErrorCode::CoordinatorLoadInProgress);
            let name = names.first().unwrap();
            assert_eq!(commit(&coordinator, name, 1).await, busy);
        }
        assert!(rounds >= 3000 / VISITED_AT_ONCE, "{rounds} rounds");
        coordinator.finish_load((partition, loading), LeaderEpoch(1));
        let request = ListGroupsRequest::default();
        let room = Room::some();
        let mut listing = Box::pin(handler::list_groups::handle(
            &coordinator,
            &request,
            &room,
            &FREE,
        ));
        let mut rests = 0;
        let list = std::future::poll_fn(|context| {
            let listed = listing.as_mut().poll(context);
            rests += usize::from(listed.is_pending());
            listed
        })
        .await;
        assert!(rests >= 3000 / VISITED_AT_ONCE, "{rests} rests");
        let listed = list.groups.iter().map(|group| group.group_id.to_string());
        assert!(listed.eq(names));
        // Filtered groups take no room: a client can filter when an answer would be too large.
        let listed = async |request: ListGroupsRequest| {
            let answers = Answers::new(256 << 10);
            let room = Room::of_list(&answers, std::net::Ipv4Addr::LOCALHOST.into());
            let list = handler::list_groups::handle(&coordinator, &request, &room, &FREE).await;
            (list.error_code, list.groups.len())
        };
        let all = ListGroupsRequest::default;
        let refused = code(ErrorCode::PolicyViolation);
        assert_eq!(listed(all()).await, (refused, 0));
        let by_state = all().with_states_filter(vec![text("Stable")]);
        assert_eq!(listed(by_state).await, (0, 0));
        let by_type = all().with_types_filter(vec![text("consumer")]);
        assert_eq!(listed(by_type).await, (0, 0));
        // An ended load does not affect the next one.
        let next = coordinator.begin_load(partition);
        assert!(!coordinator.load_some(partition, loading));
        assert!(!coordinator.is_here(partition, loading) && coordinator.is_here(partition, next));
    });
}
