//! `OffsetForLeaderEpoch` (key 23), versions 2-4: the end offset of a leader epoch, for clients and
//! followers that look for the offset up to which their log matches the leader's (KIP-101,
//! KIP-320).
//!
//! A client needs the right to describe each topic, a follower that to cluster actions.

use std::rc::Rc;

use platform::Platform;
use wire::acl::Operation;
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use wire::types::{ErrorCode, LeaderEpoch, Offset};

use crate::Broker;
use crate::access::Access;
use crate::fetch_session::TopicKey;
use crate::rests::Rests;
use crate::route::at_partitions_abandoned;
use crate::topic_rights::take_denied;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    mut request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let denied = if access.has_cluster(Operation::ClusterAction) {
        Vec::new()
    } else {
        let topics = &mut request.topics;
        take_denied(access, Operation::Describe, topics, |topic| &topic.topic).await
    };
    let mut items = Vec::new();
    let mut rests = Rests::new();
    for topic in &request.topics {
        let key = TopicKey::Name(topic.topic.as_str().into());
        for partition in &topic.partitions {
            let asked = (
                LeaderEpoch(partition.current_leader_epoch),
                LeaderEpoch(partition.leader_epoch),
            );
            items.push((broker.target(&key, partition.partition), asked));
            rests.item().await;
        }
    }
    let ends =
        at_partitions_abandoned(broker, items, |_, partition, (claimed, asked)| async move {
            partition.check_epoch(claimed)?;
            Ok(partition.log.epoch_end(asked))
        });
    let mut ends = ends.await.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .zip(ends.by_ref())
            .map(|(asked, end)| told(asked.partition, end));
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic)
            .with_partitions(partitions)
    });
    let mut topics: Vec<_> = topics.collect();
    let code = ErrorCode::TopicAuthorizationFailed;
    topics.extend(denied.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|asked| told(asked.partition, Err(code)));
        OffsetForLeaderTopicResult::default()
            .with_partitions(partitions.collect())
            .with_topic(topic.topic)
    }));
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}

fn told(partition: i32, end: Result<(LeaderEpoch, Offset), ErrorCode>) -> EpochEndOffset {
    let answer = EpochEndOffset::default().with_partition(partition);
    match end {
        Ok((epoch, end)) => answer.with_leader_epoch(epoch.0).with_end_offset(end.0),
        Err(code) => answer
            .with_error_code(code.code())
            .with_leader_epoch(-1)
            .with_end_offset(-1),
    }
}
