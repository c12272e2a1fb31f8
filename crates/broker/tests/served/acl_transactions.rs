//! What a client may do with transactional ids, and in transactions.

use platform::sim::SimDisk;
use wire::acl::{Operation, ResourceType};
use wire::kafka::NewestVersion;
use wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest,
    GroupId, InitProducerIdRequest, ListTransactionsRequest, TransactionalId,
    TxnOffsetCommitRequest, WriteTxnMarkersRequest,
};

use crate::harness::asks::{produce, text, topic_name};
use crate::harness::batches::transactional_in;
use crate::harness::transactor::Transactor;
use crate::harness::users::{CLUSTER, Resource, User, topic};
use crate::harness::{Cluster, Setup, life};

const TOPIC_DENIED: i16 = 29;
const GROUP_DENIED: i16 = 30;
const CLUSTER_DENIED: i16 = 31;
const ID_DENIED: i16 = 53;
const NOT_ATTEMPTED: i16 = 55;
const UNKNOWN_TOPIC: i16 = 3;

fn with_users(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards).with_users(), story);
}

const fn transaction(name: &str) -> Resource<'_> {
    (ResourceType::TransactionalId, name)
}

fn id(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}

#[test]
fn a_transactional_id_is_its_writers() {
    with_users(2, async |cluster| {
        let owner = Transactor::begin(cluster, "x", false).await;
        let (producer, epoch) = owner.producer();
        let ada = User::login(cluster, "ada").await;
        cluster
            .allow("ada", Operation::Describe, transaction("x"))
            .await;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id("x")))
            .with_transaction_timeout_ms(10_000);
        let told = ada.ask(4, &request).await;
        assert_eq!(told.error_code, ID_DENIED);
        assert_eq!((told.producer_id.0, told.producer_epoch), (-1, -1));
        let end = EndTxnRequest::default()
            .with_transactional_id(id("x"))
            .with_producer_id(producer.into())
            .with_producer_epoch(epoch);
        for version in [0, 4, 5] {
            let told = ada.ask(version, &end).await;
            assert_eq!((told.error_code, told.producer_id.0), (ID_DENIED, -1));
        }
        // It has fenced no producer.
        cluster
            .allow("ada", Operation::Write, transaction("x"))
            .await;
        let told = ada.ask(4, &request).await;
        assert_eq!((told.error_code, told.producer_id.0), (0, producer));
        assert_eq!(told.producer_epoch, epoch + 1);
    });
}

#[test]
fn no_batch_of_any_format_adds_to_a_transaction_of_others() {
    const MAGIC: usize = 16;
    with_users(2, async |cluster| {
        cluster.create("t", 1).await;
        let owner = Transactor::begin(cluster, "x", true).await;
        let ada = User::login(cluster, "ada").await;
        cluster.allow("ada", Operation::Write, topic("t")).await;
        let describe = DescribeTransactionsRequest::default().with_transactional_ids(vec![id("x")]);
        let batch = transactional_in(owner.producer(), 0, &["v"]);
        for magic in [2, 0, 1, 3, 0xff] {
            let mut batch = batch.to_vec();
            batch[MAGIC] = magic;
            let request = produce("t", -1, &[(0, batch.into())]);
            let request = request.with_transactional_id(Some(id("x")));
            let told = ada.ask(12, &request).await;
            let code = told.responses[0].partition_responses[0].error_code;
            assert_ne!(code, 0, "magic {magic}");
            assert_eq!(code == ID_DENIED, magic == 2, "magic {magic}: {code}");
            let told = cluster.ask(0, &describe).await;
            let state = told.transaction_states[0].transaction_state.as_str();
            assert_eq!(state, "Empty", "magic {magic}");
        }
    });
}

fn adding(topics: &[&str]) -> Vec<AddPartitionsToTxnTopic> {
    let topics = topics.iter().map(|topic| {
        AddPartitionsToTxnTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![0])
    });
    topics.collect()
}

