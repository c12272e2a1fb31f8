//! Reads batches as they were stored: from memory when they are resident, else from the file, whole
//! and checked.
//!
//! A read looks up a position (memory only), then needs at most one file read besides a short walk
//! to the first batch. A sequential reader is recognized by the offset at which it comes back: it
//! needs no lookup, and its bytes were read ahead.
//! Invariants: bytes from a disk are served only after their headers and CRCs were found right;
//! bytes from memory were checked when they came in. A segment that is deleted meanwhile stays
//! readable for the reads that found it before.

use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::{BLOCK_BYTES, DiskFile};
use platform::task::yield_now;
use wire::types::Offset;

mod ahead;
mod checked;
mod corrections;
mod cursor;
mod epochs;
mod resident;
pub(super) mod walk;

use ahead::Reader;
use checked::{CheckedExtent, Source, Step, first_size};
use cursor::Cursor;
pub(super) use cursor::Readers;
use resident::{ReadRange, Resident};
use walk::{Batch, Floor, walk_to};

use super::Log;
use crate::error::{Error, Result};
use crate::log::views::{LogReader, Rebuilding};
use crate::num::index;
use crate::segment::load;
use crate::segment::naming::Role;
use crate::segment::stamps::{Epochs, FileEnd};
use crate::segment::{File, Segment};

/// Bytes that are judged at a time: about a millisecond when the memory is cold.
const STEP_BYTES: usize = 1 << 20;

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

/// What was found in a file.
enum FileRead {
    Batches(Bytes),
    /// No batch up to this position, the end of what was written.
    EndOfFile(u64),
    /// The log was truncated meanwhile: positions have lost their meaning.
    Moved,
}

/// How a read is answered.
enum Plan<P: Platform> {
    Nothing,
    Memory(Vec<Bytes>),
    /// The segment's indexes are needed first.
    Load(Rc<Segment<P>>),
    /// The segment has nothing from there on (a gap left by compaction).
    Beyond(Rc<Segment<P>>),
    /// The batches are in the file.
    File {
        segment: Rc<Segment<P>>,
        place: FilePlace,
    },
}

/// A place in a segment's file that was looked up.
#[derive(Clone, Copy)]
struct FilePlace {
    /// The batches begin there, or later.
    floor: Floor,
    /// Set if a sequential reader comes back exactly there.
    cursor: Option<Cursor>,
    /// The place has no meaning in later generations of positions.
    generation: u64,
}

impl<P: Platform> Log<P> {
    /// Reads whole batches from the one that holds `from` on, all of them below `below`.
    ///
    /// The first batch may begin before `from`. The result has at most `bytes_max` bytes, but with
    /// `at_least_one` the first batch whatever its size. It is empty when there is nothing between
    /// the two offsets, and has fewer bytes than there are at the end of a segment, or of what was
    /// read ahead. The slices follow each other; a batch may lie across two.
    pub async fn read(
        &self,
        from: Offset,
        below: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<Vec<Bytes>> {
        let log = LogReader(self);
        let mut wanted = ReadRange {
            from,
            below: below.min(self.offsets.end()),
            bytes_max: self.store.shared.memory.lends_at_most(bytes_max),
            at_least_one,
        };
        log.check_range(from)?;
        loop {
            let metrics = &self.store.shared.metrics;
            match log.plan_read(wanted)? {
                Plan::Nothing => return Ok(Vec::new()),
                Plan::Memory(slices) => {
                    metrics.cache_hits.inc();
                    return Ok(log.lent(slices));
                }
                Plan::Load(segment) => {
                    let loaded = LogReader(self).load(&segment).await;
                    loaded.map_err(|error| log.unless_gone(from, error))?;
                }
                Plan::Beyond(segment) => wanted.from = log.beyond(&segment, wanted.from),
                Plan::File { segment, place } => {
                    let FilePlace { floor, cursor, .. } = place;
                    let reader = Reader {
                        segment: &segment,
                        position: floor.position,
                        cursor,
                    };
                    if let Some(slices) = log.read_blocks(wanted, &reader).await {
                        return Ok(slices);
                    }
                    let corrections = self.readers.corrections.get();
                    let read = log.read_file(wanted, &segment, place).await;
                    let error = read.as_ref().err();
                    let misled = log.was_misled(&segment, error, cursor.is_none(), corrections);
                    if misled.await.map_err(|error| log.unless_gone(from, error))? {
                        continue;
                    }
                    match read.map_err(|error| log.unless_gone(from, error))? {
                        FileRead::Moved => log.check_range(wanted.from)?,
                        FileRead::Batches(bytes) if bytes.is_empty() => return Ok(Vec::new()),
                        FileRead::Batches(bytes) => {
                            log.note_missed(&segment, floor.position, bytes.len() as u64);
                            return Ok(vec![bytes]);
                        }
                        FileRead::EndOfFile(end) if end < segment.size() => {
                            // The following bytes were not written yet when the read began.
                            match segment.slice_resident(end, wanted) {
                                Resident::Slices(slices) => return Ok(log.lent(slices)),
                                Resident::Nothing => return Ok(Vec::new()),
                                Resident::Beyond => wanted.from = segment.next(),
                                Resident::Gone => {}
                            }
                        }
                        FileRead::EndOfFile(_) => wanted.from = log.beyond(&segment, wanted.from),
                    }
                }
            }
        }
    }

    /// Returns how many bytes a read between the two offsets would find, at most `max`.
    ///
    /// It is an estimate without I/O: exact where the batches are in memory, up to
    /// `index.interval.bytes` too high elsewhere, never 0 when there is something.
    pub fn available_bytes(&self, from: Offset, below: Offset, max: usize) -> usize {
        let below = below.min(self.offsets.end());
        if from >= below {
            return 0;
        }
        let max_bytes = max as u64;
        let mut bytes = 0;
        let segments = self.segments.all();
        let first = segments.partition_point(|segment| segment.next() <= from);
        for segment in segments.range(first..) {
            if segment.base >= below || bytes >= max_bytes {
                break;
            }
            let start = segment.estimate(from);
            let end = if below >= segment.next() {
                segment.size()
            } else {
                segment.estimate_end(below)
            };
            // The estimated start may lie beyond the estimated end.
            bytes += end.saturating_sub(start);
        }
        index(bytes.clamp(1, max_bytes.max(1)))
    }
}

impl<P: Platform> LogReader<'_, P> {
    /// Loads the indexes of a sealed segment.
    pub(super) async fn load(self, segment: &Rc<Segment<P>>) -> Result<()> {
        if segment.loaded().is_some() {
            return Ok(());
        }
        if let Some(error) = segment.absence() {
            return Err(error);
        }
        let disk = self.store.disk();
        let options = self.index_options();
        let loaded = if let Some(loaded) = load::indexes_of(disk, segment, options, None).await? {
            loaded
        } else {
            Rebuilding(self.0).rebuilt(segment).await?
        };
        if segment.loaded().is_some() {
            // Another task was faster, and the indexes may have changed since: these are out of
            // date.
            return Ok(());
        }
        segment.set_indexes(loaded);
        self.store.note_loaded(segment);
        Ok(())
    }

