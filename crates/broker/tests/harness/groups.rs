//! A group that has positions and no members.

use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{FindCoordinatorRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest};
use wire::types::ErrorCode;

use super::Cluster;
use super::asks::{error, text, topic_name};

/// How often a client asks again for a coordinator that is not there yet.
const ATTEMPTS: usize = 100;

impl Cluster {
    /// The position of a group in partition 0 of `topic`, once no transaction can move it any more.
    pub(crate) async fn stable_position(&self, group: &str, topic: &str) -> Result<i64, ErrorCode> {
        let topic = OffsetFetchRequestTopics::default()
            .with_name(topic_name(topic))
            .with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(group)))
            .with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default()
            .with_groups(vec![group])
            .with_require_stable(true);
        let answer = self.ask(8, &request).await;
        let group = &answer.groups[0];
        if let Some(code) = error(group.error_code) {
            return Err(code);
        }
        let found = &group.topics[0].partitions[0];
        match error(found.error_code) {
            Some(code) => Err(code),
            None => Ok(found.committed_offset),
        }
    }

    pub(crate) async fn try_commit(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Option<ErrorCode> {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        error(self.ask(8, &request).await.topics[0].partitions[0].error_code)
    }

    /// Commits as a client does: finds the coordinator first, and is patient.
    pub(crate) async fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
            let found = error(self.ask(4, &find).await.coordinators[0].error_code);
            last = match found {
                None => self.try_commit(group, topic, partition, offset).await,
                found => found,
            };
            if last.is_none() {
                return;
            }
            self.pass_ms(100).await;
        }
        panic!("committing: {last:?}");
    }

    /// The committed position; -1 when there is none.
    pub(crate) async fn committed(&self, group: &str, topic: &str, partition: i32) -> i64 {
        for _ in 0..ATTEMPTS {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(vec![partition]);
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(GroupId(text(group)))
                .with_topics(Some(vec![topic]));
            let request = OffsetFetchRequest::default().with_groups(vec![group]);
            let answer = self.ask(8, &request).await;
            if answer.groups[0].error_code == 0 {
                return answer.groups[0].topics[0].partitions[0].committed_offset;
            }
            self.pass_ms(100).await;
        }
        panic!("the position of {group} cannot be read");
    }
}
