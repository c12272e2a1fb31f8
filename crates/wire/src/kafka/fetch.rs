//! Fetch, versions 4 to 18: requests, and responses into which stored batches are spliced without a
//! copy (for brokers), and from which they are taken without one (for clients: `fetch/answer.rs`).
//!
//! From version 13 topics are named by id instead of by name; the field that a version lacks is
//! empty. Versions: 5 log start offset, 7 sessions, 9 current leader epoch, 11 rack and preferred
//! replica, 12 flexible, last fetched epoch and diverging epoch, 15 replica state as a tag, 16 node
//! endpoints, 17 replica directory, 18 high watermark.
//! Not here: sessions, waiting, and which records may be read (`broker`).

use bytes::{BufMut, Bytes, BytesMut};

use super::api::Api;
use super::produce::{CurrentLeader, NodeEndpoint, encode_endpoints, encode_leader};
use super::reader::Reader;
use super::response::Response;
use super::writer::Writer;
use crate::error::{DecodeError, EncodeError};
use crate::protocol::StrBytes;
use crate::types::{ErrorCode, LeaderEpoch, NodeId, Offset, ProducerId, TopicId, Uuid};

mod answer;

/// A request to read partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// The cluster that the sender expects; only replicas send it.
    pub cluster_id: Option<StrBytes>,
    /// The fetching replica, -1 for a consumer.
    pub replica_id: NodeId,
    /// The replica's broker epoch, -1 if not known.
    pub replica_epoch: i64,
    /// How long to wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// The fetch waits while fewer bytes than this are available.
    pub min_bytes: i32,
    /// Maximum bytes of records in the response; the first batch is always whole.
    pub max_bytes: i32,
    /// 0: up to the high watermark; 1: up to the last stable offset.
    pub isolation_level: i8,
    /// The session, 0 for none.
    pub session_id: i32,
    /// The session's epoch: -1 no session, 0 a new one.
    pub session_epoch: i32,
    /// Partitions to read; in a session only new or changed ones.
    pub topics: Vec<FetchTopic>,
    /// Partitions to remove from the session.
    pub forgotten_topics: Vec<ForgottenTopic>,
    /// Rack of the consumer.
    pub rack_id: StrBytes,
}

/// Partitions to read of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchTopic {
    /// Name, to version 12.
    pub name: StrBytes,
    /// Id, from version 13.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<FetchPartition>,
}

/// One partition to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchPartition {
    /// Index of the partition.
    pub index: i32,
    /// The leader epoch that the client knows, -1 if none.
    pub current_leader_epoch: LeaderEpoch,
    /// First offset to read.
    pub fetch_offset: Offset,
    /// Leader epoch of the last record that the client has, -1 if none.
    pub last_fetched_epoch: LeaderEpoch,
    /// First offset of the fetching replica's log, -1 for a consumer.
    pub log_start_offset: Offset,
    /// Maximum bytes of records from this partition.
    pub partition_max_bytes: i32,
    /// Log directory of the fetching replica.
    pub replica_directory_id: Uuid,
    /// High watermark known to the fetching replica; -1 unknown, `i64::MAX` when the request lacks
    /// the field.
    pub high_watermark: Offset,
}

/// Partitions of one topic to remove from the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForgottenTopic {
    /// Name, to version 12.
    pub name: StrBytes,
    /// Id, from version 13.
    pub topic_id: TopicId,
    /// Indexes of the partitions.
    pub partitions: Vec<i32>,
}

