//! The client side of Produce: the bytes around batches, and the response.
//!
//! A request has one batch or several, of different partitions, those of a topic one after the
//! other. Batches are never copied into the frame: the bytes before each are written into one
//! buffer, and [`end_frame`] returns those after the last.

use anyhow::Context as _;

use super::client::CLIENT_ID;

/// API key of the request.
pub(super) const KEY: i16 = 0;
/// Supported versions; up to 12 topics have names, not ids.
pub(super) const VERSIONS: (i16, i16) = (3, 12);
const FLEXIBLE_FROM: i16 = 9;
/// The request's timeout for the broker.
const TIMEOUT_MS: i32 = 30_000;

/// The fields of a request that are not about a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) acks: i16,
}

/// Begins a frame in an empty buffer.
pub(super) fn put_front(out: &mut Vec<u8>, heading: Heading, topics: usize) {
    let flexible = heading.version >= FLEXIBLE_FROM;
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
    put_count(out, flexible, topics);
}

/// Begins a topic; `is_first` is true for the first of the request.
pub(super) fn put_topic(
    out: &mut Vec<u8>,
    version: i16,
    (name, partitions): (&str, usize),
    is_first: bool,
) {
    let flexible = version >= FLEXIBLE_FROM;
    if flexible && !is_first {
        // No tags of the partition and the topic before.
        out.extend_from_slice(&[0, 0]);
    }
    if flexible {
        put_uvarint(out, name.len() + 1);
    } else {
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    put_count(out, flexible, partitions);
}

/// Begins a partition, up to its batch of `batch_bytes`; `is_first` is true for the first of the
/// topic.
pub(super) fn put_partition(
    out: &mut Vec<u8>,
    version: i16,
    (partition, batch_bytes): (u32, usize),
    is_first: bool,
) {
    let flexible = version >= FLEXIBLE_FROM;
    if flexible && !is_first {
        // No tags of the partition before.
        out.push(0);
    }
    out.extend_from_slice(&partition.to_be_bytes());
    if flexible {
        put_uvarint(out, batch_bytes + 1);
    } else {
        out.extend_from_slice(&(batch_bytes as u32).to_be_bytes());
    }
}

/// Writes the length of a frame that has `others` bytes besides those in the buffer; returns the bytes
/// after the last batch.
pub(super) fn end_frame(out: &mut [u8], version: i16, others: usize) -> &'static [u8] {
    // No tags of partition, topic and request.
    let tail: &[u8] = if version >= FLEXIBLE_FROM {
        &[0; 3]
    } else {
        &[]
    };
    let length = (out.len() - 4 + others + tail.len()) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    tail
}

fn put_count(out: &mut Vec<u8>, flexible: bool, count: usize) {
    if flexible {
        put_uvarint(out, count + 1);
    } else {
        out.extend_from_slice(&(count as u32).to_be_bytes());
    }
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
pub(super) struct BatchAnswer<'a> {
    /// Name of the topic.
    pub(super) topic: &'a [u8],
    pub(super) partition: u32,
    /// Error code, 0 for none.
    pub(super) error: i16,
    /// Offset of the first record.
    pub(super) base_offset: i64,
}

/// Parses a response frame without its length: its correlation id, and what it says of each batch,
/// in the broker's order.
pub(super) fn read_answer(
    frame: &[u8],
    version: i16,
) -> anyhow::Result<(i32, Vec<BatchAnswer<'_>>)> {
    let mut rest = frame;
    let read = fields(&mut rest, version);
    read.context("an answer that is cut off")
}

fn fields<'a>(rest: &mut &'a [u8], version: i16) -> Option<(i32, Vec<BatchAnswer<'a>>)> {
    let flexible = version >= FLEXIBLE_FROM;
    let correlation_id = i32::from_be_bytes(*part(rest)?);
    pass_tags(rest, flexible)?;
    let mut batches = Vec::new();
    for _ in 0..count(rest, flexible)? {
        let topic = text(rest, flexible)?;
        for _ in 0..count(rest, flexible)? {
            batches.push(partition(rest, topic, version)?);
        }
        pass_tags(rest, flexible)?;
    }
    Some((correlation_id, batches))
}

fn partition<'a>(rest: &mut &'a [u8], topic: &'a [u8], version: i16) -> Option<BatchAnswer<'a>> {
    let flexible = version >= FLEXIBLE_FROM;
    let answer = BatchAnswer {
        topic,
        partition: u32::from_be_bytes(*part(rest)?),
        error: i16::from_be_bytes(*part(rest)?),
        base_offset: i64::from_be_bytes(*part(rest)?),
    };
    // The time of the append, and from version 5 on the log start offset.
    let passed = if version >= 5 { 16 } else { 8 };
    rest.split_off(..passed)?;
    if version >= 8 {
        // Errors of records, and a message.
        for _ in 0..count(rest, flexible)? {
            rest.split_off(..4)?;
            text(rest, flexible)?;
            pass_tags(rest, flexible)?;
        }
        text(rest, flexible)?;
    }
    pass_tags(rest, flexible)?;
    Some(answer)
}

