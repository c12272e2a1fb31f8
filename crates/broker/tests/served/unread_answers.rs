//! Answers about all there is, while clients leave many answers untaken or there is too much for
//! one answer; and fetches that wait at many partitions.

use std::future::{Future as _, poll_fn};
use std::net::IpAddr;
use std::pin::pin;

use broker::dispatch::CloseReason;
use platform::Platform;
use platform::sim::SimDisk;
use wire::kafka::Api;
use wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::{
    AlterClientQuotasRequest, DescribeClientQuotasRequest, DescribeConfigsRequest,
    ListGroupsRequest, ListTransactionsRequest, MetadataRequest, OffsetForLeaderEpochRequest,
};
use wire::protocol::Encodable;
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, partitions, text, topic_name};
use crate::harness::client::frame;
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

const MIB: usize = 1 << 20;
/// Settings of a topic, as resources are numbered.
const TOPIC: i8 = 2;

/// A broker whose answers may hold so much.
fn with_answers_of(bytes: usize, story: impl AsyncFnOnce(&Cluster)) {
    let setup = Setup {
        answers_bytes_max: bytes,
        ..Setup::shards(2)
    };
    life(&SimDisk::new(1), &setup, story);
}

/// A client at another address that reads no answers.
fn slow_reader() -> IpAddr {
    [10, 9, 8, 7].into()
}

/// Ids of a kilobyte.
fn long_ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:0>1000}")).collect()
}

fn all_topics() -> Vec<MetadataRequestTopic> {
    let named =
        |n| MetadataRequestTopic::default().with_name(Some(topic_name(&format!("{n:0>200}"))));
    (0..1000).map(named).collect()
}

#[test]
fn a_list_of_groups_is_told_as_far_as_there_is_memory_for_it() {
    with_answers_of(4 * MIB, async |cluster| {
        cluster.create("t", 1).await;
        let ids = long_ids(600);
        for id in &ids[..300] {
            cluster.commit(id, "t", 0, 1).await;
        }
        let list = async |states: &[&str]| {
            let states = states.iter().map(|state| text(state)).collect();
            let request = ListGroupsRequest::default().with_states_filter(states);
            let answer = cluster.ask(4, &request).await;
            (error(answer.error_code), answer.groups.len())
        };
        assert_eq!(list(&[]).await, (None, 300));
        let slow = cluster.answers.account(slow_reader());
        slow.hold(5 * MIB);
        let busy = Some(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(list(&[]).await, (busy, 0));
        assert_eq!(list(&["Stable"]).await, (None, 0), "a small answer");
        slow.release(5 * MIB);
        for id in &ids[300..] {
            cluster.commit(id, "t", 0, 1).await;
        }
        let too_many = Some(ErrorCode::PolicyViolation);
        assert_eq!(list(&[]).await, (too_many, 0));
        assert_eq!(list(&["Stable"]).await, (None, 0));
        assert_eq!(cluster.answers.used_bytes(), 0);
    });
}

#[test]
fn a_list_of_transactional_ids_is_told_as_far_as_there_is_memory_for_it() {
    with_answers_of(4 * MIB, async |cluster| {
        cluster.create("t", 1).await;
        let ids = long_ids(600);
        for id in &ids[..300] {
            Transactor::begin(cluster, id, false).await;
        }
        let list = async |states: &[&str]| {
            let states = states.iter().map(|state| text(state)).collect();
            let request = ListTransactionsRequest::default().with_state_filters(states);
            let answer = cluster.ask(0, &request).await;
            (error(answer.error_code), answer.transaction_states.len())
        };
        assert_eq!(list(&[]).await, (None, 300));
        let slow = cluster.answers.account(slow_reader());
        slow.hold(5 * MIB);
        let busy = Some(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(list(&[]).await, (busy, 0));
        assert_eq!(list(&["Ongoing"]).await, (None, 0), "a small answer");
        slow.release(5 * MIB);
        for id in &ids[300..] {
            Transactor::begin(cluster, id, false).await;
        }
        assert_eq!(list(&[]).await, (Some(ErrorCode::PolicyViolation), 0));
        assert_eq!(cluster.answers.used_bytes(), 0);
    });
}

#[test]
fn settings_of_a_topic_that_is_named_again_and_again_do_not_fill_the_memory() {
    with_answers_of(8 * MIB, async |cluster| {
        let replicas = "0:1,".repeat(7000);
        let long = "leader.replication.throttled.replicas";
        cluster.create_with("t", 1, &[(long, &replicas)]).await;
        let resource = DescribeConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text("t"))
            .with_configuration_keys(Some(vec![text(long)]));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource; 1000]);
        let answer = cluster.ask(4, &request).await;
        assert!(answer.compute_size(4).unwrap() < 2 * MIB);
        let codes = answer.results.iter().map(|result| error(result.error_code));
        let codes: Vec<_> = codes.collect();
        assert_eq!((codes.len(), codes[0]), (1000, None));
        assert_eq!(codes[999], Some(ErrorCode::PolicyViolation));
    });
}