impl FetchRequest {
    /// Decodes a request's body.
    pub fn decode(body: &Bytes, version: i16) -> Result<Self, DecodeError> {
        if !Api::Fetch.serves(version) {
            return Err(DecodeError::Version { version });
        }
        let mut reader = Reader::new(body, Api::Fetch.is_flexible(version));
        let mut request = Self::decode_fields(&mut reader, version)?;
        reader.tags("fetch_request", |reader, tag| {
            match tag {
                0 => request.cluster_id = reader.nullable_string("cluster_id")?,
                1 if version >= 15 => {
                    request.replica_id = NodeId(reader.i32("replica_state.replica_id")?);
                    request.replica_epoch = reader.i64("replica_state.replica_epoch")?;
                    reader.skip_tags("replica_state")?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(request)
    }

    fn decode_fields(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let in_session = version >= 7;
        let flexible = version >= 12;
        let replica_id = if version <= 14 {
            reader.i32("replica_id")?
        } else {
            -1
        };
        Ok(Self {
            cluster_id: None,
            replica_id: NodeId(replica_id),
            replica_epoch: -1,
            max_wait_ms: reader.i32("max_wait_ms")?,
            min_bytes: reader.i32("min_bytes")?,
            max_bytes: reader.i32("max_bytes")?,
            isolation_level: reader.i8("isolation_level")?,
            session_id: if in_session {
                reader.i32("session_id")?
            } else {
                0
            },
            session_epoch: if in_session {
                reader.i32("session_epoch")?
            } else {
                -1
            },
            topics: reader.array("topics", if flexible { 3 } else { 6 }, |reader| {
                FetchTopic::decode(reader, version)
            })?,
            forgotten_topics: if in_session {
                reader.array(
                    "forgotten_topics_data",
                    if flexible { 3 } else { 6 },
                    |reader| ForgottenTopic::decode(reader, version),
                )?
            } else {
                Vec::new()
            },
            rack_id: if version >= 11 {
                reader.string("rack_id")?
            } else {
                StrBytes::new()
            },
        })
    }
}

impl FetchTopic {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let (name, topic_id) = reader.topic(version >= 13)?;
        let partitions = reader.array("partitions", 16, |reader| {
            FetchPartition::decode(reader, version)
        })?;
        reader.skip_tags("topics")?;
        Ok(Self {
            name,
            topic_id,
            partitions,
        })
    }
}

impl FetchPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let index = reader.i32("partition")?;
        let current_leader_epoch = if version >= 9 {
            reader.i32("current_leader_epoch")?
        } else {
            -1
        };
        let fetch_offset = reader.i64("fetch_offset")?;
        let last_fetched_epoch = if version >= 12 {
            reader.i32("last_fetched_epoch")?
        } else {
            -1
        };
        let log_start_offset = if version >= 5 {
            reader.i64("log_start_offset")?
        } else {
            -1
        };
        let mut partition = Self {
            index,
            current_leader_epoch: LeaderEpoch(current_leader_epoch),
            fetch_offset: Offset(fetch_offset),
            last_fetched_epoch: LeaderEpoch(last_fetched_epoch),
            log_start_offset: Offset(log_start_offset),
            partition_max_bytes: reader.i32("partition_max_bytes")?,
            replica_directory_id: Uuid::nil(),
            high_watermark: Offset(i64::MAX),
        };
        reader.tags("partitions", |reader, tag| {
            match tag {
                0 if version >= 17 => {
                    partition.replica_directory_id = reader.uuid("replica_directory_id")?;
                }
                1 if version >= 18 => {
                    partition.high_watermark = Offset(reader.i64("high_watermark")?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(partition)
    }
}

impl ForgottenTopic {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let (name, topic_id) = reader.topic(version >= 13)?;
        let partitions = reader.array("forgotten_topics_data.partitions", 4, |reader| {
            reader.i32("forgotten_topics_data.partitions")
        })?;
        reader.skip_tags("forgotten_topics_data")?;
        Ok(Self {
            name,
            topic_id,
            partitions,
        })
    }
}

/// The response to a [`FetchRequest`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchResponse {
    /// How long the client was or must be throttled.
    pub throttle_time_ms: i32,
    /// The error of the whole request (sessions), from version 7.
    pub error: Option<ErrorCode>,
    /// The session, 0 for none.
    pub session_id: i32,
    /// The topics.
    pub topics: Vec<FetchTopicResponse>,
    /// Endpoints of the current leaders that the partitions name.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// The response for one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchTopicResponse {
    /// Name, to version 12.
    pub name: StrBytes,
    /// Id, from version 13.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<FetchPartitionResponse>,
}

/// The response for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchPartitionResponse {
    /// Index of the partition.
    pub index: i32,
    /// The error.
    pub error: Option<ErrorCode>,
    /// Records below this offset are on every in-sync replica.
    pub high_watermark: Offset,
    /// Records below this offset belong to no open transaction.
    pub last_stable_offset: Offset,
    /// First offset of the partition.
    pub log_start_offset: Offset,
    /// Where the fetching replica's log diverges from the leader's.
    pub diverging_epoch: Option<EpochEnd>,
    /// The leader to fetch from instead.
    pub current_leader: Option<CurrentLeader>,
    /// The snapshot to fetch instead.
    pub snapshot_id: Option<EpochEnd>,
    /// Aborted transactions in the range; `None` (null) unless the isolation level is read
    /// committed.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to fetch from instead, -1 for none.
    pub preferred_read_replica: NodeId,
    /// The batches as stored, one segment after the other.
    pub records: Vec<Bytes>,
}

impl FetchPartitionResponse {
    /// Returns the response for a partition that failed.
    pub fn failed(index: i32, error: ErrorCode) -> Self {
        Self {
            index,
            error: Some(error),
            high_watermark: Offset(-1),
            last_stable_offset: Offset(-1),
            log_start_offset: Offset(-1),
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: None,
            preferred_read_replica: NodeId(-1),
            records: Vec::new(),
        }
    }

    /// Returns the total bytes of the records.
    pub fn records_bytes(&self) -> usize {
        self.records.iter().map(Bytes::len).sum() // Bounded: lengths of bytes in memory.
    }
}

/// The offset at which an epoch, or a snapshot, ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Its end offset.
    pub end_offset: Offset,
}

/// A transaction whose records the consumer must drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTransaction {
    /// The producer of the transaction.
    pub producer_id: ProducerId,
    /// Its first offset.
    pub first_offset: Offset,
}

impl FetchResponse {
    /// Encodes the whole response frame; the records become segments of it.
    pub fn encode(self, version: i16, correlation_id: i32) -> Result<Response, EncodeError> {
        let mut encoding = self.begin(version, correlation_id)?;
        while encoding.more(usize::MAX) {}
        encoding.finish()
    }

