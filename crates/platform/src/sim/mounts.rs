//! Parts of the simulated disk that are file systems of their own: each with its own room and speed, and able to break
//! alone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::SimDisk;

/// The mounts; everything else is the root's.
#[derive(Clone, Default)]
pub(super) struct Mounts(Vec<Mount>);

/// One of them.
#[derive(Clone)]
pub(super) struct Mount {
    pub(super) dir: PathBuf,
    /// Room; `None` is endless.
    pub(super) capacity_bytes: Option<u64>,
    /// Every operation on it fails like this.
    pub(super) broken: Option<io::ErrorKind>,
    /// Every operation on it that changes something fails.
    pub(super) read_only: bool,
    /// Bytes that are read or written in a second.
    pub(super) bytes_per_second: Option<u64>,
    /// What begins on it does not end until it goes on.
    pub(super) hangs: bool,
}

impl Mounts {
    /// The mount that `path` is on.
    pub(super) fn holding(&self, path: &Path) -> Option<&Mount> {
        self.0.iter().find(|mount| path.starts_with(&mount.dir))
    }

    /// The mount at `dir`, made if there is none.
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

    /// How long `bytes` take beside everything else.
    pub(super) fn delay(&self, path: &Path, bytes: usize) -> Duration {
        let rate = self.holding(path).and_then(|mount| mount.bytes_per_second);
        let micros = rate.and_then(|rate| (bytes as u64 * 1_000_000).checked_div(rate));
        Duration::from_micros(micros.unwrap_or(0))
    }
}

impl SimDisk {
    /// Makes `dir` a file system of its own, with so much room; `None` is endless.
    pub fn set_capacity_of(&self, dir: &Path, capacity_bytes: Option<u64>) {
        self.with(|state| state.mounts.at(dir).capacity_bytes = capacity_bytes);
    }

    /// Makes every operation below `dir` fail, or none any more.
    pub fn set_broken(&self, dir: &Path, broken: Option<io::ErrorKind>) {
        self.with(|state| state.mounts.at(dir).broken = broken);
    }

    /// Turns what is below `dir` read-only, or back, as a file system of its own.
    pub fn set_read_only_below(&self, dir: &Path, read_only: bool) {
        self.with(|state| state.mounts.at(dir).read_only = read_only);
    }

    /// Makes every operation below `dir` that begins from now on hang, as on a device that does not answer; or has them all
    /// go on.
    pub fn set_hanging(&self, dir: &Path, hangs: bool) {
        self.with(|state| {
            state.mounts.at(dir).hangs = hangs;
            state.hanging.go_on();
        });
    }

    /// Makes reads and writes of files below `dir` take the time that a device of that rate takes.
    pub fn set_rate_of(&self, dir: &Path, bytes_per_second: Option<u64>) {
        self.with(|state| state.mounts.at(dir).bytes_per_second = bytes_per_second);
    }
}
