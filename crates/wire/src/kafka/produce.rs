//! Produce, versions 3 to 13: requests whose records are slices of the frame, and their responses.
//!
//! From version 13 topics are named by id instead of by name; the field that a version lacks is
//! empty ([`TopicId::ZERO`] or ""). Versions: 5 log start offset, 8 record errors, 9 flexible, 10
//! current leader and its endpoint, 13 ids.
//! Not here: the contents of the records (`batch/validate.rs`).

use bytes::{BufMut, Bytes, BytesMut};

use super::api::Api;
use super::frame::Request;
use super::reader::Reader;
use super::response::Response;
use super::writer::{Writer, put_compact_string, put_uvarint};
use crate::error::{DecodeError, EncodeError, RecordError};
use crate::protocol::StrBytes;
use crate::types::{ErrorCode, LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, Uuid};

/// A request to append batches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceRequest {
    /// The transaction the batches belong to.
    pub transactional_id: Option<StrBytes>,
    /// 0: no response; 1: the leader has the batch; -1: every in-sync replica has it.
    pub acks: i16,
    /// How long the leader waits for the replicas.
    pub timeout_ms: i32,
    /// The topics.
    pub topics: Vec<ProduceTopic>,
}

/// Batches for one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceTopic {
    /// Name, to version 12.
    pub name: StrBytes,
    /// Id, from version 13.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<ProducePartition>,
}

/// The batch for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducePartition {
    /// Index of the partition.
    pub index: i32,
    /// The batch, unchecked: a slice of the frame.
    pub records: Option<Bytes>,
}

impl ProduceRequest {
    /// Decodes a request's body.
    pub fn decode(body: &Bytes, version: i16) -> Result<Self, DecodeError> {
        if !Api::Produce.serves(version) {
            return Err(DecodeError::Version { version });
        }
        let flexible = Api::Produce.is_flexible(version);
        let mut reader = Reader::new(body, flexible);
        let request = Self {
            transactional_id: reader.nullable_string("transactional_id")?,
            acks: reader.i16("acks")?,
            timeout_ms: reader.i32("timeout_ms")?,
            topics: reader.array("topic_data", if flexible { 3 } else { 6 }, |reader| {
                ProduceTopic::decode(reader, version)
            })?,
        };
        reader.skip_tags("produce_request")?;
        Ok(request)
    }
}

/// Returns true when an undecoded produce request names a transactional id, its first field.
///
/// Returns false for bytes that are not a request.
pub fn names_transaction(request: &Request) -> bool {
    let flexible = Api::Produce.is_flexible(request.header.version);
    let mut reader = Reader::new(&request.body, flexible);
    matches!(reader.nullable_string("transactional_id"), Ok(Some(_)))
}

impl ProduceTopic {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let (name, topic_id) = reader.topic(version >= 13)?;
        let element_bytes_min = if version >= 9 { 6 } else { 8 };
        let partitions = reader.array("partition_data", element_bytes_min, |reader| {
            let partition = ProducePartition {
                index: reader.i32("partition_data.index")?,
                records: reader.nullable_bytes("partition_data.records")?,
            };
            reader.skip_tags("partition_data")?;
            Ok(partition)
        })?;
        reader.skip_tags("topic_data")?;
        Ok(Self {
            name,
            topic_id,
            partitions,
        })
    }
}

/// The response to a [`ProduceRequest`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProduceResponse {
    /// The topics, in the order of the request.
    pub topics: Vec<ProduceTopicResponse>,
    /// How long the client was or must be throttled.
    pub throttle_time_ms: i32,
    /// Endpoints of the current leaders that the partitions name.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// The response for one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceTopicResponse {
    /// Name, to version 12.
    pub name: StrBytes,
    /// Id, from version 13.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<ProducePartitionResponse>,
}

/// The response for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducePartitionResponse {
    /// Index of the partition.
    pub index: i32,
    /// The error.
    pub error: Option<ErrorCode>,
    /// Offset of the first record, -1 with an error.
    pub base_offset: Offset,
    /// The append time where the topic uses it, else -1.
    pub log_append_time: TimestampMs,
    /// First offset of the partition.
    pub log_start_offset: Offset,
    /// The records that caused the batch to be refused.
    pub record_errors: Vec<RecordError>,
    /// The error message.
    pub error_message: Option<String>,
    /// The leader to produce to instead.
    pub current_leader: Option<CurrentLeader>,
}

