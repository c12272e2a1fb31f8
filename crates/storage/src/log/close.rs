//! Stopping a log cleanly, saving it in between, rolling on demand, and deleting it.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use platform::Platform;
use platform::disk::Disk;
use platform::task;
use wire::types::Uuid;

use super::open::folder::is_of_other;
use super::{Condition, Log};
use crate::error::{Error, Result};
use crate::flush::SHORTAGE_RETRY_INTERVAL;
use crate::log::append::Appending;
use crate::log::upkeep::Upkeeping;
use crate::num::gauge;
use crate::segment::naming;

/// How long a log without room waits at its end for what is under way in it.
const ALONE_MAX: Duration = Duration::from_secs(10);
/// How often closing is tried while the machine is short of descriptors.
const CLOSE_TRIES: usize = 40;

impl<P: Platform> Log<P> {
    /// Begins a new segment if the active one has records; completes when everything before it is durable.
    pub async fn roll(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        // Not while it is cut: what begins beyond the cut would be taken by a start for where the log goes on.
        let gate = self.upkeep.gate.acquire().await;
        let gate = gate.map_err(|_| Error::Closed)?;
        self.refuse_beyond_repair()?;
        if self.active().size() > 0 && !self.is_closed() {
            let now_ms = self.store.clock().wall_ms();
            Appending(self).roll_now(now_ms);
            let _permit = self.may_write().await?;
            if self.is_closed() {
                return Err(Error::Closed);
            }
            // Without room it may go on elsewhere by now.
            self.name_segment(&self.active()).await?;
        }
        drop(gate);
        self.flush().await
    }

    /// Saves indexes, producers and recovery point, so that a restart has nothing to read that was appended before.
    pub async fn save(&self) -> Result<()> {
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        // It may have been closed meanwhile, and its folder be another's.
        if self.is_closed() {
            return Err(Error::Closed);
        }
        self.refuse_beyond_repair()?;
        while let Some(rolled) = Upkeeping(self).oldest_rolled() {
            Upkeeping(self).seal(&rolled).await?;
        }
        Upkeeping(self).save_active().await
    }

    /// Makes everything durable and leaves the folder as a clean stop does. The log takes no appends afterwards, whether
    /// this succeeds or not; a log that failed is closed as it is.
    pub async fn close(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        self.flush.hold();
        self.stop_compacting().await;
        let result = Closing(self).close_cleanly().await;
        // Beside one without room somebody may be taking it elsewhere; whoever opens its folder next is to be alone. A disk
        // that hangs is not waited for: a stop would not end.
        let alone = async { (self.upkeep.gate.acquire().await, self.may_write().await) };
        let alone = if result.is_err() && !self.is_beyond_repair() {
            task::timeout(ALONE_MAX, alone).await.ok()
        } else {
            None
        };
        if self.is_closed() {
            // It was deleted meanwhile.
            return result;
        }
        self.become_finally(Condition::Closed);
        drop(alone);
        Closing(self).note_closed();
        result
    }

    /// Deletes the log: it is closed, its folder renamed at once and removed after `file.delete.delay.ms`. Where that fails it may be
    /// tried again.
    pub async fn delete(&self) -> Result<()> {
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        let _permit = self.may_write().await?;
        self.store.forget(self);
        if !self.is_closed() {
            self.become_finally(Condition::Closed);
            Closing(self).note_closed();
        }
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
        let mut targets = vec![target];
        targets.extend(Closing(self).unname_elsewhere(unique).await);
        let delay = Duration::from_millis(self.options().file_delete_delay_ms);
        let store = self.store.clone();
        task::spawn(async move {
            store.clock().sleep(delay).await;
            for target in targets {
                if let Err(error) = store.disk().remove_dir(&target).await {
                    // The next start removes it.
                    tracing::warn!(folder = %target.display(), %error, "a deleted log's folder stays");
                }
            }
            store.shared.room_made.notify_waiters();
        });
        Ok(())
    }
}

view_of_log! {
    /// A clean stop, and the folders of a log that is deleted.
    pub(in crate::log) Closing
}

impl<P: Platform> Closing<'_, P> {
    async fn close_cleanly(self) -> Result<()> {
        for _ in 0..CLOSE_TRIES {
            match self.try_closing().await {
                Err(error) if error.is_exhausted() && !self.is_beyond_repair() => {
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
        // What was reserved behind the end is room for what is saved.
        self.cut_active().await?;
        // Whoever opens the folder next finds the largest timestamp in the index.
        self.active().seal_indexes();
        self.save().await?;
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        let _permit = self.may_write().await?;
        // Whoever flushed meanwhile may have reserved anew.
        let active = self.active();
        if active.allocated() > active.size() {
            Upkeeping(self.0).cut_to_length(&active).await?;
        }
        Upkeeping(self.0).discard_prepared().await;
        self.flush.names.note(None);
        self.sync_names().await?;
        self.check_invariants();
        Ok(())
    }

    async fn cut_active(self) -> Result<()> {
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Error::Closed)?;
        let _permit = self.may_write().await?;
        Upkeeping(self.0).cut_to_length(&self.active()).await
    }

    /// The same of the log's folders on other paths; what cannot be renamed belongs to no topic, and stays.
    async fn unname_elsewhere(self, unique: Uuid) -> Vec<PathBuf> {
        let disk = self.store.disk();
        let mut targets = Vec::new();
        for path in self.store.paths_away_from(&self.folder) {
            let folder = self.folder_on(&path);
            if is_of_other(disk, &folder, self.topic_id).await {
                // An older topic of the name left it, and nobody has looked at it since.
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
        let metrics = &self.store.shared.metrics;
        metrics.logs.dec();
        metrics.set_aside_bytes.dec_by(self.aside_bytes.take());
        metrics.segments.dec_by(gauge(self.segment_count()));
        // Their memory goes as soon as the last reader lets go.
        self.forget_readers();
        self.readers.closed.notify_waiters();
        self.tell();
    }
}
