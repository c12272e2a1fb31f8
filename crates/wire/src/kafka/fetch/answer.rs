//! Reads a Fetch response, for clients. Records stay slices of the frame.
//!
//! Versions as in [`super`]. Invariant: nothing is reserved that the frame cannot hold. Not here:
//! the batches in it.

use super::{
    AbortedTransaction, EpochEnd, FetchPartitionResponse, FetchResponse, FetchTopicResponse,
};
use crate::error::DecodeError;
use crate::kafka::api::Api;
use crate::kafka::produce::{CurrentLeader, NodeEndpoint};
use crate::kafka::reader::Reader;
use crate::types::{ErrorCode, LeaderEpoch, NodeId, Offset, ProducerId};
use bytes::Bytes;

/// Fewest bytes of a topic: an empty name, no partitions.
const TOPIC_BYTES_MIN: usize = 3;
/// Fewest bytes of a partition: index, error, two offsets, no transactions, no records.
const PARTITION_BYTES_MIN: usize = 24;
/// Bytes of an aborted transaction.
const ABORTED_BYTES: usize = 16;
/// Fewest bytes of an endpoint.
const ENDPOINT_BYTES_MIN: usize = 11;

impl FetchResponse {
    /// Decodes a response's body.
    pub fn decode(body: &Bytes, version: i16) -> Result<Self, DecodeError> {
        if !Api::Fetch.serves(version) {
            return Err(DecodeError::Version { version });
        }
        let mut reader = Reader::new(body, Api::Fetch.is_flexible(version));
        let throttle_time_ms = reader.i32("throttle_time_ms")?;
        let (error, session_id) = if version >= 7 {
            let error = ErrorCode::try_from_code(reader.i16("error_code")?);
            (error, reader.i32("session_id")?)
        } else {
            (None, 0)
        };
        let topics = reader.array("responses", TOPIC_BYTES_MIN, |reader| {
            FetchTopicResponse::decode(reader, version)
        })?;
        let mut node_endpoints = Vec::new();
        reader.tags("fetch_response", |reader, tag| {
            if tag != 0 || version < 16 {
                return Ok(false);
            }
            node_endpoints = reader.array("node_endpoints", ENDPOINT_BYTES_MIN, endpoint)?;
            Ok(true)
        })?;
        Ok(Self {
            throttle_time_ms,
            error,
            session_id,
            topics,
            node_endpoints,
        })
    }
}

impl FetchTopicResponse {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let (name, topic_id) = reader.topic(version >= 13)?;
        let partitions = reader.array("partitions", PARTITION_BYTES_MIN, |reader| {
            FetchPartitionResponse::decode(reader, version)
        })?;
        reader.skip_tags("responses")?;
        Ok(Self {
            name,
            topic_id,
            partitions,
        })
    }
}

impl FetchPartitionResponse {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let index = reader.i32("partition_index")?;
        let error = ErrorCode::try_from_code(reader.i16("error_code")?);
        let high_watermark = Offset(reader.i64("high_watermark")?);
        let last_stable_offset = Offset(reader.i64("last_stable_offset")?);
        let log_start_offset = if version >= 5 {
            Offset(reader.i64("log_start_offset")?)
        } else {
            Offset(-1)
        };
        let aborted = reader.nullable_array("aborted_transactions", ABORTED_BYTES, aborted)?;
        let preferred_read_replica = if version >= 11 {
            NodeId(reader.i32("preferred_read_replica")?)
        } else {
            NodeId(-1)
        };
        let records = reader.nullable_bytes("records")?;
        let mut partition = Self {
            index,
            error,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: aborted,
            preferred_read_replica,
            records: records.into_iter().collect(),
        };
        reader.tags("partitions", |reader, tag| {
            match tag {
                0 => partition.diverging_epoch = Some(epoch_end(reader, false)?),
                1 => {
                    partition.current_leader = Some(CurrentLeader {
                        leader: NodeId(reader.i32("current_leader.leader_id")?),
                        epoch: LeaderEpoch(reader.i32("current_leader.leader_epoch")?),
                    });
                    reader.skip_tags("current_leader")?;
                }
                2 => partition.snapshot_id = Some(epoch_end(reader, true)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(partition)
    }
}

fn aborted(reader: &mut Reader<'_>) -> Result<AbortedTransaction, DecodeError> {
    let aborted = AbortedTransaction {
        producer_id: ProducerId(reader.i64("aborted_transactions.producer_id")?),
        first_offset: Offset(reader.i64("aborted_transactions.first_offset")?),
    };
    reader.skip_tags("aborted_transactions")?;
    Ok(aborted)
}

/// Reads a diverging epoch, or a snapshot's id, whose two fields are in reverse order.
fn epoch_end(reader: &mut Reader<'_>, offset_first: bool) -> Result<EpochEnd, DecodeError> {
    let end = if offset_first {
        let end_offset = Offset(reader.i64("snapshot_id.end_offset")?);
        let epoch = LeaderEpoch(reader.i32("snapshot_id.epoch")?);
        EpochEnd { epoch, end_offset }
    } else {
        let epoch = LeaderEpoch(reader.i32("diverging_epoch.epoch")?);
        let end_offset = Offset(reader.i64("diverging_epoch.end_offset")?);
        EpochEnd { epoch, end_offset }
    };
    reader.skip_tags("epoch_end")?;
    Ok(end)
}

fn endpoint(reader: &mut Reader<'_>) -> Result<NodeEndpoint, DecodeError> {
    let endpoint = NodeEndpoint {
        node: NodeId(reader.i32("node_endpoints.node_id")?),
        host: reader.string("node_endpoints.host")?.to_string(),
        port: reader.i32("node_endpoints.port")?,
        rack: reader
            .nullable_string("node_endpoints.rack")?
            .map(|rack| rack.to_string()),
    };
    reader.skip_tags("node_endpoints")?;
    Ok(endpoint)
}
