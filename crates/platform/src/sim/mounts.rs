//! Parts of the simulated disk that are separate file systems, each with its own room, speed and
//! failures.
//!
//! Invariant: a path is on at most one mount; paths outside of the mounts are on the root. Not
//! here: unmounting (`sim/tree.rs`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::SimDisk;

/// The mounts.
#[derive(Clone, Default)]
pub(super) struct Mounts(Vec<Mount>);

/// A file system below a directory.
#[derive(Clone)]
pub(super) struct Mount {
    pub(super) dir: PathBuf,
    /// Room in bytes; `None` is unlimited.
    pub(super) capacity_bytes: Option<u64>,
    /// The error of every operation on it.
    pub(super) broken: Option<io::ErrorKind>,
    /// True when every operation that changes it fails.
    pub(super) read_only: bool,
    /// Bytes that it reads or writes per second.
    pub(super) bytes_per_second: Option<u64>,
    /// True when operations that begin on it do not end until it is false.
    pub(super) hangs: bool,
}

impl Mounts {
    /// Returns the mount that `path` is on.
    pub(super) fn holding(&self, path: &Path) -> Option<&Mount> {
        self.0.iter().find(|mount| path.starts_with(&mount.dir))
    }

    /// Returns the mount at `dir`, created if there is none.
    pub(super) fn at(&mut self, dir: &Path) -> &mut Mount {
        let known = self.0.iter().position(|mount| mount.dir == dir);
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Mount {
                dir: dir.to_path_buf(),
                capacity_bytes: None,
                broken: None,
                read_only: false,
                bytes_per_second: None,
                hangs: false,
            });
        }
        &mut self.0[at]
    }

    /// Returns the additional time for `bytes` bytes.
    pub(super) fn delay(&self, path: &Path, bytes: usize) -> Duration {
        let rate = self.holding(path).and_then(|mount| mount.bytes_per_second);
        let micros = rate.and_then(|rate| (bytes as u64 * 1_000_000).checked_div(rate));
        Duration::from_micros(micros.unwrap_or(0))
    }
}

impl SimDisk {
    /// Makes `dir` a separate file system with this room; `None` is unlimited.
    pub fn set_capacity_of(&self, dir: &Path, capacity_bytes: Option<u64>) {
        self.with(|state| state.mounts.at(dir).capacity_bytes = capacity_bytes);
    }

    /// Makes every operation below `dir` fail; `None` ends it.
    pub fn set_broken(&self, dir: &Path, broken: Option<io::ErrorKind>) {
        self.with(|state| state.mounts.at(dir).broken = broken);
    }

    /// Makes `dir` a separate file system that is read-only, or writable again.
    pub fn set_read_only_below(&self, dir: &Path, read_only: bool) {
        self.with(|state| state.mounts.at(dir).read_only = read_only);
    }

    /// Makes every operation below `dir` that begins from now on hang, or makes all continue.
    pub fn set_hanging(&self, dir: &Path, hangs: bool) {
        self.with(|state| {
            state.mounts.at(dir).hangs = hangs;
            state.hanging.go_on();
        });
    }

    /// Makes reads and writes of files below `dir` take the time of a device with this rate.
    pub fn set_rate_of(&self, dir: &Path, bytes_per_second: Option<u64>) {
        self.with(|state| state.mounts.at(dir).bytes_per_second = bytes_per_second);
    }
}
