//! Offsets that a transaction writes, and when they count.

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::task;
use storage::log::producer_state::TransactionOutcome;
use wire::records::offsets::{GroupMetadataValue, OffsetCommitValue};
use wire::types::{ErrorCode, LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, Uuid};

use super::{TestLog, code, commit, coordinator, delete, fetched, settle, simulate, stable, text};
use crate::group::coordinator::{GoneTopics, LoggedRecord, OpenTransactions};
use crate::group::groups::Groups;
use crate::group::partition_for;
use crate::group::records::GroupRecord;

#[test]
fn offsets_of_a_transaction_do_not_hide_later_ones() {
    simulate(async {
        let log = TestLog::default();
        let writer = coordinator(&log);
        for offset in [1, 2] {
            commit(&writer, "g", offset).await;
        }
        let records = log.0.records.borrow().clone();
        let written = |index: usize| LoggedRecord {
            key: records[index].0.clone(),
            value: records[index].1.clone(),
            offset: Offset(i64::try_from(index).unwrap()),
            timestamp: TimestampMs(0),
        };
        let reader = coordinator(&TestLog::default());
        let partition = partition_for("g", 4);
        let load = reader.begin_load(partition);
        let replay = |one: &LoggedRecord| {
            reader.replay(
                (partition, load),
                &one.key,
                one.value.as_ref(),
                one.offset,
                one.timestamp,
            );
        };
        let mut open = OpenTransactions::default();
        open.add(ProducerId(5), written(0));
        replay(&written(1));
        let mut ended = || open.end(ProducerId(5), TransactionOutcome::Commit);
        ended().iter().for_each(replay);
        assert!(ended().is_empty());
        reader.finish_load((partition, load), LeaderEpoch(0));
        assert_eq!(fetched(&reader, "g", false).await, Some(2));
    });
}

/// Returns a record that a transaction of producer 5 writes for a group and partition 0 of `t`.
fn written(name: &str, offset: i64) -> LoggedRecord {
    let record = GroupRecord::Offset {
        group: text(name),
        topic: text("t"),
        partition: 0,
        value: Some(OffsetCommitValue {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
            commit_timestamp: i64::MAX,
            expire_timestamp: -1,
            topic_id: Uuid::nil(),
        }),
    };
    let (key, value) = record.encode();
    LoggedRecord {
        key,
        value,
        offset: Offset(100),
        timestamp: TimestampMs(0),
    }
}

#[test]
fn an_offset_that_a_transaction_is_about_to_move_does_not_expire_meanwhile() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        commit(&coordinator, "g", 1).await;
        let clock = coordinator.platform.clock().clone();
        clock.sleep(Duration::from_mins(55)).await;
        coordinator.opened(partition, ProducerId(5), vec![written("g", 7)]);
        clock.sleep(Duration::from_mins(20)).await;
        assert_eq!(fetched(&coordinator, "g", false).await, Some(1));
        let ended =
            coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;
        assert_eq!(fetched(&coordinator, "g", false).await, Some(7));
    });
}

/// The marker is committed, a commit of another group is in flight, and the offset has not taken
/// effect: the old offset, returned as stable, would make the client read the transaction's input
/// again.
#[test]
fn whoever_wants_stable_positions_is_not_told_the_old_one_while_a_transaction_is_taken_in() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        commit(&coordinator, "g", 1).await;
        coordinator.opened(partition, ProducerId(5), vec![written("g", 7)]);
        log.0.held.set(true);
        let beside = {
            let coordinator = Rc::clone(&coordinator);
            let mut others = (0..).map(|at| format!("other-{at}"));
            let beside = others
                .find(|name| partition_for(name, 4) == partition)
                .unwrap();
            task::spawn(async move { commit(&coordinator, &beside, 2).await })
        };
        settle().await;
        let ended = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move {
                let ended = coordinator.end_transaction(
                    partition,
                    ProducerId(5),
                    TransactionOutcome::Commit,
                );
                ended.await;
            })
        };
        settle().await;
        // The producer's next transaction has begun and does not take effect with this one.
        coordinator.opened(partition, ProducerId(5), vec![written("g", 9)]);
        let asked = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { stable(&coordinator, "g").await })
        };
        settle().await;
        log.0.held.set(false);
        log.end(Ok(())).await;
        assert_eq!(beside.await.unwrap(), 0);
        ended.await.unwrap();
        let unstable = ErrorCode::UnstableOffsetCommit.code();
        assert_eq!(asked.await.unwrap(), (-1, unstable));
        assert_eq!(fetched(&coordinator, "g", false).await, Some(7));
        assert_eq!(stable(&coordinator, "g").await, (-1, unstable));
        let ended =
            coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;
        assert_eq!(stable(&coordinator, "g").await, (9, 0));
    });
}

