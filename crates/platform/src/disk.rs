//! What the log asks of a disk, at the height of bytes: read, write, sync, and the names of files.
//!
//! Two ways of touching a file: [`DiskFile`] for segments (aligned, direct where the file system
//! can, asynchronous) and the whole-file calls of [`Disk`] for small files (checkpoints, indexes),
//! which are durable when they return. Invariants: a write is complete or an error; a failed write
//! or sync latches the file ([`DiskFile::sync`] is never retried on it); nothing is durable before
//! a sync returned, and a name is durable only after [`Disk::sync_dir`]. It does not: cache, retry,
//! schedule, or know what is in the files.

use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;

use crate::buf::AlignedBuf;

/// Alignment of positions, lengths and memory of segment writes, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// The longest that a small file may be, unless who reads it knows better.
pub const SMALL_FILE_BYTES_MAX: u64 = 16 << 20;

/// True when the machine is short of something that comes back: descriptors, memory, requests in flight. What was tried
/// has not happened, and nothing is known to be broken. A failed sync is never that.
pub fn is_not_now(error: &io::Error) -> bool {
    let short_of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    let code = error.raw_os_error();
    code.is_some_and(|code| short_of.map(Errno::raw_os_error).contains(&code))
}

/// True when a small file is there and is none: too long, a directory, a pipe, a device. Asking again changes nothing.
pub fn is_unreadable(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, IsADirectory};
    matches!(error.kind(), FileTooLarge | InvalidData | IsADirectory)
}

/// The error of a file that is longer than its reader takes.
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

/// How the segment files of a directory are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Read and written by calls: any file system.
    File,
    /// Mapped: written by storing to memory, durable without a sync, read without a copy.
    Dax {
        /// The mount is not a DAX one, so it is ordinary memory or a page cache, and nothing is
        /// durable.
        emulated: bool,
    },
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// File name, without the directory. Names that are not UTF-8 are given lossily and are foreign
    /// by definition.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// Length in bytes (0 for a directory).
    pub len: u64,
    /// When its bytes were last changed (wall clock, milliseconds), or what it was given as that; 0
    /// where the file system does not say.
    pub modified_ms: i64,
}

/// A file system.
pub trait Disk: Clone + 'static {
    /// An open segment file.
    type File: DiskFile;

    /// How the segment files under a directory are kept.
    fn medium(&self, dir: &Path) -> Medium;
    /// For how long the operation has been under way that began first of those below `dir`, which is kept apart; zero when
    /// there is none. It has none that takes long unless the disk hangs. Asked of memory: it waits for nothing.
    fn under_way_for(&self, dir: &Path) -> Duration;
    /// Opens a segment file.
    fn open(&self, path: &Path, how: Open) -> impl Future<Output = io::Result<Self::File>>;
    /// Lists a directory, sorted by name.
    fn list(&self, dir: &Path) -> impl Future<Output = io::Result<Vec<Entry>>>;
    /// Creates a directory and its parents, each durable in its parent.
    fn create_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Renames a file or directory, replacing a file at the target. Durable after `sync_dir` of the
    /// parent.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a file. A missing file is `NotFound`.
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a directory with everything in it.
    fn remove_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Reads a whole small file, of at most [`SMALL_FILE_BYTES_MAX`].
    fn read_file(&self, path: &Path) -> impl Future<Output = io::Result<Vec<u8>>> {
        self.read_file_within(path, SMALL_FILE_BYTES_MAX)
    }
    /// Reads a whole file of at most `bytes_max` bytes. A longer one, and what is no regular file, is refused
    /// ([`is_unreadable`]), and never waited for.
    fn read_file_within(
        &self,
        path: &Path,
        bytes_max: u64,
    ) -> impl Future<Output = io::Result<Vec<u8>>>;
    /// Replaces a small file as a whole: writes `<path>.tmp`, syncs it, renames it, syncs the
    /// directory. After a crash the file has the old bytes or the new ones, never a mixture.
    fn replace_file(&self, path: &Path, bytes: &[u8]) -> impl Future<Output = io::Result<()>>;
    /// Gives a file a time of its last change, as copying programs do. Durable no sooner than the file
    /// is synced, and no promise even then: it is not to be relied on for more than an age.
    fn set_modified(&self, path: &Path, modified_ms: i64) -> impl Future<Output = io::Result<()>>;
    /// Bytes free and bytes in all on the file system that holds `dir`.
    fn space(&self, dir: &Path) -> impl Future<Output = io::Result<Space>>;
}

/// Room on a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Usable by us.
    pub free: u64,
    /// In all.
    pub total: u64,
    /// True for a file system that is memory: what was synced is gone with the power.
    pub in_memory: bool,
}

/// Whose requests go first where a device's scheduler knows classes (Linux: mq-deadline, bfq); elsewhere all are alike.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum IoClass {
    /// What somebody waits for.
    #[default]
    Foreground,
    /// What can wait: it goes when nothing of the other class does, or has waited long.
    Background,
}

/// An open segment file; clones share it.
#[allow(
    clippy::len_without_is_empty,
    reason = "nobody asks whether a segment file is empty"
)]
pub trait DiskFile: Clone + 'static {
    /// The same file, whose reads and writes from here on are of a class; it shares all else.
    #[must_use]
    fn of_class(&self, _class: IoClass) -> Self {
        self.clone()
    }
    /// Writes `parts` one after the other from `position`. `position`, and the length of every
    /// part, are multiples of [`BLOCK_BYTES`], and the memory of every part is aligned to it (see
    /// `buf`). The file grows as needed.
    fn write_at(&self, position: u64, parts: Vec<Bytes>) -> impl Future<Output = io::Result<()>>;
    /// Reads up to `len` bytes from `position`, any alignment; fewer only at the end of the file.
    fn read_at(&self, position: u64, len: usize) -> impl Future<Output = io::Result<Bytes>>;
    /// Reads into `buf` from `position`, a multiple of [`BLOCK_BYTES`] as is the buffer's length,
    /// and gives it back cut to what there was; fewer bytes only at the end of the file.
    fn read_into(
        &self,
        position: u64,
        buf: AlignedBuf,
    ) -> impl Future<Output = io::Result<AlignedBuf>>;
    /// Makes all completed writes (and the length) durable.
    fn sync(&self) -> impl Future<Output = io::Result<()>>;
    /// Reserves room up to `len` bytes; bytes never written read as zero and the length becomes at
    /// least `len`.
    ///
    /// A sync of writes into reserved room has extents to convert, so it is slower than one of
    /// writes over bytes that were written before: by 10 to 40 % at 1 MiB and 16 under way, by half
    /// at 64 KiB (`examples/disk_bench.rs`; ext4 on a virtual disk).
    fn allocate(&self, len: u64) -> impl Future<Output = io::Result<()>>;
    /// Cuts or extends (with zeros) to exactly `len` bytes, any alignment.
    fn set_len(&self, len: u64) -> impl Future<Output = io::Result<()>>;
    /// Length in bytes.
    fn len(&self) -> impl Future<Output = io::Result<u64>>;
}
