//! Takes batches into the active segment: offsets, stamps, indexes, producers; rolls to the next
//! segment.
//!
//! Everything here is memory only and cannot fail half-way: either all of the bytes get their
//! offsets or none.
//! It does not: write to files (`flush.rs`).

use std::rc::Rc;

use platform::Platform;
use wire::batch::{self, BatchHeader, HEADER_BYTES, varint};
use wire::types::LeaderEpoch;

use super::batches::Batches;
use super::producer_state::{EndMarker, Origin, ProducerCheck, ProducerError};
use super::{Condition, Log, LogAppendInfo, Stamp};
use crate::error::{Error, Result};
use crate::log::views::{Appending, Flushing, Journaling, LogTiers, Upkeeping};
use crate::segment::{POSITION_MAX, Segment};

/// Largest segment: an index cannot hold a larger position.
const SEGMENT_BYTES_MAX: u64 = POSITION_MAX;

/// Most segments of a log that are rolled and not sealed yet.
///
/// Each holds a descriptor and memory, and a stop has to seal them all. Producers that have
/// segments rolled faster than the disks take them get [`Error::Busy`].
const ROLLED_MAX: usize = 512;

/// How the batches of one append get their offsets and epoch.
#[derive(Clone, Copy)]
enum Numbering {
    /// The next offsets from the log end on, with this stamp.
    Leader(Stamp),
    /// The batches keep their own.
    Given,
}

impl<P: Platform> Log<P> {
    /// Judges a batch by its producer's earlier ones.
    ///
    /// A duplicate need not be durable yet: the caller answers it when [`Log::committed_offset`] is
    /// past its last offset.
    pub fn check_producer(
        &self,
        header: &BatchHeader,
        origin: Origin,
    ) -> Result<ProducerCheck, ProducerError> {
        self.producers.borrow().check(header, origin)
    }

    /// Appends validated batches as their leader: assigns offsets, stamps the epoch, and starts a
    /// flush.
    ///
    /// Nothing is durable yet; see [`Log::committed_offset`] and [`Log::observe`].
    pub fn append(
        &self,
        batches: &impl Batches,
        stamp: Stamp,
        now_ms: i64,
    ) -> Result<LogAppendInfo> {
        Appending(self).append_numbered(batches, Numbering::Leader(stamp), now_ms)
    }

    /// Appends batches that already have their offsets and epochs (copied from a leader).
    pub fn append_as_is(&self, batches: &impl Batches, now_ms: i64) -> Result<LogAppendInfo> {
        Appending(self).append_numbered(batches, Numbering::Given, now_ms)
    }
}

