//! The files of the directories, held open, and where their data ends.
//!
//! A file is known by its name and its inode, which no other file gets while it is held open. So a
//! second look opens only what is new, and forgets what is gone. The data files of a log that may
//! still change, by its recovery point (`storage::backup`), are looked at to their ends.
//!
//! Bounded: by the limit of open files; an entry has a name and some numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use platform::lock::LOCK_FILE;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir as ReadDir, FileType, Mode, OFlags, openat, statat};
use storage::backup::{
    BatchesEnd, FilePart, copied_len, is_left_out, part_of, recovery_limit, recovery_points,
    unsure_from,
};
use storage::checkpoint::offsets;
use storage::journal::names::parse_ring_name;
use storage::{is_deleted_folder, parse_folder_name, parse_future_folder_name};
use wire::types::Offset;

/// Files whose room matters where they are, and nowhere else.
const OWN_FILES: [&str; 2] = [LOCK_FILE, "reserved-room"];

/// The most names in a directory: more than any broker has partitions.
const NAMES_MAX: usize = 1 << 20;

/// All directories.
pub(super) struct Survey {
    pub(super) dirs: Vec<Dir>,
    /// The base of the first data file of each log that may still change, if a broker may write to
    /// it.
    // Bounded: `NAMES_MAX`.
    written_from: BTreeMap<String, Offset>,
}

/// The longest checkpoint that is read.
const CHECKPOINT_BYTES_MAX: u64 = 256 << 20;

/// One directory: its own files in the folder without a name, and the folders of logs.
pub(super) struct Dir {
    pub(super) path: PathBuf,
    // Bounded: `NAMES_MAX`.
    pub(super) folders: BTreeMap<String, Folder>,
}

/// The files of a folder, by name.
pub(super) type Folder = BTreeMap<String, HeldFile>;

/// A file that is held open.
pub(super) struct HeldFile {
    pub(super) file: File,
    inode: u64,
    pub(super) part: FilePart,
    /// Where its data ends, if that is not the end of the file.
    pub(super) end: Option<BatchesEnd>,
    /// The length of the file when `end` was found.
    len: u64,
}

impl Survey {
    pub(super) fn new(dirs: &[PathBuf]) -> Self {
        let dir = |path: &PathBuf| Dir {
            path: path.clone(),
            folders: BTreeMap::new(),
        };
        Self {
            dirs: dirs.iter().map(dir).collect(),
            written_from: BTreeMap::new(),
        }
    }

    /// Returns the number of logs.
    pub(super) fn logs(&self) -> usize {
        let folders = self.dirs.iter().flat_map(|dir| dir.folders.keys());
        let names: std::collections::BTreeSet<_> =
            folders.filter(|name| !name.is_empty()).collect();
        names.len()
    }

    /// Looks at all names again, and at the ends of the data if the files may be written to.
    ///
    /// Returns false if there was no time for it.
    pub(super) fn look(&mut self, is_written: bool, by: Option<Instant>) -> anyhow::Result<bool> {
        let late = || by.is_some_and(|by| Instant::now() >= by);
        for dir in &mut self.dirs {
            if !dir.look(&late)? {
                return Ok(false);
            }
        }
        self.written_from.clear();
        if !is_written {
            return Ok(true);
        }
        self.find_written()?;
        for (name, folder) in self.dirs.iter_mut().flat_map(|dir| &mut dir.folders) {
            let Some(from) = self.written_from.get(name) else {
                continue;
            };
            for (file, held) in folder.iter_mut() {
                if late() {
                    return Ok(false);
                }
                if held.base().is_some_and(|base| base >= *from) {
                    held.find_end().with_context(|| format!("{name}/{file}"))?;
                }
            }
        }
        Ok(true)
    }

