//! A segment file that is read and written by calls: whole transfers out of partial ones, alignment,
//! and the latch.
//!
//! Writes and syncs run as tasks of their own: a caller that stops waiting neither tears a write in
//! the middle nor hides its failure from the latch. Invariants: after a failed write or sync all
//! later ones are refused; a transfer that stops short is continued at a block boundary.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::direct;
use super::engine::{Engine, PARTS_MAX};
use super::threads::run;
use super::turns::Turn;
use crate::buf::{AlignedBuf, BufPool, block_ceil, block_floor};
use crate::disk::{BLOCK_BYTES, DiskFile, IoClass};
use crate::latch::Latch;

/// An open file; clones share it and its latch.
#[derive(Clone)]
pub(super) struct CalledFile {
    shared: Rc<Shared>,
    class: IoClass,
}

struct Shared {
    engine: Rc<Engine>,
    buffers: BufPool,
    file: Arc<OwnedFd>,
    direct: Cell<bool>,
    latch: Latch,
}

impl CalledFile {
    pub(super) fn new(engine: Rc<Engine>, buffers: BufPool, file: OwnedFd, direct: bool) -> Self {
        Self {
            shared: Rc::new(Shared {
                engine,
                buffers,
                file: Arc::new(file),
                direct: Cell::new(direct),
                latch: Latch::default(),
            }),
            class: IoClass::default(),
        }
    }

    /// Whether it bypasses the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.shared.direct.get()
    }
}

impl DiskFile for CalledFile {
    fn of_class(&self, class: IoClass) -> Self {
        let shared = Rc::clone(&self.shared);
        Self { shared, class }
    }

    async fn write_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        check_aligned(position, &parts);
        self.shared.latch.check()?;
        let (shared, class) = (Rc::clone(&self.shared), self.class);
        detached(async move {
            let result = shared.write_all(class, position, parts).await;
            shared.latch.watch("write", result)
        })
        .await
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
            match shared.engine.allocate(&shared.file, len).await {
                Err(error) if is(&error, Errno::INTR) => {}
                Err(error) if is(&error, Errno::OPNOTSUPP) || is(&error, Errno::NOSYS) => break,
                result => return result,
            }
        }
        // No reservation on this file system; the length at least is known.
        if self.len().await? < len {
            self.set_len(len).await?;
        }
        Ok(())
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        let file = Arc::clone(&self.shared.file);
        run(move || Ok(rustix::fs::ftruncate(&*file, len)?)).await
    }

    async fn len(&self) -> io::Result<u64> {
        // The inode of an open file is in memory: no need for a thread.
        let facts = rustix::fs::fstat(&*self.shared.file)?;
        Ok(u64::try_from(facts.st_size).unwrap_or(0))
    }
}

impl Shared {
    async fn write_all(
        &self,
        class: IoClass,
        mut position: u64,
        mut parts: Vec<Bytes>,
    ) -> io::Result<()> {
        parts.retain(|part| !part.is_empty());
        let mut first = 0;
        while first < parts.len() {
            let group = parts[first..parts.len().min(first + PARTS_MAX)].to_vec();
            let written = match self.engine.write(&self.file, class, position, group).await {
                Ok(written) => written,
                Err(error) if self.may_retry(&error)? => continue,
                Err(error) => return Err(error),
            };
            // What is written beyond the last whole block is written again.
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
        Ok(())
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

    /// Fills a buffer, or the first `needed` bytes of it, from a block boundary on; cuts it to what
    /// has come.
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
            let engine = &self.engine;
            let read = engine.read(&self.file, class, from, buf, part, turn.clone());
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
            // A direct read stops within a block only at the end of the file, and cannot go on
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
            match self.engine.sync(&self.file).await {
                Err(error) if is(&error, Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Whether the transfer is worth another try: it was interrupted, or the file system has turned
    /// out not to do direct I/O, which is then switched off.
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

/// Writes are of whole blocks, from aligned memory, whatever the medium.
pub(super) fn check_aligned(position: u64, parts: &[Bytes]) {
    assert!(
        position.is_multiple_of(BLOCK_BYTES as u64),
        "write at an unaligned position: {position}"
    );
    for part in parts {
        let aligned = part.len().is_multiple_of(BLOCK_BYTES)
            && (part.is_empty() || part.as_ptr().align_offset(BLOCK_BYTES) == 0);
        assert!(
            aligned,
            "write of an unaligned part of {} bytes",
            part.len()
        );
    }
}

/// Runs to its end even if nobody waits for it any longer.
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
