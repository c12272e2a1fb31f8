//! File names and small files, through blocking calls, which run on blocking threads.
//!
//! Invariants: everything that a function here promises to be durable is synced when it returns;
//! what is made is for its owner and group at most, whatever the umask is. Not here: segment files,
//! and the choice of the thread (`os/disk.rs`).

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::disk::{ChooseFiles, DirLook, Entry, SMALL_FILE_BYTES_MAX, Space};

/// The mode of new files. The metadata log has keys of users, and passwords and private keys that
/// clients have set, and logs have what producers write: no other user of the machine reads it.
pub(super) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// The mode of new directories.
const DIR_MODE: u32 = 0o750;

pub(super) fn list(dir: &Path) -> io::Result<Vec<Entry>> {
    list_opened(&mut Dir::new(open_dir(dir)?)?)
}

/// Lists a directory, and reads some of its small files.
pub(super) fn look(dir: &Path, choose: ChooseFiles) -> io::Result<DirLook> {
    let mut dir = Dir::new(open_dir(dir)?)?;
    let entries = list_opened(&mut dir)?;
    let at = dir.fd()?;
    let mut files = BTreeMap::new();
    for name in choose(&entries) {
        let read = crate::bounded::file_at(at, Path::new(&name), SMALL_FILE_BYTES_MAX);
        files.insert(name, read);
    }
    Ok(DirLook { entries, files })
}

fn list_opened(dir: &mut Dir) -> io::Result<Vec<Entry>> {
    let mut names = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    let at = dir.fd()?;
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let facts = match rustix::fs::statat(at, &name, AtFlags::empty()) {
            Ok(facts) => facts,
            // A dangling link still counts as a name; a file removed meanwhile does not.
            Err(Errno::NOENT | Errno::LOOP) => {
                match rustix::fs::statat(at, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(facts) => facts,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        };
        let is_dir = FileType::from_raw_mode(facts.st_mode) == FileType::Directory;
        let len = u64::try_from(facts.st_size).unwrap_or(0);
        entries.push(Entry {
            name: name.to_string_lossy().into_owned(),
            is_dir,
            len: if is_dir { 0 } else { len },
            modified_ms: modified_ms(&facts),
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Returns when a file was last written to; 0 before 1970.
fn modified_ms(facts: &Stat) -> i64 {
    let seconds = facts.st_mtime;
    if seconds < 0 {
        return 0;
    }
    let ms = i64::try_from(facts.st_mtime_nsec / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(ms)
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

pub(super) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    let draft = PathBuf::from(draft);
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::WRONLY;
    let flags = flags | OFlags::CREATE | OFlags::TRUNC;
    let mut file = File::from(crate::bounded::regular(rustix::fs::open(
        &draft, flags, FILE_MODE,
    )?)?);
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
