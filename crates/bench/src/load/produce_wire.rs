//! The client side of Produce: the bytes around one batch, and the response.
//!
//! One batch per request. The batch itself is never copied into the frame: [`put_head`] writes the
//! bytes before it and returns those after it.

use anyhow::Context as _;

use super::client::CLIENT_ID;

/// API key of the request.
pub(super) const KEY: i16 = 0;
/// Supported versions; up to 12 topics have names, not ids.
pub(super) const VERSIONS: (i16, i16) = (3, 12);
const FLEXIBLE_FROM: i16 = 9;
/// The request's timeout for the broker.
const TIMEOUT_MS: i32 = 30_000;

/// The fields before the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading<'a> {
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) acks: i16,
    pub(super) topic: &'a str,
    pub(super) partition: u32,
}

/// Appends a frame up to its batch of `batch_bytes`, and returns the bytes after the batch.
pub(super) fn put_head(
    out: &mut Vec<u8>,
    heading: Heading<'_>,
    batch_bytes: usize,
) -> &'static [u8] {
    let flexible = heading.version >= FLEXIBLE_FROM;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&KEY.to_be_bytes());
    out.extend_from_slice(&heading.version.to_be_bytes());
    out.extend_from_slice(&heading.correlation_id.to_be_bytes());
    out.extend_from_slice(&(CLIENT_ID.len() as u16).to_be_bytes());
    out.extend_from_slice(CLIENT_ID.as_bytes());
    // Flexible: no header tags and a null transactional id; otherwise only the latter.
    out.extend_from_slice(if flexible { &[0, 0] } else { &[0xff, 0xff] });
    out.extend_from_slice(&heading.acks.to_be_bytes());
    out.extend_from_slice(&TIMEOUT_MS.to_be_bytes());
    if flexible {
        out.push(2);
        put_uvarint(out, heading.topic.len() + 1);
    } else {
        out.extend_from_slice(&1i32.to_be_bytes());
        out.extend_from_slice(&(heading.topic.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(heading.topic.as_bytes());
    if flexible {
        out.push(2);
    } else {
        out.extend_from_slice(&1i32.to_be_bytes());
    }
    out.extend_from_slice(&heading.partition.to_be_bytes());
    if flexible {
        put_uvarint(out, batch_bytes + 1);
    } else {
        out.extend_from_slice(&(batch_bytes as u32).to_be_bytes());
    }
    // No tags of partition, topic and request.
    let tail: &[u8] = if flexible { &[0; 3] } else { &[] };
    let length = (out.len() - start - 4 + batch_bytes + tail.len()) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    tail
}

fn put_uvarint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The broker's response on one batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) correlation_id: i32,
    /// Error code, 0 for none.
    pub(super) error: i16,
    /// Offset of the first record.
    pub(super) base_offset: i64,
}

/// Parses a response frame without its length, up to the fields needed here.
///
/// There was one batch, and its fields come first.
pub(super) fn read_answer(frame: &[u8], version: i16) -> anyhow::Result<Answer> {
    let mut rest = frame;
    let read = fields(&mut rest, version >= FLEXIBLE_FROM);
    read.context("an answer that is cut off, or for no partition")
}

fn fields(rest: &mut &[u8], flexible: bool) -> Option<Answer> {
    let correlation_id = i32::from_be_bytes(*part(rest)?);
    let (topics, name_bytes) = if flexible {
        // Header tags.
        for _ in 0..uvarint(rest)? {
            uvarint(rest)?;
            let bytes = uvarint(rest)?;
            rest.split_off(..bytes)?;
        }
        (
            uvarint(rest)?.checked_sub(1)?,
            uvarint(rest)?.checked_sub(1)?,
        )
    } else {
        let topics = u32::from_be_bytes(*part(rest)?) as usize;
        (topics, usize::from(u16::from_be_bytes(*part(rest)?)))
    };
    rest.split_off(..name_bytes)?;
    let partitions = if flexible {
        uvarint(rest)?.checked_sub(1)?
    } else {
        u32::from_be_bytes(*part(rest)?) as usize
    };
    let _index: &[u8; 4] = part(rest)?;
    let error = i16::from_be_bytes(*part(rest)?);
    let base_offset = i64::from_be_bytes(*part(rest)?);
    (topics == 1 && partitions == 1).then_some(Answer {
        correlation_id,
        error,
        base_offset,
    })
}

fn part<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (part, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(part)
}

fn uvarint(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let [byte] = *part(rest)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use wire::kafka::Request;
    use wire::kafka::frame::next_frame;
    use wire::kafka::produce::{
        ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse,
    };
    use wire::types::{ErrorCode, Offset, TopicId};

    use super::*;

    #[test]
    fn every_version_is_read_as_it_was_meant() {
        for version in VERSIONS.0..=VERSIONS.1 {
            let heading = Heading {
                version,
                correlation_id: 99,
                acks: -1,
                topic: "topic-7",
                partition: 3,
            };
            let batch = vec![7; 1000];
            let mut frame = Vec::new();
            let tail = put_head(&mut frame, heading, batch.len());
            frame.extend_from_slice(&batch);
            frame.extend_from_slice(tail);
            let mut read = frame.as_slice().into();
            let frame = next_frame(&mut read, 1 << 20).unwrap().unwrap();
            assert!(read.is_empty());
            let request = Request::parse(&frame).unwrap();
            assert_eq!(request.header.correlation_id, 99);
            assert_eq!(request.header.client_id.as_str(), CLIENT_ID);
            let produce = ProduceRequest::decode(&request.body, version).unwrap();
            assert_eq!((produce.acks, produce.topics.len()), (-1, 1));
            assert_eq!(produce.topics[0].name.as_str(), "topic-7");
            let partition = &produce.topics[0].partitions[0];
            assert_eq!(partition.index, 3);
            assert_eq!(partition.records.as_deref(), Some(&batch[..]));
        }
    }

    #[test]
    fn answers_of_every_version_are_understood() {
        for version in VERSIONS.0..=VERSIONS.1 {
            for error in [None, Some(ErrorCode::NotLeaderOrFollower)] {
                let mut partition =
                    ProducePartitionResponse::failed(3, ErrorCode::NotLeaderOrFollower, None);
                partition.error = error;
                partition.base_offset = Offset(41);
                let response = ProduceResponse {
                    topics: vec![ProduceTopicResponse {
                        name: "topic-7".to_owned().into(),
                        topic_id: TopicId::ZERO,
                        partitions: vec![partition],
                    }],
                    ..ProduceResponse::default()
                };
                let frame = response.encode(version, 5).unwrap().to_bytes();
                let expected = Answer {
                    correlation_id: 5,
                    error: error.map_or(0, |error| error.code()),
                    base_offset: 41,
                };
                assert_eq!(read_answer(&frame[4..], version).unwrap(), expected);
                for cut in 0..29 {
                    assert!(read_answer(&frame[4..4 + cut], version).is_err());
                }
            }
        }
    }
}
