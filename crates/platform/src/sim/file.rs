//! A file of the simulated disk: checks alignment, latches failures, and completes canceled writes.
//!
//! Invariants: a write in flight is not visible until it ends, and a crash meanwhile tears it; a
//! sync makes durable what was completed before it began, not what ended during it; a durable write
//! makes itself durable, and nothing else.

use std::io;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;

use super::content::Change;
use super::disk::{SimDisk, SimDiskState};
use super::fault::{OpKind, is_power_off};
use super::tree::NodeId;
use crate::buf::AlignedBuf;
use crate::disk::{BLOCK_BYTES, DiskFile, Open, check_aligned};
use crate::latch::Latch;

/// An open file; clones share it and its latch.
#[derive(Clone)]
pub struct SimFile {
    disk: SimDisk,
    node: NodeId,
    path: Rc<Path>,
    how: Open,
    latch: Rc<Latch>,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, node: NodeId, path: &Path, how: Open) -> Self {
        Self {
            disk,
            node,
            path: path.into(),
            how,
            latch: Rc::default(),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.how == Open::Read {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "file opened for reading",
            ));
        }
        Ok(())
    }

    /// Latches a failure, except a power loss, which is permanent by itself.
    fn watch<T>(&self, doing: &str, result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(error) if is_power_off(&error) => Err(error),
            result => self.latch.watch(doing, result),
        }
    }

    /// Writes at any alignment.
    pub(super) async fn write_any(&self, position: u64, bytes: Bytes) -> io::Result<()> {
        self.write(OpKind::Write, position, bytes).await
    }

    /// Writes; `kind` is [`OpKind::Write`] or [`OpKind::WriteDurably`].
    async fn write(&self, kind: OpKind, position: u64, bytes: Bytes) -> io::Result<()> {
        let is_write = matches!(kind, OpKind::Write | OpKind::WriteDurably);
        assert!(is_write, "there are two kinds of writes");
        self.check_writable()?;
        self.latch.check()?;
        let result = self.write_once(kind, position, bytes).await;
        self.watch("write", result)
    }

    async fn write_once(&self, kind: OpKind, position: u64, bytes: Bytes) -> io::Result<()> {
        let len = bytes.len() as u64;
        let change = Change::Write {
            position,
            bytes: bytes.clone(),
        };
        self.disk.start(kind, &self.path, |state| {
            let is_off = state.faults.off;
            state.with_rng(|tree, rng| {
                let content = tree.content_mut(self.node);
                match kind {
                    OpKind::WriteDurably if !is_off => content.apply_durably_failed(&change, rng),
                    _ => content.apply_torn(&change, rng),
                }
            });
        })?;
        let under_way = UnderWay::start(self, kind, position, bytes)?;
        self.disk.take_time().await;
        self.disk
            .take_time_for(&self.path, usize::try_from(len).unwrap_or(0))
            .await;
        self.disk.finish(|state| {
            state.faults.note(&position.to_le_bytes());
            state.faults.note(&len.to_le_bytes());
            under_way.end(state);
            Ok(())
        })
    }

    /// Syncs the file, with the latch.
    pub(super) async fn sync_now(&self) -> io::Result<()> {
        self.check_writable()?;
        self.latch.check()?;
        let mark = self.disk.with(|state| state.tree.content(self.node).mark());
        let whole = |state: &mut SimDiskState| {
            state.tree.content_mut(self.node).sync(mark);
            Ok(())
        };
        let part = |state: &mut SimDiskState| {
            // The power, or the process, ended here, and the system has dropped nothing: a crash
            // decides what is there, and after a kill a later sync still has it to write.
            if !state.faults.off {
                state.with_rng(|tree, rng| tree.content_mut(self.node).sync_failed(rng));
            }
        };
        let result = self.disk.act(OpKind::Sync, &self.path, whole, part).await;
        self.watch("sync", result)
    }
}

