//! The requests that most tests send, and the parts of the answers that they look at.

use bytes::Bytes;
use wire::StrBytes;
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::fetch_response::PartitionData;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::produce_response::PartitionProduceResponse;
use wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, FetchResponse, ListOffsetsRequest,
    ProduceRequest, TopicName,
};
use wire::types::ErrorCode;

use super::Cluster;
use super::batches;

pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// The name of a code: `None` for success.
pub(crate) fn error(code: i16) -> Option<ErrorCode> {
    ErrorCode::try_from_code(code)
}

/// A produce request for some partitions of one topic.
pub(crate) fn produce(topic: &str, acks: i16, records: &[(i32, Bytes)]) -> ProduceRequest {
    let partition = |(index, records): &(i32, Bytes)| {
        PartitionProduceData::default()
            .with_index(*index)
            .with_records(Some(records.clone()))
    };
    let topic = TopicProduceData::default()
        .with_name(topic_name(topic))
        .with_partition_data(records.iter().map(partition).collect());
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic])
}

/// A fetch of some partitions of one topic: (partition, offset). Waits for a byte for at most 500
/// ms, keeps no session.
pub(crate) fn fetch(topic: &str, from: &[(i32, i64)]) -> FetchRequest {
    let topic = FetchTopic::default()
        .with_topic(topic_name(topic))
        .with_partitions(
            from.iter()
                .map(|(index, offset)| wanted(*index, *offset))
                .collect(),
        );
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

pub(crate) fn wanted(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20)
}

/// The partitions of an answer.
pub(crate) fn partitions(response: &FetchResponse) -> Vec<&PartitionData> {
    response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions)
        .collect()
}

/// The records of a partition's answer.
pub(crate) fn records_of(partition: &PartitionData) -> Vec<(i64, String)> {
    batches::read(partition.records.as_ref().unwrap_or(&Bytes::new()))
}

impl Cluster {
    pub(crate) async fn create(&self, topic: &str, partitions: i32) {
        self.create_with(topic, partitions, &[]).await;
    }

    pub(crate) async fn create_with(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) {
        let code = self.try_create(topic, partitions, config).await;
        assert_eq!(code, None, "creating {topic}");
    }

    pub(crate) async fn try_create(
        &self,
        topic: &str,
        partitions: i32,
        config: &[(&str, &str)],
    ) -> Option<ErrorCode> {
        let config = config.iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
        });
        let topic = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(config.collect());
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        error(self.ask(7, &request).await.topics[0].error_code)
    }

    pub(crate) async fn delete(&self, topic: &str) -> Option<ErrorCode> {
        let request = DeleteTopicsRequest::default()
            .with_topic_names(vec![topic_name(topic)])
            .with_timeout_ms(10_000);
        error(self.ask(5, &request).await.responses[0].error_code)
    }

    /// Produces to one partition with acks=all.
    pub(crate) async fn try_produce(
        &self,
        topic: &str,
        partition: i32,
        records: Bytes,
    ) -> Result<i64, ErrorCode> {
        outcome(&self.produce_answer(topic, -1, partition, records).await)
    }

    pub(crate) async fn produce_answer(
        &self,
        topic: &str,
        acks: i16,
        partition: i32,
        records: Bytes,
    ) -> PartitionProduceResponse {
        let request = produce(topic, acks, &[(partition, records)]);
        let mut answer = self.ask(9, &request).await;
        answer.responses.remove(0).partition_responses.remove(0)
    }

    /// Produces to one partition with acks=all; gives the offset of the first record.
    pub(crate) async fn produce(&self, topic: &str, partition: i32, values: &[&str]) -> i64 {
        let records = batches::batch(values);
        self.try_produce(topic, partition, records)
            .await
            .unwrap_or_else(|code| panic!("producing to {topic}-{partition}: {code:?}"))
    }

    /// What one fetch from an offset finds.
    pub(crate) async fn try_fetch(
        &self,
        topic: &str,
        partition: i32,
        from: i64,
    ) -> Result<Vec<(i64, String)>, ErrorCode> {
        let answer = self.ask(12, &fetch(topic, &[(partition, from)])).await;
        let partition = partitions(&answer)[0];
        match error(partition.error_code) {
            None => Ok(records_of(partition)),
            Some(code) => Err(code),
        }
    }

    /// All records of a partition from its log start on: offsets and values.
    pub(crate) async fn all(&self, topic: &str, partition: i32) -> Vec<(i64, String)> {
        let (mut next, end) = (
            self.offset(topic, partition, -2).await,
            self.offset(topic, partition, -1).await,
        );
        let mut found = Vec::new();
        while next < end {
            let some = self.try_fetch(topic, partition, next).await;
            let some =
                some.unwrap_or_else(|code| panic!("{topic}-{partition} at {next}: {code:?}"));
            let some: Vec<_> = some
                .into_iter()
                .filter(|(offset, _)| *offset >= next)
                .collect();
            next = some.last().expect("records below the end").0 + 1;
            found.extend(some);
        }
        found
    }

    pub(crate) async fn values(&self, topic: &str, partition: i32) -> Vec<String> {
        let all = self.all(topic, partition).await;
        all.into_iter().map(|(_, value)| value).collect()
    }

    /// The offset for a timestamp, special ones included.
    pub(crate) async fn offset(&self, topic: &str, partition: i32, timestamp: i64) -> i64 {
        let request = list_offsets(topic, partition, timestamp);
        let answer = self.ask(10, &request).await;
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(error(partition.error_code), None, "offset of {timestamp}");
        partition.offset
    }
}

pub(crate) fn list_offsets(topic: &str, partition: i32, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_topics(vec![topic])
}

/// The base offset, or the code.
pub(crate) fn outcome(answer: &PartitionProduceResponse) -> Result<i64, ErrorCode> {
    error(answer.error_code).map_or(Ok(answer.base_offset), Err)
}