    /// Finds out which data files may still change, by the recovery points in the directories.
    fn find_written(&mut self) -> anyhow::Result<()> {
        let mut points: BTreeMap<String, Offset> = BTreeMap::new();
        for dir in &self.dirs {
            let own = dir.folders.get("");
            let ring = own.and_then(|own| own.keys().find(|name| parse_ring_name(name).is_some()));
            ensure!(
                ring.is_none(),
                "{} has a journal, which the running broker writes to all over: stop the broker for \
                 a backup",
                dir.path.display()
            );
            let Some(held) = own.and_then(|own| own.get(offsets::RECOVERY_POINTS)) else {
                continue;
            };
            let file = dir.path.join(offsets::RECOVERY_POINTS);
            let bytes = held.read();
            let bytes = bytes.with_context(|| format!("reading {}", file.display()))?;
            for (name, point) in recovery_points(&file, &bytes) {
                // A log that has just moved is in two directories.
                let least = points.entry(name).or_insert(point);
                *least = point.min(*least);
            }
        }
        let mut bases: BTreeMap<&String, Vec<Offset>> = BTreeMap::new();
        for (name, folder) in self.dirs.iter().flat_map(|dir| &dir.folders) {
            let bases = bases.entry(name).or_default();
            for (file, held) in folder {
                bases.extend(held.base());
                if held.part == FilePart::Limits {
                    let bytes = held.read().with_context(|| format!("{name}/{file}"))?;
                    let point = recovery_limit(file, &bytes).unwrap_or(Offset::ZERO);
                    if let Some(least) = points.get_mut(name) {
                        *least = point.min(*least);
                    }
                }
            }
        }
        for (name, mut bases) in bases {
            bases.sort_unstable();
            bases.dedup();
            let point = points.get(name).copied().unwrap_or(Offset::ZERO);
            let from = unsure_from(&bases, point);
            self.written_from
                .extend(from.map(|from| (name.clone(), from)));
        }
        Ok(())
    }

    /// Returns how long the copy of a data file is whose end was found, and how much of it is
    /// copied; the rest is zeros.
    pub(super) fn lengths(&self, folder: &str, held: &HeldFile) -> Option<(u64, u64)> {
        let (base, end) = (held.base()?, held.end?);
        if !self.is_growing(folder, base) {
            // Sealed since a look before the last.
            return None;
        }
        let folders = self.dirs.iter().filter_map(|dir| dir.folders.get(folder));
        let bases = folders.flat_map(|folder| folder.values().filter_map(HeldFile::base));
        let following = bases.filter(|other| *other > base).min();
        Some((end.position, copied_len(end, held.len, following)))
    }

    /// Returns the files behind whose last batch was something else than zeros.
    pub(super) fn torn(&self) -> impl Iterator<Item = (PathBuf, &HeldFile)> {
        let folders = self.dirs.iter().flat_map(|dir| {
            let folders = dir.folders.iter();
            folders.map(move |(name, folder)| (dir, name, folder))
        });
        folders.flat_map(move |(dir, name, folder)| {
            let torn = folder.iter().filter(move |(_, held)| {
                let is_growing = held.base().is_some_and(|base| self.is_growing(name, base));
                is_growing && held.end.is_some_and(|end| end.is_torn)
            });
            torn.map(move |(file, held)| (dir.path.join(name).join(file), held))
        })
    }

    /// Returns true for an index of a data file that is written to, or may just have been.
    pub(super) fn is_growing(&self, folder: &str, base: Offset) -> bool {
        self.written_from
            .get(folder)
            .is_some_and(|from| base >= *from)
    }
}

impl Dir {
    /// Looks at the names; returns false if there was no time for it.
    fn look(&mut self, late: &dyn Fn() -> bool) -> anyhow::Result<bool> {
        let mut before = std::mem::take(&mut self.folders);
        let top = open(CWD, &self.path, OFlags::DIRECTORY);
        let top = top.map_err(|error| not_opened(error, &self.path))?;
        let (mut own, folders) = names(&top, &self.path)?;
        own.retain(|(name, _)| !is_left_out(name) && !OWN_FILES.contains(&name.as_str()));
        let whole = |_: &str| FilePart::Whole;
        let held = before.remove("").unwrap_or_default();
        self.folders.insert(
            String::new(),
            look_at((&top, self.path.as_path()), own, held, &whole)?,
        );
        for (name, _) in folders {
            if is_deleted_folder(&name)
                || parse_future_folder_name(&name).is_some()
                || (parse_folder_name(&name).is_none() && !name.ends_with("-stray"))
            {
                continue;
            }
            if late() {
                return Ok(false);
            }
            let path = self.path.join(&name);
            let held = before.remove(&name).unwrap_or_default();
            let folder = open(&top, Path::new(&name), OFlags::DIRECTORY | OFlags::NOFOLLOW);
            let folder = match folder {
                Ok(folder) => folder,
                // A topic that was deleted between two names.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(not_opened(error, &path)),
            };
            let (files, _) = names(&folder, &path)?;
            let files = look_at((&folder, path.as_path()), files, held, &part_of)?;
            self.folders.insert(name, files);
        }
        Ok(true)
    }
}

/// Opens a name without waiting for anyone.
///
/// The broker's user can put something else under a name at any time, and this may run as root:
/// folders and files are opened by their own names in what is open, and never through a link.
fn open(at: impl AsFd, name: &Path, how: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::RDONLY;
    Ok(openat(at, name, flags | how, Mode::empty())?)
}

