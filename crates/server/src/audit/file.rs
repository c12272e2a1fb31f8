//! The file of audit lines: opened with care, written to its end, put aside when it is large.
//!
//! ```text
//! audit.log -> audit.log.1 -> audit.log.2 -> .. -> gone      by renames, the oldest first
//! ```
//!
//! Invariants: only a regular file of this user with one name, which is empty or begins as a file
//! of audit lines does, is written to, and with the mode that the operator set, or a tighter one;
//! only such files are put aside or make room. Lines are whole: one that a full disk or a kill has
//! cut is completed, or ended before the next. A line is written once: after an error it goes on
//! where it stopped. A file that another program has moved away (`logrotate`) is left to it, and a
//! new one is made. After an error the file is opened again, since a disk that was gone and is back
//! does not answer to what was open before. A file that is let go of is durable, if the disk can.
//! Not here: when it is written (`writer`).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use rustix::io::Errno;

use super::disk::{AuditDisk, FileFacts, Identity};

const ASIDE_IS_FOREIGN: &str = "a file with its name and a number is another program's: it would be \
                                moved, and deleted in the end";

/// How large files are, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLimits {
    /// The mode of each file.
    pub(super) mode: u32,
    /// Size at which a file is put aside.
    pub(super) bytes_max: u64,
    /// Files that are kept, the one that is written included.
    pub(super) files: usize,
}

