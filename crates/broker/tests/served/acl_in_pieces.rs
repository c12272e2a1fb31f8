//! What a client loses while its request is worked on in pieces, or waits for what is made for it:
//! the rest of the request is judged by the rights of then.

use std::task::{Context, Waker};

use platform::sim::SimDisk;
use platform::task::spawn;
use wire::acl::{Operation, ResourceType};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::{
    AddPartitionsToTxnRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DescribeGroupsRequest,
    DescribeProducersRequest, DescribeTransactionsRequest, FindCoordinatorRequest, GroupId,
    MetadataRequest, OffsetDeleteRequest, TransactionalId,
};
use wire::protocol::Request;

use crate::acl_meanwhile::{GROUP, ID, TOPIC, group, hang, lose, lose_before, with_users};
use crate::harness::asks::{error, produce, text, topic_name};
use crate::harness::batches::batch;
use crate::harness::client::frame;
use crate::harness::transactor::Transactor;
use crate::harness::users::{Resource, User, topic};
use crate::harness::{Cluster, Setup, life};

/// The number of things after which a request about them rests.
const MANY: i32 = 600;

const fn transaction(name: &str) -> Resource<'_> {
    (ResourceType::TransactionalId, name)
}

/// Has `ada` lose a right after the first piece of its request.
async fn lose_between<R: Request>(
    cluster: &Cluster,
    (version, request): (i16, &R),
    (operation, lost): (Operation, Resource<'_>),
) -> R::Response {
    let ada = User::login(cluster, "ada").await;
    let mut asked = Box::pin(ada.asking(version, request));
    let mut once = Context::from_waker(Waker::noop());
    assert!(asked.as_mut().poll(&mut once).is_pending(), "it rests");
    cluster.deny("ada", operation, lost).await;
    asked.await
}

/// Names of things that are not there, and one at the end.
fn names(last: &str) -> Vec<String> {
    let missing = (0..MANY).map(|at| at.to_string());
    missing.chain([last.to_owned()]).collect()
}

fn groups(last: &str) -> Vec<GroupId> {
    let each = names(last).into_iter();
    each.map(|name| GroupId(text(&name))).collect()
}

#[test]
fn groups_are_described_by_the_rights_of_the_moment() {
    with_users(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 7).await;
        cluster.allow("ada", Operation::Describe, group("g")).await;
        let request = DescribeGroupsRequest::default().with_groups(groups("g"));
        let lost = (Operation::Describe, group("g"));
        let told = lose_between(cluster, (5, &request), lost).await.groups;
        let told = told.iter().find(|it| it.group_id.as_str() == "g");
        assert_eq!(error(told.unwrap().error_code), GROUP);
    });
}

#[test]
fn groups_are_deleted_by_the_rights_of_the_moment() {
    with_users(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 7).await;
        cluster.allow("ada", Operation::Delete, group("g")).await;
        let request = DeleteGroupsRequest::default().with_groups_names(groups("g"));
        let lost = (Operation::Delete, group("g"));
        let told = lose_between(cluster, (2, &request), lost).await.results;
        let told = told.iter().find(|it| it.group_id.as_str() == "g");
        assert_eq!(error(told.unwrap().error_code), GROUP);
        assert_eq!(cluster.committed("g", "t", 0).await, 7);
    });
}

#[test]
fn consumer_groups_are_described_by_the_rights_of_the_moment() {
    for (lost, code) in [(group("g"), GROUP), (topic("t"), TOPIC)] {
        with_users(1, async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("other", "t", 0, 1).await;
            cluster.pass_ms(1_000).await;
            let member = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(GroupId(text("g")))
                .with_member_id(text("m"))
                .with_rebalance_timeout_ms(60_000)
                .with_subscribed_topic_names(Some(vec![topic_name("t")]))
                .with_topic_partitions(Some(Vec::new()));
            assert_eq!(error(cluster.ask(1, &member).await.error_code), None);
            cluster.allow("ada", Operation::Describe, topic("t")).await;
            cluster.allow("ada", Operation::Describe, group("g")).await;
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(groups("g"));
            let lost = (Operation::Describe, lost);
            let told = lose_between(cluster, (1, &request), lost).await.groups;
            let told = told.iter().find(|it| it.group_id.as_str() == "g").unwrap();
            assert_eq!((error(told.error_code), told.members.len()), (code, 0));
        });
    }
}

#[test]
fn transactions_are_described_by_the_rights_of_the_moment() {
    with_users(1, async |cluster| {
        Transactor::begin(cluster, "x", false).await;
        let right = (Operation::Describe, transaction("x"));
        cluster.allow("ada", right.0, right.1).await;
        let ids = names("x").into_iter();
        let ids = ids.map(|name| TransactionalId(text(&name)));
        let request = DescribeTransactionsRequest::default().with_transactional_ids(ids.collect());
        let told = lose_between(cluster, (0, &request), right).await;
        let told = told.transaction_states.last().unwrap();
        assert_eq!(told.transactional_id.as_str(), "x");
        assert_eq!((error(told.error_code), told.producer_id.0), (ID, 0));
    });
}

