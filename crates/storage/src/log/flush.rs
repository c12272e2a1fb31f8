//! Group commit: how appended bytes become written, and written ones durable.
//!
//! One flush at a time for each log; what is appended while it is under way goes with the next one.
//! No timer, no linger. Apart from flushes, only a cut to length, a truncation and a recovery sync
//! a segment of the log.
//! A cycle: plan (what is unwritten now) -> give new segments their files -> write everything,
//! together -> `written` advances -> save the leader epochs, sync the files in order, sync the
//! folder if there are new names -> `durable` advances.
//! Invariants: `durable` never passes an unsynced byte of any segment, nor a name that is not
//! durable; a failed write or sync is not repeated and latches the log. A lack of room, descriptors
//! or memory is not a failure: the bytes stay in memory, appends are refused, and the write is
//! tried again after a deletion or after a while.

use std::cell::Cell;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use platform::Platform;
use platform::disk::{Disk, DiskFile, Open};
use platform::sync::SemaphorePermit;
use platform::task;
use wire::types::Offset;

use crate::checkpoint::leader_epochs;
use crate::error::{Error, FailureKind, Result};
use crate::log::Log;
use crate::log::flush::names::Names;
use crate::log::views::{
    Debts, Flushing, Journaling, Limiting, LogCondition, LogFolders, Spilling, Upkeeping,
};
use crate::options::Durability;
use crate::segment::naming::Role;
use crate::segment::tail::Blocks;
use crate::segment::{File, Segment};

pub(crate) mod idle;
pub(crate) mod journaled;
pub(crate) mod names;
pub(crate) mod stirring;

/// How long a log without room waits before it tries again, if nothing is deleted meanwhile.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long it waits when the machine has no descriptor or no memory for it.
pub(crate) const SHORTAGE_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The state of a log's flushes.
#[derive(Debug, Default)]
pub(crate) struct FlushState {
    /// Names of files that have changed since their folder was last synced.
    pub(crate) names: Names,
    /// Measures for how long nothing was appended.
    idle: idle::IdleLooks,
    /// True while a flush task runs; it looks for work again before it ends.
    running: Cell<bool>,
    /// True when a caller waits for a sync, whatever the log's durability.
    sync_wanted: Cell<bool>,
    /// How many operations have appends refused: truncations while they run, and a close.
    held: Cell<u32>,
    /// When the oldest record that is not durable was written.
    unsynced_since_ms: Cell<Option<i64>>,
}

impl FlushState {
    pub(crate) fn is_held(&self) -> bool {
        self.held.get() > 0
    }

    pub(crate) fn hold(&self) {
        self.held.set(self.held.get() + 1);
    }

    pub(crate) fn hold_no_more(&self) {
        assert!(self.is_held(), "whoever lets go has held");
        self.held.set(self.held.get() - 1);
    }
}

/// What one cycle writes to one segment.
struct Write<P: Platform> {
    segment: Rc<Segment<P>>,
    blocks: Blocks,
    /// Length of the segment after the write.
    size: u64,
}

impl<P: Platform> Log<P> {
    /// Completes when everything appended before the call is durable.
    pub async fn flush(&self) -> Result<()> {
        Flushing(self).flush_upto(self.log_end_offset()).await
    }

    /// Completes when the segments have everything that was appended before, whatever a journal has
    /// of it: then the log may be closed and opened again.
    pub async fn land(&self) -> Result<()> {
        self.flush().await?;
        Journaling(self).land_all().await
    }

    /// Flushes as [`Log::flush`] does, but waits for room, however long that takes.
    ///
    /// For callers that must know the outcome: without room the bytes stay in memory and are
    /// written as soon as there is some. Fails when the log failed or was closed: what it has is
    /// then known only when it is opened again.
    pub async fn flush_for_good(&self) -> Result<()> {
        let target = self.log_end_offset();
        loop {
            match Flushing(self).flush_upto(target).await {
                Err(error) if error.is_passing() => Flushing(self).progressed().await,
                result => return result,
            }
        }
    }

    /// Wakes all waiters and observers.
    pub(crate) fn tell(&self) {
        self.store().touch();
        self.progress.notify_waiters();
        // Observers may come and go during the calls.
        let observers: Vec<_> = self
            .observers
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for observer in observers {
            observer.progressed();
        }
    }
}

impl<'a, P: Platform> Flushing<'a, P> {
    /// Returns the right to write to the segments' files, held until it is dropped.
    pub(crate) async fn may_write(self) -> Result<SemaphorePermit<'a>> {
        self.0.writing.acquire().await.map_err(|_| Error::Closed)
    }
}

