//! The directory of a run on the disk of `--dir`: `data-PID`, which goes with the run, and what
//! killed runs left of theirs.
//!
//! Invariant: nothing is removed but directories that a run has marked as its own and that no
//! process holds locked. A run marks its directory only after it holds the lock; the kernel
//! releases the lock however the run ends.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use platform::bounded;
use platform::lock::DirLock;

/// The file that marks a directory as one of a run.
const MARKER: &str = ".forebay-bench-run";

/// Its contents.
const MARK: &[u8] =
    b"Made by forebay bench for one run; a later run removes it when that one is gone.\n";

/// A run's own directory.
#[derive(Debug)]
pub(super) struct WorkDir {
    dir: PathBuf,
    /// Held until the run ends.
    _lock: DirLock,
}

impl WorkDir {
    /// Makes the directory of this process below `disk`.
    pub(super) fn make(disk: &Path) -> anyhow::Result<Self> {
        let dir = disk.join(format!("data-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let dir = fs::canonicalize(&dir).with_context(|| format!("finding {}", dir.display()))?;
        let lock = DirLock::acquire(&dir)?;
        let marker = dir.join(MARKER);
        fs::write(&marker, MARK).with_context(|| format!("writing {}", marker.display()))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns the directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the directory with everything in it.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        let removed = fs::remove_dir_all(&self.dir);
        removed.with_context(|| format!("removing {}", self.dir.display()))
    }
}

/// Removes what runs that are gone left below `disk`, and returns the directories.
///
/// Devices of such runs must have been removed before: a directory in which something is mounted
/// stays, with a message.
pub(super) fn sweep(disk: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(disk) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading {}", disk.display()))?,
    };
    let mut removed = Vec::new();
    for entry in entries {
        let dir = entry
            .with_context(|| format!("reading {}", disk.display()))?
            .path();
        if !is_of_a_run(&dir) {
            continue;
        }
        // The lock of a run that lives, or one that cannot be asked for.
        let Ok(lock) = DirLock::acquire(&dir) else {
            continue;
        };
        if let Some(mounted) = mounted_in(&dir)? {
            eprintln!(
                "{} was left by a run that is gone, and stays: {} is mounted in it",
                dir.display(),
                mounted.display()
            );
            continue;
        }
        let gone = fs::remove_dir_all(&dir);
        drop(lock);
        gone.with_context(|| format!("removing {}, left by a run that is gone", dir.display()))?;
        removed.push(dir);
    }
    Ok(removed)
}

/// Returns true for a directory `data-PID` with the mark of a run.
fn is_of_a_run(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    let pid = name.and_then(|name| name.strip_prefix("data-"));
    let is_named = pid.is_some_and(|pid| pid.parse::<u32>().is_ok());
    // A link is not followed: it may lead to the data of a broker.
    let is_dir = fs::symlink_metadata(dir).is_ok_and(|facts| facts.is_dir());
    let marker = dir.join(MARKER);
    let is_file = || fs::symlink_metadata(&marker).is_ok_and(|facts| facts.is_file());
    let most = u64::try_from(MARK.len()).unwrap_or(u64::MAX);
    is_named && is_dir && is_file() && bounded::file(&marker, most).is_ok_and(|there| there == MARK)
}

/// Returns an entry of a directory that is on another file system.
fn mounted_in(dir: &Path) -> anyhow::Result<Option<PathBuf>> {
    let reading = || format!("reading {}", dir.display());
    let own = fs::metadata(dir).with_context(reading)?.dev();
    for entry in fs::read_dir(dir).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        let facts = fs::symlink_metadata(&path).with_context(reading)?;
        if facts.dev() != own {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory as a run leaves it that was killed.
    fn left(disk: &Path, name: &str) -> PathBuf {
        let dir = disk.join(name);
        fs::create_dir_all(dir.join("bulk")).unwrap();
        fs::write(dir.join("bulk/segment"), "records").unwrap();
        fs::write(dir.join(".lock"), "").unwrap();
        fs::write(dir.join(MARKER), MARK).unwrap();
        dir
    }

    #[test]
    fn what_a_killed_run_left_is_removed_by_the_next() {
        let disk = tempfile::tempdir().unwrap();
        let dir = left(disk.path(), "data-1");
        assert_eq!(sweep(disk.path()).unwrap(), std::slice::from_ref(&dir));
        assert!(!dir.exists());
        assert!(sweep(&disk.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn the_directory_of_a_run_that_lives_stays() {
        let disk = tempfile::tempdir().unwrap();
        let work = WorkDir::make(disk.path()).unwrap();
        assert!(sweep(disk.path()).unwrap().is_empty());
        let dir = work.dir().to_owned();
        assert!(dir.join(MARKER).exists());
        work.remove().unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn directories_of_others_stay() {
        let disk = tempfile::tempdir().unwrap();
        // Neither a name nor a file alone makes it a run's.
        let unmarked = left(disk.path(), "data-2");
        fs::remove_file(unmarked.join(MARKER)).unwrap();
        let other = left(disk.path(), "data-3");
        fs::write(other.join(MARKER), "something else").unwrap();
        let named = left(disk.path(), "data-x");
        let elsewhere = tempfile::tempdir().unwrap();
        let far = left(elsewhere.path(), "data-4");
        std::os::unix::fs::symlink(&far, disk.path().join("data-4")).unwrap();
        assert!(sweep(disk.path()).unwrap().is_empty());
        for dir in [unmarked, other, named, far] {
            assert!(dir.join("bulk/segment").exists(), "{}", dir.display());
        }
    }
}
