//! Where the log starts: deletion of old segments by age and size, and of records by offset.
//!
//! Only segments wholly below the high watermark go. A deleted segment's files are renamed at once
//! and removed later, so that reads under way finish. The active segment goes like any other when
//! all of it is too old, after a roll. Ages are judged by a [`Reading`]: a wall clock that was just
//! set makes nothing old.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::clock::Reading;
use platform::disk::Disk;
use platform::task;
use wire::types::Offset;

use super::Log;
use super::files::remove_in_pieces;
use crate::error::{Error, FailureKind, Result};
use crate::log::views::{
    Appending, Flushing, Journaling, LogCondition, LogFolders, Looking, Retaining, Truncating,
    Upkeeping,
};
use crate::options::LogOptions;
use crate::segment::Segment;
use crate::segment::naming::{DELETED, Role, file_name, file_path};

/// The files that go with a segment's data.
const INDEXES: [Role; 4] = [
    Role::OffsetIndex,
    Role::TimeIndex,
    Role::TxnIndex,
    Role::Snapshot,
];

impl<P: Platform> Log<P> {
    /// Deletes the segments that retention and the log start offset allow; returns how many.
    pub async fn retain(&self, now: impl Into<Reading>) -> Result<usize> {
        let now = now.into();
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        // The log may have been closed meanwhile, and its folder opened as another log.
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let options = self.options();
        let count = Retaining(self).deletable(&options, now).await?;
        // A failed log cannot continue in another segment, and may not end where its last one does.
        let is_last = count == self.segment_count();
        let count = if is_last && LogCondition(self).is_beyond_repair() {
            count - 1
        } else {
            count
        };
        if count == 0 {
            return Ok(0);
        }
        if count == self.segment_count() {
            Appending(self).roll_now(now.wall_ms);
        }
        Retaining(self).name_first_to_stay(count).await?;
        let count = Retaining(self).keep_producers_before(count).await?;
        Retaining(self).delete_first(count).await?;
        Ok(count)
    }

    /// Deletes the records below `offset`, which is not beyond the high watermark.
    ///
    /// The owner saves the log start offset; segments wholly below it go with the next
    /// [`Log::retain`].
    pub fn set_log_start(&self, offset: Offset) -> Result<()> {
        let end = self.offsets.high_watermark();
        if offset > end {
            return Err(Error::OutOfRange {
                offset,
                start: self.offsets.start(),
                end,
            });
        }
        Retaining(self).advance_log_start(offset);
        self.check_cheap();
        Ok(())
    }
}

