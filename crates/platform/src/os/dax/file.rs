//! A mapped file: where bytes are written, and what must be durable before they count.
//!
//! A store into the mapping is durable only if the file system has made the block and the length
//! durable. So stores go only below `ready`, the end of the durable blocks and length. Bytes behind
//! `ready`, including the block that straddles it, are written through the descriptor and synced.
//! Reserved room ([`MappedFile::allocate`], which storage calls ahead of its appends) is zeroed and
//! synced first, so that appends are only stores.
//! Invariants: `ready` never exceeds the file's length; code that changes bytes or truncates the
//! file first detaches the readers of that part; the last written block may be written again, so
//! readers get a copy of it. Writes behind `ready`, reservations and truncations exclude one
//! another. When emulated, nothing is synced.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::guard::media_error;
use super::mapping::Mapping;
use crate::buf::{AlignedBuf, BufPool};
use crate::disk::{BLOCK_BYTES, Open, check_aligned};
use crate::latch::Latch;
use crate::os::called::detached;
use crate::os::threads::run;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes stored before the task yields to others of the shard.
const TURN_BYTES: usize = 256 << 10;

/// Minimum length of a mapping for appends; addresses cost nothing.
const MAPPED_BYTES_MIN: usize = 64 << 20;

/// A file of the medium, shared by all handles.
pub(super) struct Inode {
    file: Arc<OwnedFd>,
    writable: bool,
    emulated: bool,
    mapping: RefCell<Option<Arc<Mapping>>>,
    /// Earlier mappings whose slices readers still have.
    retired: RefCell<Vec<Weak<Mapping>>>,
    /// Stores may go below this position, a multiple of the block size.
    ready: Cell<u64>,
    /// True when the state of the file from before the first change is durable.
    settled: Cell<bool>,
    /// Bytes from here on may be written again, so there are no slices of them.
    rewritten_from: Cell<u64>,
    /// Reads end here while the file is being truncated to it.
    limit: Cell<u64>,
    /// True when the length has changed since the last sync.
    unsynced: Cell<bool>,
    /// Held by writes behind `ready`, reservations and truncations.
    growing: Semaphore,
    /// Held by every write.
    writing: Semaphore,
}

impl Inode {
    pub(super) fn new(file: OwnedFd, writable: bool, emulated: bool) -> Self {
        Self {
            file: Arc::new(file),
            writable,
            emulated,
            mapping: RefCell::new(None),
            retired: RefCell::default(),
            ready: Cell::new(0),
            settled: Cell::new(false),
            rewritten_from: Cell::new(u64::MAX),
            limit: Cell::new(u64::MAX),
            unsynced: Cell::new(false),
            growing: Semaphore::new(1),
            writing: Semaphore::new(1),
        }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the length of the file.
    fn len(&self) -> io::Result<u64> {
        // The inode of an open file is in memory, so this needs no thread.
        let facts = rustix::fs::fstat(&*self.file)?;
        Ok(u64::try_from(facts.st_size).unwrap_or(0))
    }

    async fn may_grow(&self) -> io::Result<SemaphorePermit<'_>> {
        self.growing.acquire().await.map_err(io::Error::other)
    }