/// Names and their inodes, as a directory lists them.
type Names = Vec<(String, u64)>;

/// Returns the names of the files and of the folders in a directory.
fn names(dir: &OwnedFd, path: &Path) -> anyhow::Result<(Names, Names)> {
    let listing = || format!("listing {}", path.display());
    let (mut files, mut folders) = (Names::new(), Names::new());
    let entries = ReadDir::read_from(dir);
    for entry in entries.map_err(|error| not_opened(error.into(), path))? {
        let entry = entry.with_context(listing)?;
        ensure!(
            files.len().max(folders.len()) < NAMES_MAX,
            "{} has more than {NAMES_MAX} names",
            path.display()
        );
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if [".", ".."].contains(&name) {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            // Some file systems do not list it; what has gone meanwhile is left out.
            let facts = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            kind = facts.map_or(kind, |facts| FileType::from_raw_mode(facts.st_mode));
        }
        match kind {
            FileType::Directory => folders.push((name.to_owned(), entry.ino())),
            FileType::RegularFile => files.push((name.to_owned(), entry.ino())),
            _ => {}
        }
    }
    Ok((files, folders))
}

/// Returns the files of a folder: those that were held already, and the others opened.
fn look_at(
    (folder, path): (&OwnedFd, &Path),
    files: Names,
    mut before: Folder,
    part: &dyn Fn(&str) -> FilePart,
) -> anyhow::Result<Folder> {
    let mut looked_at = Folder::new();
    for (name, inode) in files {
        let part = part(&name);
        if part == FilePart::Nothing {
            continue;
        }
        let known = before.remove(&name).filter(|held| held.inode == inode);
        if let Some(known) = known {
            looked_at.insert(name, known);
            continue;
        }
        let file = match open(folder, Path::new(&name), OFlags::NOFOLLOW) {
            Ok(file) => File::from(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(not_opened(error, &path.join(&name))),
        };
        if file.metadata()?.is_file() {
            let held = HeldFile {
                file,
                // If another one has come under the name since, the next look finds that.
                inode,
                part,
                end: None,
                len: 0,
            };
            looked_at.insert(name, held);
        }
    }
    Ok(looked_at)
}

fn not_opened(error: io::Error, path: &Path) -> anyhow::Error {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let is_short = error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error());
    let error = anyhow::Error::new(error).context(format!("opening {}", path.display()));
    match limit {
        Some(limit) if is_short => error.context(format!(
            "the limit of open files is {limit}, and a backup holds every file of the directories \
             open (ulimit -Hn)"
        )),
        _ => error,
    }
}

impl HeldFile {
    fn base(&self) -> Option<Offset> {
        match self.part {
            FilePart::Data(base) => Some(base),
            _ => None,
        }
    }

    /// Returns what is in a small file, which is only ever replaced as a whole.
    fn read(&self) -> io::Result<Vec<u8>> {
        let len = self.file.metadata()?.len();
        if len > CHECKPOINT_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is too long for a checkpoint",
            ));
        }
        read_at(
            &self.file,
            0,
            usize::try_from(len).unwrap_or(usize::MAX),
            len,
        )
    }

    /// Moves the end of the data on to where it is now.
    fn find_end(&mut self) -> io::Result<()> {
        let Some(base) = self.base() else {
            return Ok(());
        };
        let len = self.file.metadata()?.len();
        // A log that was truncated since is looked at from the start.
        let known = self.end.filter(|end| end.position <= len);
        let mut end = known.unwrap_or(BatchesEnd::of(base));
        let is_whole = known.is_some() && end.position == len;
        if !is_whole {
            end.advance(|at, wanted| read_at(&self.file, at, wanted, len))?;
        }
        self.end = Some(end);
        self.len = len;
        Ok(())
    }

    /// Returns true when what followed the last batch at the instant has become batches since, or
    /// is not there any more.
    pub(super) fn has_gone_on(&self) -> io::Result<bool> {
        let Some(then) = self.end else {
            return Ok(true);
        };
        let len = self.file.metadata()?.len();
        let mut now = then;
        now.advance(|at, wanted| read_at(&self.file, at, wanted, len))?;
        Ok(!now.is_torn || now.position > then.position)
    }
}

/// Reads from a file of this length: as much as is wanted, less only at its end.
fn read_at(file: &File, at: u64, wanted: usize, len: u64) -> io::Result<Vec<u8>> {
    let left = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; wanted.min(left)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(filled as u64))? {
            0 => break,
            count => filled = filled.saturating_add(count),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
