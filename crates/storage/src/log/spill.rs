//! Moves bytes that are in memory to a segment on another path, when their path has no room or is
//! skipped (`log/taken.rs`).
//!
//! What was written stays where it is; the segment ends there. Nothing that was acknowledged moves,
//! and nothing that waits is lost: its bytes are in memory until they are written elsewhere. Where
//! no path has room the log is full, as on one disk.
//! Invariants: a file whose bytes have all gone elsewhere is removed, durably, before anything is
//! written to the new one, so that a start never has records in two to choose from. The new one has
//! its name before, durably, or the old one stays: at every moment a name says where the log
//! continues, or a start would begin it again at an older offset, or at a younger one.

use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;

use super::files::remove;
use super::indexes::Indexes;
use super::txn_index::TxnIndex;
use crate::error::{Error, Result};
use crate::log::views::{Flushing, LogFolders, LogTiers, Spilling, Upkeeping};
use crate::segment::naming::Role;
use crate::segment::{LoadedIndexes, Segment};

impl<P: Platform> Spilling<'_, P> {
    /// Puts unwritten bytes on paths with room, after a write without room or a folder of another
    /// owner.
    ///
    /// Returns true when something changed.
    pub(crate) async fn spill(self, error: &Error) -> Result<bool> {
        let (Some(tiers), Error::Full { path } | Error::Taken { path, .. }) =
            (self.store.tiers(), error)
        else {
            return Ok(false);
        };
        let Some(full) = tiers.holding(path) else {
            return Ok(false);
        };
        let is_full = matches!(error, Error::Full { .. });
        if is_full {
            full.note_full();
        }
        let _permit = Flushing(self.0).may_write().await?;
        // The log may have been closed meanwhile, and its folder opened as another log.
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let mut spilled = false;
        for segment in self.segments.unsealed() {
            if !segment.is_unwritten() || !segment.folder.starts_with(full.dir()) {
                continue;
            }
            let Some(folder) = LogTiers(self.0).folder_with_room() else {
                break;
            };
            let was_named = segment.is_named();
            if folder.starts_with(full.dir()) {
                break;
            }
            let Some(new) = self.successor(&segment, folder) else {
                break;
            };
            let is_empty = segment.written() == 0;
            let is_named = is_empty && self.name_before_leaving(&segment, &new).await;
            if is_empty && was_named && !is_named {
                LogFolders(self.0).stay_in(&segment, &new).await;
                break;
            }
            if !self.split(&segment, &new) {
                if is_empty {
                    LogFolders(self.0).stay_in(&segment, &new).await;
                }
                break;
            }
            spilled = true;
            let left = Flushing(self.0)
                .patiently(async || self.leave_behind(&segment, &new, was_named).await);
            if let Err(error) = left.await {
                self.fail(&error);
                return Err(error);
            }
        }
        if spilled {
            if is_full {
                tracing::warn!(partition = %self.partition, full = %full.dir().display(),
                    "no room: what was not written yet goes to another tier");
            }
            Upkeeping(self.0).start_upkeep();
        }
        Ok(spilled)
    }

    /// Names the segment that takes the place of an empty one, before that loses its own name.
    ///
    /// Returns false where there is no room even for a name.
    async fn name_before_leaving(self, old: &Segment<P>, new: &Segment<P>) -> bool {
        let named = Flushing(self.0).patiently(async || {
            Flushing(self.0).name_in_place_of(new, old).await?;
            Flushing(self.0).sync_names().await
        });
        let named = named.await;
        if let Err(error) = &named {
            tracing::debug!(partition = %self.partition, %error, "a segment that goes elsewhere has no name yet");
        }
        named.is_ok()
    }

    /// Removes what the failed write may have left of the bytes that go elsewhere, before they
    /// count there.
    ///
    /// It is durable when it returns: a start would take these bytes for the log, and misjudge what
    /// follows them.
    async fn leave_behind(
        self,
        segment: &Segment<P>,
        new: &Segment<P>,
        was_named: bool,
    ) -> Result<()> {
        if segment.written() > 0 {
            Upkeeping(self.0).cut_to_length(segment).await?;
            // What follows may get its name now: of two names the first is durable first.
            return Flushing(self.0).sync_names().await;
        }
        if LogFolders(self.0).was_refused(segment) {
            segment.close_file();
            return Ok(());
        }
        if !self.is_home(&segment.folder) {
            // A file that could not be made may exist, and the note of it does.
            segment.close_file();
            // Home may already have the note of the new one.
            if self.is_home(&new.folder) || !new.is_named() {
                LogFolders(self.0).note_gone(segment).await?;
            }
            return LogFolders(self.0).remove_empty(segment, &new.folder).await;
        }
        if was_named {
            segment.close_file();
            remove(self.store.disk(), &segment.path(Role::Log)).await?;
            LogFolders(self.0).note_gone(segment).await?;
            Flushing(self.0).sync_names().await?;
        }
        Ok(())
    }

    /// Returns an empty segment in `folder` for what is not written of `old`, which begins there.
    fn successor(self, old: &Segment<P>, folder: Rc<Path>) -> Option<Rc<Segment<P>>> {
        let written = old.written();
        let first = old.resident_header(written)?.base_offset;
        // A gap before the first batch of a segment belongs to the segment.
        let boundary = if written == 0 { old.base } else { first };
        let charge = self.store.charge(&folder, 0);
        let now_ms = self.store.clock().wall_ms();
        let loaded = LoadedIndexes {
            indexes: Indexes::new(boundary, self.index_options()),
            aborted: TxnIndex::new(),
        };
        let segment = Segment::fresh(folder, boundary, loaded, charge, now_ms);
        Some(Rc::new(segment))
    }

    /// Ends a segment where it is written, and puts the rest into its successor.
    ///
    /// Returns false when memory is short.
    fn split(self, old: &Rc<Segment<P>>, new: &Rc<Segment<P>>) -> bool {
        let parts = old.tail().slices(old.written()..old.size());
        let (Some(_), Some(parts)) = (self.segments.place_of(old), parts) else {
            return false;
        };
        let len = parts.iter().map(Bytes::len).sum(); // Bounded: lengths of bytes in memory.
        let Some(chunks) = self.store.shared.memory.take(new, len) else {
            return false;
        };
        let event = self.segments.split(old, new, (&parts, chunks));
        self.segment_changed(&event);
        self.check_invariants();
        true
    }
}
