//! A segment file that is accessed by system calls: completing partial transfers, alignment, and
//! the latch.
//!
//! Writes and syncs run as separate tasks, so a caller that stops waiting neither tears a write nor
//! hides its failure from the latch. Invariants: after a failed write or sync all later ones are
//! refused; a partial transfer continues at a block boundary; a durable write is synced after it
//! if a piece of it was not durable by itself.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::direct;
use super::durable::{DurableWrites, WriteKind};
use super::engine::{Engine, PARTS_MAX};
use super::lanes::Lane;
use super::threads::run;
use super::turns::Turn;
use crate::buf::{AlignedBuf, BufPool, block_ceil, block_floor};
use crate::disk::{BLOCK_BYTES, DiskFile, IoClass, check_aligned};
use crate::latch::Latch;

/// An open file; clones share it and its latch.
#[derive(Clone)]
pub(super) struct CalledFile {
    shared: Rc<SharedFile>,
    class: IoClass,
}

struct SharedFile {
    engine: Rc<Engine>,
    lane: Arc<Lane>,
    buffers: BufPool,
    file: Arc<OwnedFd>,
    direct: Cell<bool>,
    durable: DurableWrites,
    latch: Latch,
}

impl CalledFile {
    pub(super) fn new(
        engine: Rc<Engine>,
        lane: Arc<Lane>,
        buffers: BufPool,
        file: OwnedFd,
        direct: bool,
    ) -> Self {
        Self {
            shared: Rc::new(SharedFile {
                engine,
                lane,
                buffers,
                file: Arc::new(file),
                direct: Cell::new(direct),
                durable: DurableWrites::default(),
                latch: Latch::default(),
            }),
            class: IoClass::default(),
        }
    }

    /// Returns true when the file bypasses the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.shared.direct.get()
    }

    async fn write(&self, position: u64, parts: Vec<Bytes>, wanted: WriteKind) -> io::Result<()> {
        check_aligned(position, &parts);
        self.shared.latch.check()?;
        let (shared, class) = (Rc::clone(&self.shared), self.class);
        detached(async move {
            let result = shared.write_and_sync(class, position, parts, wanted).await;
            shared.latch.watch("write", result)
        })
        .await
    }
}

impl DiskFile for CalledFile {
    fn of_class(&self, class: IoClass) -> Self {
        let shared = Rc::clone(&self.shared);
        Self { shared, class }
    }

    async fn write_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        self.write(position, parts, WriteKind::Plain).await
    }

    async fn write_durably_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        self.write(position, parts, WriteKind::Durable).await
    }

    async fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        self.shared.read(self.class, position, len).await
    }

    async fn read_into(&self, position: u64, buf: AlignedBuf) -> io::Result<AlignedBuf> {
        let aligned = position.is_multiple_of(BLOCK_BYTES as u64);
        assert!(
            aligned && buf.len().is_multiple_of(BLOCK_BYTES),
            "unaligned read of {} bytes at {position}",
            buf.len()
        );
        let needed = buf.len();
        let turn = self.shared.turn(self.class, needed).await;
        let read = self.shared.fill(self.class, position, buf, needed, turn);
        read.await
    }

    async fn sync(&self) -> io::Result<()> {
        self.shared.latch.check()?;
        let shared = Rc::clone(&self.shared);
        detached(async move {
            let result = shared.sync().await;
            shared.latch.watch("sync", result)
        })
        .await
    }

    async fn allocate(&self, len: u64) -> io::Result<()> {
        let shared = &self.shared;
        loop {
            let lane = &shared.lane;
            match shared.engine.allocate(lane, &shared.file, len).await {
                Err(error) if is(&error, Errno::INTR) => {}
                Err(error) if is(&error, Errno::OPNOTSUPP) || is(&error, Errno::NOSYS) => break,
                result => return result,
            }
        }
        // This file system has no reservation; at least set the length.
        if self.len().await? < len {
            self.set_len(len).await?;
        }
        Ok(())
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        let file = Arc::clone(&self.shared.file);
        let place = self.shared.lane.call().await;
        run(move || {
            let _place = place;
            Ok(rustix::fs::ftruncate(&*file, len)?)
        })
        .await
    }

    async fn len(&self) -> io::Result<u64> {
        // The inode of an open file is in memory, so this needs no thread.
        let facts = rustix::fs::fstat(&*self.shared.file)?;
        Ok(u64::try_from(facts.st_size).unwrap_or(0))
    }
}

impl SharedFile {
    /// Writes, and makes durable what a durable write did not.
    async fn write_and_sync(
        &self,
        class: IoClass,
        position: u64,
        parts: Vec<Bytes>,
        wanted: WriteKind,
    ) -> io::Result<()> {
        let made = self.write_all(class, position, parts, wanted).await?;
        if made == wanted {
            return Ok(());
        }
        self.sync().await
    }

