//! Why a command failed, in words for the user who started it.
//!
//! An error often repeats its cause in its own text; each cause is printed once. Where the
//! operating system denies permission, the text adds the user that runs this and the owner of the
//! path, which the user needs to know next.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns the error with its causes, each of them once.
pub(super) fn why(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    if error.chain().any(is_denied) {
        text.push_str(&owners(error.chain().find_map(refused_path)));
    }
    text
}

type Cause<'a> = &'a (dyn std::error::Error + 'static);

fn is_denied(cause: Cause<'_>) -> bool {
    let io = cause.downcast_ref::<io::Error>();
    io.is_some_and(|io| io.kind() == io::ErrorKind::PermissionDenied)
        || refused_path(cause).is_some()
}

/// Returns the path for which permission was denied, if the error has one.
fn refused_path(cause: Cause<'_>) -> Option<&Path> {
    use broker::log_dirs::LogDirsError;
    let denied = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
    if let Some(LogDirsError::Io { path, source, .. }) = cause.downcast_ref() {
        return denied(source).then_some(path.as_path());
    }
    if let Some(platform::Error::Lock { dir, source }) = cause.downcast_ref() {
        return denied(source).then_some(dir.as_path());
    }
    let Some(storage::Error::Io { path, source, .. }) = cause.downcast_ref() else {
        return None;
    };
    (source.kind() == io::ErrorKind::PermissionDenied).then_some(path.as_path())
}

/// Returns the user that runs this, and the owner of the path or of the nearest directory above it
/// that can be read.
fn owners(path: Option<&Path>) -> String {
    let me = rustix::process::geteuid().as_raw();
    let seen = |path: &Path| Some((path.to_path_buf(), fs::metadata(path).ok()?));
    let owned = path.and_then(|path| path.ancestors().find_map(seen));
    let Some((path, owned)) = owned else {
        return format!(" (this runs as uid {me})");
    };
    format!(
        " (this runs as uid {me}; {} belongs to uid {}, mode {:o})",
        path.display(),
        owned.uid(),
        owned.mode() & 0o7777
    )
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn denied(path: &Path) -> anyhow::Error {
        let denied = io::Error::from_raw_os_error(13);
        storage::Error::io("open", path)(denied).into()
    }

    #[test]
    fn a_cause_is_said_once_and_who_owns_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("not-there");
        let result: anyhow::Result<()> = Err(denied(&path));
        let text = why(&result.context("starting the broker").unwrap_err());
        assert_eq!(text.matches("Permission denied").count(), 1, "{text}");
        assert!(
            text.starts_with("starting the broker: cannot open "),
            "{text}"
        );
        let me = rustix::process::geteuid().as_raw();
        let owner = format!("{} belongs to uid {me}, mode 7", dir.path().display());
        assert!(
            text.contains(&format!("runs as uid {me}; {owner}")),
            "{text}"
        );
    }

    #[test]
    fn a_directory_that_cannot_be_locked_is_named_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let lock = platform::Error::Lock {
            dir: dir.path().to_path_buf(),
            source: io::Error::from_raw_os_error(13),
        };
        let text = why(&lock.into());
        let owner = format!("{} belongs to uid ", dir.path().display());
        assert!(text.contains(&owner), "{text}");
    }

    #[test]
    fn what_is_not_about_permission_says_nothing_of_owners() {
        let result: anyhow::Result<()> = Err(anyhow::anyhow!("b"));
        assert_eq!(why(&result.context("a").unwrap_err()), "a: b");
    }
}