impl<P: Platform> Flushing<'_, P> {
    /// Completes at the next progress.
    pub(crate) async fn progressed(self) {
        self.progress.notified().await;
    }

    /// Returns true when no operation writes to the segments' files.
    pub(crate) fn may_write_now(self) -> bool {
        self.writing.available_permits() > 0
    }

    pub(crate) fn has_unsaved_epochs(self) -> bool {
        self.epochs_dirty.get()
    }

    /// Returns what the leader epochs' file should hold, if it does not hold it yet.
    pub(crate) fn take_unsaved_epochs(self) -> Option<Vec<u8>> {
        let dirty = self.epochs_dirty.replace(false);
        if dirty {
            self.epoch_begun.set(false);
        }
        dirty.then(|| leader_epochs::encode(self.epochs.borrow().entries()))
    }

    pub(crate) fn epochs_not_saved(self) {
        self.epochs_dirty.set(true);
    }

    /// Starts a flush of what has been appended, unless one runs; returns at once.
    ///
    /// [`Log::append`] has already done it.
    pub(crate) fn request_flush(self) {
        if self.flush.running.get() {
            return;
        }
        let Some(log) = self.me() else { return };
        self.note_stirring();
        self.store().touch();
        self.flush.running.set(true);
        task::spawn(async move { Flushing(&log).run_flushes().await });
    }

    /// Completes when everything below `target` is durable, or fails when that cannot be expected.
    pub(crate) async fn flush_upto(self, target: Offset) -> Result<()> {
        loop {
            // A truncation meanwhile lowers the target.
            let target = target.min(self.log_end_offset());
            if self.durable_offset() >= target && !self.has_unsaved_epochs() {
                return Ok(());
            }
            if let Some(error) = self.failed() {
                return Err(error);
            }
            self.flush.sync_wanted.set(true);
            self.request_flush();
            self.progressed().await;
        }
    }

    /// Starts a flush when the oldest unsynced write is as old as `flush.ms`.
    pub(crate) fn flush_if_due(self, now_ms: i64) {
        let Some(since_ms) = self.flush.unsynced_since_ms.get() else {
            return;
        };
        // A setting beyond an i64 means never.
        let flush_ms = i64::try_from(self.options().flush_ms).unwrap_or(i64::MAX);
        if now_ms.saturating_sub(since_ms) >= flush_ms {
            self.flush.sync_wanted.set(true);
            self.request_flush();
        }
    }

    /// Gives a new segment its file: the prepared one, or a new one.
    pub(crate) async fn name_segment(self, segment: &Segment<P>) -> Result<File<P>> {
        match segment.open_file() {
            Some(file) => Ok(file),
            None => Box::pin(self.open_or_name(segment)).await,
        }
    }

    /// Names a segment that takes the place of `old`, which is empty.
    ///
    /// Between two other paths this is noted as a move is: the note names the old segment until the
    /// new one's name is durable, so that a start that can read neither knows where the log
    /// continues.
    pub(crate) async fn name_in_place_of(self, new: &Segment<P>, old: &Segment<P>) -> Result<()> {
        let is_from_home = self.is_home(&old.folder) || !old.is_named();
        if is_from_home || self.is_home(&new.folder) || new.is_named() {
            return self.name_segment(new).await.map(drop);
        }
        LogFolders(self.0).make_folder(&new.folder).await?;
        LogFolders(self.0)
            .pass_over_asides(new.base, &new.folder)
            .await?;
        let (from, to) = (&old.folder, &new.folder);
        Debts(self.0).owe_move(new.base, from, to).await?;
        let path = new.path(Role::Log);
        let created = create(self.store().disk(), &path).await;
        let file = created.map_err(Error::io("create", &path))?;
        LogFolders(self.0).sync_folder(to).await?;
        LogFolders(self.0).write_note(new.base, to).await?;
        new.name(file, 0);
        Ok(())
    }

    /// Repeats an attempt until the machine is no longer short of descriptors or memory.
    ///
    /// The attempt must be repeatable.
    pub(crate) async fn patiently<T>(
        self,
        mut attempt: impl AsyncFnMut() -> Result<T>,
    ) -> Result<T> {
        let mut said = false;
        loop {
            match attempt().await {
                Err(error) if error.is_exhausted() && !LogCondition(self.0).is_beyond_repair() => {
                    if !said {
                        tracing::warn!(partition = %self.topic_partition(), %error, "waiting until that is over");
                    }
                    said = true;
                    self.store().close_unused_files();
                    self.store().clock().sleep(SHORTAGE_RETRY_INTERVAL).await;
                }
                result => return result,
            }
        }
    }

    async fn run_flushes(self) {
        let flushing = &self.store().shared.flushing;
        flushing.set(flushing.get() + 1);
        while self.is_flush_needed() {
            let started = self.store().clock().now();
            let result = self.flush_once().await;
            let metrics = &self.store().shared.metrics;
            metrics.flushes.inc();
            metrics
                .flush_seconds
                .observe(started.elapsed().as_secs_f64());
            match result {
                // A log whose segments have no room is full, whatever its journal takes.
                Ok(()) if Journaling(self.0).is_landing_full() => {}
                Ok(()) => LogCondition(self.0).leave_full(),
                Err(error) if error.is_exhausted() => {
                    self.store().close_unused_files();
                    LogCondition(self.0).enter_full(error);
                    Box::pin(self.store().clock().sleep(SHORTAGE_RETRY_INTERVAL)).await;
                }
                Err(error) if error.kind() == FailureKind::Full => {
                    metrics.flush_full.inc();
                    // Boxed, like everything rare in a flush: each append starts a flush, which
                    // takes memory for it.
                    Box::pin(self.make_or_await_room(error)).await;
                }
                Err(error) => self.fail(&error),
            }
        }
        // No `await` since the last check, so no request is lost.
        assert!(self.flush.running.replace(false), "one flush at a time");
        flushing.set(flushing.get() - 1);
        self.tell();
    }

    /// Makes room, or waits until there is some.
    async fn make_or_await_room(self, error: Error) {
        // If a spill fails, it has latched the log, or the log is closed: the loop sees either.
        if self.store().give_up_pooled(&error).await
            || Spilling(self.0).spill(&error).await.unwrap_or(false)
        {
            return;
        }
        LogCondition(self.0).enter_full(error);
        let room = self.store().shared.room_made.notified();
        // Whichever wakes it, the write is tried again.
        let _ = task::timeout(ROOM_RETRY_INTERVAL, room).await;
    }

    fn is_flush_needed(self) -> bool {
        if LogCondition(self.0).is_beyond_repair() {
            return false;
        }
        self.written_offset() < self.log_end_offset()
            || self.has_unsaved_epochs()
            || (self.durable_offset() < self.written_offset() && self.is_sync_due())
    }

    fn is_sync_due(self) -> bool {
        let options = self.options();
        let unsynced = self.log_end_offset().since(self.durable_offset());
        options.durability == Durability::Synced
            || self.flush.sync_wanted.get()
            || u64::try_from(unsynced).is_ok_and(|unsynced| unsynced >= options.flush_messages)
    }

    async fn flush_once(self) -> Result<()> {
        if let Some(journal) = &self.0.journal {
            // Boxed: a log without a journal does not pay for its memory.
            return Box::pin(Journaling(self.0).flush_once(journal)).await;
        }
        let _permit = self.may_write().await?;
        // The log may have been closed meanwhile, and its folder opened as another log.
        if self.is_closed() {
            return Err(Error::Closed);
        }
        self.flush_segments(None).await
    }

    /// Writes to the segments what is not there, and syncs it if that is due; the caller has the
    /// right to write.
    ///
    /// Only what is below `counts_below` counts as written and durable, if that is given.
    async fn flush_segments(self, counts_below: Option<Offset>) -> Result<()> {
        self.as_left.set(None);
        if Limiting(self.0).is_limited() {
            // Boxed, like everything rare in a flush.
            Box::pin(Limiting(self.0).save_limits()).await?;
        }
        let end = counts_below.unwrap_or_else(|| self.log_end_offset());
        let writes = self.plan_writes();
        for write in &writes {
            self.name_segment(&write.segment).await?;
        }
        self.write(writes).await?;
        let has_written = self.offsets.advance_written(end);
        let is_sync_due = self.is_sync_due();
        if has_written {
            if !is_sync_due && self.flush.unsynced_since_ms.get().is_none() {
                let now_ms = self.store().clock().wall_ms();
                self.flush.unsynced_since_ms.set(Some(now_ms));
            }
            self.tell();
        }
        self.save_epochs().await?;
        if is_sync_due || self.is_sync_due() {
            self.flush.sync_wanted.set(false);
            if let Err(error) = self.sync_written().await {
                // A failure that passes is retried.
                self.flush.sync_wanted.set(true);
                return Err(error);
            }
            self.flush.unsynced_since_ms.set(None);
            self.offsets.advance_durable(end);
            self.check_cheap();
            self.tell();
        }
        Ok(())
    }

    fn plan_writes(self) -> Vec<Write<P>> {
        let segments = self.segments.unsealed();
        let unwritten = segments
            .into_iter()
            .filter(|segment| segment.is_unwritten());
        unwritten
            .map(|segment| {
                let tail = segment.tail();
                // Chunks are freed only once they are written. Skipped, their records would be
                // acknowledged without being written.
                let blocks = tail.blocks_from(segment.written());
                let (blocks, size) = (blocks.expect("what is not written is resident"), tail.end());
                drop(tail);
                Write {
                    segment,
                    blocks,
                    size,
                }
            })
            .collect()
    }

    async fn open_or_name(self, segment: &Segment<P>) -> Result<File<P>> {
        if segment.is_named() {
            return segment.file(self.store().disk()).await;
        }
        let disk = self.store().disk();
        let path = segment.path(Role::Log);
        let at_home = self.is_home(&segment.folder);
        if !at_home {
            LogFolders(self.0)
                .prepare_folder(&segment.folder, segment.base)
                .await?;
        }
        // Prepared files exist at home only: elsewhere one would be in the way of the next one and
        // keep its room.
        let prepared = if at_home {
            Upkeeping(self.0).take_prepared()
        } else {
            None
        };
        let (file, room) = if let Some(prepared) = prepared {
            let renamed = disk.rename(&prepared.path, &path).await;
            Upkeeping(self.0).prepared_is_named();
            renamed.map_err(Error::io("rename", &prepared.path))?;
            (prepared.file, prepared.bytes)
        } else {
            let created = create(disk, &path).await;
            (created.map_err(Error::io("create", &path))?, 0)
        };
        segment.name(file.clone(), room);
        LogFolders(self.0).note_changed(&segment.folder);
        Ok(file)
    }

    async fn write(self, mut writes: Vec<Write<P>>) -> Result<()> {
        let last = writes.pop();
        // A cycle writes to more than one segment only after a roll.
        let others: Vec<_> = writes
            .into_iter()
            .map(|write| {
                task::spawn(write_blocks(
                    self.store().shared.metrics.written_bytes.clone(),
                    write,
                ))
            })
            .collect();
        let mut result = match last {
            Some(write) => {
                write_blocks(self.store().shared.metrics.written_bytes.clone(), write).await
            }
            None => Ok(()),
        };
        for other in others {
            // The task ended with the runtime: the outcome of the write is as unknown as that of a
            // failed one.
            let written = other.await.unwrap_or(Err(Error::Closed));
            result = result.and(written);
        }
        self.store().shared.memory.note_written();
        result
    }

    async fn save_epochs(self) -> Result<()> {
        let _turn = match &self.0.journal {
            Some(journal) => Some(journal.turn_to_save_epochs().await?),
            None => None,
        };
        if let Some(bytes) = self.take_unsaved_epochs() {
            let path = self.folder().join(leader_epochs::FILE);
            let saved = Box::pin(self.store().disk().replace_file(&path, &bytes)).await;
            saved.map_err(|error| {
                self.epochs_not_saved();
                Error::io("write", &path)(error)
            })?;
        }
        Ok(())
    }

    /// Syncs what is written and not synced, oldest first, and the names of new files.
    async fn sync_written(self) -> Result<()> {
        for segment in self.segments.unsealed() {
            let written = segment.written();
            if segment.synced() < written {
                let file = self.name_segment(&segment).await?;
                let synced = file.sync().await;
                synced.map_err(|error| Error::file_sync(&segment.path(Role::Log))(error))?;
                segment.synced_upto(written);
            }
        }
        self.sync_names().await
    }
}

