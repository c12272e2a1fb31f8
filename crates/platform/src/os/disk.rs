//! The real file system.
//!
//! Segment files are opened for direct I/O where their file system supports it, else buffered,
//! which is logged once per file system. All operations on names run on blocking threads. Not here:
//! the I/O of open segment files (`os/called.rs`, `os/dax/file.rs`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::OFlags;

use super::called::CalledFile;
use super::dax::Dax;
use super::engine::Engine;
use super::file::SystemFile;
use super::freeing::{self, UnnamedFile};
use super::lanes::FreeingTurn;
use super::threads::run;
use super::{direct, names};
use crate::buf::BufPool;
use crate::disk::{ChooseFiles, DirLook, Disk, Entry, Medium, Open, Space};
use crate::error::Error;

/// Maximum bytes of free read buffers that a shard keeps for reuse.
const READ_BUFFERS_KEPT_BYTES_MAX: usize = 64 << 20;

/// The real disk of a shard; clones share it.
#[derive(Clone)]
pub struct SystemDisk {
    engine: Rc<Engine>,
    buffers: BufPool,
    /// Whether direct I/O works, by device number.
    direct: Rc<RefCell<HashMap<u64, bool>>>,
    /// True when nothing may be written, not even to test direct I/O.
    read_only: Rc<Cell<bool>>,
    dax: Rc<Dax>,
}

impl SystemDisk {
    pub(super) fn new(engine: Rc<Engine>) -> Self {
        Self {
            engine,
            buffers: BufPool::new(READ_BUFFERS_KEPT_BYTES_MAX),
            direct: Rc::default(),
            read_only: Rc::default(),
            dax: Rc::default(),
        }
    }

    /// Maps the segment files under the existing directory `dir` from now on.
    ///
    /// Fails when it is not on a DAX mount, unless it is declared `volatile`: then it is emulated.
    pub async fn use_dax(&self, dir: &Path, volatile: bool) -> Result<Medium, Error> {
        self.dax.declare(dir, volatile).await
    }

    /// Gives each of `dirs` its own limits from now on, so that a hanging disk blocks no other.
    pub fn keep_apart(&self, dirs: impl IntoIterator<Item = PathBuf>) {
        self.engine.keep_apart(dirs);
    }

    /// Stops the tests for direct I/O from now on: for read-only use through the page cache.
    pub fn set_read_only(&self) {
        self.read_only.set(true);
    }

    /// Returns true when segment files in `dir` bypass the page cache.
    pub async fn direct(&self, dir: &Path) -> io::Result<bool> {
        if self.read_only.get() {
            return Ok(false);
        }
        let at = dir.to_owned();
        let device = self.call(dir, move || direct::device(&at)).await?;
        if let Some(works) = self.direct.borrow().get(&device) {
            return Ok(*works);
        }
        let at = dir.to_owned();
        let works = self.call(dir, move || direct::try_in(&at)).await?;
        let first = self.direct.borrow_mut().insert(device, works).is_none();
        if first && !works {
            let dir = dir.display();
            tracing::warn!(%dir, "no direct i/o on this file system, using the page cache");
        }
        Ok(works)
    }

    /// Runs a blocking call about `path` on a blocking thread, within the limits of its lane.
    async fn call<T: Send + 'static>(
        &self,
        path: &Path,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let place = self.engine.lanes.of(path).call().await;
        run(move || {
            let _place = place;
            call()
        })
        .await
    }

    /// Opens a file in one call if it is known whether direct I/O works on its device; `None` if
    /// not.
    async fn open_where_known(
        &self,
        path: &Path,
        how: Open,
    ) -> io::Result<Option<(OwnedFd, bool)>> {
        if self.read_only.get() {
            return Ok(None);
        }
        let known = self.direct.borrow().clone();
        let at = path.to_owned();
        let opened = self.call(path, move || {
            let device = direct::device(&names::parent_of(&at)).ok();
            let wanted = device.and_then(|device| known.get(&device));
            wanted.map(|wanted| open(&at, how, *wanted)).transpose()
        });
        opened.await
    }

    /// Frees the blocks of a file that has lost its name, piece by piece.
    async fn free(&self, path: &Path, file: UnnamedFile, turn: &FreeingTurn<'_>) {
        let mut left = Some(file);
        while let Some(file) = left {
            let is_urgent = turn.is_waited_for();
            // If a piece fails, the kernel frees the rest.
            let cut = self.call(path, move || file.cut()).await.ok().flatten();
            left = match cut {
                Some((file, pause)) => {
                    if !is_urgent {
                        tokio::time::sleep(pause).await;
                    }
                    Some(file)
                }
                None => None,
            };
        }
    }
}

impl Disk for SystemDisk {
    type File = SystemFile;

