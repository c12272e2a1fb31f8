//! What the audit file asks of a disk, so that tests can let each of it fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::line::BEGINNING;

/// The operations of the audit file.
pub(super) trait AuditDisk {
    /// An open file, to whose end is written.
    type File;

    /// Opens a file, and makes it if there is none. A link is not followed, and a pipe not waited
    /// for.
    fn open(&self, path: &Path, mode: u32) -> io::Result<(Self::File, FileFacts)>;

    /// Sets the mode of an open file.
    fn set_mode(&self, file: &Self::File, mode: u32) -> io::Result<()>;

    /// Writes bytes to the end; returns how many.
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<usize>;

    /// Makes what was written durable.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns which file has a name; a link is a file of its own.
    fn identity(&self, path: &Path) -> io::Result<Identity>;

    /// Returns true if a name is that of a file of audit lines; a link is none.
    fn holds_lines(&self, path: &Path) -> io::Result<bool>;

    /// Gives a file another name, in the place of the file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
}

/// The device and the number of a file.
pub(super) type Identity = (u64, u64);

/// What is known of an open file.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of a file"
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileFacts {
    pub(super) identity: Identity,
    pub(super) bytes: u64,
    /// False for a directory, a pipe, a device.
    pub(super) is_file: bool,
    /// How many names it has.
    pub(super) names: u64,
    /// True if this process's user owns it.
    pub(super) is_own: bool,
    /// Its permissions.
    pub(super) mode: u32,
    /// True if its last line has an end.
    pub(super) is_ended: bool,
    /// True if it is empty, or begins as a file of audit lines does.
    pub(super) holds_lines: bool,
}

/// The files of the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemDisk;

impl AuditDisk for SystemDisk {
    type File = File;

    fn open(&self, path: &Path, mode: u32) -> io::Result<(File, FileFacts)> {
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(mode);
        let file = options.custom_flags(careful()?).open(path)?;
        let found = file.metadata()?;
        let is_file = found.is_file();
        let mut last = [b'\n'];
        if is_file && let Some(at) = found.len().checked_sub(1) {
            file.read_exact_at(&mut last, at)?;
        }
        let facts = FileFacts {
            identity: (found.dev(), found.ino()),
            bytes: found.len(),
            is_file,
            names: found.nlink(),
            is_own: found.uid() == rustix::process::geteuid().as_raw(),
            mode: found.mode() & 0o7777,
            is_ended: last == [b'\n'],
            holds_lines: is_file && begins_with_a_line(&file)?,
        };
        Ok((file, facts))
    }

    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        file.set_permissions(fs::Permissions::from_mode(mode))
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let found = fs::symlink_metadata(path)?;
        Ok((found.dev(), found.ino()))
    }

    fn holds_lines(&self, path: &Path) -> io::Result<bool> {
        let mut options = OpenOptions::new();
        let file = match options.read(true).custom_flags(careful()?).open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Ok(false);
            }
            opened => opened?,
        };
        Ok(file.metadata()?.is_file() && begins_with_a_line(&file)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
}

/// A link is not followed, and a pipe not waited for.
fn careful() -> io::Result<i32> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    i32::try_from(flags.bits()).map_err(io::Error::other)
}

/// Returns true if a file is empty or begins as each of our lines does, as far as it goes: a kill
/// may have cut the first one. Zeros are what a power cut may have left of it.
fn begins_with_a_line(file: &File) -> io::Result<bool> {
    let mut first = [0; BEGINNING.len()];
    let mut length = 0;
    while let Some(rest) = first.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let at = u64::try_from(length).map_err(io::Error::other)?;
        match file.read_at(rest, at) {
            Ok(0) => break,
            Ok(count) => length = length.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let found = first.get(..length).unwrap_or_default();
    Ok(BEGINNING.starts_with(found) || found.iter().all(|byte| *byte == 0))
}
