//! Files with secrets: who else may read them.
//!
//! It only looks; a command warns and goes on. Pipes have no readers but one.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;

/// Returns the warning about a file with a password that others than its owner may read.
pub(crate) fn open_to_others(path: &Path, metadata: &Metadata) -> Option<String> {
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_file() || mode & READ_BY_OTHERS == 0 {
        return None;
    }
    let path = path.display();
    Some(format!(
        "{path}: others than its owner may read this password (mode {mode:04o}): chmod 600 {path}"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};

    use super::*;

    #[test]
    fn only_what_others_may_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "hunter2").unwrap();
        for (mode, is_told) in [(0o600, false), (0o644, true), (0o640, true), (0o622, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let told = open_to_others(&path, &File::open(&path).unwrap().metadata().unwrap());
            assert_eq!(told.is_some(), is_told, "{mode:o}");
            assert!(told.is_none_or(|told| told.contains("chmod 600") && !told.contains("hunter")));
        }
        let folder = fs::metadata(folder.path()).unwrap();
        assert_eq!(open_to_others(&path, &folder), None);
    }
}
