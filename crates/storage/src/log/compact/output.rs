//! The segment that a round makes: its data file as it grows, and its indexes.
//!
//! The file is written from its front in blocks of one buffer, under a name that both this broker
//! and Kafka remove at a start. As long as all that was added is the front of an existing segment,
//! nothing is written: a segment that loses nothing stays where it is.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::buf::{AlignedBuf, BufPool, block_ceil};
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, IoClass, Open};
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::super::Log;
use super::super::indexes::Indexes;
use super::super::txn_index::{AbortedTxn, TxnIndex};
use super::pace::Pace;
use crate::error::{Error, Result};
use crate::num::index;
use crate::segment::naming::{Role, cleaned_path};
use crate::segment::{File, LoadedIndexes, Segment};

/// A segment that is being made.
pub(super) struct Output<P: Platform> {
    /// The folder of the first segment it is made of.
    folder: Rc<Path>,
    pub(super) base: Offset,
    indexes: Indexes,
    aborted: TxnIndex,
    size: u64,
    /// The offset after the last batch.
    next: Offset,
    /// The segment whose front equals all that was added so far.
    same_as: Option<Rc<Segment<P>>>,
    writer: Option<Writer<P>>,
    buffer_bytes: usize,
}

/// A segment that was made.
pub(super) struct CompactedSegment {
    pub(super) folder: Rc<Path>,
    pub(super) base: Offset,
    pub(super) size: u64,
    /// The offset after its last batch.
    pub(super) next: Offset,
    pub(super) loaded: LoadedIndexes,
}

impl<P: Platform> Output<P> {
    /// Starts an empty output for what is made of `segments`.
    pub(super) fn new(log: &Log<P>, segments: &[Rc<Segment<P>>], buffer_bytes: usize) -> Self {
        let [first, ..] = segments else {
            unreachable!("a group has segments");
        };
        let base = first.base;
        let same_as = match segments {
            [only] => Some(Rc::clone(only)),
            _ => None,
        };
        Self {
            folder: Rc::clone(&first.folder),
            base,
            indexes: Indexes::new(base, log.index_options()),
            aborted: TxnIndex::new(),
            size: 0,
            next: base,
            same_as,
            writer: None,
            buffer_bytes,
        }
    }

    /// Returns the bytes so far.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the offset after the last batch so far.
    pub(super) fn next(&self) -> Offset {
        self.next
    }

    /// Notes an aborted transaction that ends here.
    pub(super) fn note_aborted(&mut self, txn: AbortedTxn) {
        self.aborted.append(txn);
    }

    /// Writes what was held back: from here on the output differs from the existing segment.
    pub(super) async fn differ(&mut self, log: &Log<P>, pace: &Pace<'_, P>) -> Result<()> {
        let Some(segment) = self.same_as.take() else {
            return Ok(());
        };
        let from = segment.file(log.store.disk()).await?;
        let from = from.of_class(IoClass::Background);
        let path = segment.path(Role::Log);
        let mut at = 0;
        while at < self.size {
            let len = index(self.size - at).min(self.buffer_bytes);
            let bytes = from
                .read_at(at, len)
                .await
                .map_err(Error::io("read", &path))?;
            if bytes.is_empty() {
                return Err(Error::Corrupt {
                    path,
                    position: at,
                    reason: "the file has become shorter",
                });
            }
            at += bytes.len() as u64;
            pace.step(bytes.len(), 0, 0).await?;
            self.write(log, pace, &bytes).await?;
        }
        Ok(())
    }

    /// Adds a batch.
    pub(super) async fn add(
        &mut self,
        log: &Log<P>,
        pace: &Pace<'_, P>,
        header: &BatchHeader,
        batch: &Bytes,
    ) -> Result<()> {
        assert_eq!(
            batch.len(),
            header.size_bytes,
            "a batch is as long as its header says"
        );
        // The walk refuses any other order, within a segment and past its end.
        assert!(header.base_offset >= self.next, "offsets ascend");
        self.indexes.append(header, self.size);
        self.size += batch.len() as u64;
        self.next = header.next_offset();
        if self.same_as.is_some() {
            return Ok(());
        }
        self.write(log, pace, batch).await
    }

