//! The files of the pools: found at start, made in the background, taken by rolls, given up when
//! room is short.
//!
//! A file is made under another name, its room is reserved in steps with pauses between them, and
//! it is renamed when it is complete. Files of an earlier process are kept if they are complete and
//! empty, and removed otherwise. A failure affects only the pool: segments are then created without
//! it.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Open};
use platform::task::{self, JoinHandle};

use super::{Ordering, Pool, Room, Step};
use crate::error::{Error, FailureKind, Result};
use crate::log::upkeep::PreparedFile;
use crate::segment::naming::{PooledFile, pooled, pooled_part_path, pooled_path};
use crate::store::Store;
use crate::tier::{PathUse, TierPath};

/// How often the room of a path is checked while no file is taken.
const INTERVAL: Duration = Duration::from_millis(200);
/// The wait after a file could not be made for another reason than room.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

impl<P: Platform> Store<P> {
    /// Keeps the pools of all paths filled, for all shards; called on one of them.
    ///
    /// Files in `dirs` that belong to no pool (any more) are removed.
    pub fn spawn_pools<'a>(&self, dirs: impl Iterator<Item = &'a Path>) -> Vec<JoinHandle<()>> {
        let paths = self.shared.pools.iter().flat_map(|table| table.paths());
        let pooled: Vec<_> = paths.filter(|path| path.pool().is_some()).collect();
        let plain = dirs.filter(|dir| pooled.iter().all(|path| path.dir() != *dir));
        let mut keepers = Vec::new();
        for dir in plain {
            let (store, dir) = (self.clone(), dir.to_owned());
            keepers.push(task::spawn(async move {
                if let Err(error) = store.adopt(&dir, None).await {
                    tracing::debug!(dir = %dir.display(), %error, "not searched for pooled files");
                }
            }));
        }
        for path in pooled {
            let (store, path) = (self.clone(), Arc::clone(path));
            keepers.push(task::spawn(store.keep(path)));
        }
        keepers
    }

    /// Returns the number of waiting files in the pool of a log directory.
    pub fn pooled_files(&self, dir: &Path) -> u64 {
        let path = self.pooled_path(dir);
        path.and_then(|path| path.pool()).map_or(0, Pool::waiting)
    }

    /// Returns the path that holds `file`, if it has a pool.
    fn pooled_path(&self, file: &Path) -> Option<&Arc<TierPath>> {
        let table = self.shared.pools.as_ref()?;
        table.holding(file).filter(|path| path.pool().is_some())
    }

    /// Renames a file of the pool of `folder`'s path to `target`, for a segment of at most
    /// `segment_bytes`.
    ///
    /// Returns `None` if no suitable file is waiting.
    pub(crate) async fn take_pooled(
        &self,
        folder: &Path,
        target: &Path,
        segment_bytes: u64,
    ) -> Result<Option<PreparedFile<P>>> {
        let Some(path) = self.pooled_path(folder) else {
            return Ok(None);
        };
        let disk = self.disk();
        while let Some(pool) = path.pool().filter(|pool| pool.suits(segment_bytes))
            && let Some(number) = pool.take()
        {
            let pooled = pooled_path(path.dir(), number);
            match disk.rename(&pooled, target).await {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                renamed => renamed.map_err(Error::io("rename", &pooled))?,
            }
            // Bytes are stored to the file from here on, so a start must not find it in the pool.
            let synced = disk.sync_dir(path.dir()).await;
            synced.map_err(Error::io("sync", path.dir()))?;
            let file = disk.open(target, Open::Write).await;
            let file = file.map_err(Error::io("open", target))?;
            let bytes = pool.options.file_bytes;
            let reserved = file.allocate(bytes).await;
            reserved.map_err(Error::io("reserve room in", target))?;
            return Ok(Some(PreparedFile {
                path: target.to_owned(),
                file,
                bytes,
            }));
        }
        Ok(None)
    }

    /// Removes a file of the pool on the path of a write that found no room; returns false if there
    /// is none.
    pub(crate) async fn give_up_pooled(&self, error: &Error) -> bool {
        let Error::Full { path: full } = error else {
            return false;
        };
        let Some(path) = self.pooled_path(full) else {
            return false;
        };
        self.remove_one(path).await
    }

    async fn remove_one(&self, path: &TierPath) -> bool {
        while let Some(number) = path.pool().and_then(Pool::take) {
            let pooled = pooled_path(path.dir(), number);
            match self.disk().remove_file(&pooled).await {
                Ok(()) => return true,
                Err(error) => {
                    tracing::debug!(path = %pooled.display(), %error, "not removed");
                }
            }
        }
        false
    }

    async fn keep(self, path: Arc<TierPath>) {
        let Some(pool) = path.pool() else { return };
        let (dir, clock) = (path.dir().display(), self.clock().clone());
        if let Err(error) = self.adopt(path.dir(), path.pool()).await {
            tracing::warn!(%dir, %error, "no segment files are made in advance");
            return;
        }
        let shared = Rc::downgrade(&self.shared);
        drop(self);
        while let Some(shared) = shared.upgrade() {
            let pause = match (Self { shared }).turn(&path, pool).await {
                Ok(Step::Rest) => INTERVAL,
                Ok(_) => Duration::ZERO,
                Err(error) if error.kind() == FailureKind::Full => INTERVAL,
                Err(error) => {
                    tracing::warn!(%dir, %error, "no segment file was made in advance");
                    RETRY_INTERVAL
                }
            };
            if pause == INTERVAL {
                let _ = task::timeout(pause, pool.wanted.notified()).await;
            } else {
                clock.sleep(pause).await;
            }
        }
    }

    /// Checks the path once and takes the resulting step.
    async fn turn(&self, path: &TierPath, pool: &Pool) -> Result<Step> {
        let dir = path.dir();
        let space = self.disk().space(dir).await;
        let space = space.map_err(Error::io("ask the room of", dir))?;
        let is_open = path.using() == PathUse::Open && path.failed().is_none();
        let used = if self.tiers().is_some() {
            path.used_bytes()
        } else {
            // A single tier does not count its segments.
            path.note_space(space.free, space.total);
            // A file system may report more free room than it has.
            space
                .total
                .saturating_sub(space.free)
                .saturating_sub(pool.bytes())
        };
        let step = pool.step(Room {
            capacity: if is_open { path.capacity_bytes() } else { 0 },
            used,
            free: space.free,
        });
        match step {
            Step::Make => self.make(dir, pool).await?,
            Step::GiveUp if !self.remove_one(path).await => return Ok(Step::Rest),
            Step::GiveUp | Step::Rest => {}
        }
        Ok(step)
    }

    async fn make(&self, dir: &Path, pool: &Pool) -> Result<()> {
        let number = pool.made.load(Ordering::Acquire);
        let (part, whole) = (pooled_part_path(dir, number), pooled_path(dir, number));
        let made = match self.fill(&part, pool.options.file_bytes).await {
            Ok(()) => {
                let renamed = self.disk().rename(&part, &whole).await;
                renamed.map_err(Error::io("rename", &part))
            }
            failed => failed,
        };
        if made.is_ok() {
            pool.made.store(number + 1, Ordering::Release);
        } else if let Err(error) = self.disk().remove_file(&part).await {
            tracing::debug!(path = %part.display(), %error, "a part of a file stays");
        }
        made
    }

    async fn fill(&self, path: &Path, bytes: u64) -> Result<()> {
        let file = match self.disk().open(path, Open::Create).await {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let removed = self.disk().remove_file(path).await;
                removed.map_err(Error::io("remove", path))?;
                self.disk().open(path, Open::Create).await
            }
            opened => opened,
        };
        let file = file.map_err(Error::io("create", path))?;
        let step = self.shared.options.allocate_step_bytes.max(1);
        let mut reserved = 0;
        while reserved < bytes {
            let started = self.clock().now();
            reserved = bytes.min(reserved + step);
            let allocated = file.allocate(reserved).await;
            allocated.map_err(Error::io("reserve room in", path))?;
            // Leaves the medium to appends for half of the time.
            self.clock().sleep(started.elapsed()).await;
        }
        Ok(())
    }

    /// Adds files that an earlier process left in `dir` to the pool, and removes unusable ones.
    async fn adopt(&self, dir: &Path, pool: Option<&Pool>) -> Result<()> {
        let disk = self.disk();
        let entries = disk.list(dir).await.map_err(Error::io("list", dir))?;
        let mut adopted = 0;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let Some(found) = pooled(&entry.name) else {
                continue;
            };
            let path = dir.join(&entry.name);
            let is_whole = pool.is_some_and(|pool| pool.options.file_bytes == entry.len);
            // The names are in the order of their numbers, so the previous name is free by now.
            match found {
                PooledFile::Whole(number) if is_whole && self.is_blank(&path).await? => {
                    if number != adopted {
                        let renamed = disk.rename(&path, &pooled_path(dir, adopted)).await;
                        renamed.map_err(Error::io("rename", &path))?;
                    }
                    adopted += 1;
                }
                _ => {
                    let removed = disk.remove_file(&path).await;
                    removed.map_err(Error::io("remove", &path))?;
                }
            }
        }
        if let Some(pool) = pool {
            pool.made.store(adopted, Ordering::Release);
        }
        Ok(())
    }

    /// Returns true when nothing was ever stored to the file: a segment's file begins with a batch.
    async fn is_blank(&self, path: &Path) -> Result<bool> {
        let file = self.disk().open(path, Open::Read).await;
        let file = file.map_err(Error::io("open", path))?;
        let first = file.read_at(0, BLOCK_BYTES).await;
        let first = first.map_err(Error::io("read", path))?;
        Ok(first.iter().all(|byte| *byte == 0))
    }
}