    /// Returns `Plain` if any piece was not durable when it was written.
    async fn write_all(
        &self,
        class: IoClass,
        mut position: u64,
        mut parts: Vec<Bytes>,
        wanted: WriteKind,
    ) -> io::Result<WriteKind> {
        parts.retain(|part| !part.is_empty());
        let (mut first, mut made) = (0, wanted);
        while first < parts.len() {
            let group = parts[first..parts.len().min(first + PARTS_MAX)].to_vec();
            let lane = &self.lane;
            let kind = self.durable.kind(wanted);
            let write = self
                .engine
                .write(lane, &self.file, class, position, group, kind);
            let written = match write.await {
                Ok(written) => written,
                Err(error) if self.durable.is_refused_by(&error, kind) => continue,
                Err(error) if self.may_retry(&error)? => continue,
                Err(error) => return Err(error),
            };
            self.durable.completed(kind);
            if kind == WriteKind::Plain {
                made = WriteKind::Plain;
            }
            // Bytes written beyond the last whole block are written again.
            let mut whole = block_floor(written);
            if whole == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            position += whole as u64;
            while whole > 0 {
                let part = &mut parts[first];
                let done = whole.min(part.len());
                part.advance(done);
                whole -= done;
                if part.is_empty() {
                    first += 1;
                }
            }
        }
        Ok(made)
    }

    async fn read(&self, class: IoClass, position: u64, len: usize) -> io::Result<Bytes> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let skip = usize::try_from(position % BLOCK_BYTES as u64).unwrap_or(0);
        let start = position - skip as u64;
        let turn = self.turn(class, len).await;
        let buf = self.buffers.take(block_ceil(skip + len));
        let mut buf = self.fill(class, start, buf, skip + len, turn).await?;
        buf.truncate(skip + len);
        let skip = skip.min(buf.len());
        Ok(buf.freeze().slice(skip..))
    }

    async fn turn(&self, class: IoClass, len: usize) -> Turn {
        self.engine.turns.take(&self.file, class, len).await
    }

    /// Fills the first `needed` bytes of a buffer, or more, from a block boundary on.
    ///
    /// Truncates the buffer to the bytes read.
    async fn fill(
        &self,
        class: IoClass,
        start: u64,
        mut buf: AlignedBuf,
        needed: usize,
        turn: Turn,
    ) -> io::Result<AlignedBuf> {
        let wanted = buf.len();
        let mut filled = 0;
        while filled < needed {
            let from = start + filled as u64;
            let part = filled..filled + turn.piece(wanted - filled);
            let kind = self.engine.kind_of_read(&buf);
            let kept = (turn.clone(), self.lane.request(kind).await);
            let read = self.engine.read(&self.file, class, from, buf, part, kept);
            let count = match read.await {
                Ok((count, back)) => {
                    buf = back;
                    count
                }
                Err(error) if self.may_retry(&error)? => {
                    buf = self.buffers.take(wanted);
                    filled = 0;
                    continue;
                }
                Err(error) => return Err(error),
            };
            filled += count;
            // A direct read stops within a block only at the end of the file, and cannot continue
            // there.
            let within_block = !count.is_multiple_of(BLOCK_BYTES);
            if count == 0 || (self.direct.get() && within_block) {
                break;
            }
        }
        buf.truncate(filled);
        Ok(buf)
    }

    async fn sync(&self) -> io::Result<()> {
        loop {
            match self.engine.sync(&self.lane, &self.file).await {
                Err(error) if is(&error, Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Returns true when the transfer is worth a retry.
    ///
    /// It was interrupted, or the file system refused direct I/O, which this call then switches
    /// off.
    fn may_retry(&self, error: &io::Error) -> io::Result<bool> {
        if is(error, Errno::INTR) || is(error, Errno::AGAIN) {
            return Ok(true);
        }
        if !self.direct.get() || !direct::refused(error) {
            return Ok(false);
        }
        tracing::warn!(%error, "direct i/o refused, using the page cache for this file");
        let flags = rustix::fs::fcntl_getfl(&*self.file)?;
        rustix::fs::fcntl_setfl(&*self.file, flags - OFlags::DIRECT)?;
        self.direct.set(false);
        Ok(true)
    }
}

/// Runs `work` to its end even if the caller stops waiting.
pub(super) async fn detached(
    work: impl Future<Output = io::Result<()>> + 'static,
) -> io::Result<()> {
    match tokio::task::spawn_local(work).await {
        Ok(result) => result,
        Err(stopped) => Err(io::Error::other(stopped)),
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
