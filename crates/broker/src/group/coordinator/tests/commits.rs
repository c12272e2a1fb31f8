//! Commits, reads and deletions of offsets, and what the log does to them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::task;
use wire::acl::{Operation, ResourceType};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{OffsetCommitRequest, OffsetDeleteRequest, TopicName};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{
    AnyTopic, FREE, TestLog, code, commit, commit_all, commit_from, coordinator, fetched, group,
    join, settle, simulate, text, turns_beside,
};
use crate::access::given::limited_to;
use crate::answers::Answers;
use crate::group::coordinator::{GroupAppendError, VISITED_AT_ONCE};
use crate::group::records::GroupRecord;
use crate::handler;
use crate::room::Room;

#[test]
fn commits_are_answered_when_they_are_in_the_log_and_gathered_meanwhile() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        log.0.held.set(true);
        let spawn = |offset| {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { commit(&coordinator, "g", offset).await })
        };
        let first = spawn(1);
        settle().await;
        let others = [spawn(2), spawn(3)];
        settle().await;
        assert_eq!(fetched(&coordinator, "g", false).await, None);
        let stable = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { fetched(&coordinator, "g", true).await })
        };
        settle().await;
        assert_eq!(log.end(Ok(())).await, 1);
        assert_eq!(first.await.unwrap(), 0);
        assert_eq!(fetched(&coordinator, "g", false).await, Some(1));
        assert!(!stable.is_finished());
        assert_eq!(log.end(Ok(())).await, 2);
        for other in others {
            assert_eq!(other.await.unwrap(), 0);
        }
        assert_eq!(stable.await.unwrap(), Some(3));
    });
}

#[test]
fn a_position_that_the_log_refuses_is_not_told_as_stable() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        commit(&coordinator, "g", 1).await;
        log.0.held.set(true);
        let (count, visited) = (5, i32::try_from(VISITED_AT_ONCE).unwrap());
        for (partitions, rests) in [(1, 0), (count * visited, 2)] {
            let committing = {
                let coordinator = Rc::clone(&coordinator);
                let request = many("g", partitions, 9);
                task::spawn(async move { commit_all(&coordinator, &request).await })
            };
            while log.0.pending.borrow().is_empty() {
                settle().await;
            }
            let asked = {
                let coordinator = Rc::clone(&coordinator);
                task::spawn(async move {
                    let request = OffsetFetchRequestGroup::default()
                        .with_group_id(group("g"))
                        .with_topics(None);
                    let room = Room::some();
                    handler::offset_fetch::handle_group(&coordinator, &request, true, &room).await
                })
            };
            // With `rests` some of the answer is built already; otherwise it waits for the append
            // in flight.
            for _ in 0..=rests {
                task::yield_now().await;
            }
            let refused = Err(GroupAppendError::Refused(ErrorCode::NotEnoughReplicas));
            log.end(refused).await;
            let answer = asked.await.unwrap();
            let told = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let told: Vec<i64> = told.map(|one| one.committed_offset).collect();
            let comes_again = answer.error_code == code(ErrorCode::CoordinatorLoadInProgress);
            assert!(comes_again || told == [1], "{} {told:?}", answer.error_code);
            committing.await.unwrap();
        }
        log.0.held.set(false);
        assert_eq!(fetched(&coordinator, "g", true).await, Some(1));
    });
}

#[test]
fn of_an_address_that_holds_too_much_positions_are_not_told_to_their_end() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let mut request = many("g", 2000, 1);
        for partition in &mut request.topics[0].partitions {
            partition.committed_metadata = Some(StrBytes::from_string("n".repeat(200)));
        }
        commit_all(&coordinator, &request).await;
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(group("g"))
            .with_topics(None);
        let answers = Answers::new(32 << 20);
        let ip = std::net::IpAddr::from([10, 0, 0, 1]);
        let slow = answers.account(ip);
        let room = Room::of(&answers, ip);
        let fetch = handler::offset_fetch::handle_group(&coordinator, &asked, false, &room);
        let (_, told) = turns_beside(fetch).await;
        assert_eq!(
            (told.error_code, told.topics[0].partitions.len()),
            (0, 2000)
        );
        assert!(answers.used_bytes() > 400_000, "{}", answers.used_bytes());
        drop(room);
        // Memory that the address takes while the answer is built counts, too.
        let room = Room::of(&answers, ip);
        slow.hold(20 << 20);
        let told = handler::offset_fetch::handle_group(&coordinator, &asked, false, &room).await;
        assert_eq!(told.error_code, code(ErrorCode::CoordinatorLoadInProgress));
        assert!(answers.used_bytes() < (20 << 20) + 300_000);
        slow.release(20 << 20);
    });
}