#[test]
fn what_the_metadata_keep_of_clients_is_told_as_far_as_there_is_memory_for_it() {
    with_answers_of(4 * MIB, async |cluster| {
        let quota = |n| {
            let name = EntityData::default()
                .with_entity_type(text("client-id"))
                .with_entity_name(Some(text(&format!("{n:0>1000}"))));
            let op = OpData::default()
                .with_key(text("producer_byte_rate"))
                .with_value(1e6);
            EntryData::default()
                .with_entity(vec![name])
                .with_ops(vec![op])
        };
        let alter = AlterClientQuotasRequest::default().with_entries((0..300).map(quota).collect());
        let altered = cluster.ask(1, &alter).await;
        assert!(altered.entries.iter().all(|entry| entry.error_code == 0));
        let describe = async || {
            let request = DescribeClientQuotasRequest::default();
            let answer = cluster.ask(1, &request).await;
            (
                error(answer.error_code),
                answer.entries.map_or(0, |all| all.len()),
            )
        };
        assert_eq!(describe().await, (None, 300));
        let slow = cluster.answers.account(slow_reader());
        slow.hold(5 * MIB);
        let busy = Some(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(describe().await, (busy, 0));
        slow.release(5 * MIB);
        assert_eq!(describe().await, (None, 300));
    });
}

#[test]
fn while_clients_leave_too_much_untaken_a_large_answer_ends_the_connection_and_a_small_one_does_not()
 {
    with_answers_of(4 * MIB, async |cluster| {
        let large = MetadataRequest::default().with_topics(Some(all_topics()));
        assert_eq!(cluster.ask(9, &large).await.topics.len(), 1000);
        let slow = cluster.answers.account(slow_reader());
        slow.hold(3 * MIB);
        assert_eq!(
            cluster.ask(9, &large).await.topics.len(),
            1000,
            "his share alone is used up"
        );
        slow.hold(2 * MIB);
        assert_eq!(
            cluster.ask(9, &large).await.topics.len(),
            1000,
            "whoever holds nothing has a fair share"
        );
        let own = cluster.answers.account([127, 0, 0, 1].into());
        own.hold(MIB);
        let refused = cluster.refused(&frame(9, &large)).await;
        assert_eq!(refused, CloseReason::NoRoom(Api::Metadata));
        let few = all_topics().into_iter().take(100).collect();
        let small = MetadataRequest::default().with_topics(Some(few));
        assert_eq!(cluster.ask(9, &small).await.topics.len(), 100);
        slow.release(5 * MIB);
        own.release(MIB);
        assert_eq!(cluster.ask(9, &large).await.topics.len(), 1000);
    });
}

#[test]
fn while_clients_leave_too_much_untaken_a_large_answer_about_epochs_ends_the_connection() {
    with_answers_of(4 * MIB, async |cluster| {
        let partition = |index| OffsetForLeaderPartition::default().with_partition(index);
        let topic = OffsetForLeaderTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions((0..6000).map(partition).collect());
        let large = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        assert_eq!(cluster.ask(4, &large).await.topics.len(), 1);
        let slow = cluster.answers.account(slow_reader());
        slow.hold(5 * MIB);
        let own = cluster.answers.account([127, 0, 0, 1].into());
        own.hold(MIB);
        let refused = cluster.refused(&frame(4, &large)).await;
        assert_eq!(refused, CloseReason::NoRoom(Api::OffsetForLeaderEpoch));
        slow.release(5 * MIB);
        own.release(MIB);
        assert_eq!(cluster.ask(4, &large).await.topics.len(), 1);
    });
}

#[test]
fn a_fetch_of_many_partitions_waits_only_while_there_is_memory_for_that() {
    with_answers_of(2 * MIB, async |cluster| {
        cluster.create("t", 300).await;
        let wait = |count: i32| {
            let from: Vec<_> = (0..count).map(|index| (index, 0)).collect();
            let request = fetch("t", &from).with_max_wait_ms(20_000);
            cluster.asking(0, 12, &request)
        };
        let now = || cluster.platform.clock().reading().wall_ms;
        let begin = now();
        let answer = wait(300).await;
        assert_eq!(partitions(&answer).len(), 300);
        assert_eq!(now() - begin, 20_000, "there is room for one");
        let first = platform::task::spawn(wait(300));
        cluster.pass_ms(1).await;
        assert!(cluster.answers.waiting_bytes() > 0);
        let begin = now();
        assert_eq!(partitions(&wait(300).await).len(), 300);
        assert_eq!(now() - begin, 0, "there is none for another");
        assert_eq!(partitions(&wait(10).await).len(), 10);
        assert_eq!(now() - begin, 20_000, "few always wait");
        first.await.expect("an answer");
        assert_eq!(cluster.answers.waiting_bytes(), 0);
    });
}

#[test]
fn what_a_fetch_has_read_counts_until_its_answer_is_there() {
    with_answers_of(64 * MIB, async |cluster| {
        cluster.create("t", 2).await;
        for partition in [0, 1] {
            let value = "v".repeat(400_000);
            cluster.produce("t", partition, &[&value]).await;
        }
        // The answer is put together in several steps: most of these are not there.
        let mut from: Vec<_> = (2..2000).map(|index| (index, 0)).collect();
        from.extend([(0, 0), (1, 0)]);
        for shard in [0, 1] {
            let mut reply = pin!(cluster.asking(shard, 12, &fetch("t", &from)));
            let mut steps = Vec::new();
            let answer = poll_fn(|cx| {
                steps.push(cluster.answers.used_bytes());
                reply.as_mut().poll(cx)
            });
            assert_eq!(partitions(&answer.await).len(), 2000);
            assert_eq!(steps.first(), Some(&0));
            assert!(steps.last() > Some(&700_000), "{steps:?}");
            assert_eq!(cluster.answers.used_bytes(), 0);
        }
    });
}
