//! Reads whole files and streams with a bound on their length. Only this module of the broker reads
//! to the end of something with blocking calls.
//!
//! Invariant: no function takes more memory than allowed, whatever the other side sends or changes
//! meanwhile. Not here: segments, which are read by ranges ([`crate::disk::DiskFile`]).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::disk::too_long;

/// More than any kernel file about a process contains.
const KERNEL_TEXT_BYTES_MAX: u64 = 64 << 20;

/// Reads a whole regular file of at most `bytes_max` bytes; never blocks on a pipe.
pub fn file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    file_at(CWD, path, bytes_max)
}

/// Does the same with a path that begins at an open directory.
pub(crate) fn file_at(dir: BorrowedFd<'_>, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::RDONLY;
    let file = regular(rustix::fs::openat(dir, path, flags, Mode::empty())?)?;
    let len = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(u64::MAX);
    if len > bytes_max {
        return Err(too_long(len, bytes_max));
    }
    let bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    // The file may have grown since `fstat`.
    append(bytes, File::from(file), bytes_max)
}

/// Reads `from` (a pipe, a socket) to its end; more than `bytes_max` bytes are an error.
pub fn stream(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    append(Vec::new(), from, bytes_max)
}

/// Copies what `from` has, at most `bytes_max` bytes, to the end of `to`; returns how many bytes.
///
/// The kernel copies them, where it can.
pub fn copy(from: &File, to: &mut File, bytes_max: u64) -> io::Result<u64> {
    io::copy(&mut from.take(bytes_max), to)
}

/// Reads a kernel file about a process or the system, whose length is not known in advance.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = stream(File::open(path)?, KERNEL_TEXT_BYTES_MAX)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn append(mut bytes: Vec<u8>, from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    from.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if len > bytes_max {
        return Err(too_long(len, bytes_max));
    }
    Ok(bytes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::is_unreadable;

    #[test]
    fn no_more_is_read_than_allowed() {
        assert_eq!(stream(&b"1234"[..], 4).unwrap(), b"1234");
        assert!(is_unreadable(&stream(&b"12345"[..], 4).unwrap_err()));
        assert!(is_unreadable(&stream(io::repeat(0), 4096).unwrap_err()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(file(&path, 5).unwrap(), b"12345");
        assert!(is_unreadable(&file(&path, 4).unwrap_err()));
        assert!(is_unreadable(&file(dir.path(), 4).unwrap_err()));
        assert!(is_unreadable(&file(Path::new("/dev/zero"), 4).unwrap_err()));
    }

    #[test]
    fn the_kernel_is_read_though_its_files_have_no_length() {
        assert!(kernel_text("/proc/self/status").unwrap().contains("Pid:"));
    }
}