    /// Runs a blocking call on the descriptor.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&OwnedFd) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = Arc::clone(&self.file);
        run(move || call(&file)).await
    }

    /// Returns a mapping of at least the first `end` bytes.
    fn mapping_upto(&self, end: u64) -> io::Result<Arc<Mapping>> {
        let needed = usize::try_from(end).map_err(io::Error::other)?;
        if let Some(mapping) = self.mapping.borrow().as_ref()
            && mapping.len() >= needed
            && !mapping.is_damaged()
        {
            return Ok(Arc::clone(mapping));
        }
        self.retire();
        let len = if self.writable && self.settled.get() {
            needed.max(MAPPED_BYTES_MIN).next_power_of_two()
        } else {
            usize::try_from(self.len()?)
                .map_err(io::Error::other)?
                .max(needed)
        };
        let mapping = Arc::new(Mapping::new(
            &self.file,
            len,
            self.writable,
            !self.emulated,
        )?);
        *self.mapping.borrow_mut() = Some(Arc::clone(&mapping));
        Ok(mapping)
    }

    /// Retires the current mapping, so that the next use of the file creates a new one.
    ///
    /// Its readers keep it.
    fn retire(&self) {
        let mut retired = self.retired.borrow_mut();
        let is_read = |mapping: &Arc<Mapping>| mapping.slices_end() > 0;
        retired.retain(|mapping| mapping.upgrade().as_ref().is_some_and(is_read));
        let present = self.mapping.borrow_mut().take();
        retired.extend(present.filter(is_read).as_ref().map(Arc::downgrade));
    }

    /// Gives readers of bytes behind `position` a copy, because the file is about to change there.
    fn detach_readers(&self, position: u64) -> io::Result<()> {
        for mapping in self.retired.borrow().iter().filter_map(Weak::upgrade) {
            if mapping.slices_end() > position {
                mapping.detach(position)?;
            }
        }
        let present = self.mapping.borrow().clone();
        if let Some(present) = present
            && present.slices_end() > position
        {
            // Retired first, also for the case that detaching fails half-way.
            self.retire();
            present.detach(position)?;
        }
        Ok(())
    }

    /// Makes the existing blocks and length durable before the first change.
    ///
    /// The process that wrote them may have been killed before its sync.
    async fn settle(&self) -> io::Result<()> {
        if self.settled.get() {
            return Ok(());
        }
        let durable = !self.emulated;
        let len = self
            .call(move |file| {
                let facts = rustix::fs::fstat(file)?;
                let len = u64::try_from(facts.st_size).unwrap_or(0);
                let reserved = len == 0 || reserve(file, len)?;
                if durable {
                    rustix::fs::fsync(file)?;
                }
                Ok(if reserved { len } else { 0 })
            })
            .await?;
        self.ready.set(len - len % BLOCK);
        self.settled.set(true);
        // A read-only mapping is too short for the coming writes.
        self.retire();
        Ok(())
    }

    /// Stores the part below `ready`; returns where it stopped and the remaining parts.
    async fn store(&self, position: u64, parts: Vec<Bytes>) -> io::Result<(u64, Vec<Bytes>)> {
        let mut at = position;
        let mut rest = Vec::new();
        let mut turn = 0;
        for mut part in parts {
            while !part.is_empty() && at < self.ready.get() && rest.is_empty() {
                let room = usize::try_from(self.ready.get() - at).unwrap_or(usize::MAX);
                // Bounded: the minimum with `part.len()`.
                let piece = part.split_to(part.len().min(room).min(TURN_BYTES));
                let mapping = self.mapping_upto(at + piece.len() as u64)?;
                mapping.store(offset(at)?, &piece)?;
                at += piece.len() as u64;
                turn += piece.len();
                if turn >= TURN_BYTES && !part.is_empty() {
                    turn = 0;
                    tokio::task::yield_now().await;
                }
            }
            if !part.is_empty() {
                rest.push(part);
            }
        }
        Ok((at, rest))
    }

    async fn write(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        // Bounded: lengths of bytes in memory.
        let end = position + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if end == position {
            return Ok(());
        }
        let _turn = self.writing.acquire().await.map_err(io::Error::other)?;
        if !self.settled.get() {
            let _turn = self.may_grow().await?;
            self.settle().await?;
        }
        self.rewritten_from
            .set(self.rewritten_from.get().min(position));
        self.detach_readers(position)?;
        let (at, rest) = self.store(position, parts).await?;
        if !rest.is_empty() {
            let _turn = self.may_grow().await?;
            // A reservation may have made room meanwhile.
            let (at, rest) = self.store(at, rest).await?;
            self.append(at, rest).await?;
        }
        self.rewritten_from.set(end - BLOCK);
        Ok(())
    }

    /// Durably writes the part behind `ready` through the descriptor.
    async fn append(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        let durable = !self.emulated;
        let end = self
            .call(move |file| {
                let mut at = position;
                for part in &parts {
                    write_all(file, at, part)?;
                    at += part.len() as u64;
                }
                if durable {
                    rustix::fs::fdatasync(file)?;
                }
                Ok(at)
            })
            .await?;
        if position <= self.ready.get() {
            self.ready.set(self.ready.get().max(end));
        }
        Ok(())
    }

    async fn allocate(&self, len: u64) -> io::Result<()> {
        let _turn = self.may_grow().await?;
        self.settle().await?;
        let durable = !self.emulated;
        let (reserved, before) = self
            .call(move |file| {
                let facts = rustix::fs::fstat(file)?;
                let before = u64::try_from(facts.st_size).unwrap_or(0);
                let reserved = reserve(file, len)?;
                if !reserved && len > before {
                    rustix::fs::ftruncate(file, len)?;
                }
                if reserved && durable {
                    // A block that is only reserved costs a file system transaction at its first
                    // store.
                    zero(file, before.next_multiple_of(BLOCK), len)?;
                }
                if durable {
                    rustix::fs::fsync(file)?;
                }
                Ok((reserved, before))
            })
            .await?;
        if reserved && self.ready.get() < len - len % BLOCK {
            self.ready.set(len - len % BLOCK);
            if durable {
                let mapping = self.mapping_upto(len)?;
                let range = offset(before)?..offset(len)?;
                run(move || {
                    mapping.populate(range);
                    Ok(())
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        let _turn = self.may_grow().await?;
        let present = self.len()?;
        self.limit.set(len);
        let cut = async {
            self.detach_readers(len)?;
            if len < present {
                self.ready.set(self.ready.get().min(len - len % BLOCK));
            }
            self.call(move |file| Ok(rustix::fs::ftruncate(file, len)?))
                .await
        };
        let result = cut.await;
        self.limit.set(u64::MAX);
        self.unsynced.set(true);
        result
    }

    async fn sync(&self) -> io::Result<()> {
        if self.emulated || !self.unsynced.get() {
            return Ok(());
        }
        self.call(|file| Ok(rustix::fs::fsync(file)?)).await?;
        self.unsynced.set(false);
        Ok(())
    }

    /// Returns the part of `len` bytes at `position` that exists.
    fn range(&self, position: u64, len: usize) -> io::Result<Range<u64>> {
        let end = self.len()?.min(self.limit.get());
        Ok(position..position.saturating_add(len as u64).min(end).max(position))
    }
}

/// An open file; clones share it and its latch.
#[derive(Clone)]
pub(in crate::os) struct MappedFile {
    inode: Rc<Inode>,
    how: Open,
    buffers: BufPool,
    latch: Rc<Latch>,
}

impl MappedFile {
    pub(super) fn new(inode: Rc<Inode>, how: Open, buffers: BufPool) -> Self {
        Self {
            inode,
            how,
            buffers,
            latch: Rc::default(),
        }
    }

    pub(in crate::os) fn is_emulated(&self) -> bool {
        self.inode.emulated
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.how == Open::Read {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    pub(in crate::os) async fn write_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        check_aligned(position, &parts);
        self.check_writable()?;
        self.latch.check()?;
        let (inode, latch) = (Rc::clone(&self.inode), Rc::clone(&self.latch));
        detached(async move {
            let result = inode.write(position, parts).await;
            latch.watch("write", result)
        })
        .await
    }

    pub(in crate::os) fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let range = self.inode.range(position, len)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if range.end > self.inode.rewritten_from.get() {
            let buf = self.buffers.take(len);
            return Ok(self.load(range, buf)?.freeze());
        }
        let mapping = self.inode.mapping_upto(range.end)?;
        mapping.slice(offset(range.start)?..offset(range.end)?)
    }

    pub(in crate::os) fn read_into(
        &self,
        position: u64,
        buf: AlignedBuf,
    ) -> io::Result<AlignedBuf> {
        let range = self.inode.range(position, buf.len())?;
        self.load(range, buf)
    }

    fn load(&self, range: Range<u64>, mut buf: AlignedBuf) -> io::Result<AlignedBuf> {
        buf.truncate(offset(range.end - range.start)?);
        let mapping = self.inode.mapping_upto(range.end)?;
        mapping.load(offset(range.start)?, &mut buf)?;
        Ok(buf)
    }

    pub(in crate::os) async fn sync(&self) -> io::Result<()> {
        self.latch.check()?;
        let result = self.inode.sync().await;
        self.latch.watch("sync", result)
    }

    pub(in crate::os) async fn allocate(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let inode = Rc::clone(&self.inode);
        detached(async move { inode.allocate(len).await }).await
    }

    pub(in crate::os) async fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let inode = Rc::clone(&self.inode);
        detached(async move { inode.set_len(len).await }).await
    }

    pub(in crate::os) fn len(&self) -> io::Result<u64> {
        self.inode.len()
    }
}

/// Reserves blocks for the first `len` bytes and extends the file to at least that length.
///
/// Returns false where the file system has no such call.
fn reserve(file: &OwnedFd, len: u64) -> io::Result<bool> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            result => return Ok(result.map(|()| true)?),
        }
    }
}

fn zero(file: &OwnedFd, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; TURN_BYTES] = [0; TURN_BYTES];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at)
            .unwrap_or(usize::MAX)
            .min(TURN_BYTES);
        write_all(file, at, &ZEROS[..len])?;
        at += len as u64;
    }
    Ok(())
}

fn write_all(file: &OwnedFd, mut position: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                position += count as u64;
            }
            Err(Errno::INTR) => {}
            // The bytes came from a mapping whose medium failed.
            Err(Errno::FAULT) => return Err(media_error()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn offset(position: u64) -> io::Result<usize> {
    usize::try_from(position).map_err(io::Error::other)
}
