//! Reads the metadata log of a directory for what a start makes of it.
//!
//! Invariants: only reads; at most [`BYTES_MAX`] bytes of files are in memory, of one reading at a
//! time, and no text of records. What they decode to comes on top: a compressed batch, the image,
//! and the records that are kept as bytes. A file that a running broker deletes meanwhile is passed
//! over. Not here: the tools that show and repair all of it (`cli::metadata`).

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use broker::METADATA_TOPIC;
use broker::controller::offline::{self, Files, Reading};
use platform::bounded;

/// All files together. A broker takes a snapshot per 20 MiB (a setting) of the metadata log, and
/// deletes what is before it.
const BYTES_MAX: u64 = 1 << 30;
/// Tries, while a broker that runs replaces segments by a snapshot.
const TRIES_MAX: usize = 3;

/// Reads the metadata in the log directory `dir`; `has_logs` says whether topics have logs, and
/// `is_running` whether a broker writes there.
pub(super) fn judged(dir: &Path, has_logs: bool, is_running: bool) -> anyhow::Result<Reading> {
    let mut reading = offline::judge(&files_of(dir)?, has_logs);
    for _ in 1..TRIES_MAX {
        if !(is_running && reading.is_fatal()) {
            break;
        }
        // The files of the next reading take the room of this one.
        drop(reading);
        reading = offline::judge(&files_of(dir)?, has_logs);
    }
    Ok(reading)
}

fn files_of(dir: &Path) -> anyhow::Result<Files> {
    let folder = dir.join(format!("{METADATA_TOPIC}-0"));
    let reading = || format!("reading {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(reading)? {
        names.extend(entry.with_context(reading)?.file_name().into_string().ok());
    }
    let mut files = Files::new();
    let mut room = BYTES_MAX;
    let mut has_snapshot = false;
    for name in offline::needed(names) {
        let is_snapshot = offline::is_snapshot(&name);
        if is_snapshot && has_snapshot {
            break;
        }
        let path = folder.join(&name);
        let bytes = match bounded::file(&path, room) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.with_context(|| format!("reading {}", path.display()))?,
        };
        room = room.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let bytes = bytes.into();
        has_snapshot = is_snapshot && offline::is_whole_snapshot(&bytes);
        files.push((name, bytes));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_vanishes_is_passed_over_and_a_wrong_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(judged(dir.path(), false, false).is_err());
        let folder = dir.path().join("__cluster_metadata-0");
        fs::create_dir(&folder).unwrap();
        let segment = folder.join("00000000000000000000.log");
        std::os::unix::fs::symlink("gone", &segment).unwrap();
        let reading = judged(dir.path(), false, true).unwrap();
        assert!(reading.is_empty() && !reading.is_fatal());
        fs::remove_file(&segment).unwrap();
        fs::create_dir(&segment).unwrap();
        let error = judged(dir.path(), false, true).unwrap_err().to_string();
        assert!(error.ends_with("00000000000000000000.log"), "{error}");
    }
}
