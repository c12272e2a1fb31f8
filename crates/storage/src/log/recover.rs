//! Finds out, at the start, what a log consists of and where it ends.
//!
//! After a clean stop, lengths and indexes are trusted; only what the last index entry leaves open
//! is read. After a crash, everything below the recovery point is trusted. The rest is read, batch
//! by batch, and the log ends at the first position where no valid batch follows: right length,
//! format, CRC, offset, and an epoch that does not fall. What comes after is cut off, and segments
//! after it are removed, so that nothing stale can ever be taken for a batch later; where it is
//! more than what was being written when the process ended, it is set aside (`recover/cut_off.rs`).
//! Producers are restored from the newest snapshot that is not past the trusted part, and the
//! batches after it.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of disks reach this: an index out of bounds ends the broker"
    )
)]

use std::collections::VecDeque;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Medium};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset, TopicId};

use super::epoch_cache::EpochCache;
use super::indexes::{IndexOptions, Indexes};
use super::open::folder::Folder;
use super::producer_state::ProducerStates;
use super::txn_index::TxnIndex;
use crate::error::{Error, Result};
use crate::options::{LogOptions, OpenAs};
use crate::segment::naming::Role;
use crate::segment::scan::{ExpectedBatch, Scan};
use crate::segment::{File, LoadedIndexes, Segment, load};
use crate::store::Store;

mod cut_off;
mod ending;
mod epochs;
mod producers;
mod stamps;

pub(crate) use cut_off::has_batch_behind;

/// No log gets that long: an offset from here on is damage.
const OFFSET_MAX: Offset = Offset(1 << 62);

/// Bytes of one read while batches are verified.
const VERIFY_BYTES: usize = 1 << 20;
/// Bytes of one read while only headers are looked at.
const WALK_BYTES: usize = 16 << 10;

/// The state of a log as it was found.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of what was found"
)]
pub(super) struct RecoveredLog<P: Platform> {
    pub(super) segments: VecDeque<Rc<Segment<P>>>,
    pub(super) log_start: Offset,
    pub(super) end: Offset,
    pub(super) recovery_point: Offset,
    pub(super) epochs: EpochCache,
    pub(super) epochs_changed: bool,
    pub(super) producers: ProducerStates,
    /// Bytes that had to be verified.
    pub(super) scanned_bytes: u64,
    /// True when the log is what a clean stop leaves, or new.
    left_clean: bool,
    /// Its files are what a clean stop leaves, but for the snapshot of producers.
    pub(super) is_as_left: bool,
    /// Names in its folder may not be durable: they have to be before what is appended counts.
    pub(super) are_names_unsure: bool,
}

/// A recovery under way.
struct Recovery<'a, P: Platform> {
    store: &'a Store<P>,
    folder: &'a Folder,
    options: &'a LogOptions,
    clean: bool,
    /// Compaction may have left gaps between offsets: it is enabled, or has run.
    gaps: bool,
    epochs: EpochCache,
    /// The epochs in the file differ from those of the batches.
    epochs_differ: bool,
    /// The epoch of the last batch that was checked.
    met_epoch: Option<LeaderEpoch>,
    producers: ProducerStates,
    scanned_bytes: u64,
    now_ms: i64,
    /// Everything below was durable, if the checkpoint is right.
    durable: Offset,
    topic_id: TopicId,
}

/// What was found of one segment.
struct CheckedSegment {
    size: u64,
    expected: ExpectedBatch,
    /// All bytes of the file are batches.
    whole: bool,
    /// Its index names transactions that ended behind its end.
    is_misled: bool,
}