impl<P: Platform> Retaining<'_, P> {
    /// Renames a file of a segment as deleted; `None` when there is no such file.
    pub(super) async fn rename_deleted(
        self,
        segment: &Segment<P>,
        role: Role,
    ) -> Result<Option<PathBuf>> {
        let base = segment.base;
        let folder: &Path = if role == Role::Snapshot {
            &self.folder
        } else {
            &segment.folder
        };
        let from = file_path(folder, base, role);
        let to = folder.join(format!("{}{DELETED}", file_name(base, role)));
        match self.store.disk().rename(&from, &to).await {
            Ok(()) => Ok(Some(to)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("rename", &from)(error)),
        }
    }

    /// Gives the segment behind the first `count` its name, durably.
    ///
    /// When nothing is left of the others, the name says where the log continues, even if nothing
    /// was written to it yet.
    async fn name_first_to_stay(self, count: usize) -> Result<()> {
        let is_named = |segment: &Rc<Segment<P>>| segment.is_named();
        if !self.segments.all().get(count).is_some_and(is_named) {
            let _permit = Flushing(self.0).may_write().await?;
            // Without room the log may continue in another segment by now.
            let first = self.segments.all().get(count).cloned();
            if let Some(first) = first {
                Flushing(self.0).name_segment(&first).await?;
            }
        }
        // Before another name goes.
        Flushing(self.0).sync_names().await
    }

    /// Returns how many of the oldest segments may go.
    async fn deletable(self, options: &LogOptions, now: Reading) -> Result<usize> {
        let segments: Vec<_> = self.segments.snapshot();
        let safe = self.offsets.high_watermark().min(self.durable_offset());
        let mut excess = match options.retention_bytes {
            Some(bytes) if options.delete => self.size_bytes().checked_sub(bytes),
            _ => None,
        };
        let mut count = 0;
        for segment in &segments {
            let next = segment.next();
            let is_active = count + 1 == segments.len();
            let is_unlanded = Journaling(self.0).is_unlanded(segment);
            if next > safe || is_unlanded || segment.size() == 0 && is_active {
                break;
            }
            let below_start = next <= self.offsets.start() && !is_active;
            // An absent segment counts as empty: the log is large enough without it.
            let too_much = excess.is_some_and(|excess| excess >= segment.size());
            if !below_start && !too_much {
                // The age of an absent segment is not known: it goes with the next one that is
                // there.
                let mut there = segments.iter().skip(count);
                let judged = there.find(|segment| !segment.is_absent());
                let is_expired = match judged {
                    Some(segment) => self.is_expired(options, segment, now).await?,
                    None => false,
                };
                if !is_expired {
                    break;
                }
            }
            // The excess is used up once a larger segment goes.
            excess = excess.map(|excess| excess.saturating_sub(segment.size()));
            count += 1;
        }
        Ok(count)
    }

    /// Saves the producers as of the first segment that stays; returns how many segments may go.
    ///
    /// The batches that a start could rebuild them from go with the others. On a disk without room
    /// only those go for which such a snapshot already exists.
    async fn keep_producers_before(self, count: usize) -> Result<usize> {
        let bases: Vec<_> = {
            let segments = self.segments.all();
            let stay = segments.iter().skip(1).take(count);
            stay.map(|segment| segment.base).collect()
        };
        let Some(&base) = bases.last() else {
            return Ok(0);
        };
        // One that is not written any more is not taken later, either.
        Upkeeping(self.0).take_snapshot().await;
        let saved = Truncating(self.0).snapshots_on_disk().await?;
        if saved.contains(&base) {
            return Ok(count);
        }
        match Upkeeping(self.0).save_producers_as_of(base).await {
            Ok(()) => Ok(count),
            Err(error) if error.kind() == FailureKind::Full => {
                let kept = bases.iter().rposition(|base| saved.contains(base));
                kept.map(|at| at + 1).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn is_expired(
        self,
        options: &LogOptions,
        segment: &Rc<Segment<P>>,
        now: Reading,
    ) -> Result<bool> {
        let (Some(retention_ms), true) = (options.retention_ms, options.delete) else {
            return Ok(false);
        };
        let largest = Looking(self.0).largest_timestamp(segment).await?;
        let newest_ms = largest.map_or(segment.born_ms, |(timestamp, _)| timestamp.0);
        Ok(now.age_ms(newest_ms) > retention_ms)
    }

    /// Deletes the first `count` segments; at least one stays.
    ///
    /// Each deletion is durable before the next, so that after a power loss the segments that are
    /// left follow one another. A segment that cannot be deleted stays in the log.
    async fn delete_first(self, count: usize) -> Result<()> {
        for _ in 0..count {
            if self.is_closed() {
                return Err(Error::Closed);
            }
            let (oldest, next) = {
                let segments = self.segments.all();
                let (Some(oldest), Some(next)) = (segments.front(), segments.get(1)) else {
                    break;
                };
                (Rc::clone(oldest), next.base)
            };
            self.advance_log_start(next);
            let mut renamed = LogFolders(self.0).unname(&oldest).await?;
            Flushing(self.0).sync_names().await?;
            Upkeeping(self.0).forget_snapshots_upto(next);
            let event = self.segments.remove_first(&oldest);
            self.segment_changed(&event);
            self.check_invariants();
            let at_home = self.is_home(&oldest.folder);
            for role in INDEXES {
                if !at_home && role != Role::Snapshot {
                    continue;
                }
                match self.rename_deleted(&oldest, role).await {
                    Ok(path) => renamed.extend(path),
                    // The next start removes it.
                    Err(error) => tracing::warn!(%error, "an index of a deleted segment stays"),
                }
            }
            self.remove_later(renamed);
        }
        tracing::info!(partition = %self.partition, segments = count, log_start = %self.offsets.start(),
            "deleted old segments");
        Ok(())
    }

    pub(super) fn remove_later(self, paths: Vec<PathBuf>) {
        let delay = Duration::from_millis(self.options().file_delete_delay_ms);
        let store = self.store.clone();
        task::spawn(async move {
            store.clock().sleep(delay).await;
            for path in paths {
                if let Err(error) = remove_in_pieces(store.disk(), &path).await {
                    // The next start removes it.
                    tracing::warn!(%error, "a deleted segment's file stays");
                }
            }
            store.shared.room_made.notify_waiters();
        });
    }

    fn advance_log_start(self, offset: Offset) {
        if offset <= self.offsets.start() {
            return;
        }
        assert!(
            offset <= self.offsets.high_watermark(),
            "only what is committed is deleted"
        );
        self.offsets.advance_start(offset);
        if self.epochs.borrow_mut().truncate_from_start(offset) {
            self.epochs_dirty.set(true);
            Flushing(self.0).request_flush();
        }
        self.producers.borrow_mut().advance_log_start(offset);
        // Readers learn where it begins.
        self.tell();
    }
}
