//! Closes a log cleanly, saves it in between, rolls it on demand, and deletes it.
//!
//! Invariant: a closed log takes no appends, whether or not its close succeeded.
//! It does not: decide when any of this happens; the owner does.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::disk::Disk;
use platform::sync::SemaphorePermit;
use platform::task;
use wire::types::Uuid;

use super::Log;
use super::condition::Condition;
use super::open::folder::is_of_other;
use crate::error::{Error, Result};
use crate::log::flush::SHORTAGE_RETRY_INTERVAL;
use crate::log::views::{
    Appending, Closing, Compacting, Flushing, Journaling, LogCondition, LogReader, LogTiers,
    Upkeeping,
};
use crate::num::gauge;
use crate::segment::naming;

/// How long the close of a log without room waits for operations that are under way in it.
const ALONE_MAX: Duration = Duration::from_secs(10);
/// How often closing is tried while the machine is short of descriptors.
const CLOSE_TRIES: usize = 40;

impl<P: Platform> Log<P> {
    /// Rolls the active segment if it has records; completes when everything before is durable.
    pub async fn roll(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        // Not during a truncation: a start would take a segment that begins beyond the cut for the
        // place where the log continues.
        let gate = self.upkeep.gate.acquire().await;
        let gate = gate.map_err(|_| Error::Closed)?;
        LogCondition(self).refuse_beyond_repair()?;
        if self.segments.active().size() > 0 && !self.is_closed() {
            let now_ms = self.store.clock().wall_ms();
            Appending(self).roll_now(now_ms);
            let _permit = Flushing(self).may_write().await?;
            if self.is_closed() {
                return Err(Error::Closed);
            }
            // Without room the log may continue in another segment by now.
            Flushing(self).name_segment(&self.segments.active()).await?;
        }
        drop(gate);
        self.flush().await
    }

    /// Saves indexes, producers and recovery point, so that a restart need not read what was
    /// appended before.
    pub async fn save(&self) -> Result<()> {
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
        LogCondition(self).refuse_beyond_repair()?;
        while let Some(rolled) = Upkeeping(self).oldest_rolled() {
            Upkeeping(self).seal(&rolled).await?;
        }
        Upkeeping(self).save_active().await
    }

    /// Makes everything durable and leaves the folder as a clean stop does.
    ///
    /// The log takes no appends afterwards, whether or not this succeeds. A failed log is closed as
    /// it is.
    pub async fn close(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        self.flush.hold();
        Compacting(self).stop_compacting().await;
        let result = Closing(self).close_cleanly().await;
        // A task may be moving a log without room to another path, but the next opener of its
        // folder must be alone. A disk that hangs is not waited for: a stop would not end.
        let alone = async {
            let gate = self.upkeep.gate.acquire().await;
            (gate, Flushing(self).may_write().await)
        };
        let alone = if result.is_err() && !LogCondition(self).is_beyond_repair() {
            task::timeout(ALONE_MAX, alone).await.ok()
        } else {
            None
        };
        if self.is_closed() {
            // It was deleted meanwhile.
            return result;
        }
        LogCondition(self).become_finally(Condition::Closed);
        drop(alone);
        Closing(self).note_closed();
        result
    }

    /// Deletes the log: closes it, renames its folder at once and removes it after
    /// `file.delete.delay.ms`.
    ///
    /// After a failure it may be called again.
    pub async fn delete(&self) -> Result<()> {
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        let _turn = Closing(self).end_journaling().await?;
        let _permit = Flushing(self).may_write().await?;
        Closing(self).end_for_good();
        let disk = self.store.disk();
        let platform = &self.store.shared.platform;
        let unique = Uuid::from_u64_pair(platform.random_u64(), platform.random_u64());
        let target = self
            .dir
            .join(naming::deleted_folder_name(&self.partition, unique));
        disk.rename(&self.folder, &target)
            .await
            .map_err(Error::io("rename", &self.folder))?;
        self.store.sync_dir_with_others(&self.dir).await?;
        Journaling(self).forget();
        let mut targets = vec![target];
        targets.extend(Closing(self).unname_elsewhere(unique).await);
        let delay = Duration::from_millis(self.options().file_delete_delay_ms);
        let (store, health) = (self.store.clone(), Rc::clone(&self.health));
        task::spawn(async move {
            store.clock().sleep(delay).await;
            let Ok(_turn) = health.removing.turn().await else {
                return;
            };
            for target in targets {
                if let Err(error) = store.disk().remove_dir_in_pieces(&target).await {
                    // The next start removes it.
                    tracing::warn!(folder = %target.display(), %error, "a deleted log's folder stays");
                }
            }
            store.shared.room_made.notify_waiters();
        });
        Ok(())
    }
}

