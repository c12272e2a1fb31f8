//! Mapped files on persistent memory: the medium `dax`.
//!
//! The directories that use it are declared, and each is tested at once: only a DAX mount supports
//! a mapping that keeps the file system's own records as durable as the bytes (`MAP_SYNC`). Other
//! directories are refused, or emulated when declared volatile: the same code on ordinary memory.
//! Invariant: one shard has one [`Inode`] for a file, however often it is opened, so code that
//! changes the file knows all its readers. Each file belongs to one shard. For the reasons, see
//! `docs/adr/0015-mapped-files.md`.

mod file;
#[cfg(target_arch = "x86_64")]
mod guard;
#[cfg(not(target_arch = "x86_64"))]
#[path = "dax/unguarded.rs"]
mod guard;
mod mapping;
mod table;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use rustix::fs::OFlags;
use rustix::io::Errno;

pub(super) use file::MappedFile;

use self::file::Inode;
use self::mapping::Mapping;
use super::direct::trial_file;
use super::names::FILE_MODE;
use super::threads::run;
use crate::bounded::regular;
use crate::buf::BufPool;
use crate::disk::{BLOCK_BYTES, Medium, Open};
use crate::error::Error;

/// The directories of a shard whose files are mapped, and the open mapped files.
#[derive(Default)]
pub(super) struct Dax {
    dirs: RefCell<Vec<(PathBuf, Emulation)>>,
    /// By device and inode number.
    inodes: RefCell<HashMap<(u64, u64), Weak<Inode>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Emulation(bool);

/// The result of opening a file.
struct OpenedFile {
    file: OwnedFd,
    id: (u64, u64),
    writable: bool,
}

impl Dax {
    pub(super) async fn declare(&self, dir: &Path, volatile: bool) -> Result<Medium, Error> {
        let not_dax = |reason: String| Error::NotDax {
            dir: dir.to_owned(),
            reason,
        };
        guard::install().map_err(|error| not_dax(error.to_string()))?;
        let at = dir.to_owned();
        let tried = run(move || try_mapping(&at)).await;
        let emulated = match tried {
            Ok(None) => false,
            Ok(Some(_)) if volatile => true,
            Ok(Some(refusal)) => return Err(not_dax(refusal)),
            Err(error) => return Err(not_dax(error.to_string())),
        };
        let mut dirs = self.dirs.borrow_mut();
        dirs.retain(|(known, _)| known != dir);
        dirs.push((dir.to_owned(), Emulation(emulated)));
        Ok(Medium::Dax { emulated })
    }

    pub(super) fn medium(&self, path: &Path) -> Medium {
        match self.covering(path) {
            Some(Emulation(emulated)) => Medium::Dax { emulated },
            None => Medium::File,
        }
    }

    /// Returns the setting of the innermost declared directory.
    fn covering(&self, path: &Path) -> Option<Emulation> {
        let dirs = self.dirs.borrow();
        let covering = dirs.iter().filter(|(dir, _)| path.starts_with(dir));
        let innermost = covering.max_by_key(|(dir, _)| dir.components().count());
        innermost.map(|(_, emulated)| *emulated)
    }

    /// Opens a file if it is below a declared directory; else returns `None`.
    pub(super) async fn open(
        &self,
        path: &Path,
        how: Open,
        buffers: &BufPool,
    ) -> Option<io::Result<MappedFile>> {
        let Emulation(emulated) = self.covering(path)?;
        let path = path.to_owned();
        let opened = run(move || open(&path, how)).await;
        Some(opened.and_then(|opened| {
            let inode = self.inode(opened, emulated);
            if how != Open::Read && !inode.is_writable() {
                // A reader opened it while it could not be written, and the inode is shared.
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            Ok(MappedFile::new(inode, how, buffers.clone()))
        }))
    }

    fn inode(&self, opened: OpenedFile, emulated: bool) -> Rc<Inode> {
        let mut inodes = self.inodes.borrow_mut();
        if let Some(known) = inodes.get(&opened.id).and_then(Weak::upgrade) {
            return known;
        }
        if inodes.len() == inodes.capacity() {
            inodes.retain(|_, inode| inode.strong_count() > 0);
        }
        let inode = Rc::new(Inode::new(opened.file, opened.writable, emulated));
        inodes.insert(opened.id, Rc::downgrade(&inode));
        inode
    }
}

/// Opens a file for reading and writing, so that all its users can share the mapping.
///
/// Opens it read-only when nothing else is possible or requested.
fn open(path: &Path, how: Open) -> io::Result<OpenedFile> {
    // Opening a pipe under a segment's name must not block.
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::RDWR;
    let mode = FILE_MODE;
    let opened = match how {
        Open::Create => rustix::fs::open(path, flags | OFlags::CREATE | OFlags::EXCL, mode),
        Open::Read | Open::Write => rustix::fs::open(path, flags, mode),
    };
    let (file, writable) = match opened {
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) if how == Open::Read => {
            let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::RDONLY;
            (rustix::fs::open(path, flags, mode)?, false)
        }
        opened => (opened?, true),
    };
    let file = regular(file)?;
    let facts = rustix::fs::fstat(&file)?;
    Ok(OpenedFile {
        file,
        id: (facts.st_dev, facts.st_ino),
        writable,
    })
}

/// Maps a file in `dir` with `MAP_SYNC`; returns the kernel's error where it refuses.
fn try_mapping(dir: &Path) -> io::Result<Option<String>> {
    let file = trial_file(dir, OFlags::empty())?;
    rustix::fs::ftruncate(&file, BLOCK_BYTES as u64)?;
    match Mapping::new(&file, BLOCK_BYTES, true, true) {
        Ok(_) => Ok(None),
        Err(error) => {
            let codes = [Errno::OPNOTSUPP, Errno::INVAL].map(Errno::raw_os_error);
            let refused = error
                .raw_os_error()
                .is_some_and(|code| codes.contains(&code));
            if refused {
                Ok(Some(format!("mapping with MAP_SYNC: {error}")))
            } else {
                Err(error)
            }
        }
    }
}