    fn medium(&self, dir: &Path) -> Medium {
        self.dax.medium(dir)
    }

    fn under_way_for(&self, dir: &Path) -> Duration {
        self.engine.lanes.of(dir).under_way_for()
    }

    async fn open(&self, path: &Path, how: Open) -> io::Result<SystemFile> {
        if let Some(file) = self.dax.open(path, how, &self.buffers).await {
            return file.map(SystemFile::from);
        }
        let known = self.open_where_known(path, how).await?;
        let (file, direct) = if let Some(opened) = known {
            opened
        } else {
            // Where no test is possible (read-only, full), opening the file shows whether direct
            // I/O works.
            let wanted = self.direct(&names::parent_of(path)).await.unwrap_or(true);
            let at = path.to_owned();
            self.call(path, move || open(&at, how, wanted)).await?
        };
        let buffers = self.buffers.clone();
        let engine = Rc::clone(&self.engine);
        let lane = engine.lanes.of(path);
        Ok(SystemFile::from(CalledFile::new(
            engine, lane, buffers, file, direct,
        )))
    }

    async fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let at = dir.to_owned();
        self.call(dir, move || names::list(&at)).await
    }

    async fn look(&self, dir: &Path, choose: ChooseFiles) -> io::Result<DirLook> {
        let at = dir.to_owned();
        self.call(dir, move || names::look(&at, choose)).await
    }

    async fn read_files(
        &self,
        dir: &Path,
        paths: Vec<PathBuf>,
        bytes_max: u64,
    ) -> Vec<io::Result<Vec<u8>>> {
        let count = paths.len();
        let read = move || {
            let files = paths.iter();
            let read = files.map(|path| crate::bounded::file(path, bytes_max));
            Ok(read.collect::<Vec<_>>())
        };
        self.call(dir, read).await.unwrap_or_else(|stopped| {
            // The runtime ends: nothing was read.
            let mut none = Vec::new();
            none.resize_with(count, || Err(io::Error::other(stopped.to_string())));
            none
        })
    }

    async fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let at = dir.to_owned();
        self.call(dir, move || names::create_dir(&at)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (at, to) = (from.to_owned(), to.to_owned());
        self.call(from, move || std::fs::rename(at, to)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let at = path.to_owned();
        self.call(path, move || std::fs::remove_file(at)).await
    }

    async fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let at = dir.to_owned();
        self.call(dir, move || std::fs::remove_dir_all(at)).await
    }

    async fn remove_file_in_pieces(&self, path: &Path) -> io::Result<()> {
        let lane = self.engine.lanes.of(path);
        // Files keep their names until their turn: what still takes room can be seen.
        let turn = lane.freeing().await;
        let at = path.to_owned();
        let left = self.call(path, move || freeing::unname(&at)).await?;
        if let Some(file) = left {
            self.free(path, file, &turn).await;
        }
        Ok(())
    }

    async fn remove_dir_in_pieces(&self, dir: &Path) -> io::Result<()> {
        let at = dir.to_owned();
        for path in self.call(dir, move || freeing::large_files(&at)).await? {
            // One that cannot be removed here fails the removal of the directory.
            let _ = self.remove_file_in_pieces(&path).await;
        }
        self.remove_dir(dir).await
    }

    async fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let at = dir.to_owned();
        self.call(dir, move || names::sync_dir(&at)).await
    }

    async fn read_file_within(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let at = path.to_owned();
        self.call(path, move || crate::bounded::file(&at, bytes_max))
            .await
    }

    async fn replace_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replace_file_by(path, Bytes::copy_from_slice(bytes))
            .await
    }

    async fn replace_file_by(&self, path: &Path, bytes: Bytes) -> io::Result<()> {
        let at = path.to_owned();
        self.call(path, move || names::replace_file(&at, &bytes))
            .await
    }

    async fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        let at = path.to_owned();
        self.call(path, move || names::set_modified(&at, modified_ms))
            .await
    }

    async fn space(&self, dir: &Path) -> io::Result<Space> {
        let at = dir.to_owned();
        self.call(dir, move || names::space(&at)).await
    }
}

fn open(path: &Path, how: Open, direct: bool) -> io::Result<(OwnedFd, bool)> {
    // Opening a pipe under a segment's name must not block.
    let flags = OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
    let mode = names::FILE_MODE;
    if direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, mode).map_err(io::Error::from) {
            Ok(file) => return Ok((crate::bounded::regular(file)?, true)),
            // On some kernels a refused creation still creates the name: see below.
            Err(error) if direct::refused(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let flags = if direct && how == Open::Create {
        flags - OFlags::EXCL
    } else {
        flags
    };
    let file = rustix::fs::open(path, flags, mode)?;
    Ok((crate::bounded::regular(file)?, false))
}
