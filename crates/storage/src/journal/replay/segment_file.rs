//! A segment's file that gets what a ring has of it: compared, written where it differs, given its
//! length, synced.
//!
//! Invariants: a whole batch that is not the ring's is never written over, unless a cut made it
//! void; what is around the bytes within their blocks stays; a file that has all bytes already is
//! synced like one that gets them, since a killed process leaves what is not on the disk yet.
//! It does not decide what belongs there (`plan`), or make names durable.

use std::path::{Path, PathBuf};

use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Open};
use wire::types::Offset;

use super::batch_walk::BatchWalk;
use super::plan::{RefusalReason, SegmentPlan};
#[cfg(test)]
use super::planted::{ReplayBug, is_planted};
use crate::journal::BLOCK;
use crate::journal::error::{JournalError, Result};
use crate::num::index;
use crate::segment::scan::{MAGIC, Scan};

/// Bytes that are gathered for one write.
const RUN_BYTES_MAX: usize = 1 << 20;

/// Bytes of one read while a batch is verified.
const VERIFY_BYTES: usize = 1 << 20;

/// A file that is being brought in order.
pub(super) struct SegmentFile {
    path: PathBuf,
    segment: Offset,
    is_there: bool,
    void_from: u64,
    /// How long it is at the end.
    length: u64,
    /// Bytes that follow each other, to be written. Bounded: [`RUN_BYTES_MAX`] and a part.
    run: Vec<u8>,
    run_at: u64,
    /// The batches of the runs.
    batches: BatchWalk,
    written: u64,
}

impl SegmentFile {
    pub(super) fn new(path: PathBuf, plan: &SegmentPlan) -> Self {
        Self {
            path,
            segment: plan.segment,
            is_there: plan.found.is_some(),
            void_from: plan.void_from.map_or(u64::MAX, u64::from),
            length: plan.length(),
            run: Vec::new(),
            run_at: 0,
            batches: BatchWalk::at(0),
            written: 0,
        }
    }

    /// Returns the bytes that are gathered.
    pub(super) fn gathered(&self) -> usize {
        self.run.len()
    }

    /// Returns the bytes that it did not have.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Takes bytes; returns why the log is refused, if it is.
    pub(super) async fn take<D: Disk>(
        &mut self,
        disk: &D,
        position: u32,
        bytes: &[u8],
    ) -> Result<Option<RefusalReason>> {
        let position = u64::from(position);
        let run_end = self.run_at.saturating_add(self.run.len() as u64);
        let is_apart = position != run_end || position == self.void_from;
        let is_much = self.run.len().saturating_add(bytes.len()) > RUN_BYTES_MAX;
        if (is_apart || is_much)
            && let Some(refused) = self.flush(disk).await?
        {
            return Ok(Some(refused));
        }
        if self.run.is_empty() {
            self.run_at = position;
        }
        self.run.extend_from_slice(bytes);
        Ok(None)
    }

    /// Writes what is gathered, unless the file has it; returns why the log is refused, if it is.
    pub(super) async fn flush<D: Disk>(&mut self, disk: &D) -> Result<Option<RefusalReason>> {
        let run = std::mem::take(&mut self.run);
        if run.is_empty() {
            return Ok(None);
        }
        let batch_at = self.batches.batch_of(self.run_at);
        assert!(
            batch_at <= self.run_at,
            "a run begins with a batch or within it"
        );
        let refused = self.put(disk, &run, batch_at).await?;
        self.batches.pass(&run);
        Ok(refused)
    }

    /// Writes a run, unless the file has it; its first byte is one of the batch at `batch_at`.
    async fn put<D: Disk>(
        &mut self,
        disk: &D,
        run: &[u8],
        batch_at: u64,
    ) -> Result<Option<RefusalReason>> {
        let file = self.open(disk).await?;
        let read = file.read_at(self.run_at, run.len()).await;
        let found = read.map_err(JournalError::io("read", &self.path))?;
        if found == run {
            return Ok(None);
        }
        let vouched = index(self.void_from.saturating_sub(self.run_at));
        let mut pairs = found.iter().zip(run).take(vouched);
        if let Some(differs) = pairs.position(|(found, ours)| found != ours) {
            let differs = self.run_at.saturating_add(differs as u64);
            if let Some(position) = self.other_batch(&file, batch_at, differs).await? {
                let segment = self.segment;
                return Ok(Some(RefusalReason::Other { segment, position }));
            }
        }
        self.write(&file, run).await?;
        self.written = self.written.saturating_add(run.len() as u64);
        Ok(None)
    }