    /// Makes everything durable, under names of files not in place; `None` when nothing was to be
    /// written.
    pub(super) async fn finish(
        mut self,
        log: &Log<P>,
        pace: &Pace<'_, P>,
    ) -> Result<Option<CompactedSegment>> {
        if self.same_as.is_some() {
            return Ok(None);
        }
        // An empty segment also has a file.
        self.write(log, pace, &Bytes::new()).await?;
        if let Some(writer) = self.writer.take() {
            writer.finish(pace, self.size).await?;
        }
        self.indexes.seal();
        let aborted = self.aborted.encode();
        for (role, bytes) in [
            (Role::OffsetIndex, self.indexes.offsets.encode()),
            (Role::TimeIndex, self.indexes.times.encode()),
            (Role::TxnIndex, aborted),
        ] {
            if role == Role::TxnIndex && bytes.is_empty() {
                continue;
            }
            let path = cleaned_path(&self.folder, self.base, role);
            let written = log.store.disk().replace_file(&path, &bytes).await;
            written.map_err(Error::io("write", &path))?;
        }
        Ok(Some(CompactedSegment {
            folder: self.folder,
            base: self.base,
            size: self.size,
            next: self.next,
            loaded: LoadedIndexes {
                indexes: self.indexes,
                aborted: self.aborted,
            },
        }))
    }

    async fn write(&mut self, log: &Log<P>, pace: &Pace<'_, P>, bytes: &[u8]) -> Result<()> {
        let writer = if let Some(writer) = &mut self.writer {
            writer
        } else {
            let path = cleaned_path(&self.folder, self.base, Role::Log);
            let writer = Writer::create(log.store.disk(), path, self.buffer_bytes).await?;
            self.writer.insert(writer)
        };
        writer.append(pace, bytes).await
    }
}

/// A file that is written once from front to back.
struct Writer<P: Platform> {
    path: PathBuf,
    file: File<P>,
    pool: BufPool,
    buffer: AlignedBuf,
    filled: usize,
    position: u64,
}

impl<P: Platform> Writer<P> {
    async fn create(disk: &P::Disk, path: PathBuf, buffer_bytes: usize) -> Result<Self> {
        let file = disk.open(&path, Open::Create).await;
        let file = file.map_err(Error::io("create", &path))?;
        let file = file.of_class(IoClass::Background);
        let pool = BufPool::new(2 * buffer_bytes);
        let buffer = pool.take(buffer_bytes);
        Ok(Self {
            path,
            file,
            pool,
            buffer,
            filled: 0,
            position: 0,
        })
    }

    async fn append(&mut self, pace: &Pace<'_, P>, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = self.buffer.len() - self.filled;
            // Bounded: the lesser of both.
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == self.buffer.len() {
                self.write(pace, self.filled).await?;
            }
        }
        Ok(())
    }

    /// Writes the last blocks, cuts the file to its length and syncs it.
    async fn finish(mut self, pace: &Pace<'_, P>, size: u64) -> Result<()> {
        let len = block_ceil(self.filled);
        self.buffer[self.filled..len].fill(0);
        if len > 0 {
            self.write(pace, len).await?;
        }
        assert!(
            size <= self.position,
            "the file is cut to what was written to it"
        );
        let path = &self.path;
        self.file
            .set_len(size)
            .await
            .map_err(Error::io("cut", path))?;
        self.file.sync().await.map_err(Error::io("sync", path))
    }

    async fn write(&mut self, pace: &Pace<'_, P>, len: usize) -> Result<()> {
        assert_eq!(len % BLOCK_BYTES, 0, "a disk is written to in blocks");
        let fresh = self.pool.take(self.buffer.len());
        let mut full = std::mem::replace(&mut self.buffer, fresh);
        full.truncate(len);
        let written = self.file.write_at(self.position, vec![full.freeze()]).await;
        written.map_err(Error::io("write", &self.path))?;
        self.position += len as u64;
        self.filled = 0;
        pace.step(0, len, 0).await
    }
}
