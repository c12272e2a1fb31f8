//! The client side of Produce: the bytes around the records of batches, and the response.
//!
//! The records are never copied into the frame: [`put_request`] writes everything else, and says
//! where they belong.

use anyhow::Context as _;
use wire::batch::HEADER_BYTES;

use super::client::CLIENT_ID;

/// API key of the request.
pub(super) const KEY: i16 = 0;
/// Supported versions; up to 12 topics have names, not ids.
pub(super) const VERSIONS: (i16, i16) = (3, 12);
const FLEXIBLE_FROM: i16 = 9;
/// The request's timeout for the broker.
const TIMEOUT_MS: i32 = 30_000;

/// What is the same for all batches of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) acks: i16,
}

/// A batch of a request: its header, and how many bytes of records follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: u32,
    pub(super) header: &'a [u8; HEADER_BYTES],
    pub(super) records_bytes: usize,
}

/// Appends a frame without the records of its batches, and notes in `gaps` the positions where
/// these belong. Batches of one topic follow one another.
pub(super) fn put_request(
    out: &mut Vec<u8>,
    gaps: &mut Vec<usize>,
    heading: Heading,
    batches: &[Outgoing<'_>],
) {
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
    let topics = || batches.chunk_by(|one, next| one.topic == next.topic);
    put_count(out, topics().count(), flexible);
    for of_topic in topics() {
        let topic = of_topic.first().map_or("", |batch| batch.topic);
        if flexible {
            put_uvarint(out, topic.len() + 1);
        } else {
            out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        }
        out.extend_from_slice(topic.as_bytes());
        put_count(out, of_topic.len(), flexible);
        for batch in of_topic {
            out.extend_from_slice(&batch.partition.to_be_bytes());
            let bytes = HEADER_BYTES + batch.records_bytes;
            if flexible {
                put_uvarint(out, bytes + 1);
            } else {
                out.extend_from_slice(&(bytes as u32).to_be_bytes());
            }
            out.extend_from_slice(batch.header);
            gaps.push(out.len());
            put_no_tags(out, flexible);
        }
        put_no_tags(out, flexible);
    }
    put_no_tags(out, flexible);
    let records: usize = batches.iter().map(|batch| batch.records_bytes).sum();
    let length = (out.len() - start - 4 + records) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends the number of an array's entries.
fn put_count(out: &mut Vec<u8>, count: usize, flexible: bool) {
    if flexible {
        put_uvarint(out, count + 1);
    } else {
        out.extend_from_slice(&(count as u32).to_be_bytes());
    }
}

fn put_no_tags(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        out.push(0);
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
pub(super) struct Answer<'a> {
    pub(super) topic: &'a [u8],
    pub(super) partition: u32,
    /// Error code, 0 for none.
    pub(super) error: i16,
    /// Offset of the first record.
    pub(super) base_offset: i64,
}

/// Parses a response frame without its length: returns its correlation id, and shows each batch's
/// response to `each`.
///
/// What follows the last of them is not looked at.
pub(super) fn read_answers<'a>(
    frame: &'a [u8],
    version: i16,
    each: impl FnMut(Answer<'a>),
) -> anyhow::Result<i32> {
    let mut rest = frame;
    fields(&mut rest, version, each).context("an answer that is cut off")
}

fn fields<'a>(rest: &mut &'a [u8], version: i16, mut each: impl FnMut(Answer<'a>)) -> Option<i32> {
    let flexible = version >= FLEXIBLE_FROM;
    let correlation_id = i32::from_be_bytes(*part(rest)?);
    // Of the header.
    skip_tags(rest, flexible)?;
    for _ in 0..count(rest, flexible)? {
        let topic = text(rest, flexible)?;
        for _ in 0..count(rest, flexible)? {
            each(Answer {
                topic,
                partition: u32::from_be_bytes(*part(rest)?),
                error: i16::from_be_bytes(*part(rest)?),
                base_offset: i64::from_be_bytes(*part(rest)?),
            });
            skip_rest(rest, version)?;
        }
        skip_tags(rest, flexible)?;
    }
    Some(correlation_id)
}

/// Skips the fields of a partition after its base offset.
fn skip_rest(rest: &mut &[u8], version: i16) -> Option<()> {
    let flexible = version >= FLEXIBLE_FROM;
    // Times of appends since version 2, the log start since version 5.
    for since in [2, 5] {
        if version >= since {
            let _: &[u8; 8] = part(rest)?;
        }
    }
    if version >= 8 {
        for _ in 0..count(rest, flexible)? {
            let _index: &[u8; 4] = part(rest)?;
            text(rest, flexible)?;
            skip_tags(rest, flexible)?;
        }
        text(rest, flexible)?;
    }
    skip_tags(rest, flexible)
}

/// Reads the number of an array's entries; a null array has none.
fn count(rest: &mut &[u8], flexible: bool) -> Option<usize> {
    let count = if flexible {
        uvarint(rest)?.saturating_sub(1)
    } else {
        usize::try_from(i32::from_be_bytes(*part(rest)?).max(0)).ok()?
    };
    // Every entry has a byte at least.
    (count <= rest.len()).then_some(count)
}

/// Reads a text; a null reads as an empty one.
fn text<'a>(rest: &mut &'a [u8], flexible: bool) -> Option<&'a [u8]> {
    let bytes = if flexible {
        uvarint(rest)?.saturating_sub(1)
    } else {
        usize::try_from(i16::from_be_bytes(*part(rest)?).max(0)).ok()?
    };
    rest.split_off(..bytes)
}