/// Recovers the log in `folder`.
pub(super) async fn recover<P: Platform>(
    store: &Store<P>,
    folder: &Folder,
    options: &LogOptions,
    how: OpenAs,
    epochs: EpochCache,
    topic_id: TopicId,
) -> Result<RecoveredLog<P>> {
    let how = plausible(how, folder);
    let trusted = if how.clean {
        Offset(i64::MAX)
    } else {
        how.recovery_point
    };
    let before = epochs.clone();
    let recovery = |clean, epochs| Recovery {
        store,
        folder,
        options,
        clean,
        gaps: options.compact || how.compacted.is_some(),
        epochs,
        epochs_differ: false,
        met_epoch: None,
        producers: ProducerStates::new(how.log_start),
        scanned_bytes: 0,
        now_ms: store.clock().wall_ms(),
        durable: how.recovery_point,
        topic_id,
    };
    let mut recovered = recovery(how.clean, epochs.clone())
        .run(trusted, how)
        .await?;
    if recovered.is_none() && how.clean {
        tracing::warn!(folder = %folder.path.display(),
            "the log does not end as a clean stop leaves it and is checked");
        recovered = recovery(false, epochs).run(how.recovery_point, how).await?;
    }
    if !recovered.as_ref().is_some_and(|found| found.left_clean) {
        store.shared.metrics.recovered_logs.inc();
    }
    let mut recovered = recovered.ok_or(Error::Corrupt {
        path: folder.path.to_path_buf(),
        position: 0,
        reason: "the log cannot be recovered",
    })?;
    recovered.epochs.truncate_from_end(recovered.end);
    recovered.epochs.truncate_from_start(recovered.log_start);
    recovered.epochs_changed = recovered.epochs != before;
    store
        .shared
        .metrics
        .recovered_bytes
        .inc_by(recovered.scanned_bytes);
    Ok(recovered)
}

/// Returns true for the header of a batch that a segment with this base may have.
fn begins_right(header: &BatchHeader, base: Offset) -> bool {
    header.magic == crate::segment::scan::MAGIC
        && header.base_offset >= base
        && header.last_offset_delta >= 0
}

/// Returns what is known of the log, without impossible values.
fn plausible(mut how: OpenAs, folder: &Folder) -> OpenAs {
    for (offset, name) in [
        (&mut how.log_start, "log start"),
        (&mut how.recovery_point, "recovery point"),
    ] {
        if *offset < Offset::ZERO || *offset >= OFFSET_MAX {
            tracing::warn!(folder = %folder.path.display(), %offset, checkpoint = name,
                "a checkpoint says what cannot be, and is not used");
            *offset = Offset::ZERO;
        }
    }
    how
}

