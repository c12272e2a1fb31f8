//! What the checkpoint files hold, so that a file is not written again with the bytes that it has.
//!
//! An idle broker checkpoints as often as a busy one; without this it would write, sync and rename
//! every file each time.
//!
//! Invariant: a file is left as it is only if this process wrote these bytes, the write was
//! durable, and the file still reads as them. So what another program changes or removes is written
//! again.
//! Not here: when checkpoints are due, and what is in them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::Disk;
use storage::LogPoints;

use crate::seldom::SeldomLine;

/// The largest number of turns that are left out in a row.
const TURNS_LEFT_OUT_MAX: u32 = 12;

/// What this process knows of the checkpoint files of all log directories.
#[derive(Default, Debug)]
pub(crate) struct CheckpointFiles {
    /// Digests of the bytes that were written durably, by file.
    // Unbounded: the checkpoint files there are, a few for each log directory of the settings.
    digests: RefCell<BTreeMap<PathBuf, u64>>,
    /// The offsets that all files of a directory were written from.
    // Unbounded: the logs there are, once for each.
    points: RefCell<BTreeMap<PathBuf, Arc<[LogPoints]>>>,
    /// The counts of all shards' stores before the last turn in which all files were written, and
    /// how many turns were left out since.
    // Bounded: the shards.
    rested: RefCell<Option<(Vec<u64>, u32)>>,
    /// The files of reserved space that were allocated in full.
    // Unbounded: the log directories of the settings.
    reserved: RefCell<BTreeSet<PathBuf>>,
    /// Checkpoint files that could not be written, directories whose files do not cover a log yet,
    /// and when that was last logged.
    // Unbounded: the checkpoint files there are, a few for each log directory of the settings.
    pub(super) unwritten: RefCell<BTreeMap<PathBuf, SeldomLine>>,
}

impl CheckpointFiles {
    /// Returns true if the file holds these bytes durably.
    ///
    /// The digest only saves reading a file that has to be written anyway.
    pub(super) async fn holds<D: Disk>(&self, disk: &D, path: &Path, bytes: &[u8]) -> bool {
        let known = self.digests.borrow().get(path).copied();
        if known != Some(digest(bytes)) {
            return false;
        }
        let there = disk.read_file(path).await;
        there.is_ok_and(|there| there == bytes)
    }

    /// Returns true if a turn may be left out: no store has counted anything since the last one.
    pub(super) fn may_rest(&self, touches: &[u64]) -> bool {
        let mut rested = self.rested.borrow_mut();
        let Some((before, turns)) = rested.as_mut() else {
            return false;
        };
        *turns = turns.saturating_add(1);
        *before == touches && *turns < TURNS_LEFT_OUT_MAX
    }

    /// Notes the counts before a turn, if all files were written in it.
    pub(super) fn note_rest(&self, touches: Option<Vec<u64>>) {
        *self.rested.borrow_mut() = touches.map(|touches| (touches, 0));
    }

    /// Returns true if the file still reads as what was written durably.
    pub(super) async fn is_as_written<D: Disk>(&self, disk: &D, path: &Path) -> bool {
        let Some(known) = self.digests.borrow().get(path).copied() else {
            return false;
        };
        let there = disk.read_file(path).await;
        there.is_ok_and(|there| digest(&there) == known)
    }

    /// Returns true if all files of a directory were last written from these offsets: unless
    /// another program changed one, its bytes need not be made to be compared.
    pub(super) fn are_from(&self, dir: &Path, points: &[LogPoints]) -> bool {
        let written = self.points.borrow();
        written.get(dir).is_some_and(|written| **written == *points)
    }

    /// Notes that all files of a directory were written from these offsets.
    pub(super) fn note_points(&self, dir: &Path, points: Arc<[LogPoints]>) {
        self.points.borrow_mut().insert(dir.to_path_buf(), points);
    }

    /// Takes note that a file of a directory may be written from others.
    pub(super) fn forget_points(&self, dir: &Path) {
        self.points.borrow_mut().remove(dir);
    }

    /// Forgets a file that is about to be written: until that is done, nothing is known of it.
    pub(super) fn forget(&self, path: &Path) {
        self.digests.borrow_mut().remove(path);
    }

    /// Notes that a file was written durably.
    pub(super) fn note(&self, path: &Path, bytes: &[u8]) {
        let known = digest(bytes);
        self.digests.borrow_mut().insert(path.to_path_buf(), known);
    }

    /// Returns true if the blocks of a file of reserved space were allocated in full.
    pub(super) fn is_reserved(&self, path: &Path) -> bool {
        self.reserved.borrow().contains(path)
    }

    /// Notes whether they were.
    pub(super) fn note_reserved(&self, path: &Path, in_full: bool) {
        let mut reserved = self.reserved.borrow_mut();
        if in_full {
            reserved.insert(path.to_path_buf());
        } else {
            reserved.remove(path);
        }
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
