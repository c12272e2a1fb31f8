//! The client side of Fetch: parses the response while it arrives.
//!
//! Versions 4 to 12, in which topics have names. Only batch headers are parsed, unless the caller
//! needs the records ([`Want`]); the rest is skipped. Memory does not grow with the response,
//! except for a batch whose records are needed.

use anyhow::{bail, ensure};
use bytes::Bytes;
use wire::batch::{BatchHeader, HEADER_BYTES, records, varint};

use super::stream::Stream;
use short::{Front, front};

mod short;

/// API key of the request.
pub(super) const KEY: i16 = 1;
/// Supported versions.
pub(super) const VERSIONS: (i16, i16) = (4, 12);
const FLEXIBLE_FROM: i16 = 12;
/// Longest accepted topic name.
const NAME_BYTES_MAX: usize = 1 << 10;
/// Longest batch that is decoded.
const BATCH_BYTES_MAX: usize = 512 << 20;

/// What must be found out about the records of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// Nothing: all have this size.
    Sized(u64),
    /// The bytes of their keys and values.
    Bytes,
    /// Everything.
    Records,
}

/// Receives a response piece by piece.
pub(super) trait Reading {
    /// Receives the fields of the whole response: error and session.
    fn begins(&mut self, error: i16, session_id: i32);

    /// Receives a partition: its topic, index and error.
    fn partition(&mut self, topic: &str, index: i32, error: i16) -> anyhow::Result<()>;

    /// Receives a batch of the last partition; `bytes` counts keys and values.
    fn batch(
        &mut self,
        header: &BatchHeader,
        bytes: u64,
        whole: Option<&Bytes>,
    ) -> anyhow::Result<()>;
}

/// Parser of the fields of one response.
struct Answer<'a> {
    stream: &'a mut Stream,
    flexible: bool,
    /// Position in the stream at which it ends.
    end: u64,
}

/// Reads one response and returns its correlation id.
///
/// Not cancel safe: a dropped future loses the position in the stream.
pub(super) async fn read_answer(
    stream: &mut Stream,
    version: i16,
    want: Want,
    reading: &mut impl Reading,
) -> anyhow::Result<i32> {
    let length = i32::from_be_bytes(stream.take().await?);
    let length = u64::try_from(length)?;
    let end = stream.taken() + length;
    let mut answer = Answer {
        stream,
        flexible: version >= FLEXIBLE_FROM,
        end,
    };
    let correlation_id = answer.i32().await?;
    answer.tags().await?;
    let _throttle_ms = answer.i32().await?;
    let (error, session_id) = if version >= 7 {
        (answer.i16().await?, answer.i32().await?)
    } else {
        (0, 0)
    };
    reading.begins(error, session_id);
    for _ in 0..answer.count().await? {
        let name = answer.name().await?;
        for _ in 0..answer.count().await? {
            answer.partition(version, &name, want, reading).await?;
        }
        answer.tags().await?;
    }
    answer.tags().await?;
    ensure!(
        answer.stream.taken() == end,
        "an answer to a fetch is longer than what is in it"
    );
    Ok(correlation_id)
}