    /// Begins the encoding, so that the caller can limit the parts per step.
    pub fn begin(self, version: i16, correlation_id: i32) -> Result<Encoding, EncodeError> {
        if !Api::Fetch.serves(version) {
            return Err(EncodeError::Codec {
                api: Api::Fetch.name(),
                version,
                reason: "version is not served".to_owned(),
            });
        }
        let topic_bytes = |t: &FetchTopicResponse| 80 * (t.partitions.len() + 1) + t.name.len();
        let bytes: usize = self.topics.iter().map(topic_bytes).sum(); // Bounded: lengths of bytes in memory.
        let mut writer = Writer::response(Api::Fetch, version, correlation_id, bytes);
        writer.i32(self.throttle_time_ms);
        if version >= 7 {
            writer.i16(self.error.map_or(0, |error| error.code()));
            writer.i32(self.session_id);
        }
        writer.array_length(self.topics.len());
        Ok(Encoding {
            version,
            writer,
            topics: self.topics.into_iter(),
            topic: None,
            node_endpoints: self.node_endpoints,
        })
    }

    /// Returns the number of topics and partitions, which determines the cost of encoding.
    pub fn parts(&self) -> usize {
        let parts = self.topics.iter().map(|topic| topic.partitions.len());
        parts.fold(self.topics.len(), usize::saturating_add)
    }

    /// Returns the total bytes of records in all partitions.
    pub fn records_bytes(&self) -> usize {
        self.topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(FetchPartitionResponse::records_bytes)
            .sum() // Bounded: lengths of bytes in memory.
    }
}

/// A partly encoded response.
pub struct Encoding {
    version: i16,
    writer: Writer,
    topics: std::vec::IntoIter<FetchTopicResponse>,
    /// The remaining partitions of the current topic.
    topic: Option<std::vec::IntoIter<FetchPartitionResponse>>,
    node_endpoints: Vec<NodeEndpoint>,
}

impl Encoding {
    /// Encodes at most `parts` further topics and partitions; returns false when all are encoded.
    pub fn more(&mut self, parts: usize) -> bool {
        let version = self.version;
        let mut left = parts;
        while left > 0 {
            if let Some(partitions) = &mut self.topic {
                let begun = partitions.len();
                for partition in partitions.take(left) {
                    partition.encode(&mut self.writer, version);
                }
                left -= begun - partitions.len(); // Bounded: no more were taken.
                if partitions.len() == 0 {
                    self.writer.no_tags();
                    self.topic = None;
                }
                continue;
            }
            left -= 1;
            let Some(topic) = self.topics.next() else {
                return false;
            };
            self.writer
                .topic(version >= 13, &topic.name, topic.topic_id);
            self.writer.array_length(topic.partitions.len());
            self.topic = Some(topic.partitions.into_iter());
        }
        true
    }

    /// Returns the response after [`Self::more`] has returned false.
    pub fn finish(mut self) -> Result<Response, EncodeError> {
        if self.version >= 16 && !self.node_endpoints.is_empty() {
            self.writer
                .tags(&[(0, encode_endpoints(&self.node_endpoints))]);
        } else {
            self.writer.no_tags();
        }
        self.writer.finish()
    }
}

impl FetchPartitionResponse {
    fn encode(self, writer: &mut Writer, version: i16) {
        writer.i32(self.index);
        writer.i16(self.error.map_or(0, |error| error.code()));
        writer.i64(self.high_watermark.0);
        writer.i64(self.last_stable_offset.0);
        if version >= 5 {
            writer.i64(self.log_start_offset.0);
        }
        writer.nullable_array_length(self.aborted_transactions.as_ref().map(Vec::len));
        for aborted in self.aborted_transactions.iter().flatten() {
            writer.i64(aborted.producer_id.0);
            writer.i64(aborted.first_offset.0);
            writer.no_tags();
        }
        if version >= 11 {
            writer.i32(self.preferred_read_replica.0);
        }
        writer.spliced_bytes(self.records);
        let tags: Vec<(u32, Bytes)> = [
            self.diverging_epoch
                .map(|end| (0, encode_diverging_epoch(end))),
            self.current_leader.map(|leader| (1, encode_leader(leader))),
            self.snapshot_id.map(|end| (2, encode_snapshot_id(end))),
        ]
        .into_iter()
        .flatten()
        .collect();
        writer.tags(&tags);
    }
}

fn encode_diverging_epoch(end: EpochEnd) -> Bytes {
    let mut value = BytesMut::with_capacity(13);
    value.put_i32(end.epoch.0);
    value.put_i64(end.end_offset.0);
    value.put_u8(0);
    value.freeze()
}

/// Encodes the same two fields as a diverging epoch, in reverse order.
fn encode_snapshot_id(end: EpochEnd) -> Bytes {
    let mut value = BytesMut::with_capacity(13);
    value.put_i64(end.end_offset.0);
    value.put_i32(end.epoch.0);
    value.put_u8(0);
    value.freeze()
}

#[cfg(test)]
mod tests;
