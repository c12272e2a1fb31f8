//! File names and small files, through blocking calls, which run on blocking threads.
//!
//! Invariants: everything that a function here promises to be durable is synced when it returns;
//! what is made is for its owner and group at most, whatever the umask is. Not here: segment files,
//! and the choice of the thread (`os/disk.rs`).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags};

use crate::disk::{Entry, Space};

/// The mode of new files. The metadata log has keys of users, and passwords and private keys that
/// clients have set, and logs have what producers write: no other user of the machine reads it.
pub(super) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// The mode of new directories.
const DIR_MODE: u32 = 0o750;

pub(super) fn list(dir: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let facts = match fs::metadata(entry.path()) {
            Ok(facts) => facts,
            // A dangling link still counts as a name; a file removed meanwhile does not.
            Err(error) if is_dead_end(&error) => match entry.metadata() {
                Ok(facts) => facts,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_dir: facts.is_dir(),
            len: if facts.is_dir() { 0 } else { facts.len() },
            modified_ms: facts.modified().map_or(0, millis),
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Returns true for the errors of a link without a target or to itself.
fn is_dead_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ELOOP)
}

/// Creates a directory and its missing parents, each durable in its parent; blocks.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    let parent = parent_of(dir);
    let make = || DirBuilder::new().mode(DIR_MODE).create(dir);
    match make() {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {
            // The creator may have failed before the sync. A parent that this process may not sync
            // does not matter.
            return match sync_dir(&parent) {
                Err(error) if not_ours(&error) => Ok(()),
                result => result,
            };
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent != dir => {
            create_dir(&parent)?;
            make()?;
        }
        Err(error) => return Err(error),
    }
    sync_dir(&parent).inspect_err(|_| {
        // A retry must not find the directory and take it for durable.
        drop(fs::remove_dir(dir));
    })
}

fn not_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    sync_opened(open_dir(dir)?)
}

fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::RDONLY;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

fn sync_opened(dir: OwnedFd) -> io::Result<()> {
    // `other` hides the error code, so that no caller retries a failed sync, even after an error
    // for lack of room: the name may be there.
    rustix::fs::fsync(dir).map_err(|error| io::Error::other(io::Error::from(error)))
}

/// Returns a file opened with `NONBLOCK`, ready for use, if it is a regular file.
pub(crate) fn regular(file: OwnedFd) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        other => {
            let found = format!("not a regular file but {other:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, found));
        }
    }
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

pub(super) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    let draft = PathBuf::from(draft);
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::WRONLY;
    let flags = flags | OFlags::CREATE | OFlags::TRUNC;
    let mut file = File::from(regular(rustix::fs::open(&draft, flags, FILE_MODE)?)?);
    file.write_all(bytes)?;
    // A draft that failed to sync is never used.
    file.sync_all()?;
    drop(file);
    // Opened before the rename: without a free descriptor the call fails before any change.
    let parent = open_dir(&parent_of(path))?;
    fs::rename(&draft, path)?;
    sync_opened(parent)
}

/// Sets the modification time of a file.
pub(super) fn set_modified(path: &Path, modified_ms: i64) -> io::Result<()> {
    let at = Duration::from_millis(u64::try_from(modified_ms).unwrap_or(0));
    File::open(path)?.set_modified(UNIX_EPOCH + at)
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn space(dir: &Path) -> io::Result<Space> {
    /// The kernel's magic numbers of tmpfs and ramfs.
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    let facts = rustix::fs::statvfs(dir)?;
    let kind = rustix::fs::statfs(dir)?.f_type.cast_unsigned();
    Ok(Space {
        free: facts.f_bavail.saturating_mul(facts.f_frsize),
        total: facts.f_blocks.saturating_mul(facts.f_frsize),
        in_memory: IN_MEMORY.contains(&kind),
    })
}

/// Returns the directory that contains a name.
pub(super) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn other_users_read_nothing_that_is_made() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("a/b");
        create_dir(&dir).unwrap();
        let file = dir.join("small");
        replace_file(&file, b"x").unwrap();
        for path in [home.path().join("a"), dir, file] {
            let mode = fs::metadata(&path).unwrap().mode();
            assert_eq!(mode & 0o027, 0, "{}: {mode:o}", path.display());
        }
    }
}
