//! Copies held files into new ones.
//!
//! Invariants: a file is never written over; a copy has the mode and, for the superuser, the owner
//! of its source.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use platform::bounded;
use platform::lock::give_to_owner_of;
use storage::backup::FilePart;

use super::survey::{Dir, HeldFile, Survey};

/// The part of a mode that says who may do what.
const PERMISSIONS: u32 = 0o777;

/// Copies a directory; returns how many files and bytes.
pub(super) fn dir(dir: &Dir, to: &Path, survey: &Survey) -> anyhow::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let folders: Vec<_> = dir.folders.iter().collect();
    for &(name, folder) in cli::counted("folders", &folders) {
        let (from, to) = (dir.path.join(name), to.join(name));
        if !to.exists() {
            fs::create_dir(&to).with_context(|| format!("creating {}", to.display()))?;
        }
        give_to_owner_of(&from, &to);
        for (file, held) in folder {
            if matches!(held.part, FilePart::Index(base) if survey.is_growing(name, base)) {
                continue;
            }
            let target = to.join(file);
            let copied = one(held, survey.lengths(name, held), &from, &target);
            let copied = copied.with_context(|| format!("copying to {}", target.display()))?;
            files = files.saturating_add(1);
            bytes = bytes.saturating_add(copied);
        }
    }
    Ok((files, bytes))
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
