//! Decides which operation fails, and how; records the operations.
//!
//! Operations are numbered from 0 over the life of a disk, so a test of "every k-th operation" runs
//! a workload once to count and then once for each k. Not here: the effect on files
//! (`sim/content.rs`, `sim/tree.rs`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A kind of disk operation; `replace_file` and `create_dir` consist of several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// Opening an existing file.
    Open,
    /// Creating a file, either a segment or a small one.
    Create,
    /// A read of a segment file.
    Read,
    /// A write to a segment file or a small one.
    Write,
    /// A sync of a file.
    Sync,
    /// A reservation.
    Allocate,
    /// A change of length.
    SetLen,
    /// Setting a modification time.
    SetModified,
    /// Reading a length.
    Len,
    /// Listing a directory.
    List,
    /// Creating one directory.
    CreateDir,
    /// Renaming.
    Rename,
    /// Removing a file.
    RemoveFile,
    /// Removing a directory.
    RemoveDir,
    /// A sync of a directory.
    SyncDir,
    /// Reading a small file.
    ReadFile,
    /// Reading the free room.
    Space,
    /// A durable write to a segment file.
    WriteDurably,
}

impl OpKind {
    /// Returns true when the operation needs a descriptor.
    pub fn needs_descriptor(self) -> bool {
        matches!(
            self,
            Self::Open | Self::Create | Self::List | Self::SyncDir | Self::ReadFile
        )
    }

    /// Returns true when the operation changes the disk.
    pub fn mutates(self) -> bool {
        !matches!(
            self,
            Self::Open | Self::Read | Self::Len | Self::List | Self::ReadFile | Self::Space
        )
    }
}

/// What happens to a selected operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It fails. A write may have happened in parts; a sync drops the changes that it should have
    /// made durable; of a durable write some is durable, and readers may see all of it.
    Fail(io::ErrorKind),
    /// It fails with an error number (such as EMFILE) that has no error kind, and has no effect.
    Errno(i32),
    /// It takes this additional time, and succeeds.
    Slow(Duration),
    /// The power fails, or the process is killed: the operation happens in parts, and it and all
    /// later ones fail ([`is_power_off`]). A sync makes nothing durable and drops nothing.
    PowerOff,
}

/// A fault, which strikes once.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The number of matching operations that pass first.
    pub skip: u64,
    /// Matches only operations of this kind.
    pub of: Option<OpKind>,
    /// Matches only paths that contain this text.
    pub path_contains: Option<String>,
    /// The effect on the operation.
    pub effect: Effect,
}

impl Fault {
    /// Returns a fault for the `k`-th operation from now (0 is the next), of any kind.
    pub fn at(k: u64, effect: Effect) -> Self {
        Self {
            skip: k,
            of: None,
            path_contains: None,
            effect,
        }
    }

    /// Returns a fault for the `k`-th operation of a kind from now.
    pub fn at_kind(k: u64, of: OpKind, effect: Effect) -> Self {
        Self {
            of: Some(of),
            ..Self::at(k, effect)
        }
    }

    fn matches(&self, kind: OpKind, path: &Path) -> bool {
        self.of.is_none_or(|of| of == kind)
            && self
                .path_contains
                .as_ref()
                .is_none_or(|part| path.to_string_lossy().contains(part.as_str()))
    }
}

/// The planned faults and the trace of past operations.
pub(super) struct Faults {
    planned: Vec<Fault>,
    struck: Vec<(OpKind, PathBuf)>,
    operations: u64,
    changes: u64,
    trace: u64,
    pub(super) traced: bool,
    pub(super) off: bool,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            planned: Vec::new(),
            struck: Vec::new(),
            operations: 0,
            changes: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            traced: true,
            off: false,
        }
    }

    pub(super) fn plan(&mut self, fault: Fault) {
        self.planned.push(fault);
    }

    pub(super) fn struck(&self) -> Vec<(OpKind, PathBuf)> {
        self.struck.clone()
    }

    pub(super) fn left(&self) -> usize {
        self.planned.len()
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Counts an operation and returns the effect of a fault on it.
    pub(super) fn meet(&mut self, kind: OpKind, path: &Path) -> Option<Effect> {
        self.operations += 1;
        self.changes += u64::from(kind.mutates());
        self.note(&[kind as u8]);
        self.note(path.as_os_str().as_encoded_bytes());
        let mut effect = None;
        self.planned.retain_mut(|fault| {
            if !fault.matches(kind, path) {
                return true;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                return true;
            }
            if effect.is_some() {
                // At most one fault strikes an operation; this one strikes the next operation that
                // it matches.
                return true;
            }
            effect = Some(fault.effect);
            false
        });
        if let Some(effect) = effect {
            self.struck.push((kind, path.to_owned()));
            self.off |= effect == Effect::PowerOff;
            self.note(format!("{effect:?}").as_bytes());
        }
        effect
    }

    /// Adds an event to the trace (FNV-1a, by words, for speed in debug builds).
    pub(super) fn note(&mut self, bytes: &[u8]) {
        if !self.traced {
            return;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            let mixed = (self.trace ^ u64::from_le_bytes(*word)).wrapping_mul(0x0100_0000_01b3);
            self.trace = mixed ^ (mixed >> 32);
        }
    }
}

/// The error of a disk without power.
#[derive(Debug, thiserror::Error)]
#[error("simulated power off")]
struct PowerOff;

pub(super) fn power_off() -> io::Error {
    io::Error::other(PowerOff)
}

/// Returns true when an error came from a simulated disk without power.
pub fn is_power_off(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<PowerOff>)
}
