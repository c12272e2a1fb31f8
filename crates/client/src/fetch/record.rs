//! The records of a batch as slices of it: nothing is copied, nothing is allocated.
//!
//! Invariant: offsets ascend and lie within the batch, whatever the bytes are; bytes that are no
//! records end the iteration with an error. Not here: decompression, which batches are read
//! ([`super::batch`]).

use wire::batch::{BatchHeader, varint};
use wire::error::BatchError;

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordView<'a> {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in milliseconds since 1970; -1 if it has none.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> RecordView<'a> {
    /// Returns the headers, in order.
    pub fn headers(&self) -> Headers<'a> {
        self.headers.clone()
    }
}

/// A header of a record; names may repeat and need not be UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, whose bytes were checked.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Headers<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Headers<'a> {
    /// Checks that `body` is a number of headers and nothing else.
    fn checked(mut body: &'a [u8]) -> Option<Self> {
        let left = usize::try_from(varint::take(&mut body)?).ok()?;
        let headers = Self { rest: body, left };
        for _ in 0..left {
            field(&mut body)??;
            field(&mut body)?;
        }
        body.is_empty().then_some(headers)
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let name = field(&mut self.rest)??;
        let value = field(&mut self.rest)?;
        Some(Header { name, value })
    }
}

/// Iterator over the records of a batch, from an offset on.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    base_offset: i64,
    base_timestamp: i64,
    /// The timestamp of all records, if the broker set it.
    append_time: Option<i64>,
    last_delta: i64,
    /// The delta of the record before, -1 before the first.
    before: i64,
    /// Records below this offset are passed over.
    from: i64,
    index: i32,
    count: i32,
}

impl<'a> Records<'a> {
    /// Iterates over the decompressed records of the batch with this header.
    pub(super) fn new(header: &BatchHeader, records: &'a [u8], from: i64) -> Self {
        let append_time = header.is_log_append_time();
        Self {
            rest: records,
            base_offset: header.base_offset.0,
            base_timestamp: header.base_timestamp.0,
            append_time: append_time.then_some(header.max_timestamp.0),
            last_delta: header.last_offset_delta.into(),
            before: -1,
            from,
            index: 0,
            count: header.record_count,
        }
    }

    fn record(&mut self) -> Result<RecordView<'a>, &'static str> {
        let mut body = field(&mut self.rest)
            .flatten()
            .ok_or("its length is not that of its bytes")?;
        let (_attributes, rest) = body.split_first().ok_or("it is empty")?;
        body = rest;
        let timestamp_delta = varint::take(&mut body).ok_or("bad timestamp delta")?;
        let offset_delta = varint::take(&mut body).ok_or("bad offset delta")?;
        if offset_delta <= self.before || offset_delta > self.last_delta {
            return Err("its offset is not after that of the record before, or not in the batch");
        }
        self.before = offset_delta;
        let timestamp = self.append_time;
        let timestamp =
            timestamp.unwrap_or_else(|| self.base_timestamp.wrapping_add(timestamp_delta));
        Ok(RecordView {
            offset: self.base_offset.saturating_add(offset_delta),
            timestamp,
            key: field(&mut body).ok_or("bad key")?,
            value: field(&mut body).ok_or("bad value")?,
            headers: Headers::checked(body).ok_or("bad headers")?,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.index < self.count {
            let index = self.index;
            match self.record() {
                Ok(record) => {
                    self.index = index.saturating_add(1);
                    if record.offset >= self.from {
                        return Some(Ok(record));
                    }
                }
                Err(reason) => {
                    self.index = self.count;
                    return Some(Err(BatchError::Framing { index, reason }));
                }
            }
        }
        None
    }
}

/// Reads a length and that many bytes, or a null; `None` if the bytes are neither.
#[allow(
    clippy::option_option,
    reason = "the bytes may be wrong, and the field may be null"
)]
fn field<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match varint::take(bytes)? {
        -1 => Some(None),
        length => {
            let length = usize::try_from(length).ok()?;
            let (field, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some(Some(field))
        }
    }
}
