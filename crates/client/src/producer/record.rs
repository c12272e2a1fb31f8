//! A record on its way in, and what became of it.

use std::rc::Rc;

use bytes::Bytes;

use crate::error::ClientError;

/// Bytes that are counted for a record beyond those of its fields: framing, its report.
const OVERHEAD_BYTES: usize = 64;

/// A record to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The topic.
    pub topic: Rc<str>,
    /// The partition; `None` leaves it to the partitioner.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; `None` is now.
    pub timestamp: Option<i64>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone on a compacted topic.
    pub value: Option<Bytes>,
    /// The headers, in order.
    pub headers: Vec<(String, Option<Bytes>)>,
}

impl Record {
    /// Makes a record of a value.
    pub fn new(topic: Rc<str>, value: Option<Bytes>) -> Self {
        Self {
            topic,
            partition: None,
            timestamp: None,
            key: None,
            value,
            headers: Vec::new(),
        }
    }

    /// Returns the bytes that it takes in memory and in a batch, rounded up.
    pub(super) fn size_bytes(&self) -> usize {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let fields = length(&self.key).saturating_add(length(&self.value));
        self.headers
            .iter()
            .fold(fields, |sum, (name, value)| {
                let header = name.len().saturating_add(length(value)).saturating_add(16);
                sum.saturating_add(header)
            })
            .saturating_add(OVERHEAD_BYTES)
    }
}

/// Where a record was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Its offset; `None` if the client asked for no acknowledgement, or if the broker had
    /// forgotten the offset when the client sent the batch again.
    pub offset: Option<i64>,
    /// The broker's timestamp, where the topic has those.
    pub append_time: Option<i64>,
}

/// What became of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The partition.
    pub partition: i32,
    /// Where it was written, or why it was not, as far as the client knows: see
    /// [`ClientError::is_unknown_outcome`].
    pub result: Result<Receipt, ClientError>,
}

/// Takes the report of a record. The producer calls it once.
pub type ReportCallback = Box<dyn FnOnce(Report)>;
