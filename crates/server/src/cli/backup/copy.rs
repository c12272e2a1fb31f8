//! Copies held files into new ones.
//!
//! Invariants: a file is never written over; a copy, of a directory too, has the mode and, for the
//! superuser, the owner of its source: no user reads in a backup what the directories keep from him.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use platform::bounded;
use platform::lock::give_to_owner_of;
use storage::backup::FilePart;

use super::survey::{Dir, HeldFile, Survey};

/// The part of a mode that says who may do what.
const PERMISSIONS: u32 = 0o777;
/// What the owner of a copy may do with its directories, so that it can be filled.
const OF_OWNER: u32 = 0o700;

/// Copies a directory; returns how many files and bytes.
pub(super) fn dir(dir: &Dir, to: &Path, survey: &Survey) -> anyhow::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let folders: Vec<_> = dir.folders.iter().collect();
    for &(name, folder) in cli::counted("folders", &folders) {
        let (from, to) = (dir.path.join(name), to.join(name));
        if !to.exists() {
            make_dir(&from, &to)?;
        }
        for (file, held) in folder {
            if matches!(held.part, FilePart::Index(base) if survey.is_growing(name, base)) {
                continue;
            }
            let target = to.join(file);
            let copied = one(held, &from, &target);
            let copied = copied.with_context(|| format!("copying to {}", target.display()))?;
            files = files.saturating_add(1);
            bytes = bytes.saturating_add(copied);
        }
    }
    Ok((files, bytes))
}

/// Makes the directory that becomes the copy of `from`, or has it in it. That of a topic that was
/// deleted meanwhile is for its owner.
pub(super) fn make_dir(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mode = fs::metadata(from).map_or(OF_OWNER, |from| from.mode() & PERMISSIONS);
    let made = DirBuilder::new().mode(mode | OF_OWNER).create(to);
    made.with_context(|| format!("creating {}", to.display()))?;
    give_to_owner_of(from, to);
    Ok(())
}

fn one(held: &HeldFile, owner: &Path, to: &Path) -> anyhow::Result<u64> {
    let mut from = &held.file;
    let mode = from.metadata()?.mode() & PERMISSIONS;
    let mut options = OpenOptions::new();
    let mut target = options.write(true).create_new(true).mode(mode).open(to)?;
    give_to_owner_of(owner, to);
    if held.part == FilePart::NameOnly {
        return Ok(0);
    }
    from.seek(SeekFrom::Start(0))?;
    let Some(end) = held.end else {
        // Such a file is only ever replaced as a whole.
        let len = from.metadata()?.len();
        return Ok(bounded::copy(from, &mut target, len)?);
    };
    let copied = bounded::copy(from, &mut target, end.position)?;
    ensure!(
        copied == end.position,
        "the file was cut to {copied} bytes while it was copied"
    );
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_is_no_more_open_than_its_source() {
        let home = tempfile::tempdir().unwrap();
        let from = home.path().join("from");
        fs::create_dir(&from).unwrap();
        for (mode, to) in [(0o700, "a"), (0o500, "b"), (0o750, "c")] {
            fs::set_permissions(&from, fs::Permissions::from_mode(mode)).unwrap();
            let to = home.path().join(to);
            make_dir(&from, &to).unwrap();
            let made = fs::metadata(&to).unwrap().mode() & PERMISSIONS;
            // A umask may take more away.
            assert_eq!(made & !(mode | OF_OWNER), 0, "{made:o}");
            assert_eq!(made & OF_OWNER, OF_OWNER);
        }
        let to = home.path().join("d");
        make_dir(&home.path().join("gone"), &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().mode() & PERMISSIONS, OF_OWNER);
    }
}