impl<P: Platform> Recovery<'_, P> {
    /// Runs the recovery; `None` when the log is not what a clean stop leaves.
    async fn run(mut self, trusted: Offset, how: OpenAs) -> Result<Option<RecoveredLog<P>>> {
        let bases = self.folder.bases();
        if bases.is_empty() {
            return Ok(Some(self.empty(how.log_start)));
        }
        let opened = self.first_opened(&bases, trusted);
        self.refuse_absent(bases.split_at(opened).1)?; // Bounded: one of them is opened.
        let mut segments = self.sealed(&bases, opened);
        let (last, indexes, start) = self.starting_point(&bases, opened, trusted).await?;
        // If the segment is read without its indexes, all of it has to be replayed to find its
        // aborted transactions.
        let snapshot_max = if start.position == 0 {
            last.base
        } else {
            trusted
        };
        self.restore_producers(&segments, &last, start, snapshot_max)
            .await?;
        let mut expected = start.expected;
        let mut next_segment = Some((last, indexes, start.position));
        let mut at = opened;
        let mut is_durable = !self.clean;
        while let Some((segment, mut loaded, position)) = next_segment.take() {
            let next = bases.get(at + 1).copied();
            let checked = self.check(&segment, &mut loaded, position, expected, next);
            let checked = checked.await?;
            if self.clean && (!checked.whole || checked.is_misled) {
                return Ok(None);
            }
            let follows = self.follows(&checked, next, how.log_start);
            if !checked.whole || !follows {
                self.open_to_write(&segment).await?;
            }
            expected = checked.expected;
            is_durable &= self.was_durable(&segment, &checked);
            self.settle(&segment, loaded, &checked).await?;
            segments.push_back(Rc::clone(&segment));
            at += 1;
            let Some(&base) = bases.get(at) else { break };
            if !follows {
                is_durable = false;
                self.discard(bases.split_at(at).1).await?; // Bounded: there is one there.
                break;
            }
            segment.roll(base);
            expected.offset = base;
            let loaded = LoadedIndexes {
                indexes: Indexes::new(base, self.index_options()),
                aborted: TxnIndex::new(),
            };
            next_segment = Some((self.stored(base, base), loaded, 0));
        }
        self.ended(
            segments,
            (&bases, how),
            &start,
            (expected.offset, is_durable),
        )
        .await
    }

    /// Ends a recovery whose segments have been read up to `end`; `is_durable` says that a kill has
    /// left nothing unsynced in them.
    async fn ended(
        mut self,
        segments: VecDeque<Rc<Segment<P>>>,
        (bases, how): (&[Offset], OpenAs),
        start: &Start,
        (end, mut is_durable): (Offset, bool),
    ) -> Result<Option<RecoveredLog<P>>> {
        let Some(&first) = bases.first() else {
            return Ok(Some(self.empty(how.log_start)));
        };
        if start.is_gap && end != how.recovery_point {
            return Ok(None);
        }
        if self.producers.end() > end && !self.restore_below(&segments, end).await? {
            return Ok(None);
        }
        let log_start = self.log_start(how, first, end);
        if log_start > end {
            tracing::warn!(folder = %self.folder.path.display(), %end, %log_start,
                "the log ends before its start offset and begins anew there");
            self.discard(bases).await?;
            return Ok(Some(self.empty(log_start)));
        }
        self.settle_epochs(&segments, end).await?;
        // A log that ends before what was durable is not what it was.
        is_durable &= end == self.durable && !self.epochs_differ;
        self.prepare_active(&segments, is_durable).await?;
        self.producers.advance_log_start(log_start);
        let known = if self.clean { end } else { how.recovery_point };
        let recovery_point = known.min(end);
        let is_as_left = self.clean && start.is_indexed && self.folder.look.is_at_rest();
        assert!(log_start <= end && recovery_point <= end, "a log ends last");
        let mut finished = self.finish(segments, log_start, end, recovery_point);
        finished.are_names_unsure = is_durable;
        finished.is_as_left = is_as_left;
        Ok(Some(finished))
    }

    /// Returns true when all that a segment of a killed process has was synced before the kill: it
    /// lies below a recovery point, and nothing says that the log was cut.
    ///
    /// Such a log need not be synced by the start, which has ten thousand of them: of names that
    /// are not durable, such as that of an empty segment, no record depends, until the next flush
    /// syncs them first.
    fn was_durable(&self, segment: &Segment<P>, checked: &CheckedSegment) -> bool {
        !self.clean
            && self.folder.look.is_at_rest()
            && checked.whole
            && checked.expected.offset <= self.durable
            && segment.folder == self.folder.path
    }

    /// Returns the position of the first segment that is read; those before it are trusted.
    fn first_opened(&self, bases: &[Offset], trusted: Offset) -> usize {
        // Strictly below: the segment that ends at the recovery point may have been saved while it
        // was active, and not sealed since.
        let below = bases.partition_point(|base| *base < trusted);
        let opened = below.saturating_sub(1);
        let base = bases.get(opened);
        let is_absent = base.is_some_and(|base| self.folder.absent.contains_key(base));
        // An absent segment cannot be sealed now; it was durable up to the next one.
        if is_absent && bases.get(below).is_some_and(|next| *next <= trusted) {
            return below;
        }
        opened
    }

    /// Returns true when the segment at `next` follows what was found of the one before.
    fn follows(&self, checked: &CheckedSegment, next: Option<Offset>, log_start: Offset) -> bool {
        let end = checked.expected.offset;
        next.is_some_and(|base| {
            // Behind a gap, a segment follows only if all of the one before is valid.
            let gap = self.gaps && checked.whole && base > end;
            // What lies before the log start was deleted. One such segment may have stayed, with a
            // hole behind it that means nothing.
            base == end || gap || (base > end && base <= log_start)
        })
    }

    /// Returns where the log starts, by what is known and what was found.
    fn log_start(&self, how: OpenAs, first: Offset, end: Offset) -> Offset {
        let folder = self.folder.path.display();
        let log_start = how.log_start.max(first);
        if how.recovery_point > end && !self.clean {
            tracing::error!(%folder, %end, recovery_point = %how.recovery_point,
                "the log ends before what was durable: records are missing, or the checkpoint is wrong");
        }
        if log_start > end && self.clean {
            // A clean stop leaves a whole log, so the checkpoint is wrong.
            tracing::warn!(%folder, %end, %log_start,
                "the checkpoint of log starts is beyond the end of the log, and is not used");
            return first;
        }
        log_start
    }

    fn finish(
        self,
        segments: VecDeque<Rc<Segment<P>>>,
        log_start: Offset,
        end: Offset,
        recovery_point: Offset,
    ) -> RecoveredLog<P> {
        RecoveredLog {
            segments,
            log_start,
            end,
            recovery_point,
            epochs: self.epochs,
            epochs_changed: false,
            producers: self.producers,
            scanned_bytes: self.scanned_bytes,
            left_clean: self.clean || self.met_epoch.is_none(),
            is_as_left: false,
            are_names_unsure: false,
        }
    }

    /// Returns true for the metadata log.
    ///
    /// Its whole batches are not removed or set aside unless an operator does it.
    fn is_metadata(&self) -> bool {
        self.topic_id == TopicId::METADATA
    }

    fn index_options(&self) -> IndexOptions {
        IndexOptions {
            interval_bytes: self.options.index_interval_bytes,
            bytes_max: self.options.index_bytes_max,
        }
    }

    /// Returns a log without records.
    fn empty(mut self, base: Offset) -> RecoveredLog<P> {
        let loaded = LoadedIndexes {
            indexes: Indexes::new(base, self.index_options()),
            aborted: TxnIndex::new(),
        };
        let path = Rc::clone(&self.folder.path);
        let charge = self.store.charge(&path, 0);
        let segment = Segment::fresh(path, base, loaded, charge, self.now_ms);
        let segment = Rc::new(segment);
        self.producers = ProducerStates::new(base);
        self.epochs.clear();
        self.finish(VecDeque::from([segment]), base, base, base)
    }

    /// Returns true when a segment has nothing to be read, and its file nothing to be opened for:
    /// most logs of a start are idle, and many are empty.
    ///
    /// A file that is mapped, or on another path, is opened in any case.
    fn is_plainly_empty(&self, segment: &Segment<P>) -> bool {
        segment.size() == 0
            && segment.folder == self.folder.path
            && self.store.disk().medium(&segment.folder) == Medium::File
            && !self.store.opens_step_by_step()
    }

    /// Reads the indexes of a segment, as the look at the log's folder found them or from the disk.
    async fn indexes_of(&self, segment: &Segment<P>) -> Result<Option<LoadedIndexes>> {
        let (disk, look) = (self.store.disk(), Some(&self.folder.look));
        load::indexes_of(disk, segment, self.index_options(), look).await
    }

    fn stored(&self, base: Offset, next: Offset) -> Rc<Segment<P>> {
        let Some(file) = self.folder.logs.get(&base).cloned() else {
            return Rc::new(self.absent(base, next));
        };
        let charge = self.store.charge(&file.folder, file.len);
        let notes_aborted = self.folder.aborted.contains(&base);
        let ages = file.ages(self.now_ms);
        let (folder, span) = (file.folder, (base, next));
        let segment = Segment::found(folder, span, file.len, ages, notes_aborted, charge);
        Rc::new(segment)
    }

    /// Returns a segment that holds the place of one on an absent path.
    fn absent(&self, base: Offset, next: Offset) -> Segment<P> {
        let place = self.folder.absent.get(&base);
        let place = place.expect("a base is that of a file or of a note");
        let name = self.folder.path.file_name();
        let folder = place.dir.join(name.expect("a log's folder has a name"));
        Segment::absent(folder.into(), (base, next), self.now_ms)
    }

    /// Refuses an absent segment among `bases`: where the log ends is not known without its last
    /// segment.
    fn refuse_absent(&self, bases: &[Offset]) -> Result<()> {
        let absent = bases
            .iter()
            .find(|base| self.folder.absent.contains_key(base));
        match absent {
            Some(&base) => self.absent(base, base).absence().map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Returns the segments before the `opened`-th, trusted as they are.
    fn sealed(&self, bases: &[Offset], opened: usize) -> VecDeque<Rc<Segment<P>>> {
        let pairs = bases.iter().zip(bases.iter().skip(1)).take(opened);
        pairs
            .map(|(&base, &next)| {
                let segment = self.stored(base, next);
                segment.trust();
                segment
            })
            .collect()
    }

    /// Returns the first segment to be read, its index of the trusted part, and where the rest
    /// begins.
    async fn starting_point(
        &self,
        bases: &[Offset],
        opened: usize,
        trusted: Offset,
    ) -> Result<(Rc<Segment<P>>, LoadedIndexes, Start)> {
        let base = bases.get(opened).copied();
        let base = base.expect("one is looked at, if there is any");
        let segment = self.stored(base, base);
        let gaps = self.gaps;
        let mut start = Start {
            position: 0,
            expected: ExpectedBatch {
                offset: base,
                gaps,
                epoch: LeaderEpoch(i32::MIN),
            },
            is_gap: false,
            is_indexed: self.is_plainly_empty(&segment),
        };
        if trusted > base
            && !self.is_plainly_empty(&segment)
            && let Some(mut loaded) = self.indexes_of(&segment).await?
        {
            let entry = loaded.indexes.offsets.lookup(trusted);
            let position = u64::from(entry.position);
            let file = self.file_of(&segment).await?;
            let path = segment.path(Role::Log);
            let mut scan = Scan::new(&file, position, segment.size(), WALK_BYTES);
            let header = scan.header().await.map_err(Error::io("read", &path))?;
            if let Some(header) = header.filter(|header| begins_right(header, base))
                && (position == 0 || header.last_offset() == entry.offset)
                && (self.clean
                    || scan
                        .crc_is_right(&header)
                        .await
                        .map_err(Error::io("read", &path))?)
            {
                start.position = position;
                start.is_indexed = true;
                // The batches decide: the epochs in a file are no reason to refuse a batch.
                // No index entry and no CRC says where the first batch begins. It begins with its
                // segment; or behind a gap, in a log adopted after a clean stop of another broker,
                // if the log then ends where it was durable.
                let says_gap = base < header.base_offset && header.base_offset < self.durable;
                start.is_gap = position == 0 && self.clean && !gaps && says_gap;
                start.expected = ExpectedBatch {
                    offset: if position > 0 || start.is_gap {
                        header.base_offset
                    } else {
                        base
                    },
                    gaps,
                    epoch: LeaderEpoch(i32::MIN),
                };
                // The entry's own batch is noted again when it is checked.
                loaded.indexes.truncate_to(start.expected.offset);
                loaded.aborted.truncate_to(trusted);
                self.observe_trusted(&segment, &file, &mut loaded, position)
                    .await?;
                return Ok((segment, loaded, start));
            }
        }
        let loaded = LoadedIndexes {
            indexes: Indexes::new(base, self.index_options()),
            aborted: TxnIndex::new(),
        };
        Ok((segment, loaded, start))
    }

    /// Shows the index the batches after its last time entry, whose timestamps it lacks.
    async fn observe_trusted(
        &self,
        segment: &Segment<P>,
        file: &File<P>,
        loaded: &mut LoadedIndexes,
        upto: u64,
    ) -> Result<()> {
        let from = u64::from(loaded.indexes.observe_from());
        let mut scan = Scan::new(file, from, upto, WALK_BYTES);
        let path = segment.path(Role::Log);
        while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
            loaded.indexes.observe(&header);
            scan.skip(&header);
        }
        Ok(())
    }

    /// Checks and notes the batches of a segment from `position` on, up to the first that is not
    /// valid.
    async fn check(
        &mut self,
        segment: &Segment<P>,
        loaded: &mut LoadedIndexes,
        position: u64,
        mut expected: ExpectedBatch,
        next: Option<Offset>,
    ) -> Result<CheckedSegment> {
        let len = segment.size();
        if self.is_plainly_empty(segment) {
            return Ok(CheckedSegment {
                size: len,
                expected,
                whole: true,
                is_misled: loaded.aborted.truncate_to(expected.offset),
            });
        }
        let file = self.file_of(segment).await?;
        let path = segment.path(Role::Log);
        let io = |error| Error::io("read", &path)(error);
        let window = if self.clean { WALK_BYTES } else { VERIFY_BYTES };
        let mut scan = Scan::new(&file, position, len, window);
        while let Some(header) = scan.header().await.map_err(io)? {
            if expected.refuses(&header).is_some()
                || (!self.clean && !scan.crc_is_right(&header).await.map_err(io)?)
                || self
                    .is_out_of_line(&mut scan, &header, expected, next)
                    .await?
            {
                break;
            }
            loaded.indexes.append(&header, scan.position());
            self.note_epoch(&header);
            self.replay(&mut scan, &header, loaded, &path).await?;
            segment.note_first_timestamp(header.max_timestamp.0);
            expected = expected.after(&header);
            scan.skip(&header);
        }
        let is_misled = loaded.aborted.truncate_to(expected.offset);
        let size = scan.position();
        if !self.clean {
            self.scanned_bytes += size - position;
        }
        Ok(CheckedSegment {
            size,
            expected,
            whole: size == len,
            is_misled,
        })
    }
}

/// Where the part to be checked begins.
#[derive(Clone, Copy)]
struct Start {
    position: u64,
    expected: ExpectedBatch,
    /// The header of the segment's first batch says that it begins behind the segment's base.
    is_gap: bool,
    /// The segment's indexes are right, or it is empty.
    is_indexed: bool,
}
