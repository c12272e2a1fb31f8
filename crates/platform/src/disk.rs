//! The operations that the log needs from a disk, at the level of bytes: read, write, sync, and
//! file names.
//!
//! There are two ways to access a file: [`DiskFile`] for segments (aligned, direct where the file
//! system supports it, asynchronous), and the whole-file calls of [`Disk`] for small files
//! (checkpoints, indexes), which are durable when they return. Invariants: a write is complete or
//! an error; a failed write or sync latches the file ([`DiskFile::sync`] is never retried on it);
//! nothing is durable before a sync or a durable write returned, and a name is durable only after
//! [`Disk::sync_dir`].
//! Not here: caching, retries, scheduling, and the contents of the files.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;

use crate::buf::AlignedBuf;

/// Alignment of positions, lengths and memory of segment writes, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// Maximum length of a small file, unless its reader sets another.
pub const SMALL_FILE_BYTES_MAX: u64 = 16 << 20;

/// Returns true when the machine lacks a resource temporarily: descriptors, memory, requests in
/// flight.
///
/// The operation did not happen, and nothing is known to be broken. A failed sync never counts as
/// this.
pub fn is_not_now(error: &io::Error) -> bool {
    let short_of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    let code = error.raw_os_error();
    code.is_some_and(|code| short_of.map(Errno::raw_os_error).contains(&code))
}

/// Returns true when a path exists but is not a small file: too long, a directory, a pipe, a
/// device.
///
/// A retry does not help.
pub fn is_unreadable(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, IsADirectory};
    matches!(error.kind(), FileTooLarge | InvalidData | IsADirectory)
}

/// Returns the error for a file that is longer than its reader accepts.
pub(crate) fn too_long(len: u64, bytes_max: u64) -> io::Error {
    let found = format!("{len} bytes long, where at most {bytes_max} can be right");
    io::Error::new(io::ErrorKind::FileTooLarge, found)
}

/// How to open a segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// It must exist; reads only.
    Read,
    /// It must exist; reads and writes.
    Write,
    /// It must not exist; reads and writes.
    Create,
}

/// How the segment files of a directory are accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Accessed by system calls, on any file system.
    File,
    /// Mapped: written by stores to memory, durable without a sync, read without a copy.
    Dax {
        /// True when the mount is not a DAX mount: the mapping is ordinary memory or page cache,
        /// and nothing is durable.
        emulated: bool,
    },
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// File name without the directory. A name that is not UTF-8 is converted lossily and is
    /// foreign by definition.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// Length in bytes (0 for a directory).
    pub len: u64,
    /// Modification time (wall clock, milliseconds), or the time given by [`Disk::set_modified`]; 0
    /// where the file system has none.
    pub modified_ms: i64,
}

/// What a directory held at one look.
#[derive(Debug)]
pub struct DirLook {
    /// Its names, sorted.
    pub entries: Vec<Entry>,
    /// The content of the files that were chosen, or why it could not be read.
    // Bounded: what is chosen of one directory.
    pub files: BTreeMap<String, io::Result<Vec<u8>>>,
}

/// Chooses by a directory's names which of its small files are read at the same look.
pub type ChooseFiles = fn(&[Entry]) -> Vec<String>;

/// A file system.
pub trait Disk: Clone + 'static {
    /// An open segment file.
    type File: DiskFile;

    /// Returns how the segment files under a directory are accessed.
    fn medium(&self, dir: &Path) -> Medium;
    /// Returns the age of the oldest operation in progress below `dir`; zero without one.
    ///
    /// `dir` is one of the directories that are kept apart. Operations are short unless the disk
    /// hangs. Reads only memory and waits for nothing.
    fn under_way_for(&self, dir: &Path) -> Duration;
    /// Opens a segment file.
    fn open(&self, path: &Path, how: Open) -> impl Future<Output = io::Result<Self::File>>;
    /// Lists a directory, sorted by name.
    fn list(&self, dir: &Path) -> impl Future<Output = io::Result<Vec<Entry>>>;
    /// Lists a directory and reads some of its small files, as [`Disk::list`] and
    /// [`Disk::read_file`] do one after the other.
    ///
    /// On a real disk this is one call on one thread: where ten thousand directories are read, the
    /// way to a thread and back costs more than the reads.
    fn look(&self, dir: &Path, choose: ChooseFiles) -> impl Future<Output = io::Result<DirLook>> {
        async move {
            let entries = self.list(dir).await?;
            let mut files = BTreeMap::new();
            for name in choose(&entries) {
                let read = self.read_file(&dir.join(&name)).await;
                files.insert(name, read);
            }
            Ok(DirLook { entries, files })
        }
    }
    /// Reads small files of at most `bytes_max` bytes each, one after the other, with the results
    /// in their order; they lie below `dir`. All contents are in memory together.
    ///
    /// On a real disk this is one call on one thread, too.
    fn read_files(
        &self,
        _dir: &Path,
        paths: Vec<PathBuf>,
        bytes_max: u64,
    ) -> impl Future<Output = Vec<io::Result<Vec<u8>>>> {
        async move {
            let mut read = Vec::with_capacity(paths.len());
            for path in paths {
                read.push(self.read_file_within(&path, bytes_max).await);
            }
            read
        }
    }
    /// Creates a directory and its parents, each durable in its parent.
    fn create_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Renames a file or directory, replacing a file at the target.
    ///
    /// Durable after `sync_dir` of the parent.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a file; a missing file is `NotFound`.
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a directory with all its contents.
    fn remove_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a file piece by piece, so that syncs do not wait for it. It may take long.
    fn remove_file_in_pieces(&self, path: &Path) -> impl Future<Output = io::Result<()>> {
        self.remove_file(path)
    }
    /// Removes a directory with everything in it, in the same way.
    fn remove_dir_in_pieces(&self, dir: &Path) -> impl Future<Output = io::Result<()>> {
        self.remove_dir(dir)
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Reads a whole small file, of at most [`SMALL_FILE_BYTES_MAX`].
    fn read_file(&self, path: &Path) -> impl Future<Output = io::Result<Vec<u8>>> {
        self.read_file_within(path, SMALL_FILE_BYTES_MAX)
    }
    /// Reads a whole file of at most `bytes_max` bytes.
    ///
    /// Refuses a longer file, and anything but a regular file ([`is_unreadable`]), without waiting
    /// for it.
    fn read_file_within(
        &self,
        path: &Path,
        bytes_max: u64,
    ) -> impl Future<Output = io::Result<Vec<u8>>>;
    /// Replaces a whole small file: writes `<path>.tmp`, syncs it, renames it, and syncs the
    /// directory.
    ///
    /// After a crash the file has either the old or the new bytes, never a mixture.
    fn replace_file(&self, path: &Path, bytes: &[u8]) -> impl Future<Output = io::Result<()>>;
    /// Does the same with bytes that need not be copied for it.
    fn replace_file_by(&self, path: &Path, bytes: Bytes) -> impl Future<Output = io::Result<()>> {
        async move { self.replace_file(path, &bytes).await }
    }
    /// Sets the modification time of a file, as copying programs do.
    ///
    /// The time is durable at the earliest when the file is synced, and even that is not
    /// guaranteed; use it only for ages.
    fn set_modified(&self, path: &Path, modified_ms: i64) -> impl Future<Output = io::Result<()>>;
    /// Returns the free and the total bytes of the file system that holds `dir`.
    fn space(&self, dir: &Path) -> impl Future<Output = io::Result<Space>>;
}

