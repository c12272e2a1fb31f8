//! A path that has no room for bytes that are in memory, or is passed over (`log/taken.rs`): they become a segment of their
//! own on another path.
//!
//! What was written stays where it is; the segment ends there. Nothing that was acknowledged moves, and nothing that waits
//! is lost: its bytes are in memory until they are written elsewhere. Where no path has room the log is full, as on one
//! disk.
//! Invariants: a file whose bytes have all gone elsewhere is removed, durably, before anything is written to the new one, so
//! that a start never has records in two to choose from. The new one has its name before, durably, or the old one stays:
//! where the log goes on is said by a name at every moment, or a start would begin it anew at an older offset, or at a
//! younger one.

use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use wire::types::Offset;

use super::Log;
use super::indexes::Indexes;
use super::open::remove;
use super::txn_index::TxnIndex;
use crate::error::{Error, Result};
use crate::segment::naming::Role;
use crate::segment::tail::Tail;
use crate::segment::{Loaded, Segment};

impl<P: Platform> Log<P> {
    /// After a write that found no room, or a folder that is not the log's: puts what is unwritten on paths that have some;
    /// true when something changed.
    pub(crate) async fn spill(&self, error: &Error) -> Result<bool> {
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
        let _permit = self.may_write().await?;
        let mut spilled = false;
        for segment in self.unsealed_segments() {
            if !segment.is_unwritten() || !segment.folder.starts_with(full.dir()) {
                continue;
            }
            let Some(folder) = self.folder_with_room() else {
                break;
            };
            let was_named = segment.named.get();
            if folder.starts_with(full.dir()) {
                break;
            }
            let Some(new) = self.successor(&segment, folder) else {
                break;
            };
            let is_empty = segment.written.get() == 0;
            let is_named = is_empty && self.name_before_leaving(&segment, &new).await;
            if is_empty && was_named && !is_named {
                self.stay_in(&segment, &new).await;
                break;
            }
            if !self.split(&segment, &new) {
                if is_empty {
                    self.stay_in(&segment, &new).await;
                }
                break;
            }
            spilled = true;
            let left = self.patiently(async || self.leave_behind(&segment, &new, was_named).await);
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
            self.start_upkeep();
        }
        Ok(spilled)
    }

    /// Gives what goes on in the place of an empty segment its name, before that loses its own; false where there is no room
    /// even for a name.
    async fn name_before_leaving(&self, old: &Segment<P>, new: &Segment<P>) -> bool {
        let named = self.patiently(async || {
            self.name_in_place_of(new, old).await?;
            self.sync_names().await
        });
        let named = named.await;
        if let Err(error) = &named {
            tracing::debug!(partition = %self.partition, %error, "a segment that goes elsewhere has no name yet");
        }
        named.is_ok()
    }

    /// What the failed write may have left of the bytes that go elsewhere goes, durably, before they count there: a start
    /// would take them for the log, and what follows them for something else.
    async fn leave_behind(
        &self,
        segment: &Segment<P>,
        new: &Segment<P>,
        was_named: bool,
    ) -> Result<()> {
        if segment.written.get() > 0 {
            self.cut_to_length(segment).await?;
            // What follows may get its name now: of two names the first is durable first.
            return self.sync_names().await;
        }
        if self.was_refused(segment) {
            segment.close_file();
            return Ok(());
        }
        if !self.is_home(&segment.folder) {
            // A file that could not be made may be there, and the note of it is.
            segment.close_file();
            // Home may have the note of the new one already.
            if self.is_home(&new.folder) || !new.named.get() {
                self.note_gone(segment).await?;
            }
            return self.remove_empty(segment, &new.folder).await;
        }
        if was_named {
            segment.close_file();
            remove(self.store.disk(), &segment.path(Role::Log)).await?;
            self.note_gone(segment).await?;
            self.sync_names().await?;
        }
        Ok(())
    }