/// Why the file cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuditFileError {
    /// It must not be.
    #[error("{0}")]
    Unsafe(&'static str),
    /// The disk.
    #[error("{0}: {1}")]
    Disk(&'static str, #[source] io::Error),
}

impl AuditFileError {
    /// Returns true if the path itself is wrong.
    pub(super) const fn is_unsafe(&self) -> bool {
        matches!(self, Self::Unsafe(_))
    }
}

/// How far a file is written.
#[derive(Clone, Copy)]
struct WrittenExtent {
    identity: Identity,
    bytes: u64,
    /// Bytes of the first line that are written already.
    begun: usize,
    /// True if the last line in it has no end, and none that waits is its rest.
    is_torn: bool,
    /// True if something was written that is not synced.
    owes_sync: bool,
    /// True if the name of the file may not be durable.
    owes_name: bool,
}

struct OpenFile<F> {
    file: F,
    at: WrittenExtent,
}

/// The file.
pub(super) struct AuditFile<D: AuditDisk> {
    disk: D,
    path: PathBuf,
    limits: FileLimits,
    open: Option<OpenFile<D::File>>,
    /// Where the file stood that was closed after an error.
    left: Option<WrittenExtent>,
    /// How often a file was put aside.
    rotations: u64,
}

impl<D: AuditDisk> AuditFile<D> {
    pub(super) fn new(disk: D, path: PathBuf, limits: FileLimits) -> Self {
        assert!(limits.files >= 2, "a file is put aside before it is gone");
        Self {
            disk,
            path,
            limits,
            open: None,
            left: None,
            rotations: 0,
        }
    }

    /// Returns how often a file was put aside.
    pub(super) const fn rotations(&self) -> u64 {
        self.rotations
    }

    /// Opens the file unless it is open.
    pub(super) fn open(&mut self) -> Result<(), AuditFileError> {
        if self.open.is_some() {
            return Ok(());
        }
        self.check_aside()?;
        let opened = self.disk.open(&self.path, self.limits.mode);
        let (file, facts) = opened.map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::LOOP.raw_os_error() => {
                AuditFileError::Unsafe("it is a symbolic link: name the file itself")
            }
            Some(code) if code == Errno::ISDIR.raw_os_error() => {
                AuditFileError::Unsafe("it is a directory")
            }
            Some(code) if code == Errno::NXIO.raw_os_error() => {
                AuditFileError::Unsafe("it is a pipe or a socket, and must be a regular file")
            }
            _ => AuditFileError::Disk("it cannot be opened", error),
        })?;
        check(facts)?;
        if facts.mode & !self.limits.mode != 0 {
            let set = self.disk.set_mode(&file, facts.mode & self.limits.mode);
            set.map_err(|error| AuditFileError::Disk("its mode cannot be set", error))?;
        }
        let is_where_it_stood =
            |left: &WrittenExtent| left.identity == facts.identity && left.bytes == facts.bytes;
        let left = self.left.take().filter(is_where_it_stood);
        let at = left.unwrap_or(WrittenExtent {
            identity: facts.identity,
            bytes: facts.bytes,
            begun: 0,
            is_torn: !facts.is_ended,
            owes_sync: false,
            owes_name: facts.bytes == 0,
        });
        self.open = Some(OpenFile { file, at });
        Ok(())
    }

    /// Opens the file; shows that it can be written, too, by a line that has to be durable.
    pub(super) fn open_with(&mut self, first: Option<Vec<u8>>) -> Result<(), AuditFileError> {
        self.open()?;
        let Some(first) = first else {
            return Ok(());
        };
        self.append(&mut [first].into())?;
        self.sync()
    }

    /// Closes the file after an error, to open it again and go on there.
    fn leave(&mut self) {
        if let Some(open) = self.open.take() {
            self.left = Some(open.at);
        }
    }

    /// Lets go of the file if its name is another file's by now, or no file's.
    pub(super) fn look(&mut self) {
        let now = self.disk.identity(&self.path);
        let is_it = |open: &mut OpenFile<D::File>| match &now {
            Ok(identity) => *identity == open.at.identity,
            // The disk may answer later.
            Err(error) => error.kind() != ErrorKind::NotFound,
        };
        let Some(gone) = self.open.take_if(|open| !is_it(open)) else {
            return;
        };
        if gone.at.owes_sync
            && let Err(error) = self.disk.sync(&gone.file)
        {
            tracing::error!(%error, path = %self.path.display(),
                "an audit file was moved away or deleted, and its last lines may not be durable");
        }
    }

    /// Writes lines, and takes out those that are written.
    pub(super) fn append(&mut self, lines: &mut VecDeque<Vec<u8>>) -> Result<(), AuditFileError> {
        while let Some(line) = lines.front() {
            let appended = self.append_line(line);
            appended.inspect_err(|_| self.leave())?;
            lines.pop_front();
        }
        Ok(())
    }

    fn append_line(&mut self, line: &[u8]) -> Result<(), AuditFileError> {
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let bytes_max = self.limits.bytes_max;
        let is_over = |open: &OpenFile<D::File>| {
            let after = open.at.bytes.saturating_add(bytes);
            open.at.bytes > 0 && open.at.begun == 0 && after > bytes_max
        };
        self.open()?;
        if self.open.as_ref().is_some_and(is_over) {
            self.rotate()?;
            self.open()?;
        }
        let Some(open) = &mut self.open else {
            unreachable!("it was opened")
        };
        if open.at.is_torn {
            write(&self.disk, open, b"\n")?;
            (open.at.is_torn, open.at.begun) = (false, 0);
        }
        while let Some(rest) = line.get(open.at.begun..).filter(|rest| !rest.is_empty()) {
            write(&self.disk, open, rest)?;
        }
        open.at.begun = 0;
        Ok(())
    }

    /// Makes what was written durable, and the names of the files.
    pub(super) fn sync(&mut self) -> Result<(), AuditFileError> {
        let synced = self.try_sync();
        let failed = |error| AuditFileError::Disk("it cannot be synced", error);
        synced.inspect_err(|_| self.leave()).map_err(failed)
    }

    fn try_sync(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if open.at.owes_sync {
            self.disk.sync(&open.file)?;
            open.at.owes_sync = false;
        }
        if open.at.owes_name {
            self.disk
                .sync_dir(self.path.parent().unwrap_or(&self.path))?;
            open.at.owes_name = false;
        }
        Ok(())
    }

    /// Puts the file aside: those before it get the next number up to the first that is free, or
    /// the oldest makes room. After a failure or a kill between two renames it goes on there.
    fn rotate(&mut self) -> Result<(), AuditFileError> {
        self.sync()?;
        self.check_aside()?;
        let failed = |error| AuditFileError::Disk("it cannot be put aside", error);
        let last = self.limits.files.saturating_sub(1);
        let mut free = 1;
        while free < last && self.has(free).map_err(failed)? {
            free = free.saturating_add(1);
        }
        for number in (1..free).rev() {
            let (from, to) = (self.aside(number), self.aside(number.saturating_add(1)));
            self.disk.rename(&from, &to).map_err(failed)?;
        }
        let renamed = self.disk.rename(&self.path, &self.aside(1));
        renamed.map_err(failed)?;
        self.open = None;
        self.rotations = self.rotations.saturating_add(1);
        Ok(())
    }

    /// Refuses names of files that are put aside if another program's file has one: it would be
    /// moved, and deleted in the end.
    fn check_aside(&self) -> Result<(), AuditFileError> {
        for number in 1..self.limits.files {
            match self.disk.holds_lines(&self.aside(number)) {
                Ok(true) => {}
                Ok(false) => return Err(AuditFileError::Unsafe(ASIDE_IS_FOREIGN)),
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => {
                    let what = "a file that was put aside cannot be read";
                    return Err(AuditFileError::Disk(what, error));
                }
            }
        }
        Ok(())
    }

    fn has(&self, number: usize) -> io::Result<bool> {
        match self.disk.identity(&self.aside(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    fn aside(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

fn write<D: AuditDisk>(
    disk: &D,
    open: &mut OpenFile<D::File>,
    bytes: &[u8],
) -> Result<(), AuditFileError> {
    let failed = |error| AuditFileError::Disk("it cannot be written", error);
    match disk.write(&mut open.file, bytes) {
        Ok(0) => Err(failed(ErrorKind::WriteZero.into())),
        Ok(count) => {
            let at = &mut open.at;
            (at.begun, at.owes_sync) = (at.begun.saturating_add(count), true);
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            at.bytes = at.bytes.saturating_add(count);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Refuses what a stranger may have put into the place of the file.
fn check(facts: FileFacts) -> Result<(), AuditFileError> {
    let why = if !facts.is_file {
        "it is a pipe or a device, and must be a regular file"
    } else if !facts.is_own {
        "it belongs to another user"
    } else if facts.names > 1 {
        "it has a second name (a hard link)"
    } else if !facts.holds_lines {
        "it is another program's file: what is in it does not begin as an audit file does"
    } else {
        return Ok(());
    };
    Err(AuditFileError::Unsafe(why))
}

#[cfg(test)]
pub(super) mod tests;
