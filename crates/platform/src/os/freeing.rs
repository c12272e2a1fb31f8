//! Removes large files without holding up those who sync meanwhile.
//!
//! A file system frees the blocks of a file in one step of its journal, and on many systems tells
//! the device of them before the step ends (`discard`): a fifth of a second for each gigabyte, in
//! which no sync ends. So a large file loses its name first and then its blocks, piece by piece,
//! and after each piece the others have the file system for several times as long.
//!
//! Invariants: only a file without a name that no other process has open is cut, so no reader and
//! no mapping meets its end; a large file that another process has open is removed in one step, as
//! are small ones. What is left when this fails or is interrupted is freed by the kernel, when the
//! descriptor is closed or the file system is mounted. A file system that frees nothing at a sync
//! of such a file (btrfs) frees all of it in one step, as ever. These functions block. Not here:
//! threads and turns (`os/disk.rs`).
#![allow(unsafe_code, reason = "leases have no safe wrapper")]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};

/// Sets the signal that tells of a broken lease; `fcntl.h` of Linux, not in libc's bindings.
const F_SETSIG: libc::c_int = 10;

/// Bytes that are freed in one step.
const PIECE_BYTES: u64 = 16 << 20;
/// Most steps of a file: a sparse one may say that it is immense.
const PIECES_MAX: u64 = 4096;
/// How much longer than one step the others have the file system.
const OTHERS: u32 = 3;
/// The longest pause after a step: a disk that was slow once is not slow for ever.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A file without a name, whose blocks are not all freed.
pub(super) struct UnnamedFile {
    file: OwnedFd,
    bytes: u64,
    /// Bytes of a step.
    piece: u64,
}

/// Removes the name of a file; returns the file if its blocks are to be freed by
/// [`UnnamedFile::cut`].
pub(super) fn unname(path: &Path) -> io::Result<Option<UnnamedFile>> {
    let file = opened(path);
    fs::remove_file(path)?;
    // From here on no other process can open it.
    Ok(file.filter(|unnamed| unnamed.has_no_name() && is_open_once(&unnamed.file)))
}

/// Returns the large files of a directory.
pub(super) fn large_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut large = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if is_large(&path) {
            large.push(path);
        }
    }
    Ok(large)
}

impl UnnamedFile {
    /// Frees the next piece; returns what is left, and how long to leave the file system to others.
    pub(super) fn cut(mut self) -> io::Result<Option<(Self, Duration)>> {
        let since = Instant::now();
        self.bytes = self.bytes.saturating_sub(self.piece);
        rustix::fs::ftruncate(&self.file, self.bytes)?;
        // Blocks are free when the step of the journal has ended: without this, many pieces would
        // be freed in one step.
        rustix::fs::fsync(&self.file)?;
        let pause = (since.elapsed() * OTHERS).min(PAUSE_MAX);
        Ok((self.bytes > 0).then_some((self, pause)))
    }

    /// Another name of the same file keeps its blocks.
    fn has_no_name(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|facts| facts.st_nlink == 0)
    }
}

fn is_large(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file() && facts.len() > PIECE_BYTES)
}

/// Opens a large file.
fn opened(path: &Path) -> Option<UnnamedFile> {
    if !is_large(path) {
        return None;
    }
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::RDWR;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let facts = rustix::fs::fstat(&file).ok()?;
    let bytes = u64::try_from(facts.st_size).ok()?;
    let is_regular = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
    let piece = PIECE_BYTES.max(bytes / PIECES_MAX);
    let unnamed = UnnamedFile { file, bytes, piece };
    (is_regular && bytes > PIECE_BYTES).then_some(unnamed)
}

/// Returns true if no other descriptor and no mapping of the file exists.
///
/// The kernel gives a lease for writing only then.
fn is_open_once(file: &OwnedFd) -> bool {
    let call = |what, how: libc::c_int| {
        // SAFETY: passes numbers only, about a descriptor that is open.
        unsafe { libc::fcntl(file.as_raw_fd(), what, how) != -1 }
    };
    // A process that breaks a lease ends its holder with the default signal.
    call(F_SETSIG, libc::SIGURG)
        && call(libc::F_SETLEASE, libc::F_WRLCK)
        && call(libc::F_SETLEASE, libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn large(dir: &Path, name: &str, pieces: u64) -> PathBuf {
        let path = dir.join(name);
        let file = File::create(&path).unwrap();
        file.set_len(pieces * PIECE_BYTES + 1).unwrap();
        path
    }

    #[test]
    fn a_large_file_loses_its_name_and_then_its_blocks_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = large(dir.path(), "large", 3);
        let mut left = unname(&path).unwrap();
        assert!(!path.exists());
        let mut steps = 0;
        while let Some(unnamed) = left {
            steps += 1;
            left = unnamed.cut().unwrap().map(|(left, _)| left);
        }
        assert_eq!(steps, 4);
    }

    #[test]
    fn a_file_that_is_read_has_another_name_or_is_small_is_not_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = large(dir.path(), "read", 1);
        let mut reader = File::open(&path).unwrap();
        assert!(unname(&path).unwrap().is_none());
        assert!(!path.exists());
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all.len() as u64, PIECE_BYTES + 1);

        let path = large(dir.path(), "twice", 1);
        let other = dir.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        assert!(unname(&path).unwrap().is_none());
        assert_eq!(fs::metadata(&other).unwrap().size(), PIECE_BYTES + 1);

        let path = large(dir.path(), "small", 0);
        assert!(unname(&path).unwrap().is_none());
        assert!(!path.exists());
        assert!(unname(&path).is_err(), "it is not there");
    }

    #[test]
    fn a_link_to_a_large_file_is_removed_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = large(dir.path(), "large", 1);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(unname(&link).unwrap().is_none());
        assert!(!link.exists());
        assert_eq!(fs::metadata(&path).unwrap().len(), PIECE_BYTES + 1);
    }

    #[test]
    fn a_file_that_says_it_is_immense_takes_a_bounded_number_of_steps() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(8 << 40).unwrap();
        drop(file);
        let unnamed = unname(&path).unwrap().unwrap();
        assert!(unnamed.bytes / unnamed.piece <= PIECES_MAX);
    }

    #[test]
    fn the_large_files_of_a_directory_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = large(dir.path(), "large", 1);
        large(dir.path(), "small", 0);
        fs::create_dir(dir.path().join("directory")).unwrap();
        assert_eq!(large_files(dir.path()).unwrap(), [path]);
    }
}