impl<P: Platform> Appending<'_, P> {
    fn append_numbered(
        self,
        batches: &impl Batches,
        numbering: Numbering,
        now_ms: i64,
    ) -> Result<LogAppendInfo> {
        self.check_appendable()?;
        let first = self.check_batches(batches.each(), numbering)?;
        let bytes = batches.size_bytes();
        let segment = self.segment_for(&first, bytes as u64, now_ms)?;
        let memory = &self.store.shared.memory;
        let chunks = memory.take(&segment, bytes);
        let Some(chunks) = chunks else {
            Journaling(self.0).press();
            return Err(Error::Busy);
        };
        let mut chunks = chunks.into_iter();
        let mut appended: Option<LogAppendInfo> = None;
        let mut taken = 0;
        for batch in batches.each() {
            // `check_batches` has looked at all of them before anything was taken.
            let (header, batch) = batch.expect("all of the bytes are whole batches");
            // `BatchHeader::parse` refuses a batch that is shorter than its header.
            let fixed = batch.split_first_chunk::<HEADER_BYTES>();
            let (fixed, body) = fixed.expect("a batch has a header");
            let mut fixed = *fixed;
            let header = match numbering {
                Numbering::Leader(stamp) => {
                    let place = (self.offsets.end(), stamp.leader_epoch);
                    batch::stamp_as_leader(&mut fixed, &header, place, stamp.log_append_time)
                }
                Numbering::Given => header,
            };
            segment.take(&header, (&fixed, body), &mut chunks);
            taken += batch.len();
            self.note_appended(&segment, &header, batch);
            let log_start = self.offsets.start();
            let appended = appended.get_or_insert(LogAppendInfo {
                base_offset: header.base_offset,
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp,
                log_start,
            });
            appended.last_offset = header.last_offset();
            appended.max_timestamp = appended.max_timestamp.max(header.max_timestamp);
        }
        assert_eq!(taken, bytes, "every byte is one of a batch");
        let appended = appended.expect("there is a first batch");
        self.store
            .shared
            .metrics
            .appended_bytes
            .inc_by(bytes as u64);
        Upkeeping(self.0).upkeep_after_append(bytes as u64);
        self.check_cheap();
        Flushing(self.0).request_flush();
        Ok(appended)
    }

    fn check_appendable(self) -> Result<()> {
        match &*self.condition.borrow() {
            Condition::Open => {}
            Condition::Full(error) | Condition::Failed(error) => return Err(error.clone()),
            Condition::Closed => return Err(Error::Closed),
        }
        if let Some(error) = self.health.failed() {
            return Err(error);
        }
        if self.flush.is_held() {
            Err(Error::Busy)
        } else {
            Ok(())
        }
    }

    /// Checks that the bytes are whole batches with possible offsets; returns the first header.
    fn check_batches<'a>(
        self,
        batches: impl Iterator<Item = Option<(BatchHeader, &'a [u8])>>,
        numbering: Numbering,
    ) -> Result<BatchHeader> {
        let mut first = None;
        let mut next = self.offsets.end();
        // A log without an epoch accepts any epoch.
        let mut epoch = self.latest_epoch().unwrap_or(LeaderEpoch(i32::MIN));
        for batch in batches {
            let Some((mut header, _)) = batch else {
                return Err(Error::Invalid {
                    reason: "not a whole batch",
                });
            };
            if header.magic != 2 || header.last_offset_delta < 0 {
                return Err(Error::Invalid {
                    reason: "not a batch of format 2",
                });
            }
            match numbering {
                Numbering::Leader(stamp) => {
                    header.base_offset = next;
                    header.leader_epoch = stamp.leader_epoch;
                }
                Numbering::Given if header.base_offset < next => {
                    return Err(Error::Invalid {
                        reason: "an offset that is in the log already",
                    });
                }
                Numbering::Given if header.base_offset > next && !self.options().compact => {
                    return Err(Error::Invalid {
                        reason: "a gap before an offset",
                    });
                }
                Numbering::Given => {}
            }
            if header.leader_epoch < epoch {
                return Err(Error::Invalid {
                    reason: "a leader epoch older than the log's",
                });
            }
            // Given offsets may leave a gap that leads to the end of the i64 range.
            if header
                .base_offset
                .0
                .checked_add(i64::from(header.last_offset_delta) + 1)
                .is_none()
            {
                return Err(Error::Invalid {
                    reason: "offsets are exhausted",
                });
            }
            next = header.next_offset();
            epoch = header.leader_epoch;
            first.get_or_insert(header);
        }
        first.ok_or(Error::Invalid { reason: "no batch" })
    }

    /// Returns the active segment, or a new one when the active one is full or old enough.
    fn segment_for(self, first: &BatchHeader, bytes: u64, now_ms: i64) -> Result<Rc<Segment<P>>> {
        let options = self.options();
        let bytes_max = u64::from(options.segment_bytes).min(SEGMENT_BYTES_MAX);
        if bytes > SEGMENT_BYTES_MAX {
            return Err(Error::Invalid {
                reason: "more bytes than a segment can hold",
            });
        }
        let active = self.segments.active();
        let size = active.size();
        let out_of_room = LogTiers(self.0).is_out_of_room(&active);
        if out_of_room && LogTiers(self.0).folder_with_room().is_none() {
            return Err(LogTiers(self.0).refuse_for_room());
        }
        LogTiers(self.0).room_again();
        if size == 0 {
            return Ok(active);
        }
        let is_old = options.segment_ms.is_some_and(|segment_ms| {
            // The records of a compacted or adopted segment may have no timestamp: then its own age
            // counts.
            let age_from = active.first_timestamp().unwrap_or(active.born_ms);
            // The records' own time counts, as in Kafka: otherwise old records would roll a segment
            // with each batch.
            let reached = if active.first_timestamp().is_some() {
                first.max_timestamp.0
            } else {
                now_ms
            };
            let jitter = self.upkeep.jitter_ms(options.segment_jitter_ms);
            let limit = segment_ms.saturating_sub(jitter);
            // A setting beyond an i64 means never.
            reached.saturating_sub(age_from) > i64::try_from(limit).unwrap_or(i64::MAX)
        });
        let indexes_full = active
            .loaded()
            .as_ref()
            .is_some_and(|loaded| loaded.indexes.is_full());
        // An append has few batches; each spans less than an i32 of offsets.
        let far = first.next_offset().since(active.base) > i64::from(i32::MAX);
        if size + bytes > bytes_max || is_old || indexes_full || far || out_of_room {
            if self.seals_too_slowly() {
                return Err(Error::Busy);
            }
            return Ok(self.roll_now(now_ms));
        }
        Ok(active)
    }

    /// Returns true when no more segments may be rolled before one is sealed.
    fn seals_too_slowly(self) -> bool {
        let segments = self.segments.all();
        // Segments are sealed in order.
        let before = segments.len().checked_sub(ROLLED_MAX + 1);
        let oldest = before.and_then(|at| segments.get(at));
        oldest.is_some_and(|segment| !segment.is_sealed())
    }

    /// Rolls the active segment and begins one at the log end; the next flush makes its file.
    pub(super) fn roll_now(self, now_ms: i64) -> Rc<Segment<P>> {
        let base = self.offsets.end();
        let new = LogTiers(self.0).new_segment(base, now_ms);
        let event = self.segments.roll(Rc::clone(&new));
        self.segment_changed(&event);
        Upkeeping(self.0).upkeep_after_roll(base);
        self.check_invariants();
        new
    }

    /// Notes one batch that the segment has taken.
    fn note_appended(self, segment: &Segment<P>, header: &BatchHeader, batch: &[u8]) {
        let latest = self.latest_epoch();
        if latest.is_none_or(|latest| latest < header.leader_epoch)
            && self
                .epochs
                .borrow_mut()
                .assign(header.leader_epoch, header.base_offset)
        {
            self.epochs_dirty.set(true);
        }
        if self.epoch_begun.replace(false) {
            self.epochs_dirty.set(true);
        }
        let marker = if header.is_control() {
            marker_of(batch)
        } else {
            None
        };
        let aborted = self.producers.borrow_mut().replay(header, marker);
        if let Some(aborted) = aborted {
            segment.note_abort(aborted);
        }
        let end = self.offsets.appended(header.next_offset());
        assert!(end < header.next_offset(), "each batch has an offset");
    }
}

/// Returns the transaction marker in a control batch, if it has one.
pub(crate) fn marker_of(batch: &[u8]) -> Option<EndMarker> {
    let mut record = batch.get(HEADER_BYTES..)?;
    let _length = varint::take(&mut record)?;
    let (_attributes, mut record) = record.split_first()?;
    let _timestamp_delta = varint::take(&mut record)?;
    let _offset_delta = varint::take(&mut record)?;
    let key = field(&mut record)?;
    let value = field(&mut record)?;
    EndMarker::parse(key, value)
}

fn field<'a>(record: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint::take(record)?).ok()?;
    let (field, rest) = record.split_at_checked(len)?;
    *record = rest;
    Some(field)
}