    async fn open<D: Disk>(&mut self, disk: &D) -> Result<D::File> {
        open(
            disk,
            &self.path,
            std::mem::replace(&mut self.is_there, true),
        )
        .await
    }

    /// Returns where the whole batch begins that the file has over a position at which it differs
    /// from the ring; the file is like the ring from the batch at `batch_at` up to there.
    ///
    /// What a crash leaves of a write is no whole batch, or the batch that was written.
    async fn other_batch<F: DiskFile>(
        &self,
        file: &F,
        batch_at: u64,
        differs: u64,
    ) -> Result<Option<u64>> {
        let io = || JournalError::io("read", &self.path);
        let len = file.len().await.map_err(io())?;
        let mut scan = Scan::new(file, batch_at, len.min(self.void_from), VERIFY_BYTES);
        while let Some(header) = scan.header().await.map_err(io())? {
            let end = scan.position().saturating_add(header.size_bytes as u64);
            if end > differs {
                let is_whole =
                    header.magic == MAGIC && scan.crc_is_right(&header).await.map_err(io())?;
                return Ok(is_whole.then(|| scan.position()));
            }
            scan.skip(&header);
        }
        Ok(None)
    }

    async fn write<F: DiskFile>(&self, file: &F, run: &[u8]) -> Result<()> {
        let block = |at: u64| (at / BLOCK).saturating_mul(BLOCK);
        let stop = self.run_at.saturating_add(run.len() as u64);
        let start = block(self.run_at);
        let end = stop.checked_next_multiple_of(BLOCK).unwrap_or(stop); // Far below 2^32.
        assert!(
            start <= self.run_at && stop <= end,
            "the run is within its blocks"
        );
        let before = index(self.run_at.saturating_sub(start));
        let mut blocks = AlignedBuf::zeroed(index(end.saturating_sub(start)));
        for (at, len) in [(start, before), (stop, index(end.saturating_sub(stop)))] {
            if len == 0 {
                continue;
            }
            let read = file.read_at(at, len).await;
            let found = read.map_err(JournalError::io("read", &self.path))?;
            let into = blocks.get_mut(index(at.saturating_sub(start))..);
            let into = into.and_then(|into| into.get_mut(..found.len()));
            into.expect("it is within the blocks")
                .copy_from_slice(&found);
        }
        let into = blocks.get_mut(before..);
        let into = into.and_then(|into| into.get_mut(..run.len()));
        into.expect("the bytes are within their blocks")
            .copy_from_slice(run);
        let written = file.write_at(start, vec![blocks.freeze()]).await;
        written.map_err(JournalError::io("write", &self.path))
    }

    /// Gives the file its length, and syncs it; all bytes were written.
    pub(super) async fn end<D: Disk>(self, disk: D) -> Result<()> {
        assert!(self.run.is_empty(), "what was gathered was written");
        #[cfg(test)]
        if self.written == 0 && is_planted(ReplayBug::SkipWhole) {
            return Ok(());
        }
        let file = open(&disk, &self.path, self.is_there).await?;
        let len = file.len().await;
        let len = len.map_err(JournalError::io("read", &self.path))?;
        #[cfg(test)]
        let len = if is_planted(ReplayBug::KeepVoid) {
            self.length
        } else {
            len
        };
        if len != self.length {
            let cut = file.set_len(self.length).await;
            cut.map_err(JournalError::io("cut", &self.path))?;
        }
        #[cfg(test)]
        if is_planted(ReplayBug::SkipSyncs) {
            return Ok(());
        }
        let synced = file.sync().await;
        synced.map_err(JournalError::io("sync", &self.path))
    }
}

/// Opens the file, or makes it.
async fn open<D: Disk>(disk: &D, path: &Path, is_there: bool) -> Result<D::File> {
    let how = if is_there { Open::Write } else { Open::Create };
    let opened = disk.open(path, how).await;
    opened.map_err(JournalError::io("open", path))
}