async fn write_blocks<P: Platform>(
    written_bytes: prometheus_client::metrics::counter::Counter,
    write: Write<P>,
) -> Result<()> {
    let Write {
        segment,
        blocks,
        size,
    } = write;
    let Some(file) = segment.open_file() else {
        return Err(Error::Closed);
    };
    let bytes: usize = blocks.parts.iter().map(bytes::Bytes::len).sum(); // Bounded: lengths of bytes in memory.
    assert!(
        blocks.position <= segment.written() && size <= blocks.position + bytes as u64,
        "a write covers all that is not written"
    );
    let result = file.write_at(blocks.position, blocks.parts).await;
    if let Err(error) = result {
        let error = Error::io("write", &segment.path(Role::Log))(error);
        if error.kind() == FailureKind::Full {
            // The handle remembers the failure; the file itself lost nothing.
            segment.close_file();
        }
        return Err(error);
    }
    written_bytes.inc_by(bytes as u64);
    segment.wrote(size, blocks.position + bytes as u64);
    if let Some(charge) = segment.charge() {
        charge.path().note_appended(bytes as u64);
    }
    Ok(())
}

/// Creates a segment's file.
///
/// An existing file is left from a failed attempt: the start has seen all others.
async fn create<D: Disk>(disk: &D, path: &Path) -> std::io::Result<D::File> {
    match disk.open(path, Open::Create).await {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let file = disk.open(path, Open::Write).await?;
            file.set_len(0).await?;
            Ok(file)
        }
        result => result,
    }
}
