//! One batch: open while records come, closed (compressed) when it is sent first.
//!
//! Invariant: its records and their reports are as many and in the same order.

use std::io;

use bytes::{Bytes, BytesMut};
use platform::clock::Instant;
use tokio::sync::OwnedSemaphorePermit;
use wire::batch::builder::HeaderRef;
use wire::batch::record::records_within;
use wire::batch::{BatchBuilder, Compression, HEADER_BYTES, sequence_plus, stamp_producer};
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

use super::record::{Record, ReportCallback};
use crate::error::ClientError;

/// The most bytes that a batch of ours has before compression.
const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;

/// Who wrote a batch, and the sequence of its first record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) id: i64,
    pub(super) epoch: i16,
    pub(super) sequence: i32,
}

/// Whether a batch waits in the client or is on its way to a broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BatchStatus {
    /// It waits in the client, until this time at least.
    Waiting(Option<Instant>),
    /// It is on its way.
    InFlight,
}

/// A batch of one partition.
pub(super) struct Batch {
    /// Tells it from the others of its partition.
    pub(super) number: u64,
    body: Body,
    compression: Compression,
    is_transactional: bool,
    dones: Vec<ReportCallback>,
    /// The memory of its records.
    room: Option<OwnedSemaphorePermit>,
    pub(super) since: Instant,
    pub(super) place: BatchStatus,
    /// What it was sent with; `None` before the first time, or for a producer without sequences.
    pub(super) stamp: Option<Stamp>,
    /// How often it was sent.
    pub(super) attempts: u32,
    pub(super) last_error: Option<ClientError>,
    /// Why the client cannot know whether it is in the log, since it was sent with its stamp.
    pub(super) doubt: Option<ClientError>,
}

enum Body {
    Open(BatchBuilder),
    Closed(Bytes),
}

impl Batch {
    /// Makes an empty batch with room for about this many bytes.
    pub(super) fn new(
        number: u64,
        compression: Compression,
        is_transactional: bool,
        (since, bytes): (Instant, usize),
    ) -> Self {
        let builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE).room(bytes);
        let builder = builder.compression(compression);
        Self {
            number,
            body: Body::Open(builder.transactional(is_transactional)),
            compression,
            is_transactional,
            dones: Vec::new(),
            room: None,
            since,
            place: BatchStatus::Waiting(None),
            stamp: None,
            attempts: 0,
            last_error: None,
            doubt: None,
        }
    }

    /// Adds a record; only while [`Self::is_open`].
    pub(super) fn add(
        &mut self,
        record: &Record,
        timestamp: i64,
        done: ReportCallback,
        room: Option<OwnedSemaphorePermit>,
    ) {
        let Body::Open(builder) = &mut self.body else {
            unreachable!("records are added to open batches only");
        };
        let headers = record.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_deref()));
        let headers: Vec<HeaderRef<'_>> = headers.collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder.add(TimestampMs(timestamp), key, value, &headers);
        self.dones.push(done);
        match (&mut self.room, room) {
            (Some(all), Some(more)) => all.merge(more),
            (all @ None, more) => *all = more,
            (Some(_), None) => {}
        }
    }

    /// Returns true while records may be added.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.body, Body::Open(_))
    }

    /// Returns the number of records.
    pub(super) fn records(&self) -> usize {
        self.dones.len()
    }

    /// Returns the same as a sequence counts.
    pub(super) fn sequences(&self) -> i32 {
        i32::try_from(self.dones.len()).unwrap_or(i32::MAX)
    }

    /// Returns its size: before compression while it is open, after it when it is closed.
    pub(super) fn size_bytes(&self) -> usize {
        match &self.body {
            Body::Open(builder) => builder.size_bytes(),
            Body::Closed(bytes) => bytes.len(),
        }
    }

    /// Closes it: no record is added any more.
    pub(super) fn close(&mut self) -> io::Result<()> {
        if let Body::Open(builder) = &mut self.body {
            let empty = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
            let builder = std::mem::replace(builder, empty);
            self.body = Body::Closed(builder.finish()?);
        }
        Ok(())
    }

    /// Returns the bytes to send, with this stamp; closes it before.
    pub(super) fn stamped(&mut self, stamp: Option<Stamp>) -> io::Result<Bytes> {
        self.close()?;
        let Body::Closed(bytes) = &mut self.body else {
            unreachable!("it was closed");
        };
        if stamp != self.stamp
            && let Some(stamp) = stamp
        {
            // Only the batch holds the bytes now, so they are not copied.
            let mut owned = BytesMut::from(std::mem::take(bytes));
            if let Some(fixed) = owned.first_chunk_mut::<HEADER_BYTES>() {
                stamp_producer(fixed, ProducerId(stamp.id), stamp.epoch, stamp.sequence);
            }
            *bytes = owned.freeze();
            self.stamp = Some(stamp);
        }
        Ok(bytes.clone())
    }

    /// Takes the reports, in the order of the records; the memory is free then.
    pub(super) fn into_dones(self) -> Vec<ReportCallback> {
        self.dones
    }

    /// Divides a batch that is too large for the broker: this one keeps the first half of the
    /// records, and the second half is returned. Each keeps the sequences of its records. After an
    /// error it is what it was.
    pub(super) fn split(&mut self, number: u64) -> Result<Self, ClientError> {
        let half = self.dones.len() / 2;
        self.close().map_err(unreadable)?;
        let Body::Closed(bytes) = &self.body else {
            unreachable!("it was closed");
        };
        let all = records_within(bytes, DECOMPRESSED_BYTES_MAX).map_err(unreadable)?;
        let empty = || {
            let part = Self::new(
                number,
                self.compression,
                self.is_transactional,
                (self.since, 0),
            );
            match part.body {
                Body::Open(builder) => builder,
                Body::Closed(_) => unreachable!("a new batch is open"),
            }
        };
        let (mut first, mut second) = (empty(), empty());
        for (index, record) in all.enumerate() {
            let record = record.map_err(unreadable)?;
            let part = if index < half {
                &mut first
            } else {
                &mut second
            };
            let headers = record.headers.iter().map(|(name, value)| {
                // They were text when they were added.
                let name = std::str::from_utf8(name).unwrap_or_default();
                (name, value.as_deref())
            });
            let headers: Vec<HeaderRef<'_>> = headers.collect();
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            part.add(record.timestamp, key, value, &headers);
        }
        let (first, second) = (first.finish(), second.finish());
        let (first, second) = (first.map_err(unreadable)?, second.map_err(unreadable)?);
        let mut rest = Self::new(
            number,
            self.compression,
            self.is_transactional,
            (self.since, 0),
        );
        rest.body = Body::Closed(second);
        rest.attempts = self.attempts;
        rest.last_error.clone_from(&self.last_error);
        rest.doubt.clone_from(&self.doubt);
        rest.dones = self.dones.split_off(half);
        // The memory is that of both; it is free when the second is done.
        rest.room = self.room.take();
        self.body = Body::Closed(first);
        if let Some(stamp) = self.stamp.take() {
            let sequence = sequence_plus(stamp.sequence, self.sequences());
            self.stamped(Some(stamp)).map_err(unreadable)?;
            let after = Stamp { sequence, ..stamp };
            rest.stamped(Some(after)).map_err(unreadable)?;
        }
        Ok(rest)
    }
}

fn unreadable(error: impl std::fmt::Display) -> ClientError {
    ClientError::invalid("batch", error.to_string())
}

#[cfg(test)]
mod tests;