#[test]
fn a_producer_adds_partitions_of_topics_to_which_it_may_write() {
    with_users(2, async |cluster| {
        for topic in ["t", "u"] {
            cluster.create(topic, 1).await;
        }
        let owner = Transactor::begin(cluster, "x", false).await;
        let (producer, epoch) = owner.producer();
        let ada = User::login(cluster, "ada").await;
        let codes = async |topics: &[&str]| {
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(id("x"))
                .with_v3_and_below_producer_id(producer.into())
                .with_v3_and_below_producer_epoch(epoch)
                .with_v3_and_below_topics(adding(topics));
            let told = ada.ask(3, &request).await;
            let topics = told.results_by_topic_v3_and_below.iter();
            let codes = topics.map(|it| it.results_by_partition[0].partition_error_code);
            codes.collect::<Vec<_>>()
        };
        let all = ["t", "u", "missing"];
        assert_eq!(codes(&all).await, [ID_DENIED; 3]);
        cluster
            .allow("ada", Operation::Write, transaction("x"))
            .await;
        assert_eq!(codes(&all).await, [TOPIC_DENIED; 3]);
        cluster.allow("ada", Operation::Write, topic("t")).await;
        assert_eq!(codes(&["t", "u"]).await, [NOT_ATTEMPTED, TOPIC_DENIED]);
        cluster
            .allow("ada", Operation::Write, topic("missing"))
            .await;
        let told = codes(&all).await;
        assert_eq!(told, [NOT_ATTEMPTED, TOPIC_DENIED, UNKNOWN_TOPIC]);
        assert_eq!(codes(&["t"]).await, [0]);
        // No client adds internal topics by this request, whatever its rights.
        let internal = "__transaction_state";
        cluster
            .allow("ada", Operation::Write, topic(internal))
            .await;
        let told = codes(&["t", internal]).await;
        assert_eq!(told, [NOT_ATTEMPTED, TOPIC_DENIED]);
    });
}

#[test]
fn only_brokers_add_partitions_to_several_transactions() {
    with_users(1, async |cluster| {
        cluster.create("t", 1).await;
        let owner = Transactor::begin(cluster, "x", false).await;
        let (producer, epoch) = owner.producer();
        let ada = User::login(cluster, "ada").await;
        cluster
            .allow("ada", Operation::Write, transaction("x"))
            .await;
        cluster.allow("ada", Operation::Write, topic("t")).await;
        let one = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(id("x"))
            .with_producer_id(producer.into())
            .with_producer_epoch(epoch)
            .with_topics(adding(&["t"]));
        let request = AddPartitionsToTxnRequest::default().with_transactions(vec![one]);
        for version in [4, 5] {
            let told = ada.ask(version, &request).await;
            assert_eq!(told.error_code, CLUSTER_DENIED);
            assert!(told.results_by_transaction.is_empty());
        }
        cluster
            .allow("ada", Operation::ClusterAction, CLUSTER)
            .await;
        let told = ada.ask(4, &request).await;
        assert_eq!((told.error_code, told.results_by_transaction.len()), (0, 1));
    });
}

#[test]
fn offsets_join_a_transaction_by_the_rights_on_id_group_and_topics_in_this_order() {
    with_users(2, async |cluster| {
        for topic in ["t", "u"] {
            cluster.create(topic, 1).await;
        }
        cluster.commit("g", "t", 0, 1).await;
        let owner = Transactor::begin(cluster, "x", false).await;
        let (producer, epoch) = owner.producer();
        let ada = User::login(cluster, "ada").await;
        let add = async || {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(id("x"))
                .with_producer_id(producer.into())
                .with_producer_epoch(epoch)
                .with_group_id(GroupId(text("g")));
            ada.ask(3, &request).await.error_code
        };
        let commit = async |topics: &[&str]| {
            let topics = topics.iter().map(|topic| {
                TxnOffsetCommitRequestTopic::default()
                    .with_name(topic_name(topic))
                    .with_partitions(vec![TxnOffsetCommitRequestPartition::default()])
            });
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(id("x"))
                .with_group_id(GroupId(text("g")))
                .with_producer_id(producer.into())
                .with_producer_epoch(epoch)
                .with_topics(topics.collect());
            let told = ada.ask(2, &request).await;
            let codes = told.topics.iter().map(|it| it.partitions[0].error_code);
            codes.collect::<Vec<_>>()
        };
        let all = ["t", "u", "missing"];
        assert_eq!(add().await, ID_DENIED);
        assert_eq!(commit(&all).await, [ID_DENIED; 3]);
        cluster
            .allow("ada", Operation::Write, transaction("x"))
            .await;
        assert_eq!(add().await, GROUP_DENIED);
        assert_eq!(commit(&all).await, [GROUP_DENIED; 3]);
        let group = (ResourceType::Group, "g");
        cluster.allow("ada", Operation::Read, group).await;
        assert_eq!(add().await, 0);
        assert_eq!(commit(&all).await, [TOPIC_DENIED; 3]);
        cluster.allow("ada", Operation::Read, topic("t")).await;
        cluster
            .allow("ada", Operation::Read, topic("missing"))
            .await;
        let told = commit(&all).await;
        assert_eq!(told, [0, TOPIC_DENIED, UNKNOWN_TOPIC]);
    });
}