impl ProducePartitionResponse {
    /// Returns the response for a partition that appended nothing.
    pub fn failed(index: i32, error: ErrorCode, error_message: Option<String>) -> Self {
        Self {
            index,
            error: Some(error),
            base_offset: Offset(-1),
            log_append_time: TimestampMs::NONE,
            log_start_offset: Offset(-1),
            record_errors: Vec::new(),
            error_message,
            current_leader: None,
        }
    }
}

/// The leader of a partition, sent to a client that asked another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurrentLeader {
    /// The leader, -1 when there is none.
    pub leader: NodeId,
    /// Its epoch.
    pub epoch: LeaderEpoch,
}

/// The advertised endpoint of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeEndpoint {
    /// The node.
    pub node: NodeId,
    /// Its advertised host.
    pub host: String,
    /// Its advertised port.
    pub port: i32,
    /// Its rack.
    pub rack: Option<String>,
}

impl ProduceResponse {
    /// Encodes the whole response frame.
    pub fn encode(&self, version: i16, correlation_id: i32) -> Result<Response, EncodeError> {
        if !Api::Produce.serves(version) {
            return Err(EncodeError::Codec {
                api: Api::Produce.name(),
                version,
                reason: "version is not served".to_owned(),
            });
        }
        let mut writer = Writer::response(Api::Produce, version, correlation_id, 128);
        writer.array_length(self.topics.len());
        for topic in &self.topics {
            writer.topic(version >= 13, &topic.name, topic.topic_id);
            writer.array_length(topic.partitions.len());
            for partition in &topic.partitions {
                partition.encode(&mut writer, version);
            }
            writer.no_tags();
        }
        writer.i32(self.throttle_time_ms);
        if version >= 10 && !self.node_endpoints.is_empty() {
            writer.tags(&[(0, encode_endpoints(&self.node_endpoints))]);
        } else {
            writer.no_tags();
        }
        writer.finish()
    }
}

impl ProducePartitionResponse {
    fn encode(&self, writer: &mut Writer, version: i16) {
        writer.i32(self.index);
        writer.i16(self.error.map_or(0, |error| error.code()));
        writer.i64(self.base_offset.0);
        writer.i64(self.log_append_time.0);
        if version >= 5 {
            writer.i64(self.log_start_offset.0);
        }
        if version >= 8 {
            writer.array_length(self.record_errors.len());
            for error in &self.record_errors {
                writer.i32(error.batch_index);
                writer.nullable_string(Some(&error.message));
                writer.no_tags();
            }
            writer.nullable_string(self.error_message.as_deref());
        }
        match self.current_leader {
            Some(leader) if version >= 10 => writer.tags(&[(0, encode_leader(leader))]),
            _ => writer.no_tags(),
        }
    }
}

/// Returns the value of a `CurrentLeader` tag, the same in Produce and Fetch.
pub(super) fn encode_leader(leader: CurrentLeader) -> Bytes {
    let mut value = BytesMut::with_capacity(9);
    value.put_i32(leader.leader.0);
    value.put_i32(leader.epoch.0);
    value.put_u8(0);
    value.freeze()
}

/// Returns the value of a `NodeEndpoints` tag, the same in Produce and Fetch.
pub(super) fn encode_endpoints(endpoints: &[NodeEndpoint]) -> Bytes {
    let mut value = BytesMut::new();
    let count = u32::try_from(endpoints.len() + 1).expect("a cluster has fewer than 2^32 nodes");
    put_uvarint(&mut value, count);
    for endpoint in endpoints {
        value.put_i32(endpoint.node.0);
        put_compact_string(&mut value, Some(&endpoint.host));
        value.put_i32(endpoint.port);
        put_compact_string(&mut value, endpoint.rack.as_deref());
        value.put_u8(0);
    }
    value.freeze()
}

impl Reader<'_> {
    /// Reads a topic's name or id.
    pub(super) fn topic(&mut self, by_id: bool) -> Result<(StrBytes, TopicId), DecodeError> {
        Ok(if by_id {
            (StrBytes::new(), TopicId(self.uuid("topic_id")?))
        } else {
            (self.string("topic")?, TopicId(Uuid::nil()))
        })
    }
}

impl Writer {
    /// Writes a topic's name or id.
    pub(super) fn topic(&mut self, by_id: bool, name: &str, id: TopicId) {
        if by_id {
            self.uuid(id.0);
        } else {
            self.string(name);
        }
    }
}

#[cfg(test)]
mod tests;
