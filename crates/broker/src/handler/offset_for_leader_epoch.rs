//! `OffsetForLeaderEpoch` (key 23), versions 2-4: the end offset of a leader epoch, for clients and
//! followers that look for the offset up to which their log matches the leader's (KIP-101,
//! KIP-320).

use std::rc::Rc;

use platform::Platform;
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use wire::types::LeaderEpoch;

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::rests::Rests;
use crate::route::at_partitions_abandoned;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
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
            .map(|(asked, end)| {
                let answer = EpochEndOffset::default().with_partition(asked.partition);
                match end {
                    Ok((epoch, end)) => answer.with_leader_epoch(epoch.0).with_end_offset(end.0),
                    Err(code) => answer
                        .with_error_code(code.code())
                        .with_leader_epoch(-1)
                        .with_end_offset(-1),
                }
            });
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic)
            .with_partitions(partitions)
    });
    let topics = topics.collect();
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}
