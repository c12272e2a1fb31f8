//! Reads the files that settings name, and looks at who may read those with keys.
//!
//! Invariant: no more is read than allowed, and what was read of a key is overwritten when it is
//! dropped. Links are followed: that is how files are replaced under Kubernetes.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::problem::{TlsProblem, TlsWarning};
use crate::settings::Setting;

/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;

/// Reads the file that a setting names.
pub(crate) fn read(
    location: &Setting<PathBuf>,
    bytes_max: u64,
) -> Result<Zeroizing<Vec<u8>>, TlsProblem> {
    let bytes = platform::bounded::file(&location.value, bytes_max);
    bytes.map(Zeroizing::new).map_err(|error| {
        let (why, advice) = texts(&error, bytes_max);
        TlsProblem::of(&location.name, why, advice).in_file(&location.value)
    })
}

fn texts(error: &io::Error, bytes_max: u64) -> (String, String) {
    match error.kind() {
        ErrorKind::NotFound => (
            "there is no such file".into(),
            "correct the path, or put the file there".into(),
        ),
        ErrorKind::PermissionDenied => (
            "it may not be read".into(),
            "let the user of this process read it (chown, chmod)".into(),
        ),
        _ => (
            format!("it cannot be read: {error}"),
            format!("it has to be a regular file of at most {bytes_max} bytes"),
        ),
    }
}

/// Warns of a file with a key that others than its owner may read, or refuses it if that is wanted.
pub(crate) fn check_mode(
    location: &Setting<PathBuf>,
    is_strict: bool,
    warnings: &mut Vec<TlsWarning>,
) -> Result<(), TlsProblem> {
    // What cannot be looked at cannot be read either, which is said elsewhere.
    let Ok(metadata) = fs::metadata(&location.value) else {
        return Ok(());
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & READ_BY_OTHERS == 0 {
        return Ok(());
    }
    let problem = open_to_others(&location.name, &location.value, mode);
    if is_strict {
        return Err(problem);
    }
    warnings.push(TlsWarning(problem));
    Ok(())
}

fn open_to_others(setting: &str, path: &Path, mode: u32) -> TlsProblem {
    let why = format!("others than its owner may read this key (mode {mode:04o})");
    let advice = format!("chmod 600 {}", path.display());
    TlsProblem::of(setting, why, advice).in_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let location = Setting::new("ssl.keystore.location", dir.path().join("a"));
        let said = read(&location, 4).unwrap_err().to_string();
        assert!(said.contains("there is no such file"), "{said}");
        fs::write(&location.value, b"1234").unwrap();
        assert_eq!(read(&location, 4).unwrap().as_slice(), b"1234");
        let said = read(&location, 3).unwrap_err();
        assert_eq!(said.file.as_deref(), Some(location.value.as_path()));
        assert!(said.advice.contains("at most 3 bytes"), "{said}");
    }

    #[test]
    fn a_key_that_others_may_read_is_warned_of_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let location = Setting::new("ssl.keystore.location", dir.path().join("a"));
        fs::write(&location.value, b"").unwrap();
        let check = |mode: u32, is_strict: bool| {
            fs::set_permissions(&location.value, fs::Permissions::from_mode(mode)).unwrap();
            let mut warnings = Vec::new();
            let checked = check_mode(&location, is_strict, &mut warnings);
            (checked.is_ok(), warnings.len())
        };
        assert_eq!(check(0o600, true), (true, 0));
        assert_eq!(check(0o644, false), (true, 1));
        assert_eq!(check(0o640, true), (false, 0));
    }
}