    /// Returns how many of the bytes from a batch on are taken, and the offset after them.
    ///
    /// Many bytes are judged in steps, one such read of the shard after the other: other tasks run
    /// in between.
    async fn check(
        self,
        segment: &Segment<P>,
        end: FileEnd,
        from: Batch,
        bytes: &Bytes,
        wanted: ReadRange,
    ) -> Result<Option<(usize, Offset)>> {
        let _turn = if bytes.len() > STEP_BYTES {
            self.store.shared.checking.acquire().await.ok()
        } else {
            None
        };
        let mut checked = CheckedExtent::new(wanted, from.lowest);
        loop {
            let step = {
                let epochs = self.epochs.borrow();
                let mut source = Source {
                    segment,
                    position: from.position,
                    lowest: from.lowest,
                    end,
                    epochs: Epochs::new(&epochs),
                };
                checked.go_on(bytes, wanted, &mut source, STEP_BYTES)?
            };
            match step {
                Step::Done(taken) => return Ok(taken),
                Step::Rest => yield_now().await,
            }
        }
    }

    /// Returns where a reader continues when a segment has nothing at or past an offset that
    /// belongs to it.
    ///
    /// In a log that was never compacted, records are missing there.
    fn beyond(self, segment: &Segment<P>, from: Offset) -> Offset {
        let next = segment.next();
        let has_gaps = self.options.borrow().compact || self.compaction.compacted().is_some();
        if !has_gaps && !segment.is_absent() && segment.name_hole() {
            self.store.shared.metrics.holes.inc();
            let file = segment.path(Role::Log);
            tracing::warn!(file = %file.display(), %from, %next,
                "records are missing between a segment and the one after it: readers go on behind the hole");
        }
        next
    }

    /// Returns slices for a reader; while memory is short, copies of them.
    ///
    /// The chunks are then free for appends, however long it takes to send the slices.
    fn lent(self, slices: Vec<Bytes>) -> Vec<Bytes> {
        if !self.store.shared.memory.is_short() {
            return slices;
        }
        let copy = |slice: &Bytes| Bytes::copy_from_slice(slice);
        slices.iter().map(copy).collect()
    }

    /// Returns the error of a failed read as the reader gets it.
    ///
    /// If the segment was deleted meanwhile, the disk has not failed: the offset is out of range.
    fn unless_gone(self, from: Offset, error: Error) -> Error {
        match (&error, self.check_range(from)) {
            (Error::Io { .. }, Err(gone)) => gone,
            _ => error,
        }
    }