fn count(rest: &mut &[u8], flexible: bool) -> Option<usize> {
    if flexible {
        uvarint(rest)?.checked_sub(1)
    } else {
        Some(u32::from_be_bytes(*part(rest)?) as usize)
    }
}

/// Takes a text; null is the same as none.
fn text<'a>(rest: &mut &'a [u8], flexible: bool) -> Option<&'a [u8]> {
    let bytes = if flexible {
        uvarint(rest)?.saturating_sub(1)
    } else {
        let bytes = i16::from_be_bytes(*part(rest)?);
        usize::try_from(bytes.max(0)).ok()?
    };
    rest.split_off(..bytes)
}

fn pass_tags(rest: &mut &[u8], flexible: bool) -> Option<()> {
    if !flexible {
        return Some(());
    }
    for _ in 0..uvarint(rest)? {
        uvarint(rest)?;
        let bytes = uvarint(rest)?;
        rest.split_off(..bytes)?;
    }
    Some(())
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

    /// A frame with these batches: topics of partitions, each with its batch.
    fn frame_of(version: i16, topics: &[(&str, &[(u32, Vec<u8>)])]) -> Vec<u8> {
        let heading = Heading {
            version,
            correlation_id: 99,
            acks: -1,
        };
        let mut frame = Vec::new();
        put_front(&mut frame, heading, topics.len());
        for (at, (name, partitions)) in topics.iter().enumerate() {
            put_topic(&mut frame, version, (*name, partitions.len()), at == 0);
            for (at, (partition, batch)) in partitions.iter().enumerate() {
                let of = (*partition, batch.len());
                put_partition(&mut frame, version, of, at == 0);
                frame.extend_from_slice(batch);
            }
        }
        let tail = end_frame(&mut frame, version, 0);
        frame.extend_from_slice(tail);
        frame
    }

    #[test]
    fn every_version_is_read_as_it_was_meant() {
        let batch = |byte| vec![byte; 1000];
        let one: &[(u32, Vec<u8>)] = &[(3, batch(7))];
        let two: &[(u32, Vec<u8>)] = &[(0, batch(1)), (9, batch(2))];
        let loads: [&[(&str, &[(u32, Vec<u8>)])]; 2] =
            [&[("topic-7", one)], &[("topic-7", two), ("topic-8", one)]];
        for version in VERSIONS.0..=VERSIONS.1 {
            for topics in loads {
                let frame = frame_of(version, topics);
                let mut read = frame.as_slice().into();
                let frame = next_frame(&mut read, 1 << 20).unwrap().unwrap();
                assert!(read.is_empty());
                let request = Request::parse(&frame).unwrap();
                assert_eq!(request.header.correlation_id, 99);
                assert_eq!(request.header.client_id.as_str(), CLIENT_ID);
                let produce = ProduceRequest::decode(&request.body, version).unwrap();
                assert_eq!((produce.acks, produce.topics.len()), (-1, topics.len()));
                for (read, (name, partitions)) in produce.topics.iter().zip(topics) {
                    assert_eq!(read.name.as_str(), *name);
                    assert_eq!(read.partitions.len(), partitions.len());
                    for (read, (index, batch)) in read.partitions.iter().zip(*partitions) {
                        assert_eq!(read.index, index.cast_signed());
                        assert_eq!(read.records.as_deref(), Some(&batch[..]));
                    }
                }
            }
        }
    }

    #[test]
    fn answers_of_every_version_are_understood() {
        for version in VERSIONS.0..=VERSIONS.1 {
            for error in [None, Some(ErrorCode::NotLeaderOrFollower)] {
                let partition = |index| {
                    let failed = ErrorCode::NotLeaderOrFollower;
                    let mut partition = ProducePartitionResponse::failed(index, failed, None);
                    partition.error = error;
                    partition.base_offset = Offset(41);
                    partition
                };
                let topic = |name: &str, partitions: &[i32]| ProduceTopicResponse {
                    name: name.to_owned().into(),
                    topic_id: TopicId::ZERO,
                    partitions: partitions.iter().map(|index| partition(*index)).collect(),
                };
                let response = ProduceResponse {
                    topics: vec![topic("topic-7", &[3, 1]), topic("t", &[0])],
                    ..ProduceResponse::default()
                };
                let frame = response.encode(version, 5).unwrap().to_bytes();
                let expected = |topic, partition| BatchAnswer {
                    topic,
                    partition,
                    error: error.map_or(0, |error| error.code()),
                    base_offset: 41,
                };
                let all = vec![
                    expected(&b"topic-7"[..], 3),
                    expected(b"topic-7", 1),
                    expected(b"t", 0),
                ];
                assert_eq!(read_answer(&frame[4..], version).unwrap(), (5, all));
                for cut in 0..60 {
                    assert!(read_answer(&frame[4..4 + cut], version).is_err());
                }
            }
        }
    }
}
