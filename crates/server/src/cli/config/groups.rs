//! The groups in `__consumer_offsets` that are not served.
//!
//! Invariants: one segment is in memory at a time; what cannot be read takes nothing from what can,
//! and a file that a running broker deletes meanwhile is passed over. Not here: segments on lower
//! tiers, which are not read, and what the records say (`broker::group::unserved`).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use broker::group::unserved::UnservedGroups;
use platform::bounded;

/// Far larger than a segment of `__consumer_offsets`: 100 MiB.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Errors that are kept; the rest have the same causes.
const ERRORS_MAX: usize = 20;

/// What could be read.
#[derive(Default, Debug)]
pub(super) struct FoundGroups {
    /// The groups.
    pub(super) groups: UnservedGroups,
    /// What could not be read, with the reason.
    // Bounded: `ERRORS_MAX`.
    pub(super) errors: Vec<(PathBuf, io::Error)>,
}

/// Reads the groups in these folders of `__consumer_offsets`.
pub(super) fn groups_of(folders: &[PathBuf]) -> FoundGroups {
    let mut found = FoundGroups::default();
    for folder in folders {
        let mut segments = match segments_of(folder) {
            Ok(segments) => segments,
            Err(error) => {
                found.note(folder, error);
                continue;
            }
        };
        // Their names are offsets of one length, so they sort as the numbers do.
        segments.sort();
        for path in segments {
            match bounded::file(&path, SEGMENT_BYTES_MAX) {
                Ok(bytes) => found.groups.read(&bytes.into()),
                Err(error) => found.note(&path, error),
            }
        }
    }
    found
}

fn segments_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "log") {
            segments.push(path);
        }
    }
    Ok(segments)
}

impl FoundGroups {
    fn note(&mut self, path: &Path, error: io::Error) {
        if error.kind() != ErrorKind::NotFound && self.errors.len() < ERRORS_MAX {
            self.errors.push((path.to_owned(), error));
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::batch::BatchBuilder;
    use wire::records::offsets::UnservedKind;
    use wire::types::{LeaderEpoch, Offset, TimestampMs};

    use super::*;

    #[test]
    fn what_cannot_be_read_takes_nothing_from_what_can() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("__consumer_offsets-0");
        fs::create_dir(&folder).unwrap();
        let mut batch = BatchBuilder::new(Offset(0), LeaderEpoch(0));
        batch.add(TimestampMs(0), Some(b"\0\x0b\0\x01s"), Some(b"v"), &[]);
        fs::write(folder.join("3.log"), batch.finish().unwrap()).unwrap();
        // It vanishes before it is read.
        std::os::unix::fs::symlink("gone", folder.join("1.log")).unwrap();
        let gone = dir.path().join("__consumer_offsets-1");
        let folders = [gone, folder.clone()];
        let found = groups_of(&folders);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        let share: Vec<_> = found.groups.of(UnservedKind::Share).collect();
        assert_eq!(share, ["s"]);
        let unreadable = folder.join("2.log");
        fs::create_dir(&unreadable).unwrap();
        let found = groups_of(&folders);
        assert_eq!(found.groups.of(UnservedKind::Share).count(), 1);
        assert_eq!(found.errors[0].0, unreadable);
    }
}