    fn check_range(self, from: Offset) -> Result<()> {
        let (start, end) = (self.offsets.start(), self.offsets.end());
        if from < start || from > end {
            return Err(Error::OutOfRange {
                offset: from,
                start,
                end,
            });
        }
        Ok(())
    }

    fn plan_read(self, wanted: ReadRange) -> Result<Plan<P>> {
        let ReadRange { from, below, .. } = wanted;
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if from >= below {
            return Ok(Plan::Nothing);
        }
        let Some(segment) = self.segments.holding(from) else {
            return Ok(Plan::Nothing);
        };
        if let Some(error) = segment.offline() {
            return Err(error);
        }
        let cursor = self.readers.take(from, segment.base);
        let floor = match (&cursor, segment.floor_entry(from)) {
            (Some(cursor), _) => Floor {
                position: cursor.position,
                offset: from,
            },
            (None, Some(floor)) => floor,
            (None, None) => return Ok(Plan::Load(segment)),
        };
        if floor.position >= segment.tail().resident_from() {
            return Ok(match segment.slice_resident(floor.position, wanted) {
                Resident::Slices(slices) => Plan::Memory(slices),
                Resident::Nothing | Resident::Gone => Plan::Nothing,
                Resident::Beyond => Plan::Beyond(segment),
            });
        }
        let generation = self.readers.generation.get();
        let place = FilePlace {
            floor,
            cursor,
            generation,
        };
        Ok(Plan::File { segment, place })
    }

    /// Reads from a place that was looked up; positions may have changed since.
    async fn read_file(
        self,
        wanted: ReadRange,
        segment: &Rc<Segment<P>>,
        place: FilePlace,
    ) -> Result<FileRead> {
        let FilePlace {
            floor,
            cursor,
            generation,
        } = place;
        self.store.shared.metrics.cache_misses.inc();
        let is_moved = || generation != self.readers.generation.get();
        let file = segment.file(self.store.disk()).await?;
        if is_moved() {
            return Ok(FileRead::Moved);
        }
        self.store.note_read(segment);
        let end = segment.written();
        let window = cursor.map_or(0, |cursor| cursor.window);
        let found = if cursor.is_some() {
            Ok(Some(Batch {
                position: floor.position,
                lowest: wanted.from,
            }))
        } else {
            walk_to(segment, &file, floor, segment.file_end(end), wanted.from).await
        };
        let Batch { position, lowest } = match found {
            Ok(_) | Err(Error::Corrupt { .. }) if is_moved() => return Ok(FileRead::Moved),
            Ok(Some(found)) => found,
            Ok(None) => return Ok(FileRead::EndOfFile(end)),
            Err(error) => return Err(error),
        };
        let bytes = self
            .read_range(segment, &file, position, end, wanted)
            .await?;
        let from = Batch { position, lowest };
        let end = segment.file_end(end);
        let taken = match self.check(segment, end, from, &bytes, wanted).await {
            Err(Error::Corrupt { .. }) if is_moved() => return Ok(FileRead::Moved),
            taken => taken?,
        };
        let Some((len, next)) = taken else {
            return Ok(FileRead::Batches(Bytes::new()));
        };
        assert!(len <= bytes.len(), "what is taken was read");
        if !is_moved() {
            self.readers.put(Cursor {
                next,
                base: segment.base,
                position: position + len as u64,
                window,
            });
        }
        Ok(FileRead::Batches(bytes.slice(..len)))
    }

    /// Reads what is wanted, or the first batch if that is longer and `at_least_one` is set.
    async fn read_range(
        self,
        segment: &Segment<P>,
        file: &File<P>,
        position: u64,
        end: u64,
        wanted: ReadRange,
    ) -> Result<Bytes> {
        // A truncation may have made the segment shorter.
        let room = index(end.saturating_sub(position));
        let len = buffer_len(wanted.bytes_max.max(WALK_BYTES), position).min(room);
        let path = segment.path(Role::Log);
        let bytes = file
            .read_at(position, len)
            .await
            .map_err(Error::io("read", &path))?;
        self.store.note_read_bytes(segment, bytes.len());
        let is_wanted = |size: usize| wanted.at_least_one || size <= wanted.bytes_max;
        match first_size(&bytes) {
            // What fits into the blocks of a buffer is a little less than what is wanted.
            Some(size) if size > bytes.len() && is_wanted(size) && size <= room => {
                let bytes = file
                    .read_at(position, size)
                    .await
                    .map_err(Error::io("read", &path))?;
                self.store.note_read_bytes(segment, bytes.len());
                Ok(bytes)
            }
            _ => Ok(bytes),
        }
    }
}

/// Returns `len`, or a little less to fit the blocks around it into a buffer of a power of two.
fn buffer_len(len: usize, position: u64) -> usize {
    let within_block = index(position % BLOCK_BYTES as u64);
    if len.is_power_of_two() && len > BLOCK_BYTES {
        len - within_block
    } else {
        len
    }
}