impl DiskFile for SimFile {
    async fn write_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        let bytes = copied(position, parts);
        self.write(OpKind::Write, position, bytes).await
    }

    async fn write_durably_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        let bytes = copied(position, parts);
        self.write(OpKind::WriteDurably, position, bytes).await
    }

    async fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let whole = |state: &mut SimDiskState| {
            let mut bytes = vec![0; len];
            let count = state
                .tree
                .content(self.node)
                .live()
                .read(position, &mut bytes);
            bytes.truncate(count);
            Ok(bytes.into())
        };
        let disk = &self.disk;
        disk.take_time_for(&self.path, len).await;
        disk.act(OpKind::Read, &self.path, whole, |_| ()).await
    }

    async fn read_into(&self, position: u64, mut buf: AlignedBuf) -> io::Result<AlignedBuf> {
        let aligned = position.is_multiple_of(BLOCK_BYTES as u64);
        assert!(
            aligned && buf.len().is_multiple_of(BLOCK_BYTES),
            "unaligned read of {} bytes at {position}",
            buf.len()
        );
        let len = buf.len();
        let whole = |state: &mut SimDiskState| {
            let live = state.tree.content(self.node).live();
            let count = live.read(position, &mut buf);
            buf.truncate(count);
            Ok(buf)
        };
        let disk = &self.disk;
        disk.take_time_for(&self.path, len).await;
        disk.act(OpKind::Read, &self.path, whole, |_| ()).await
    }

    async fn sync(&self) -> io::Result<()> {
        self.sync_now().await
    }

    async fn allocate(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let whole = |state: &mut SimDiskState| {
            let growth = state.tree.content(self.node).growth_of_reservation(len);
            state.check_room(&self.path, growth)?;
            state.change(self.node, Change::Extend(len));
            Ok(())
        };
        let part = |state: &mut SimDiskState| {
            if state.rng.chance(50) {
                state.tree.content_mut(self.node).apply(Change::Extend(len));
            }
        };
        let disk = &self.disk;
        disk.act(OpKind::Allocate, &self.path, whole, part).await
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let whole = |state: &mut SimDiskState| {
            state.change(self.node, Change::SetLen(len));
            Ok(())
        };
        let part = |state: &mut SimDiskState| {
            if state.rng.chance(50) {
                state.tree.content_mut(self.node).apply(Change::SetLen(len));
            }
        };
        let disk = &self.disk;
        disk.act(OpKind::SetLen, &self.path, whole, part).await
    }

    async fn len(&self) -> io::Result<u64> {
        let whole = |state: &mut SimDiskState| Ok(state.tree.content(self.node).live().len());
        self.disk.act(OpKind::Len, &self.path, whole, |_| ()).await
    }
}

/// Returns the bytes of a write, which is aligned.
///
/// The parts are no longer needed: the write in flight is a copy, as in a device's queue.
fn copied(position: u64, parts: Vec<Bytes>) -> Bytes {
    check_aligned(position, &parts);
    let mut bytes = Vec::with_capacity(parts.iter().map(Bytes::len).sum());
    for part in parts {
        bytes.extend_from_slice(&part);
    }
    bytes.into()
}

/// A write between its start and its end.
///
/// If it is dropped before the end (with its future), it still happens: a device completes a
/// request even when its caller stops waiting.
struct UnderWay<'a> {
    file: &'a SimFile,
    kind: OpKind,
    ticket: u64,
}

impl<'a> UnderWay<'a> {
    fn start(file: &'a SimFile, kind: OpKind, position: u64, bytes: Bytes) -> io::Result<Self> {
        let ticket = file.disk.with(|state| {
            let content = state.tree.content(file.node);
            let growth = content.growth_of_write(position, bytes.len() as u64);
            state.check_room(&file.path, growth)?;
            state.faults.note(&bytes);
            let ticket = state.faults.operations();
            let change = Change::Write { position, bytes };
            state.in_flight.insert(ticket, (file.node, change));
            io::Result::Ok(ticket)
        })?;
        Ok(Self { file, kind, ticket })
    }

    fn end(&self, state: &mut SimDiskState) {
        match state.in_flight.remove(&self.ticket) {
            Some((node, change)) if self.kind == OpKind::WriteDurably => {
                state.change_durably(node, change);
            }
            Some((node, change)) => state.change(node, change),
            None => {}
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.file.disk.with(|state| {
            if !state.faults.off {
                self.end(state);
            }
        });
    }
}