/// Every record has the group id: a request of half a megabyte would become three gigabytes of
/// records.
#[test]
fn a_commit_of_more_than_a_batch_can_hold_is_refused_before_it_is_made() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partitions = (0..30_000).map(|index| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(1)
        });
        let topic = OffsetCommitRequestTopic::default()
            .with_name(TopicName(text("t")))
            .with_partitions(partitions.collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(group(&"g".repeat(30_000)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let answer = commit_all(&coordinator, &request).await;
        let codes = answer.topics[0].partitions.iter().map(|one| one.error_code);
        assert_eq!(codes.clone().count(), 30_000);
        assert!(
            codes
                .into_iter()
                .all(|one| one == code(ErrorCode::UnknownServerError))
        );
        assert!(log.0.records.borrow().is_empty());
        // Later requests are served.
        assert_eq!(commit(&coordinator, "g", 1).await, 0);
    });
}

/// Returns a commit of `count` offsets of `t`, to its partitions in turn.
pub(super) fn many(name: &str, count: i32, offset: i64) -> OffsetCommitRequest {
    let partitions = (0..count).map(|index| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
    });
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text("t")))
        .with_partitions(partitions.collect());
    OffsetCommitRequest::default()
        .with_group_id(group(name))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

#[test]
fn a_commit_does_not_overtake_a_large_one_that_came_before_it() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let asked = [(20_000, 1), (1, 2), (20_000, 3), (1, 4)];
        let asked: Vec<_> = asked
            .into_iter()
            .map(|(count, offset)| {
                let coordinator = Rc::clone(&coordinator);
                let request = many("g", count, offset);
                task::spawn(async move { commit_all(&coordinator, &request).await })
            })
            .collect();
        // Commits to other groups do not wait.
        settle().await;
        assert_eq!(commit(&coordinator, "h", 1).await, 0);
        assert!(!asked[0].is_finished());
        for asked in asked {
            let answer = asked.await.unwrap();
            assert!(
                answer.topics[0]
                    .partitions
                    .iter()
                    .all(|one| one.error_code == 0)
            );
        }
        let of_first = log
            .0
            .records
            .borrow()
            .iter()
            .filter_map(|(key, value)| {
                match GroupRecord::decode(key, value.as_deref()).unwrap()? {
                    GroupRecord::Offset {
                        group,
                        partition: 0,
                        value,
                        ..
                    } if group.as_str() == "g" => Some(value?.offset),
                    _ => None,
                }
            })
            .collect::<Vec<_>>();
        assert_eq!(of_first, [1, 2, 3, 4]);
        assert!(
            coordinator
                .in_line(&text("g"), &text("/h"), false)
                .is_none()
        );
    });
}

#[test]
fn a_strangers_long_commit_to_a_group_does_not_hold_up_those_of_its_members() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let spawn = |host: &'static str, count, offset| {
            let coordinator = Rc::clone(&coordinator);
            let request = many("g", count, offset);
            task::spawn(async move { commit_from(&coordinator, host, &request).await })
        };
        let strangers = spawn("/2001:db8::1", 20_000, 1);
        let of_its_network = spawn("/2001:db8::2", 1, 2);
        let members = spawn("/10.0.0.1", 1, 3);
        let answer = members.await.unwrap();
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert!(!strangers.is_finished() && !of_its_network.is_finished());
        strangers.await.unwrap();
        of_its_network.await.unwrap();
        assert_eq!(fetched(&coordinator, "g", false).await, Some(2));
    });
}

/// A decision is not interrupted, and it checks the whole commit again when topics were added or
/// deleted.
#[test]
fn a_commit_that_no_batch_holds_is_not_looked_at_again_and_however_large_batches_are_there_is_a_bound()
 {
    simulate(async {
        let log = TestLog::default();
        log.0.more_bytes.set(64 << 20);
        let coordinator = coordinator(&log);
        let host = text("/h");
        let commit = async |count| {
            let request = many("g", count, 1);
            let asked = std::cell::Cell::new(false);
            let now = || {
                asked.set(true);
                (Arc::new(AnyTopic), None)
            };
            let place = coordinator.in_line(&request.group_id, &host, true);
            let topics = (Arc::new(AnyTopic), now);
            let place = (&host, place);
            let done =
                handler::offset_commit::handle(&coordinator, &request, 8, place, topics, &FREE);
            let answer = done.await;
            (answer.topics[0].partitions[0].error_code, asked.get())
        };
        let refused = code(ErrorCode::UnknownServerError);
        assert_eq!(commit(150_000).await, (refused, false));
        assert_eq!(commit(20_000).await, (0, true));
    });
}

#[test]
fn a_commit_is_judged_by_the_rights_of_its_turn_even_if_no_topic_has_changed() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let topic = (ResourceType::Topic, "t", Operation::Read);
        let group = (ResourceType::Group, "g", Operation::Read);
        for (left, lost) in [
            (group, ErrorCode::TopicAuthorizationFailed),
            (topic, ErrorCode::GroupAuthorizationFailed),
        ] {
            let (request, host) = (many("g", 1, 7), text("/h"));
            let place = coordinator.in_line(&request.group_id, &host, false);
            let seen = Arc::new(AnyTopic);
            let now = || (Arc::clone(&seen), Some(limited_to(&[left])));
            let (topics, before) = ((Arc::clone(&seen), now), limited_to(&[topic, group]));
            let place = (&host, place);
            let done =
                handler::offset_commit::handle(&coordinator, &request, 8, place, topics, &before);
            let answer = done.await;
            assert_eq!(answer.topics[0].partitions[0].error_code, code(lost));
        }
        assert_ne!(fetched(&coordinator, "g", false).await, Some(7));
    });
}

