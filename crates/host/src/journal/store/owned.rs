//! Checks that only its owner can make a directory's content take effect.
//!
//! The superuser writes the values of a journal to the kernel: a user who can write a journal, or
//! put a link in its place, could set every knob and truncate files of others. So the directory and
//! all its parents must belong to this user or to the superuser, and must not be writable by
//! others.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::Context as _;

const WRITABLE_BY_OTHERS: u32 = 0o022;
/// In such a directory others can create files, but only move their own.
const STICKY: u32 = 0o1000;

/// Creates the directory, synced, if missing; refuses one that others can write to.
pub(super) fn dir(dir: &Path) -> anyhow::Result<()> {
    make(dir).with_context(|| format!("making {}", dir.display()))?;
    let user = rustix::process::geteuid().as_raw();
    for (depth, above) in dir.ancestors().enumerate() {
        if above.as_os_str().is_empty() {
            continue;
        }
        let facts = std::fs::symlink_metadata(above)
            .with_context(|| format!("looking at {}", above.display()))?;
        let shown = above.display();
        let owner = facts.uid();
        anyhow::ensure!(
            owner == user || owner == 0,
            "{shown} belongs to user {owner}, who could have this program write anything: --state names a directory of user {user}"
        );
        if facts.is_symlink() {
            // The link belongs to its owner; its target is checked as well.
            anyhow::ensure!(depth > 0, "{shown} is a link, and has to be a directory");
            self::dir(&std::fs::canonicalize(above)?)?;
            continue;
        }
        anyhow::ensure!(facts.is_dir(), "{shown} is no directory");
        let open = facts.mode() & WRITABLE_BY_OTHERS != 0;
        anyhow::ensure!(
            !open || (depth > 0 && facts.mode() & STICKY != 0),
            "{shown} is writable by others, who could have this program write anything: chmod go-w {shown}"
        );
    }
    Ok(())
}

fn make(dir: &Path) -> std::io::Result<()> {
    if std::fs::symlink_metadata(dir).is_ok() {
        return Ok(());
    }
    let Some(parent) = dir.parent() else {
        return Ok(());
    };
    make(parent)?;
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => {
            made?;
            File::open(parent)?.sync_all()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_directory_of_journals_that_others_can_write_in_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let state = top.path().join("a/b");
        dir(&state).unwrap();
        dir(&state).unwrap();
        std::fs::set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
        let refused = dir(&state).unwrap_err().to_string();
        assert!(refused.contains("writable by others"), "{refused}");
        std::fs::set_permissions(&state, Permissions::from_mode(0o1777)).unwrap();
        assert!(dir(&state).is_err(), "others could make journals");
        std::fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
        std::fs::set_permissions(top.path().join("a"), Permissions::from_mode(0o775)).unwrap();
        assert!(
            dir(&state).is_err(),
            "others could put another in its place"
        );
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_of_journals_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let (real, link) = (top.path().join("real"), top.path().join("link"));
        dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let refused = dir(&link).unwrap_err().to_string();
        assert!(refused.contains("is a link"), "{refused}");
        // In parent directories, links of the owner are a usual setup.
        dir(&link.join("state")).unwrap();
        let file = top.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(dir(&file).is_err());
    }
}