impl Answer<'_> {
    async fn partition(
        &mut self,
        version: i16,
        topic: &str,
        want: Want,
        reading: &mut impl Reading,
    ) -> anyhow::Result<()> {
        let index = self.i32().await?;
        let error = self.i16().await?;
        reading.partition(topic, index, error)?;
        // High watermark, last stable offset, log start offset.
        self.skip(if version >= 5 { 24 } else { 16 }).await?;
        for _ in 0..self.count().await? {
            self.skip(16).await?;
            self.tags().await?;
        }
        if version >= 11 {
            self.skip(4).await?;
        }
        let records_bytes = self.count().await? as usize;
        self.records(records_bytes, want, reading).await?;
        self.tags().await
    }

    async fn records(
        &mut self,
        bytes: usize,
        want: Want,
        reading: &mut impl Reading,
    ) -> anyhow::Result<()> {
        let end = self.stream.taken() + bytes as u64;
        ensure!(end <= self.end, "records are longer than the answer");
        loop {
            let left = (end - self.stream.taken()) as usize;
            if left < HEADER_BYTES {
                return self.skip(left).await;
            }
            let Some(header) = BatchHeader::parse(self.stream.peek(HEADER_BYTES).await?) else {
                bail!("a batch with an impossible length");
            };
            if header.size_bytes > left {
                // The last batch may be truncated.
                return self.skip(left).await;
            }
            let compressed = header.compression_code() != 0;
            match want {
                Want::Sized(each) => {
                    let count = u64::try_from(header.record_count).unwrap_or(0);
                    reading.batch(&header, count * each, None)?;
                    self.skip(header.size_bytes).await?;
                }
                Want::Bytes if !compressed => {
                    let payload = self.walk(&header).await?;
                    reading.batch(&header, payload, None)?;
                }
                Want::Bytes | Want::Records => {
                    ensure!(
                        header.size_bytes <= BATCH_BYTES_MAX,
                        "a batch too long to decode"
                    );
                    let mut whole = Vec::with_capacity(header.size_bytes);
                    self.stream.take_into(header.size_bytes, &mut whole).await?;
                    let whole = Bytes::from(whole);
                    let payload = payload_bytes(&whole)?;
                    reading.batch(&header, payload, Some(&whole))?;
                }
            }
        }
    }

    /// Adds up the keys and values of an uncompressed batch without reading their contents.
    ///
    /// Records that are completely buffered are added up in place, others field by field.
    async fn walk(&mut self, header: &BatchHeader) -> anyhow::Result<u64> {
        let end = self.stream.taken() + header.size_bytes as u64;
        self.stream.take_here(HEADER_BYTES);
        let mut payload = 0;
        while self.stream.taken() < end {
            let left = (end - self.stream.taken()) as usize;
            match front(self.stream.here(), left) {
                Front::Whole { bytes, payload: of } => {
                    self.stream.take_here(bytes);
                    payload += of;
                    continue;
                }
                Front::Short => {
                    self.stream.more().await?;
                    continue;
                }
                Front::Other => {}
            }
            let length = u64::try_from(self.varint().await?)?;
            let record_end = self.stream.taken() + length;
            ensure!(record_end <= end, "a record longer than its batch");
            self.skip(1).await?;
            self.varint().await?;
            self.varint().await?;
            for _key_then_value in 0..2 {
                if let Ok(bytes) = usize::try_from(self.varint().await?) {
                    let left = record_end.saturating_sub(self.stream.taken());
                    ensure!(bytes as u64 <= left, "a value longer than its record");
                    self.skip(bytes).await?;
                    payload += bytes as u64;
                }
            }
            let rest = record_end.checked_sub(self.stream.taken());
            let Some(rest) = rest else {
                bail!("a record longer than it says");
            };
            self.skip(rest as usize).await?;
        }
        Ok(payload)
    }

    async fn name(&mut self) -> anyhow::Result<String> {
        let length = if self.flexible {
            self.uvarint().await?.saturating_sub(1) as usize
        } else {
            usize::try_from(self.i16().await?)?
        };
        ensure!(length <= NAME_BYTES_MAX, "a topic's name of {length} bytes");
        let name = self.stream.peek(length).await?.to_vec();
        self.skip(length).await?;
        Ok(String::from_utf8(name)?)
    }

    /// Returns the number of elements or bytes that follow; null counts as 0.
    async fn count(&mut self) -> anyhow::Result<u32> {
        let count = if self.flexible {
            self.uvarint().await?.saturating_sub(1)
        } else {
            u32::try_from(self.i32().await?.max(0))?
        };
        let left = self.end.saturating_sub(self.stream.taken());
        ensure!(
            u64::from(count) <= left,
            "an answer is shorter than what is in it"
        );
        Ok(count)
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
                return Ok(u32::try_from(value)?);
            }
        }
        bail!("a number of more than 32 bits");
    }

    async fn varint(&mut self) -> anyhow::Result<i64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.stream.take().await?;
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(varint::unzigzag(value));
            }
        }
        bail!("a number of more than 64 bits");
    }

    async fn i16(&mut self) -> anyhow::Result<i16> {
        Ok(i16::from_be_bytes(self.stream.take().await?))
    }

    async fn i32(&mut self) -> anyhow::Result<i32> {
        Ok(i32::from_be_bytes(self.stream.take().await?))
    }

    async fn skip(&mut self, bytes: usize) -> anyhow::Result<()> {
        Ok(self.stream.skip(bytes).await?)
    }
}

fn payload_bytes(batch: &Bytes) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for record in records(batch)? {
        let record = record?;
        bytes += record.key.map_or(0, |key| key.len()) as u64;
        bytes += record.value.map_or(0, |value| value.len()) as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