fn skip_tags(rest: &mut &[u8], flexible: bool) -> Option<()> {
    if flexible {
        for _ in 0..uvarint(rest)? {
            uvarint(rest)?;
            let bytes = uvarint(rest)?;
            rest.split_off(..bytes)?;
        }
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

    /// Batches by topic, partition and number of records' bytes.
    const BATCHES: [(&str, u32, usize); 4] = [
        ("topic-7", 3, 1000),
        ("topic-7", 9, 0),
        ("topic-8", 3, 20_000),
        ("topic-9", 0, 1),
    ];

    #[test]
    fn every_version_is_read_as_it_was_meant() {
        for (version, count) in (VERSIONS.0..=VERSIONS.1).flat_map(|it| [(it, 1), (it, 4)]) {
            let heading = Heading {
                version,
                correlation_id: 99,
                acks: -1,
            };
            let batches = &BATCHES[..count];
            let header = [5; HEADER_BYTES];
            let outgoing = batches.iter().map(|(topic, partition, bytes)| Outgoing {
                topic,
                partition: *partition,
                header: &header,
                records_bytes: *bytes,
            });
            let outgoing: Vec<_> = outgoing.collect();
            let (mut fields, mut gaps) = (Vec::new(), Vec::new());
            put_request(&mut fields, &mut gaps, heading, &outgoing);
            let (mut frame, mut from) = (Vec::new(), 0);
            for (gap, batch) in gaps.iter().zip(batches) {
                frame.extend_from_slice(&fields[from..*gap]);
                frame.resize(frame.len() + batch.2, 7);
                from = *gap;
            }
            frame.extend_from_slice(&fields[from..]);
            let mut read = frame.as_slice().into();
            let frame = next_frame(&mut read, 1 << 20).unwrap().unwrap();
            assert!(read.is_empty());
            let request = Request::parse(&frame).unwrap();
            assert_eq!(request.header.correlation_id, 99);
            assert_eq!(request.header.client_id.as_str(), CLIENT_ID);
            let produce = ProduceRequest::decode(&request.body, version).unwrap();
            assert_eq!(produce.acks, -1);
            let topics = batches.chunk_by(|one, next| one.0 == next.0);
            assert_eq!(produce.topics.len(), topics.count());
            let mut found = Vec::new();
            for topic in &produce.topics {
                for partition in &topic.partitions {
                    let bytes = partition.records.as_deref().unwrap();
                    let (batch, records) = bytes.split_at(HEADER_BYTES);
                    assert_eq!(batch, header);
                    assert!(records.iter().all(|byte| *byte == 7));
                    let index = u32::try_from(partition.index).unwrap();
                    found.push((topic.name.as_str(), index, records.len()));
                }
            }
            assert_eq!(found, batches);
        }
    }

    #[test]
    fn answers_of_every_version_are_understood() {
        let answered = |index, error, base| {
            let mut partition =
                ProducePartitionResponse::failed(index, ErrorCode::NotLeaderOrFollower, None);
            partition.error = error;
            partition.base_offset = Offset(base);
            partition
        };
        let topic = |name: &str, partitions| ProduceTopicResponse {
            name: name.to_owned().into(),
            topic_id: TopicId::ZERO,
            partitions,
        };
        let refused = ErrorCode::NotLeaderOrFollower;
        for version in VERSIONS.0..=VERSIONS.1 {
            let response = ProduceResponse {
                topics: vec![
                    topic("topic-7", vec![answered(3, Some(refused), -1)]),
                    topic("t", vec![answered(0, None, 41), answered(9, None, 42)]),
                ],
                ..ProduceResponse::default()
            };
            let frame = response.encode(version, 5).unwrap().to_bytes();
            let mut read = Vec::new();
            let id = read_answers(&frame[4..], version, |answer| {
                let topic = std::str::from_utf8(answer.topic).unwrap();
                read.push((topic, answer.partition, answer.error, answer.base_offset));
            });
            assert_eq!(id.unwrap(), 5);
            let expected = [
                ("topic-7", 3, refused.code(), -1),
                ("t", 0, 0, 41),
                ("t", 9, 0, 42),
            ];
            assert_eq!(read, expected, "{version}");
            let whole = frame.len() - 4;
            // What follows the answers is not looked at.
            for cut in 0..whole - 5 {
                let mut seen = 0;
                let read = read_answers(&frame[4..4 + cut], version, |_| seen += 1);
                assert!(read.is_err() && seen <= 3, "{version} {cut}");
            }
        }
    }
}
