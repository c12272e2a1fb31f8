//! Small requests with large answers: each thing that is named is large, and is named many times.

use platform::sim::SimDisk;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, GroupId, OffsetCommitRequest,
    OffsetFetchRequest, TransactionalId,
};
use wire::protocol::Encodable;
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

/// What an answer may hold, and the first of it beyond that.
const ANSWER_BYTES_MAX: usize = 40 << 20;
const PARTITIONS: i32 = 200;

fn on(story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(2), story);
}

#[test]
fn positions_of_a_group_that_is_named_again_and_again_do_not_fill_the_memory() {
    on(async |cluster| {
        cluster.create("t", PARTITIONS).await;
        cluster.commit("g", "t", 0, 1).await;
        let partition = |index| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(5)
                .with_committed_metadata(Some(text(&"m".repeat(4000))))
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions((0..PARTITIONS).map(partition).collect());
        let commit = OffsetCommitRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let committed = cluster.ask(8, &commit).await;
        let codes = committed.topics[0].partitions.iter();
        assert!(codes.clone().all(|partition| partition.error_code == 0));
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text("g")))
            .with_topics(None);
        let fetch = OffsetFetchRequest::default().with_groups(vec![group; 100]);
        let answer = cluster.ask(8, &fetch).await;
        assert!(answer.compute_size(8).unwrap() < ANSWER_BYTES_MAX);
        let codes = answer.groups.iter().map(|group| error(group.error_code));
        let codes: Vec<_> = codes.collect();
        assert_eq!((codes.len(), codes[0]), (100, None));
        assert_eq!(codes[99], Some(ErrorCode::PolicyViolation));
        assert_eq!(
            answer.groups[0].topics[0].partitions.len(),
            usize::try_from(PARTITIONS).unwrap()
        );
    });
}

#[test]
fn a_transaction_that_is_named_again_and_again_does_not_fill_the_memory() {
    on(async |cluster| {
        cluster.create("t", PARTITIONS).await;
        let transactor = Transactor::begin(cluster, "x", false).await;
        let (id, epoch) = transactor.producer();
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(topic_name("t"))
            .with_partitions((0..PARTITIONS).collect());
        let add = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(text("x")))
            .with_v3_and_below_producer_id(id.into())
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(vec![topic]);
        cluster.ask(3, &add).await;
        let named = vec![TransactionalId(text("x")); 60_000];
        let describe = DescribeTransactionsRequest::default().with_transactional_ids(named);
        let answer = cluster.ask(0, &describe).await;
        assert!(answer.compute_size(0).unwrap() < ANSWER_BYTES_MAX);
        let states = &answer.transaction_states;
        assert_eq!(states.len(), 60_000);
        assert_eq!(
            states[0].topics[0].partitions.len(),
            usize::try_from(PARTITIONS).unwrap()
        );
        let last = error(states[59_999].error_code);
        assert_eq!(last, Some(ErrorCode::PolicyViolation));
    });
}
