//! Copies held files into new ones.
//!
//! Invariants: a file is never written over; a copy has the mode of its source and, for the
//! superuser, the owner of the log directory (the folder of a log may go while it is copied). A
//! folder gets them when its files are there, and the whole copy when it is checked: until then
//! other users do not reach it, and cannot lead this process, which may be root's, to write
//! somewhere else.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use platform::bounded;
use platform::lock::give_to_owner_of;
use storage::backup::FilePart;

use super::survey::{Dir, HeldFile, Survey};

/// The part of a mode that says who may do what.
const PERMISSIONS: u32 = 0o777;
/// The mode of a directory until it is whole.
const PRIVATE: u32 = 0o700;
/// The mode of a directory that has those of several sources.
const OF_SEVERAL: u32 = 0o755;

/// Copies a directory; returns how many files and bytes.
pub(super) fn dir(dir: &Dir, to: &Path, survey: &Survey) -> anyhow::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let folders: Vec<_> = dir.folders.iter().collect();
    for &(name, folder) in cli::counted("folders", &folders) {
        let (from, to) = (dir.path.join(name), to.join(name));
        if !to.exists() {
            create_dir(&to)?;
        }
        for (file, held) in folder {
            if matches!(held.part, FilePart::Index(base) if survey.is_growing(name, base)) {
                continue;
            }
            let target = to.join(file);
            let copied = one(held, survey.lengths(name, held), &dir.path, &target);
            let copied = copied.with_context(|| format!("copying to {}", target.display()))?;
            files = files.saturating_add(1);
            bytes = bytes.saturating_add(copied);
        }
        if !name.is_empty() {
            // Its topic may have been deleted since.
            let facts = fs::symlink_metadata(&from).ok().filter(Metadata::is_dir);
            let facts = facts.map_or_else(|| fs::metadata(&dir.path), Ok)?;
            open_up(&facts, &to)?;
            give_to_owner_of(&dir.path, &to);
        }
    }
    Ok((files, bytes))
}

/// Creates a directory that no other user can enter.
pub(super) fn create_dir(dir: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().mode(PRIVATE).create(dir);
    created.with_context(|| format!("creating {}", dir.display()))
}

/// Gives a directory the mode of another one.
fn open_up(of: &Metadata, to: &Path) -> anyhow::Result<()> {
    let mode = Permissions::from_mode(of.mode() & PERMISSIONS);
    fs::set_permissions(to, mode).with_context(|| format!("giving {} its mode", to.display()))
}

/// Copies a file, or as much of it as `lengths` says, with zeros behind it.
fn one(
    held: &HeldFile,
    lengths: Option<(u64, u64)>,
    owner: &Path,
    to: &Path,
) -> anyhow::Result<u64> {
    let mut from = &held.file;
    let mode = from.metadata()?.mode() & PERMISSIONS;
    let mut options = OpenOptions::new();
    let mut target = options.write(true).create_new(true).mode(mode).open(to)?;
    give_to_owner_of(owner, to);
    if held.part == FilePart::NameOnly {
        return Ok(0);
    }
    from.seek(SeekFrom::Start(0))?;
    let Some((bytes, len)) = lengths else {
        // Such a file is only ever replaced as a whole.
        let len = from.metadata()?.len();
        return Ok(bounded::copy(from, &mut target, len)?);
    };
    let copied = bounded::copy(from, &mut target, bytes)?;
    ensure!(
        copied == bytes,
        "the file was cut to {copied} bytes while it was copied"
    );
    target.set_len(len)?;
    Ok(copied)
}

/// Gives the copies of several directories, or of one, to those who have the sources.
pub(super) fn hand_over(dirs: &[PathBuf], to: &Path, targets: &[PathBuf]) -> anyhow::Result<()> {
    for (from, to) in dirs.iter().zip(targets) {
        let facts = fs::metadata(from);
        let facts = facts.with_context(|| format!("looking at {}", from.display()))?;
        open_up(&facts, to)?;
        give_to_owner_of(from, to);
        sync_dir(to)?;
    }
    if targets.iter().all(|target| target != to) {
        let opened = fs::set_permissions(to, Permissions::from_mode(OF_SEVERAL));
        opened.with_context(|| format!("giving {} its mode", to.display()))?;
        sync_dir(to)?;
    }
    Ok(())
}

/// Makes everything in the file system of `dir` durable.
pub(super) fn sync_all(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    synced.with_context(|| format!("syncing {}", dir.display()))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.with_context(|| format!("syncing {}", dir.display()))
}