/// Room on a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Free bytes that this process can use.
    pub free: u64,
    /// Total bytes.
    pub total: u64,
    /// True for a file system in memory: synced data is lost on power failure.
    pub in_memory: bool,
}

/// Class of requests where the device's scheduler supports classes (Linux: mq-deadline, bfq);
/// elsewhere ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum IoClass {
    /// Work that a client or the broker waits for.
    #[default]
    Foreground,
    /// Work that can wait: it runs when no foreground request does, or after a long wait.
    Background,
}

/// An open segment file; clones share it.
#[allow(
    clippy::len_without_is_empty,
    reason = "nobody asks whether a segment file is empty"
)]
pub trait DiskFile: Clone + 'static {
    /// Returns the same file, whose reads and writes from now on have this class; all else is
    /// shared.
    #[must_use]
    fn of_class(&self, _class: IoClass) -> Self {
        self.clone()
    }
    /// Writes `parts` one after the other from `position`.
    ///
    /// `position` and the length of every part are multiples of [`BLOCK_BYTES`], and the memory of
    /// every part is aligned to it (see `buf`). The file grows as needed.
    fn write_at(&self, position: u64, parts: Vec<Bytes>) -> impl Future<Output = io::Result<()>>;
    /// Writes as [`DiskFile::write_at`] does; when it completes these bytes are durable, with what
    /// is needed to read them back.
    ///
    /// It says nothing of other writes: those that were not synced may stay so. Where a write
    /// cannot be made durable by itself, this is a write and a [`DiskFile::sync`].
    fn write_durably_at(
        &self,
        position: u64,
        parts: Vec<Bytes>,
    ) -> impl Future<Output = io::Result<()>> {
        let written = self.write_at(position, parts);
        async move {
            written.await?;
            self.sync().await
        }
    }
    /// Reads up to `len` bytes from `position`, both unaligned; returns fewer only at the end of
    /// the file.
    fn read_at(&self, position: u64, len: usize) -> impl Future<Output = io::Result<Bytes>>;
    /// Reads into `buf` from `position` and returns `buf`, truncated to the bytes read.
    ///
    /// `position` and the length of `buf` are multiples of [`BLOCK_BYTES`]. Returns fewer bytes
    /// only at the end of the file.
    fn read_into(
        &self,
        position: u64,
        buf: AlignedBuf,
    ) -> impl Future<Output = io::Result<AlignedBuf>>;
    /// Makes all completed writes and the length durable.
    fn sync(&self) -> impl Future<Output = io::Result<()>>;
    /// Reserves room up to `len` bytes.
    ///
    /// Bytes never written read as zero, and the length becomes at least `len`. A sync of writes
    /// into reserved room must convert extents, so it is slower than a sync of overwrites: by 10 to
    /// 40 % at 1 MiB and 16 in flight, by half at 64 KiB (`examples/disk_bench.rs`; ext4 on a
    /// virtual disk).
    fn allocate(&self, len: u64) -> impl Future<Output = io::Result<()>>;
    /// Truncates or extends (with zeros) to exactly `len` bytes, which need not be aligned.
    fn set_len(&self, len: u64) -> impl Future<Output = io::Result<()>>;
    /// Returns the length in bytes.
    fn len(&self) -> impl Future<Output = io::Result<u64>>;
}

/// Asserts that a write has whole blocks in aligned memory, whatever the medium.
pub(crate) fn check_aligned(position: u64, parts: &[Bytes]) {
    assert!(
        position.is_multiple_of(BLOCK_BYTES as u64),
        "write at an unaligned position: {position}"
    );
    for part in parts {
        let aligned = part.len().is_multiple_of(BLOCK_BYTES)
            && (part.is_empty() || part.as_ptr().align_offset(BLOCK_BYTES) == 0);
        assert!(
            aligned,
            "write of an unaligned part of {} bytes",
            part.len()
        );
    }
}
