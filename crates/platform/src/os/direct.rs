//! Tests whether a file system supports direct I/O at our alignment.
//!
//! Some refuse the flag at opening (old tmpfs), some accept it and refuse transfers, and some need
//! larger blocks. The result holds per file system (device number). Not here: remembering it
//! (`os/disk.rs`).

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::buf::AlignedBuf;
use crate::disk::BLOCK_BYTES;

/// Name of the trial file where unnamed files are not possible; removed at once.
const TRIAL_NAME: &str = ".direct-io-trial.tmp";

/// Returns the device number of the file system that holds `dir`.
pub(super) fn device(dir: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(dir)?.dev())
}

/// Writes and reads one block.
///
/// Returns false when the file system refuses, and an error when the test is not possible (no room,
/// read-only, no such directory).
pub(super) fn try_in(dir: &Path) -> io::Result<bool> {
    let file = match trial_file(dir, OFlags::DIRECT) {
        Ok(file) => file,
        Err(error) if refused(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    let tried = rustix::io::pwritev(&file, &[IoSlice::new(&block)], 0)
        .and_then(|_| rustix::io::pread(&file, &mut block[..], 0));
    match tried.map_err(io::Error::from) {
        Ok(count) => Ok(count == BLOCK_BYTES),
        Err(error) if refused(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file in `dir` with `flags` that disappears when it is closed.
pub(super) fn trial_file(dir: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | flags;
    let mode = Mode::RUSR | Mode::WUSR;
    if let Ok(file) = rustix::fs::open(dir, flags | OFlags::TMPFILE, mode) {
        return Ok(file);
    }
    let path = dir.join(TRIAL_NAME);
    let opened = rustix::fs::open(&path, flags | OFlags::CREATE, mode);
    // The name may exist even if the opening was refused.
    let removed = std::fs::remove_file(&path);
    let file = opened?;
    removed?;
    Ok(file)
}

/// Returns true when an error means that only direct I/O is refused.
pub(super) fn refused(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::INVAL, Errno::OPNOTSUPP].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}