impl<'a, P: Platform> Closing<'a, P> {
    /// Ends the use of a journal by a log that is deleted, before anything waits for it: a flush
    /// that waits for room in the ring would not end on a full disk.
    async fn end_journaling(self) -> Result<Option<SemaphorePermit<'a>>> {
        if self.journal.is_some() {
            self.end_for_good();
        }
        Journaling(self.0).end_commits().await
    }

    /// Takes the log out of the store, and closes it.
    fn end_for_good(self) {
        self.store.forget(self.0);
        if !self.is_closed() {
            LogCondition(self.0).become_finally(Condition::Closed);
            self.note_closed();
        }
    }

    async fn close_cleanly(self) -> Result<()> {
        for _ in 0..CLOSE_TRIES {
            match self.try_closing().await {
                Err(error) if error.is_exhausted() && !LogCondition(self.0).is_beyond_repair() => {
                    self.store.close_unused_files();
                    self.store.clock().sleep(SHORTAGE_RETRY_INTERVAL).await;
                }
                result => return result,
            }
        }
        self.try_closing().await
    }

    async fn try_closing(self) -> Result<()> {
        if let Some(error) = self.failed() {
            return Err(error);
        }
        self.flush().await?;
        Journaling(self.0).land_all().await?;
        if self.is_as_left() {
            self.check_invariants();
            return Ok(());
        }
        // The room reserved behind the end becomes room for what is saved.
        self.cut_active().await?;
        // The next opener of the folder finds the largest timestamp in the index.
        self.segments.active().seal_indexes();
        self.save().await?;
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        let _permit = Flushing(self.0).may_write().await?;
        // A flush may have reserved room again meanwhile.
        let active = self.segments.active();
        if active.allocated() > active.size() {
            Upkeeping(self.0).cut_to_length(&active).await?;
        }
        Upkeeping(self.0).discard_prepared().await;
        self.flush.names.note(None);
        Flushing(self.0).sync_names().await?;
        self.check_invariants();
        Ok(())
    }

    /// Returns true when the log is what a clean stop has left, and nothing was done to it since:
    /// of ten thousand logs most are, and a stop writes the files of the others.
    fn is_as_left(self) -> bool {
        let active = self.segments.active();
        self.as_left.get() == Some(self.log_end_offset())
            && active.allocated() <= active.size()
            && Upkeeping(self.0).has_no_prepared()
            && self.flush.names.are_durable()
    }

    async fn cut_active(self) -> Result<()> {
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Error::Closed)?;
        let _permit = Flushing(self.0).may_write().await?;
        Upkeeping(self.0)
            .cut_to_length(&self.segments.active())
            .await
    }

    /// Renames the log's folders on other paths for deletion; returns their new names.
    ///
    /// A folder that cannot be renamed belongs to no topic, and stays.
    async fn unname_elsewhere(self, unique: Uuid) -> Vec<PathBuf> {
        let disk = self.store.disk();
        let mut targets = Vec::new();
        for path in self.store.paths_away_from(&self.folder) {
            let folder = LogTiers(self.0).folder_on(&path);
            if is_of_other(disk, &folder, self.topic_id).await {
                // An older topic of the same name left this folder, and no log has claimed it
                // since.
                continue;
            }
            let name = naming::deleted_folder_name(&self.partition, unique);
            let target = path.dir().join(name);
            let renamed = match disk.rename(&folder, &target).await {
                Ok(()) => self.store.sync_dir_with_others(path.dir()).await,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => Err(Error::io("rename", &folder)(error)),
            };
            match renamed {
                Ok(()) => targets.push(target),
                Err(error) => {
                    tracing::error!(folder = %folder.display(), %error, "a deleted log's folder stays");
                }
            }
        }
        targets
    }

    fn note_closed(self) {
        Journaling(self.0).note_closed();
        let metrics = &self.store.shared.metrics;
        metrics.logs.dec();
        metrics.set_aside_bytes.dec_by(self.aside_bytes.take());
        metrics.segments.dec_by(gauge(self.segment_count()));
        // Their memory is freed when the last reader lets go.
        LogReader(self.0).forget_readers();
        self.readers.closed.notify_waiters();
        self.tell();
    }
}
