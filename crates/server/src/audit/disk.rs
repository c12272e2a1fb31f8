//! What the audit file asks of a disk, so that tests can let each of it fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

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

    /// Gives a file another name, in the place of the file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
}

/// The device and the number of a file.
pub(super) type Identity = (u64, u64);

/// What is known of an open file.
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
}

/// The files of the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemDisk;

impl AuditDisk for SystemDisk {
    type File = File;

    fn open(&self, path: &Path, mode: u32) -> io::Result<(File, FileFacts)> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(mode)
            .custom_flags(flags)
            .open(path)?;
        let found = file.metadata()?;
        let is_file = found.is_file();
        let mut last = [b'\n'];
        if is_file && found.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let facts = FileFacts {
            identity: (found.dev(), found.ino()),
            bytes: found.len(),
            is_file,
            names: found.nlink(),
            is_own: found.uid() == rustix::process::geteuid().as_raw(),
            mode: found.mode() & 0o7777,
            is_ended: last == [b'\n'],
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

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
}
