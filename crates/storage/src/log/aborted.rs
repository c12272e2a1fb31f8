//! Indexes of a sealed segment that have to be made anew, with the aborted transactions whose file is gone or damaged.
//!
//! Those follow from the batches: producers as of a snapshot before the segment (or of the log's first segment, where no
//! snapshot can be read), and everything replayed from there. Without that, readers at `read_committed` would be given the
//! records of aborted transactions and not be told. Which segments have such an index is noted in the log's folder, since
//! one that is missing says nothing: a segment without aborted transactions has none.

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
use crate::segment::{Loaded, Segment, load};

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

/// The segments of which it is noted that they have an index of aborted transactions. A note that cannot be read says
/// nothing, as for a log of Kafka.
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
    /// Has it noted whether a segment has an index of aborted transactions; durable when it returns.
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

    /// Notes what was found when the log was opened, where that is not what the note says.
    pub(super) async fn keep_noted(self, before: &BTreeSet<Offset>) {
        let now = self.noted_aborted();
        if *before == now {
            return;
        }
        if let Err(error) = self.write_noted(&now).await {
            tracing::warn!(partition = %self.partition, %error, "aborted transactions are not noted");
        }
    }

    /// The segments that have one.
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

    /// The indexes of a sealed segment by its batches.
    pub(super) async fn rebuilt(self, segment: &Rc<Segment<P>>) -> Result<Loaded> {
        let disk = self.store.disk();
        let options = self.index_options();
        let known = load::aborted_of(disk, segment, options).await?;
        let (aborted, says_none) = match known {
            Some(aborted) => (aborted, false),
            None => {
                let (aborted, is_sure) = self.aborted_in(segment).await?;
                let says_none = aborted.is_empty() && is_sure;
                (aborted, says_none)
            }
        };
        let file = segment.file(disk).await?;
        let rebuilt = load::rebuild(segment, &file, options, aborted).await?;
        if says_none {
            // What was noted has gone with a compaction, or was cut off.
            self.note_aborted(segment, false).await?;
        }
        Ok(rebuilt)
    }

    /// The transactions whose abort marker lies in a segment, and whether all before it is known that they follow from.
    async fn aborted_in(self, segment: &Rc<Segment<P>>) -> Result<(TxnIndex, bool)> {
        let (mut states, is_sure) = self.producers_at(segment.base).await?;
        let mut aborted = TxnIndex::new();
        let replayed = self.replay_segment(segment, &mut states, &mut aborted);
        match replayed.await? {
            // What was noted of it stays noted.
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
            // Of a marker that is damaged it is not known what it said.
            Some(Damage { hides: false, .. }) => Ok((aborted, false)),
        }
    }

    /// The producers as of `end`, which a segment begins with or the log ends with: from the newest snapshot before it
    /// that can be read, and the batches after that; and whether none of those is damaged.
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

    /// What the snapshot at `offset` says; `None` when it is damaged.
    pub(super) async fn snapshot_at(self, offset: Offset) -> Result<Option<Vec<ProducerSnapshot>>> {
        let path = file_path(&self.folder, offset, Role::Snapshot);
        let disk = self.store.disk();
        match disk.read_file_within(&path, snapshot::FILE_BYTES_MAX).await {
            Ok(bytes) => Ok(snapshot::parse_at(offset, &bytes).ok()),
            Err(error) if is_unreadable(&error) => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Shows the producers what a segment has beyond what they know; says where it is damaged, if it is.
    async fn replay_segment(
        self,
        segment: &Rc<Segment<P>>,
        states: &mut ProducerStates,
        aborted: &mut TxnIndex,
    ) -> Result<Option<Damage>> {
        let path = segment.path(Role::Log);
        // As of now: a cut may make it shorter meanwhile.
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
