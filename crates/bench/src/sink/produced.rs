//! Produce at a sink: the request is parsed while it arrives, the response is written from it.

use std::cell::RefCell;

use anyhow::ensure;
use wire::batch::{BatchHeader, HEADER_BYTES};

use super::SinkState;
use crate::load::stream::Stream;

/// Served versions; up to 12 topics have names, not ids.
pub(super) const VERSIONS: (i16, i16) = (3, 12);
const FLEXIBLE_FROM: i16 = 9;
/// Longest accepted topic name.
const NAME_BYTES_MAX: usize = 1 << 10;

/// A request that is being parsed.
struct ProduceParse<'a> {
    stream: &'a mut Stream,
    flexible: bool,
    version: i16,
    end: u64,
}

/// Takes a request of `length` bytes; appends its response, unless acks=0.
pub(super) async fn take(
    stream: &mut Stream,
    length: usize,
    state: &RefCell<SinkState>,
    out: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let end = stream.taken() + length as u64;
    stream.skip(2).await?;
    let version = i16::from_be_bytes(stream.take().await?);
    let served = VERSIONS.0..=VERSIONS.1;
    ensure!(
        served.contains(&version),
        "Produce is not served in version {version}"
    );
    let flexible = version >= FLEXIBLE_FROM;
    let mut request = ProduceParse {
        stream,
        flexible,
        version,
        end,
    };
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&request.stream.take::<4>().await?);
    // The client id is a classic string in every version.
    let client_id = i16::from_be_bytes(request.stream.take().await?);
    request
        .skip(usize::try_from(client_id).unwrap_or(0))
        .await?;
    request.tags().await?;
    if flexible {
        out.push(0);
    }
    let transactional_id = request.name_length().await?;
    request.skip(transactional_id).await?;
    let acks = i16::from_be_bytes(request.stream.take().await?);
    request.skip(4).await?;
    let topics = request.count().await?;
    request.put_count(topics, out);
    for _ in 0..topics {
        request.topic(state, out).await?;
    }
    request.tags().await?;
    ensure!(
        request.stream.taken() == end,
        "a request is longer than what is in it"
    );
    // Throttle time 0, and no tags.
    out.extend_from_slice(&[0; 4]);
    out.extend(flexible.then_some(0));
    let answer = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&answer.to_be_bytes());
    if acks == 0 {
        out.truncate(start);
    }
    Ok(())
}

impl ProduceParse<'_> {
    async fn topic(&mut self, state: &RefCell<SinkState>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let length = self.name_length().await?;
        ensure!(length <= NAME_BYTES_MAX, "a topic's name of {length} bytes");
        let name = String::from_utf8(self.stream.peek(length).await?.to_vec())?;
        self.skip(length).await?;
        if self.flexible {
            put_uvarint(length as u32 + 1, out);
        } else {
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        out.extend_from_slice(name.as_bytes());
        let partitions = self.count().await?;
        self.put_count(partitions, out);
        for _ in 0..partitions {
            let index: [u8; 4] = self.stream.take().await?;
            let partition = usize::try_from(i32::from_be_bytes(index))?;
            let bytes = self.count().await? as usize;
            let mut offset = -1;
            if bytes >= HEADER_BYTES {
                let header = BatchHeader::parse(self.stream.peek(HEADER_BYTES).await?);
                if let Some(header) = header {
                    offset = state.borrow_mut().append(&name, partition, &header);
                }
            }
            self.skip(bytes).await?;
            self.tags().await?;
            out.extend_from_slice(&index);
            self.put_partition(offset, out);
        }
        self.tags().await?;
        out.extend(self.flexible.then_some(0));
        Ok(())
    }

    /// Appends a partition: no error, base offset, no append time, log start offset, no record
    /// errors, no tags.
    fn put_partition(&self, offset: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&(-1i64).to_be_bytes());
        if self.version >= 5 {
            out.extend_from_slice(&[0; 8]);
        }
        if self.version >= 8 {
            self.put_count(0, out);
            out.extend_from_slice(if self.flexible { &[0] } else { &[0xff, 0xff] });
        }
        out.extend(self.flexible.then_some(0));
    }

    fn put_count(&self, count: u32, out: &mut Vec<u8>) {
        if self.flexible {
            put_uvarint(count + 1, out);
        } else {
            out.extend_from_slice(&count.to_be_bytes());
        }
    }

    /// Returns the number of elements or bytes that follow; null counts as 0.
    async fn count(&mut self) -> anyhow::Result<u32> {
        let count = if self.flexible {
            self.uvarint().await?.saturating_sub(1)
        } else {
            u32::try_from(i32::from_be_bytes(self.stream.take().await?).max(0))?
        };
        let left = self.end.saturating_sub(self.stream.taken());
        ensure!(
            u64::from(count) <= left,
            "a request is shorter than what is in it"
        );
        Ok(count)
    }

    async fn name_length(&mut self) -> anyhow::Result<usize> {
        if self.flexible {
            return Ok(self.uvarint().await?.saturating_sub(1) as usize);
        }
        let length = i16::from_be_bytes(self.stream.take().await?);
        Ok(usize::try_from(length).unwrap_or(0))
    }

    async fn tags(&mut self) -> anyhow::Result<()> {
        if self.flexible {
            for _ in 0..self.uvarint().await? {
                self.uvarint().await?;
                let bytes = self.uvarint().await?;
                self.skip(bytes as usize).await?;
            }
        }
        Ok(())
    }

    async fn uvarint(&mut self) -> anyhow::Result<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.stream.take().await?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(u32::try_from(value)?)
    }

    /// Skips bytes, but never beyond the end of the request.
    async fn skip(&mut self, bytes: usize) -> anyhow::Result<()> {
        let left = self.end.saturating_sub(self.stream.taken());
        ensure!(
            bytes as u64 <= left,
            "a request is shorter than what is in it"
        );
        Ok(self.stream.skip(bytes).await?)
    }
}

fn put_uvarint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
