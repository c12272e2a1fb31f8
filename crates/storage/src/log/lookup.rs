//! Finds offsets by timestamp, and the aborted transactions of a range, for `ListOffsets` and
//! `Fetch`.
//!
//! It does not: decide how far a client may see; the caller gives the bound (`below`).

use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::DiskFile;
use wire::batch::BatchHeader;
use wire::batch::record;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use super::Log;
use super::txn_index::AbortedTxn;
use crate::error::{Error, Result};
use crate::log::views::{LogReader, Looking};
use crate::segment::naming::Role;
use crate::segment::scan::{MAGIC, NO_BATCH, Scan};
use crate::segment::{LargestTimestamp, Segment};

/// Why a segment that was just loaded has its indexes: later loads evict older ones first.
const LOADED: &str = "a load leaves the indexes in memory";

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

/// A record found by its timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampAndOffset {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: TimestampMs,
    /// The leader epoch in which it was written.
    pub leader_epoch: LeaderEpoch,
}

impl<P: Platform> Log<P> {
    /// Returns the first record below `below` that is not older than `timestamp`.
    pub async fn offset_for_timestamp(
        &self,
        timestamp: TimestampMs,
        below: Offset,
    ) -> Result<Option<TimestampAndOffset>> {
        let segments: Vec<_> = self.segments.snapshot();
        for segment in segments {
            if segment.base >= below {
                break;
            }
            let Some(largest) = Looking(self).largest_timestamp(&segment).await? else {
                continue;
            };
            if largest.0 < timestamp {
                continue;
            }
            if let Some(found) = Looking(self).first_in(&segment, timestamp, below).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the first of the records with the largest timestamp, if it lies below `below`.
    pub async fn max_timestamp(&self, below: Offset) -> Result<Option<TimestampAndOffset>> {
        let segments: Vec<_> = self.segments.snapshot();
        let mut best: Option<(TimestampMs, Rc<Segment<P>>)> = None;
        for segment in segments {
            if let Some((timestamp, _)) = Looking(self).largest_timestamp(&segment).await?
                && best
                    .as_ref()
                    .is_none_or(|(largest, _)| timestamp > *largest)
            {
                best = Some((timestamp, segment));
            }
        }
        match best {
            Some((timestamp, segment)) => Looking(self).first_in(&segment, timestamp, below).await,
            None => Ok(None),
        }
    }

    /// Returns the aborted transactions with records in the range, by the segments' indexes,
    /// unsorted.
    ///
    /// A transaction is noted where its marker is, which may be far behind its records: the walk
    /// ends where an index says that everything in the range was decided. A segment that is known
    /// to note nothing of the range is not loaded.
    pub async fn aborted_transactions(
        &self,
        from: Offset,
        below: Offset,
    ) -> Result<Vec<AbortedTxn>> {
        let mut aborted = Vec::new();
        let mut at = from;
        while let Some(segment) = self.segments.holding(at) {
            at = segment.next();
            if segment.first_aborted().is_some_and(|first| first >= below) {
                continue;
            }
            LogReader(self).load(&segment).await?;
            let loaded = segment.loaded();
            let loaded = loaded.as_ref().expect(LOADED);
            if !segment.is_active() {
                // Nothing more is added to the index of a segment that is not active.
                let first = loaded.aborted.first_offset();
                segment.remember_first_aborted(first);
            }
            if loaded.aborted.collect(from, below, &mut aborted) {
                break;
            }
        }
        Ok(aborted)
    }
}

impl<P: Platform> Looking<'_, P> {
    /// Returns the largest timestamp of a segment and the last offset of its batch.
    pub(super) async fn largest_timestamp(
        self,
        segment: &Rc<Segment<P>>,
    ) -> Result<Option<(TimestampMs, Offset)>> {
        if segment.largest() == LargestTimestamp::Unknown {
            LogReader(self.0).load(segment).await?;
        }
        Ok(match segment.largest() {
            LargestTimestamp::At(entry) => Some((entry.timestamp, entry.offset)),
            LargestTimestamp::None => None,
            LargestTimestamp::Unknown => unreachable!("{LOADED}"),
        })
    }

    /// Returns the first record of a segment that is not older; corrects the index first if that is
    /// wrong.
    async fn first_in(
        self,
        segment: &Rc<Segment<P>>,
        timestamp: TimestampMs,
        below: Offset,
    ) -> Result<Option<TimestampAndOffset>> {
        loop {
            let corrections = self.readers.corrections.get();
            let found = self.first_not_older(segment, timestamp, below).await;
            let error = found.as_ref().err();
            if !LogReader(self.0)
                .was_misled(segment, error, true, corrections)
                .await?
            {
                return found;
            }
        }
    }

    async fn first_not_older(
        self,
        segment: &Rc<Segment<P>>,
        timestamp: TimestampMs,
        below: Offset,
    ) -> Result<Option<TimestampAndOffset>> {
        LogReader(self.0).load(segment).await?;
        let mut position = {
            let loaded = segment.loaded();
            let indexes = &loaded.as_ref().expect(LOADED).indexes;
            let entry = indexes.times.lookup(timestamp);
            let offset = entry.offset.max(self.offsets.start());
            u64::from(indexes.offsets.lookup(offset).position)
        };
        while let Some((at, header)) = self
            .next_batch_not_older(segment, position, timestamp)
            .await?
        {
            if header.base_offset >= below {
                break;
            }
            let batch = self.batch_at(segment, at, header.size_bytes).await?;
            if let Some(found) = self.first_record(segment, at, &batch, timestamp, below)? {
                return Ok(Some(found));
            }
            position = at + header.size_bytes as u64;
        }
        Ok(None)
    }

    fn first_record(
        self,
        segment: &Segment<P>,
        position: u64,
        batch: &Bytes,
        timestamp: TimestampMs,
        below: Offset,
    ) -> Result<Option<TimestampAndOffset>> {
        let corrupt = |reason| Error::Corrupt {
            path: segment.path(Role::Log),
            position,
            reason,
        };
        let records = record::records(batch).map_err(|_| corrupt("the records cannot be read"))?;
        let leader_epoch = records.header().leader_epoch;
        for found in records {
            let found = found.map_err(|_| corrupt("a record cannot be read"))?;
            if found.offset >= below {
                return Ok(None);
            }
            if found.timestamp >= timestamp && found.offset >= self.offsets.start() {
                let (offset, timestamp) = (found.offset, found.timestamp);
                return Ok(Some(TimestampAndOffset {
                    offset,
                    timestamp,
                    leader_epoch,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the first batch from `position` on whose largest timestamp is not older.
    async fn next_batch_not_older(
        self,
        segment: &Segment<P>,
        mut position: u64,
        timestamp: TimestampMs,
    ) -> Result<Option<(u64, BatchHeader)>> {
        let path = segment.path(Role::Log);
        let written = segment.written();
        if position < segment.tail().resident_from() {
            let file = segment.file(self.store.disk()).await?;
            let mut scan = Scan::new(&file, position, written, WALK_BYTES);
            while scan.position() < written {
                let at = scan.position();
                match scan.header().await.map_err(Error::io("read", &path))? {
                    Some(header) if header.magic == MAGIC => {
                        if header.max_timestamp >= timestamp {
                            return Ok(Some((at, header)));
                        }
                        scan.skip(&header);
                    }
                    _ => {
                        let reason = NO_BATCH;
                        return Err(Error::Corrupt {
                            path,
                            position: at,
                            reason,
                        });
                    }
                }
            }
            position = scan.position();
        }
        while let Some(header) = segment.resident_header(position) {
            if header.max_timestamp >= timestamp {
                return Ok(Some((position, header)));
            }
            position += header.size_bytes as u64;
        }
        Ok(None)
    }

    /// Returns a whole batch, from memory or from the file.
    async fn batch_at(self, segment: &Segment<P>, position: u64, len: usize) -> Result<Bytes> {
        let range = position..position + len as u64;
        if position >= segment.tail().resident_from() {
            let slices = segment.tail().slices(range);
            if let Some(slices) = slices {
                return Ok(match <[Bytes; 1]>::try_from(slices) {
                    Ok([only]) => only,
                    Err(slices) => slices.concat().into(),
                });
            }
        }
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        let batch = file
            .read_at(position, len)
            .await
            .map_err(Error::io("read", &path))?;
        let header = BatchHeader::parse(&batch).filter(|header| header.size_bytes == batch.len());
        if header.is_none_or(|header| wire::batch::crc_of(&batch) != header.crc) {
            return Err(Error::Corrupt {
                path,
                position,
                reason: "the CRC is wrong",
            });
        }
        Ok(batch)
    }
}