#[test]
fn transactions_are_told_without_what_the_client_may_not_describe() {
    with_users(2, async |cluster| {
        for topic in ["t", "u"] {
            cluster.create(topic, 1).await;
        }
        for name in ["x", "y"] {
            let owner = Transactor::begin(cluster, name, false).await;
            let (producer, epoch) = owner.producer();
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(id(name))
                .with_v3_and_below_producer_id(producer.into())
                .with_v3_and_below_producer_epoch(epoch)
                .with_v3_and_below_topics(adding(&["t", "u"]));
            let told = cluster.ask(3, &request).await;
            let topics = told.results_by_topic_v3_and_below.iter();
            let mut codes = topics.map(|it| it.results_by_partition[0].partition_error_code);
            assert!(codes.all(|code| code == 0));
        }
        let ada = User::login(cluster, "ada").await;
        let describe =
            DescribeTransactionsRequest::default().with_transactional_ids(vec![id("y"), id("x")]);
        let told = async || {
            let told = ada.ask(0, &describe).await.transaction_states;
            let told = told.iter().map(|it| {
                let topics = it.topics.iter().map(|topic| topic.topic.to_string());
                (
                    it.transactional_id.0.to_string(),
                    it.error_code,
                    topics.collect(),
                )
            });
            told.collect::<Vec<(String, i16, Vec<String>)>>()
        };
        let one = |name: &str, code, topics: &[&str]| {
            let topics = topics.iter().map(|topic| (*topic).to_owned());
            (name.to_owned(), code, topics.collect::<Vec<_>>())
        };
        let both = [one("y", ID_DENIED, &[]), one("x", ID_DENIED, &[])];
        assert_eq!(told().await, both);
        cluster
            .allow("ada", Operation::Describe, transaction("x"))
            .await;
        let hidden = [one("y", ID_DENIED, &[]), one("x", 0, &[])];
        assert_eq!(told().await, hidden);
        cluster.allow("ada", Operation::Write, topic("u")).await;
        let seen = [one("y", ID_DENIED, &[]), one("x", 0, &["u"])];
        assert_eq!(told().await, seen);
        let listed = ada.ask(1, &ListTransactionsRequest::default()).await;
        assert_eq!(listed.error_code, 0);
        let ids = listed.transaction_states.iter();
        let ids: Vec<_> = ids.map(|it| it.transactional_id.0.to_string()).collect();
        assert_eq!(ids, ["x"]);
    });
}

#[test]
fn markers_are_written_by_who_may_act_for_or_change_the_cluster() {
    for operation in [Operation::Alter, Operation::ClusterAction] {
        with_users(1, async |cluster| {
            cluster.create("t", 2).await;
            let ada = User::login(cluster, "ada").await;
            let topic = WritableTxnMarkerTopic::default()
                .with_name(topic_name("t"))
                .with_partition_indexes(vec![0, 1]);
            let marker = WritableTxnMarker::default()
                .with_producer_id(77.into())
                .with_topics(vec![topic]);
            let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
            let request = NewestVersion::from(request);
            let codes = async || {
                let told = ada.ask(1, &request).await.message;
                let marker = &told.markers[0];
                assert_eq!(marker.producer_id.0, 77);
                let partitions = marker.topics[0].partitions.iter();
                partitions.map(|it| it.error_code).collect::<Vec<_>>()
            };
            cluster.allow("ada", Operation::Describe, CLUSTER).await;
            assert_eq!(codes().await, [CLUSTER_DENIED; 2]);
            let end = cluster.offset("t", 0, -1).await;
            assert_eq!(end, 0);
            cluster.allow("ada", operation, CLUSTER).await;
            assert_eq!(codes().await, [0, 0]);
        });
    }
}