#[test]
fn others_have_their_turn_while_many_positions_are_committed_read_and_deleted() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let (turns, answer) = turns_beside(commit_all(&coordinator, &many("g", 10_240, 1))).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert!(turns >= 19, "{turns} turns");
        let asked = |topics| {
            OffsetFetchRequestGroup::default()
                .with_group_id(group("g"))
                .with_topics(topics)
        };
        let topic = OffsetFetchRequestTopics::default()
            .with_name(TopicName(text("t")))
            .with_partition_indexes((0..10_240).collect());
        let room = Room::some();
        for topics in [None, Some(vec![topic])] {
            let asked = asked(topics);
            let fetch = handler::offset_fetch::handle_group(&coordinator, &asked, true, &room);
            let (turns, answer) = turns_beside(fetch).await;
            let indexes = answer.topics[0]
                .partitions
                .iter()
                .map(|one| one.partition_index);
            assert!(indexes.eq(0..10_240));
            assert!(turns >= 19, "{turns} turns");
        }
        let gone = (0..10_240)
            .map(|index| OffsetDeleteRequestPartition::default().with_partition_index(index));
        let topic = OffsetDeleteRequestTopic::default()
            .with_name(TopicName(text("t")))
            .with_partitions(gone.collect());
        let request = OffsetDeleteRequest::default()
            .with_group_id(group("g"))
            .with_topics(vec![topic]);
        let topics = || (Arc::new(AnyTopic), None);
        let delete = handler::offset_delete::handle(&coordinator, &request, topics, &FREE);
        let (turns, answer) = turns_beside(delete).await;
        assert_eq!(answer.topics[0].partitions.len(), 10_240);
        assert!(turns >= 19, "{turns} turns");
        assert_eq!(fetched(&coordinator, "g", false).await, None);
    });
}

/// Each entry has a few bytes in the request and four thousand in the answer.
#[test]
fn an_answer_does_not_grow_by_naming_a_partition_again_and_again() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let mut request = many("g", 1, 1);
        let note = StrBytes::from_string("n".repeat(4096));
        request.topics[0].partitions[0].committed_metadata = Some(note);
        commit_all(&coordinator, &request).await;
        let fetch = async |times| {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(TopicName(text("t")))
                .with_partition_indexes(vec![0; times]);
            let request = OffsetFetchRequestGroup::default()
                .with_group_id(group("g"))
                .with_topics(Some(vec![topic]));
            handler::offset_fetch::handle_group(&coordinator, &request, false, &Room::some())
                .await
                .error_code
        };
        assert_eq!(fetch(100).await, 0);
        assert_eq!(fetch(200_000).await, code(ErrorCode::PolicyViolation));
    });
}

#[test]
fn a_failed_append_is_told_in_words_that_clients_understand() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        commit(&coordinator, "g", 1).await;
        log.0.held.set(true);
        for (error, told, after) in [
            (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator, 1),
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError, 1),
        ] {
            let asked = {
                let coordinator = Rc::clone(&coordinator);
                task::spawn(async move { commit(&coordinator, "g", 9).await })
            };
            settle().await;
            log.end(Err(GroupAppendError::Refused(error))).await;
            assert_eq!(asked.await.unwrap(), code(told));
            assert_eq!(fetched(&coordinator, "g", false).await, Some(after));
        }
    });
}

/// A disk without room writes accepted records when there is room again.
#[test]
fn while_the_fate_of_a_commit_is_not_known_nobody_acts_on_it_and_then_it_counts() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let clock = coordinator.platform.clock().clone();
        let spawn = |offset| {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { commit(&coordinator, "h", offset).await })
        };
        log.0.held.set(true);
        let first = spawn(7);
        settle().await;
        let behind = spawn(8);
        settle().await;
        clock.sleep(Duration::from_secs(6)).await;
        settle().await;
        let come_back = code(ErrorCode::CoordinatorNotAvailable);
        assert_eq!(first.await.unwrap(), come_back);
        assert_eq!(behind.await.unwrap(), come_back);
        // Changes are refused, also later; committed offsets can be read, others cannot.
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(commit(&coordinator, "h", 9).await, come_back);
        assert_eq!(join(&coordinator, "h", "", 3).await.error_code, come_back);
        assert_eq!(fetched(&coordinator, "h", false).await, None);
        assert_eq!(coordinator.metrics.stalled_partitions.get(), 1);
        // There is room: the offset is in the log and in memory, and the slot serves again.
        log.0.held.set(false);
        assert_eq!(log.end(Ok(())).await, 1);
        assert_eq!(fetched(&coordinator, "h", false).await, Some(7));
        assert_eq!(coordinator.metrics.stalled_partitions.get(), 0);
        assert_eq!(commit(&coordinator, "h", 10).await, 0);
        assert_eq!(fetched(&coordinator, "h", true).await, Some(10));
    });
}