#[test]
fn partitions_do_not_join_a_transaction_after_the_right_is_lost() {
    for (lost, code) in [(topic("t"), TOPIC), (transaction("x"), ID)] {
        with_users(1, async |cluster| {
            cluster.create("t", 1).await;
            let owner = Transactor::begin(cluster, "x", false).await;
            for right in [topic("t"), transaction("x")] {
                cluster.allow("ada", Operation::Write, right).await;
            }
            let named = AddPartitionsToTxnTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![0]);
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(owner.id.clone())
                .with_v3_and_below_producer_id(owner.producer.0.into())
                .with_v3_and_below_producer_epoch(owner.producer.1)
                .with_v3_and_below_topics(vec![named; MANY as usize]);
            let lost = (Operation::Write, lost);
            let told = lose_between(cluster, (3, &request), lost).await;
            for topic in told.results_by_topic_v3_and_below {
                let told = topic.results_by_partition[0].partition_error_code;
                assert_eq!(error(told), code);
            }
        });
    }
}

#[test]
fn offsets_stay_when_the_right_to_delete_them_is_lost() {
    for (operation, lost, whole, each) in [
        (Operation::Delete, group("g"), GROUP, None),
        (Operation::Read, topic("t"), None, Some(TOPIC)),
    ] {
        with_users(1, async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("g", "t", 0, 7).await;
            cluster.allow("ada", Operation::Delete, group("g")).await;
            cluster.allow("ada", Operation::Read, topic("t")).await;
            let partitions = (0..MANY * 2)
                .map(|index| OffsetDeleteRequestPartition::default().with_partition_index(index));
            let named = OffsetDeleteRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(partitions.collect());
            let request = OffsetDeleteRequest::default()
                .with_group_id(GroupId(text("g")))
                .with_topics(vec![named]);
            let told = lose_between(cluster, (0, &request), (operation, lost)).await;
            assert_eq!(error(told.error_code), whole);
            let first = told
                .topics
                .first()
                .map(|it| error(it.partitions[0].error_code));
            assert_eq!(first, each);
            assert_eq!(cluster.committed("g", "t", 0).await, 7);
        });
    }
}

#[test]
fn producers_are_described_by_the_rights_of_the_moment() {
    with_users(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.allow("ada", Operation::Read, topic("t")).await;
        let named = TopicRequest::default()
            .with_name(topic_name("t"))
            .with_partition_indexes((0..MANY).collect());
        let request = DescribeProducersRequest::default().with_topics(vec![named]);
        let lost = (Operation::Read, topic("t"));
        let told = lose_between(cluster, (0, &request), lost).await;
        assert_eq!(error(told.topics[0].partitions[0].error_code), TOPIC);
    });
}

#[test]
fn records_of_a_log_that_was_slow_to_settle_stay() {
    for shards in [1, 2] {
        with_users(shards, async |cluster| {
            cluster.create("t", 1).await;
            cluster.produce("t", 0, &["a"]).await;
            cluster.allow("ada", Operation::Delete, topic("t")).await;
            let ada = User::login(cluster, "ada").await;
            hang(cluster, "t", true);
            let unsafe_yet = produce("t", 0, &[(0, batch(&["b"]))]);
            cluster.reply(0, &frame(9, &unsafe_yet)).await;
            let partition = DeleteRecordsPartition::default().with_offset(1);
            let named = DeleteRecordsTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = DeleteRecordsRequest::default()
                .with_topics(vec![named])
                .with_timeout_ms(60_000);
            let waiting = spawn(ada.asking(2, &request));
            let lost = (Operation::Delete, topic("t"));
            let told = lose(cluster, waiting, lost, "t").await;
            let told = &told.topics[0].partitions[0];
            assert_eq!((error(told.error_code), told.low_watermark), (TOPIC, -1));
            assert_eq!(cluster.offset("t", 0, -2).await, 0);
        });
    }
}

#[test]
fn a_coordinator_whose_topic_was_made_is_told_by_the_rights_of_then() {
    with_users(1, async |cluster| {
        cluster.allow("ada", Operation::Describe, group("g")).await;
        let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
        let lost = (Operation::Describe, group("g"));
        let told = lose_before(cluster, (4, &request), lost).await;
        assert_eq!(error(told.coordinators[0].error_code), GROUP);
        let has_topic = cluster.brokers[0].image().topics().count() == 1;
        assert!(has_topic, "it was made meanwhile");
    });
}

#[test]
fn a_topic_that_was_made_is_told_by_the_rights_of_then() {
    let mut setup = Setup::shards(1).with_users();
    setup.options.auto_create_topics = true;
    life(&SimDisk::new(1), &setup, async |cluster| {
        for operation in [Operation::Describe, Operation::Create] {
            cluster.allow("ada", operation, topic("t")).await;
        }
        let named = MetadataRequestTopic::default().with_name(Some(topic_name("t")));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![named]))
            .with_allow_auto_topic_creation(true);
        let lost = (Operation::Describe, topic("t"));
        let told = lose_before(cluster, (9, &request), lost).await;
        let told = &told.topics[0];
        assert_eq!((error(told.error_code), told.partitions.len()), (TOPIC, 0));
    });
}

#[test]
fn topics_are_created_by_the_rights_of_the_turn() {
    with_users(1, async |cluster| {
        cluster.allow("ada", Operation::Create, topic("t")).await;
        let named = CreatableTopic::default()
            .with_name(topic_name("t"))
            .with_num_partitions(1)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![named])
            .with_timeout_ms(10_000);
        let lost = (Operation::Create, topic("t"));
        let told = lose_before(cluster, (7, &request), lost).await;
        assert_eq!(error(told.topics[0].error_code), TOPIC);
        assert_eq!(cluster.brokers[0].image().topics().count(), 0);
    });
}
