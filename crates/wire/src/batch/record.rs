//! The records of one batch as values; keys, values and headers are slices of the (decompressed)
//! batch.
//!
//! For batches that were already accepted: group offsets, metadata, time lookups, tests. Produced
//! batches are checked by `batch/validate.rs`, which creates no values. Control records are
//! returned raw.

use bytes::{Buf, Bytes};

use super::compression::Compression;
use super::{BatchHeader, HEADER_BYTES, first_batch, varint};
use crate::error::BatchError;
use crate::types::{Offset, TimestampMs};

/// Largest decompressed size that [`records`] holds in memory.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp: the producer's, or the append time of the whole batch.
    pub timestamp: TimestampMs,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers, in order; names may repeat and are not checked to be UTF-8.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// Reads the records of the batch at the start of `batch`.
///
/// Decompresses to at most [`DECOMPRESSED_BYTES_MAX`]. Does not check magic or CRC.
pub fn records(batch: &Bytes) -> Result<Records, BatchError> {
    records_within(batch, DECOMPRESSED_BYTES_MAX)
}

/// Does the same as [`records`], with a bound that the caller sets.
pub fn records_within(batch: &Bytes, decompressed_bytes_max: usize) -> Result<Records, BatchError> {
    let (header, whole) = first_batch(batch)?;
    let bytes = batch.slice(HEADER_BYTES..whole.len());
    let rest = match Compression::from_code(header.compression_code())? {
        Compression::None => bytes,
        codec => codec.decompress(&bytes, decompressed_bytes_max)?.into(),
    };
    Ok(Records {
        header,
        rest,
        index: 0,
    })
}

/// Iterator over the records of a batch; it ends after an error.
#[derive(Clone, Debug)]
pub struct Records {
    header: BatchHeader,
    rest: Bytes,
    index: i32,
}

impl Records {
    /// Returns the fixed part of the batch.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    fn record(&mut self) -> Result<Record, &'static str> {
        let mut body = take_bytes(&mut self.rest)
            .ok()
            .flatten()
            .ok_or("its length is not that of its bytes")?;
        take_attributes(&mut body).ok_or("it is empty")?;
        let timestamp_delta = take_integer(&mut body).ok_or("bad timestamp delta")?;
        let offset_delta = take_integer(&mut body).ok_or("bad offset delta")?;
        let record = Record {
            offset: Offset(self.header.base_offset.0.wrapping_add(offset_delta)),
            timestamp: if self.header.is_log_append_time() {
                self.header.max_timestamp
            } else {
                TimestampMs(self.header.base_timestamp.0.wrapping_add(timestamp_delta))
            },
            key: take_bytes(&mut body).map_err(|_| "bad key")?,
            value: take_bytes(&mut body).map_err(|_| "bad value")?,
            headers: take_headers(&mut body).map_err(|_| "bad headers")?,
        };
        if body.is_empty() {
            Ok(record)
        } else {
            Err("bytes follow its headers")
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.header.record_count {
            return None;
        }
        let index = self.index;
        let record = self.record();
        self.index = if record.is_ok() { index + 1 } else { i32::MAX };
        Some(record.map_err(|reason| BatchError::Framing { index, reason }))
    }
}

fn take_attributes(rest: &mut Bytes) -> Option<()> {
    (!rest.is_empty()).then(|| rest.advance(1))
}

fn take_integer(rest: &mut Bytes) -> Option<i64> {
    let mut left = &rest[..];
    let value = varint::take(&mut left)?;
    let taken = rest.len() - left.len();
    rest.advance(taken);
    Some(value)
}

/// Reads a length and that many bytes, or null.
fn take_bytes(rest: &mut Bytes) -> Result<Option<Bytes>, CutShort> {
    match take_integer(rest).ok_or(CutShort)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| CutShort)?;
            if length > rest.len() {
                return Err(CutShort);
            }
            // Bounded: compared above.
            Ok(Some(rest.split_to(length)))
        }
    }
}

/// A field is cut short, or has an impossible length.
struct CutShort;

fn take_headers(rest: &mut Bytes) -> Result<Vec<(Bytes, Option<Bytes>)>, CutShort> {
    let count = take_integer(rest).ok_or(CutShort)?;
    let count = usize::try_from(count).map_err(|_| CutShort)?;
    // A header takes at least two bytes.
    if count > rest.len() / 2 {
        return Err(CutShort);
    }
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        let name = take_bytes(rest)?.ok_or(CutShort)?;
        headers.push((name, take_bytes(rest)?));
    }
    Ok(headers)
}