    /// A segment in `folder` for what is not written of `old`, which begins there; nothing is in it yet.
    fn successor(&self, old: &Segment<P>, folder: Rc<Path>) -> Option<Rc<Segment<P>>> {
        let boundary = old.resident_header(old.written.get())?.base_offset;
        let charge = self.store.charge(&folder, 0);
        let now_ms = self.store.clock().wall_ms();
        let loaded = Loaded {
            indexes: Indexes::new(boundary, self.index_options()),
            aborted: TxnIndex::new(),
        };
        Some(Rc::new(
            Segment::fresh(folder, boundary, loaded, now_ms).charged(charge),
        ))
    }

    /// Ends a segment where it is written, and puts what is not into its successor; false when memory is short.
    fn split(&self, old: &Rc<Segment<P>>, new: &Rc<Segment<P>>) -> bool {
        let (written, size, next) = (old.written.get(), old.size.get(), old.next.get());
        let at = {
            let segments = self.segments.borrow();
            segments.iter().position(|other| Rc::ptr_eq(other, old))
        };
        let parts = old.tail.borrow().slices(written..size);
        let (Some(at), Some(parts)) = (at, parts) else {
            return false;
        };
        if !self.fill(new, &parts) {
            return false;
        }
        move_aborted(old, new, new.base);
        if old.rolled.get() {
            new.roll(next);
        }
        end_at(old, new.base, written);
        let mut segments = self.segments.borrow_mut();
        if written > 0 {
            segments.insert(at + 1, Rc::clone(new));
            self.store.shared.metrics.segments.inc();
        } else if let Some(slot) = segments.get_mut(at) {
            *slot = Rc::clone(new);
        }
        true
    }

    /// Puts batches into an empty segment.
    fn fill(&self, segment: &Rc<Segment<P>>, parts: &[Bytes]) -> bool {
        let len = parts.iter().map(Bytes::len).sum(); // Bounded: lengths of bytes in memory.
        let Some(chunks) = self.store.shared.memory.take(segment, len) else {
            return false;
        };
        let mut chunks = chunks.into_iter();
        for part in parts {
            segment.tail.borrow_mut().append(part, &mut chunks);
        }
        let mut position = 0;
        while let Some(header) = segment.resident_header(position) {
            segment.note(&header, position);
            position += header.size_bytes as u64;
        }
        true
    }
}

/// Aborted transactions whose marker is past `boundary` belong to the new segment.
fn move_aborted<P: Platform>(old: &Segment<P>, new: &Segment<P>, boundary: Offset) {
    let (mut from, mut to) = (old.loaded.borrow_mut(), new.loaded.borrow_mut());
    let (Some(from), Some(to)) = (from.as_mut(), to.as_mut()) else {
        return;
    };
    for txn in from.aborted.entries() {
        if txn.last_offset >= boundary {
            to.aborted.append(*txn);
        }
    }
    from.aborted.truncate_to(boundary);
}

/// The segment ends at `position`, where the batch at `boundary` would begin.
fn end_at<P: Platform>(segment: &Segment<P>, boundary: Offset, position: u64) {
    let observe_from = {
        let mut loaded = segment.loaded.borrow_mut();
        loaded.as_mut().map(|loaded| {
            loaded.indexes.truncate_to(boundary);
            u64::from(loaded.indexes.observe_from())
        })
    };
    // The time index must know the batches after its last entry; they were written just now and are resident.
    let mut at = observe_from.unwrap_or(position);
    while at < position
        && let Some(header) = segment.resident_header(at)
    {
        if let Some(loaded) = segment.loaded.borrow_mut().as_mut() {
            loaded.indexes.observe(&header);
        }
        at += header.size_bytes as u64;
    }
    if let Some(loaded) = segment.loaded.borrow().as_ref() {
        segment
            .largest
            .set(loaded.indexes.largest_timestamp().into());
    }
    segment.size.set(position);
    *segment.tail.borrow_mut() = Tail::absent(position);
    segment.roll(boundary);
}
