//! Parts of the simulated disk that are file systems of their own: each with its own room and speed, and able to break
//! alone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
