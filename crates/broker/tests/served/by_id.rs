//! Positions of topics that are named by id: kept, read, and refused where there is no such topic.

use platform::sim::SimDisk;
use wire::kafka::NewestVersion;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{
    DeleteTopicsRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse,
    delete_topics_request::DeleteTopicState,
};
use wire::types::{ErrorCode, Uuid};

use crate::harness::asks::{error, text, topic_name};
use crate::harness::{Cluster, Setup, life};

const BY_ID: i16 = 10;
const NOBODY: Uuid = Uuid::from_u128(404);

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

/// Commits 7 for one partition of each topic; the codes, in the order of the topics.
async fn commit(cluster: &Cluster, topics: &[(Uuid, i32)]) -> Vec<(Uuid, Option<ErrorCode>)> {
    let topics = topics.iter().map(|(id, partition)| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(7);
        OffsetCommitRequestTopic::default()
            .with_topic_id(*id)
            .with_partitions(vec![partition])
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect());
    let answer = cluster.ask(BY_ID, &NewestVersion::from(request)).await;
    let topics = answer.topics.iter();
    let told = |code| (code != 0).then(|| error(code).expect("a code of Kafka's"));
    topics
        .map(|topic| (topic.topic_id, told(topic.partitions[0].error_code)))
        .collect()
}

async fn fetch(cluster: &Cluster, topics: Option<&[Uuid]>) -> OffsetFetchResponse {
    let topics = topics.map(|ids| {
        let asked = ids.iter().map(|id| {
            OffsetFetchRequestTopics::default()
                .with_topic_id(*id)
                .with_partition_indexes(vec![0])
        });
        asked.collect()
    });
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(text("g")))
        .with_topics(topics);
    let request = OffsetFetchRequest::default().with_groups(vec![group]);
    cluster.ask(BY_ID, &NewestVersion::from(request)).await
}

/// Id, offset and code of each topic of an answer.
fn found(answer: &OffsetFetchResponse) -> Vec<(Uuid, i64, Option<ErrorCode>)> {
    let topics = answer.groups[0].topics.iter();
    let told = |code| (code != 0).then(|| error(code).expect("a code of Kafka's"));
    topics
        .map(|topic| {
            let partition = &topic.partitions[0];
            let code = told(partition.error_code);
            (topic.topic_id, partition.committed_offset, code)
        })
        .collect()
}

#[test]
fn positions_are_kept_and_read_by_id() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 1).await;
            // Makes the offsets topic; its group is loaded then.
            cluster.commit("g", "t", 0, 1).await;
            let id = cluster.topic_id("t").0;
            let codes = commit(cluster, &[(id, 0), (NOBODY, 0), (id, 9), (Uuid::nil(), 0)]).await;
            let expected = [
                (id, None),
                (NOBODY, Some(ErrorCode::UnknownTopicId)),
                (id, Some(ErrorCode::UnknownTopicOrPartition)),
                (Uuid::nil(), Some(ErrorCode::UnknownTopicId)),
            ];
            assert_eq!(codes, expected);
            let answer = fetch(cluster, Some(&[NOBODY, id])).await;
            let expected = [(id, 7, None), (NOBODY, -1, Some(ErrorCode::UnknownTopicId))];
            assert_eq!(found(&answer), expected);
            assert_eq!(found(&fetch(cluster, None).await), [(id, 7, None)]);
            assert_eq!(cluster.committed("g", "t", 0).await, 7, "by name too");
        });
    }
}

#[test]
fn a_topic_made_anew_has_no_positions_of_the_one_before() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 1).await;
        let before = cluster.topic_id("t").0;
        let state = DeleteTopicState::default().with_name(Some(topic_name("t")));
        let request = DeleteTopicsRequest::default().with_topics(vec![state]);
        assert_eq!(cluster.ask(6, &request).await.responses[0].error_code, 0);
        cluster.create("t", 1).await;
        let id = cluster.topic_id("t").0;
        assert_ne!(id, before);
        let answer = fetch(cluster, Some(&[before, id])).await;
        let expected = [
            (id, -1, None),
            (before, -1, Some(ErrorCode::UnknownTopicId)),
        ];
        assert_eq!(found(&answer), expected);
        let codes = commit(cluster, &[(before, 0)]).await;
        assert_eq!(codes, [(before, Some(ErrorCode::UnknownTopicId))]);
    });
}
