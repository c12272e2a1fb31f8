//! Rebuilds the indexes of a sealed segment, with the aborted transactions whose file is gone or
//! damaged.
//!
//! The transactions follow from the batches: from the producers as of a snapshot before the segment
//! (or of the log's first segment, where no snapshot can be read), and all batches replayed from
//! there. Without them, readers at `read_committed` would get the records of aborted transactions
//! without notice. The log's folder has a note that lists the segments with such an index, because
//! a missing file proves nothing: a segment without aborted transactions has none.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, is_unreadable};
use wire::types::Offset;

use super::producer_state::{ProducerSnapshot, ProducerStates, snapshot};
use super::replay::{Damage, replay, tell_of};
use super::txn_index::TxnIndex;
use crate::checkpoint::aborted_segments;
use crate::error::{Error, Result};
use crate::log::views::{Rebuilding, Truncating};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;
use crate::segment::stamps::FileEnd;
use crate::segment::{LoadedIndexes, Segment, load};

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

/// Reads which segments are noted to have an index of aborted transactions.
///
/// A note that cannot be read counts as empty, as for a log of Kafka.
pub(super) async fn read_noted<D: Disk>(disk: &D, home: &Path) -> Result<BTreeSet<Offset>> {
    let path = home.join(aborted_segments::FILE);
    let found = match disk.read_file(&path).await {
        Ok(bytes) => aborted_segments::parse(&path, &bytes).map_err(|error| error.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) if is_unreadable(&error) => Err(error.to_string()),
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    Ok(found.unwrap_or_else(|error| {
        tracing::warn!(%error, "the note of aborted transactions is damaged and is written anew");
        BTreeSet::new()
    }))
}

impl<P: Platform> Rebuilding<'_, P> {
    /// Notes whether a segment has an index of aborted transactions; durable when it returns.
    pub(super) async fn note_aborted(self, segment: &Segment<P>, has_any: bool) -> Result<()> {
        if segment.notes_aborted() == has_any {
            return Ok(());
        }
        let mut noted = self.noted_aborted();
        if has_any {
            noted.insert(segment.base);
        } else {
            noted.remove(&segment.base);
        }
        self.write_noted(&noted).await?;
        segment.set_notes_aborted(has_any);
        Ok(())
    }

    /// Notes what was found when the log was opened, if the note differs.
    pub(super) async fn keep_noted(self, before: &BTreeSet<Offset>) {
        let now = self.noted_aborted();
        if *before == now {
            return;
        }
        if let Err(error) = self.write_noted(&now).await {
            tracing::warn!(partition = %self.partition, %error, "aborted transactions are not noted");
        }
    }

    /// Returns the base offsets of the segments that have one.
    pub(super) fn noted_aborted(self) -> BTreeSet<Offset> {
        let segments = self.segments.all();
        let noted = segments.iter().filter(|segment| segment.notes_aborted());
        noted.map(|segment| segment.base).collect()
    }

    pub(super) async fn write_noted(self, noted: &BTreeSet<Offset>) -> Result<()> {
        let path = self.folder.join(aborted_segments::FILE);
        let bytes = aborted_segments::encode(noted);
        let written = self.store.disk().replace_file(&path, &bytes).await;
        written.map_err(Error::io("write", &path))
    }

    /// Rebuilds the indexes of a sealed segment from its batches.
    pub(super) async fn rebuilt(self, segment: &Rc<Segment<P>>) -> Result<LoadedIndexes> {
        let disk = self.store.disk();
        let options = self.index_options();
        let known = load::aborted_of(disk, segment, options).await?;
        let (aborted, says_none) = if let Some(aborted) = known {
            (aborted, false)
        } else {
            let (aborted, is_sure) = self.aborted_in(segment).await?;
            let says_none = aborted.is_empty() && is_sure;
            (aborted, says_none)
        };
        let file = segment.file(disk).await?;
        let rebuilt = load::rebuild(segment, &file, options, aborted).await?;
        if says_none {
            // The noted transactions have gone with a compaction or a truncation.
            self.note_aborted(segment, false).await?;
        }
        Ok(rebuilt)
    }

    /// Returns the transactions whose abort marker lies in a segment.
    ///
    /// The flag is true when everything before the segment that they follow from is known.
    async fn aborted_in(self, segment: &Rc<Segment<P>>) -> Result<(TxnIndex, bool)> {
        let (mut states, is_sure) = self.producers_at(segment.base).await?;
        let mut aborted = TxnIndex::new();
        let replayed = self.replay_segment(segment, &mut states, &mut aborted);
        match replayed.await? {
            // The note of this segment stays.
            Some(Damage {
                position,
                reason,
                hides: true,
            }) => Err(Error::Corrupt {
                path: segment.path(Role::Log),
                position,
                reason,
            }),
            None => Ok((aborted, is_sure)),
            // The outcome of a damaged marker is not known.
            Some(Damage { hides: false, .. }) => Ok((aborted, false)),
        }
    }

    /// Returns the producers as of `end`, where a segment begins or the log ends.
    ///
    /// They come from the newest readable snapshot that is not past `end`, and the batches after
    /// it. The flag is true when none of these is damaged.
    pub(super) async fn producers_at(self, end: Offset) -> Result<(ProducerStates, bool)> {
        let mut is_sure = true;
        let now = self.store.clock().reading();
        let expiration_ms = self.options().producer_id_expiration_ms;
        let first = self.segments.first().base;
        let mut states = ProducerStates::new(first.min(end));
        let snapshots = Truncating(self.0).snapshots_on_disk().await?;
        for offset in snapshots.into_iter().rev().filter(|at| *at <= end) {
            if let Some(producers) = self.snapshot_at(offset).await? {
                states = ProducerStates::restore(offset, &producers, now, expiration_ms);
                break;
            }
        }
        while states.end() < end {
            let Some(segment) = self.segments.holding(states.end()) else {
                break;
            };
            let mut aborted = TxnIndex::new();
            let replayed = self.replay_segment(&segment, &mut states, &mut aborted);
            if let Some(damage) = replayed.await? {
                tell_of(&segment.path(Role::Log), damage);
                is_sure = false;
                self.store.shared.metrics.corruptions.inc();
            }
            states.advance_log_start(segment.next());
        }
        Ok((states, is_sure))
    }

    /// Returns the producers in the snapshot at `offset`; `None` when it is damaged.
    pub(super) async fn snapshot_at(self, offset: Offset) -> Result<Option<Vec<ProducerSnapshot>>> {
        let path = file_path(&self.folder, offset, Role::Snapshot);
        let disk = self.store.disk();
        match disk.read_file_within(&path, snapshot::FILE_BYTES_MAX).await {
            Ok(bytes) => Ok(snapshot::parse_at(offset, &bytes).ok()),
            Err(error) if is_unreadable(&error) => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Shows `states` what they lack of a segment; returns the segment's damage, if any.
    async fn replay_segment(
        self,
        segment: &Rc<Segment<P>>,
        states: &mut ProducerStates,
        aborted: &mut TxnIndex,
    ) -> Result<Option<Damage>> {
        let path = segment.path(Role::Log);
        // As of now: a truncation may shorten the segment meanwhile.
        let (size, next) = (segment.size(), segment.next());
        let end = FileEnd {
            position: size,
            next: Some(next),
            bound: next,
        };
        let file = segment.file(self.store.disk()).await?;
        let mut scan = Scan::new(&file, 0, size, WALK_BYTES);
        let replayed = replay(&mut scan, (segment.base, end), states, |txn| {
            aborted.append(txn);
        });
        replayed.await.map_err(Error::io("read", &path))
    }
}