/// A tool has written it: no coordinator does so in a transaction. The next start must not make a
/// group of it that was not there at run time.
#[test]
fn of_a_transaction_only_offsets_count_at_run_time_and_at_a_start_alike() {
    simulate(async {
        let partition = partition_for("g", 4);
        let mut names = (0..).map(|at| format!("other-{at}"));
        let other = names.find(|name| partition_for(name, 4) == partition);
        let other = other.unwrap();
        let record = GroupRecord::Metadata {
            group: text(&other),
            value: Some(GroupMetadataValue::default()),
        };
        let (key, value) = record.encode();
        let of_a_tool = LoggedRecord {
            key,
            value,
            ..written("g", 7)
        };
        let writes = [written("g", 7), of_a_tool];

        let served = coordinator(&TestLog::default());
        served.opened(partition, ProducerId(5), writes.to_vec());
        let ended = served.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;

        let started = coordinator(&TestLog::default());
        let load = started.begin_load(partition);
        let mut open = OpenTransactions::default();
        for write in writes {
            open.add(ProducerId(5), write);
        }
        for one in open.end(ProducerId(5), TransactionOutcome::Commit) {
            let (value, at) = (one.value.as_ref(), one.offset);
            started.replay((partition, load), &one.key, value, at, one.timestamp);
        }
        assert_eq!(open.take_skipped(), 1);
        assert_eq!(open.take_skipped(), 0, "each is told of once");
        started.keep_open((partition, load), open);
        started.finish_load((partition, load), LeaderEpoch(1));

        for coordinator in [served, started] {
            assert_eq!(fetched(&coordinator, "g", false).await, Some(7));
            let found = coordinator.read(&other, |groups| groups.get(&text(&other)).is_some());
            assert_eq!(found, Ok(false));
        }
    });
}

#[test]
fn a_deleted_group_does_not_come_back_with_the_end_of_a_transaction() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        for name in ["committed before", "only in the transaction"] {
            let partition = partition_for(name, 4);
            if name == "committed before" {
                commit(&coordinator, name, 1).await;
            }
            coordinator.opened(partition, ProducerId(5), vec![written(name, 7)]);
            assert_eq!(delete(&coordinator, name).await, 0, "{name}");
            let ended =
                coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
            ended.await;
            assert_eq!(fetched(&coordinator, name, false).await, None, "{name}");
            let gone = code(ErrorCode::GroupIdNotFound);
            assert_eq!(delete(&coordinator, name).await, gone, "{name}");
        }
    });
}

#[test]
fn what_a_transaction_has_written_of_a_deleted_topic_does_not_count_at_its_end() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let partition = partition_for("g", 4);
        coordinator.opened(partition, ProducerId(5), vec![written("g", 7)]);
        let other = TopicId(Uuid::from_u128(8));
        coordinator.topics_deleted(GoneTopics::of([(text("other"), other)]));
        settle().await;
        assert_eq!(fetched(&coordinator, "g", true).await, None);
        let is_open = |groups: &Groups| groups.open.all_of(&text("g")).is_some();
        assert!(coordinator.read("g", is_open).unwrap());
        coordinator.topics_deleted(GoneTopics::of([(text("t"), other)]));
        settle().await;
        let ended =
            coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;
        assert_eq!(fetched(&coordinator, "g", false).await, None);
    });
}
