//! The order to empty a path, kept across restarts: a file in the path itself, so that it moves
//! with the disk.
//!
//! Only its existence counts; it contains a sentence for an operator who finds it. It is durable
//! when a function here returns.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use storage::tier::DRAINED_FILE;

const TEXT: &[u8] = b"This path is being emptied (forebay tier drain). To use it again: forebay tier drain --stop.\n";

/// Returns true if the path is to be emptied.
pub fn is_drained(dir: &Path) -> bool {
    dir.join(DRAINED_FILE).exists()
}

/// Stores that the path is to be emptied, or that it is not.
pub fn remember(dir: &Path, drained: bool) -> io::Result<()> {
    let file = dir.join(DRAINED_FILE);
    if drained {
        let mut file = File::create(&file)?;
        file.write_all(TEXT)?;
        file.sync_all()?;
    } else {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ordered_last_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_drained(dir.path()));
        for drained in [true, true, false, false] {
            remember(dir.path(), drained).unwrap();
            assert_eq!(is_drained(dir.path()), drained);
        }
        assert!(remember(&dir.path().join("nowhere"), true).is_err());
    }
}
