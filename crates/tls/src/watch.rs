//! When files of stores have to be read again.
//!
//! Time, inode, device and size show whether a file changed; links are followed, so a look sees a
//! link that was swapped. A file that changed a moment before a look is read once more at the next
//! look, because its writer may not have been done; and after a reading that failed each look reads
//! again.
//!
//! Pure but for [`FileStamp::of`]: times are passed in.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A file that changed so long before a look may change again without a trace: clocks of file
/// systems tick.
const UNSETTLED_MS: i64 = 2_000;

/// What shows whether a file changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStamp {
    modified_s: i64,
    modified_ns: i64,
    changed_s: i64,
    changed_ns: i64,
    inode: u64,
    device: u64,
    size: u64,
}

impl FileStamp {
    /// Looks at a file; `None` if there is none that can be looked at.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
            changed_s: metadata.ctime(),
            changed_ns: metadata.ctime_nsec(),
            inode: metadata.ino(),
            device: metadata.dev(),
            size: metadata.size(),
        })
    }

    /// Returns true if it changed a moment before `wall_ms`, or after it.
    fn is_unsettled(&self, wall_ms: i64) -> bool {
        let latest = self.modified_s.max(self.changed_s);
        let settled_ms = latest.saturating_mul(1000).saturating_add(UNSETTLED_MS);
        settled_ms.saturating_add(1000) > wall_ms
    }
}

/// How the files of one set were when they were last read.
#[derive(Debug)]
pub struct StoreWatch {
    /// Time between two looks; `None` for never.
    every_ms: Option<i64>,
    /// When the next look is due.
    due_ms: i64,
    /// The files at the last look, each as it was.
    // Bounded: by the settings that name files; there are three.
    seen: Vec<Option<FileStamp>>,
    /// The next look reads whatever it sees.
    reads_again: bool,
}

impl StoreWatch {
    /// Begins to watch files that have just been read, and that had these stamps before.
    ///
    /// `every_ms` of 0 looks at nothing by itself. `now_ms` is of a clock that never goes back,
    /// `wall_ms` of the one that file systems use.
    pub fn new(every_ms: i64, seen: Vec<Option<FileStamp>>, now_ms: i64, wall_ms: i64) -> Self {
        let every_ms = (every_ms > 0).then_some(every_ms);
        let reads_again = is_unsettled(&seen, wall_ms);
        Self {
            every_ms,
            due_ms: now_ms.saturating_add(every_ms.unwrap_or(0)),
            seen,
            reads_again,
        }
    }

    /// Returns when the next look is due; `None` for never.
    pub fn due_ms(&self) -> Option<i64> {
        self.every_ms.map(|_| self.due_ms)
    }

    /// Takes a look, and returns true if the files have to be read now. The stamps are taken before
    /// the files are read, so that what changes meanwhile is seen at the next look.
    pub fn look(&mut self, stamps: Vec<Option<FileStamp>>, now_ms: i64, wall_ms: i64) -> bool {
        self.due_ms = now_ms.saturating_add(self.every_ms.unwrap_or(0));
        let must_read = self.reads_again || stamps != self.seen;
        self.reads_again = is_unsettled(&stamps, wall_ms);
        self.seen = stamps;
        must_read
    }

    /// Notes that files could not be read, or did not fit: the next look reads them again.
    pub fn note_failure(&mut self) {
        self.reads_again = true;
    }
}

fn is_unsettled(stamps: &[Option<FileStamp>], wall_ms: i64) -> bool {
    stamps
        .iter()
        .flatten()
        .any(|stamp| stamp.is_unsettled(wall_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(
        clippy::unnecessary_wraps,
        reason = "a file that is not there has none"
    )]
    fn stamp(second: i64, inode: u64) -> Option<FileStamp> {
        Some(FileStamp {
            modified_s: second,
            modified_ns: 0,
            changed_s: second,
            changed_ns: 0,
            inode,
            device: 1,
            size: 10,
        })
    }

    #[test]
    fn files_are_read_when_they_are_others() {
        let mut watch = StoreWatch::new(10, vec![stamp(1, 1), None], 0, 100_000);
        assert_eq!(watch.due_ms(), Some(10));
        assert!(!watch.look(vec![stamp(1, 1), None], 10, 110_000));
        assert_eq!(watch.due_ms(), Some(20));
        assert!(watch.look(vec![stamp(1, 2), None], 20, 120_000));
        assert!(!watch.look(vec![stamp(1, 2), None], 30, 130_000));
        assert!(watch.look(vec![stamp(1, 2), stamp(2, 3)], 40, 140_000));
        assert!(watch.look(vec![None, stamp(2, 3)], 50, 150_000));
    }

    #[test]
    fn a_file_that_is_being_written_is_read_twice() {
        let mut watch = StoreWatch::new(10, vec![stamp(1, 1)], 0, 100_000);
        assert!(watch.look(vec![stamp(110, 1)], 10, 110_500));
        assert!(watch.look(vec![stamp(110, 1)], 20, 120_500));
        assert!(!watch.look(vec![stamp(110, 1)], 30, 130_500));
        let mut fresh = StoreWatch::new(10, vec![stamp(99, 1)], 0, 100_000);
        assert!(fresh.look(vec![stamp(99, 1)], 10, 110_000));
    }

    #[test]
    fn what_failed_is_read_again_and_what_is_off_is_never_due() {
        let mut watch = StoreWatch::new(0, vec![stamp(1, 1)], 0, 100_000);
        assert_eq!(watch.due_ms(), None);
        assert!(!watch.look(vec![stamp(1, 1)], 0, 100_000));
        watch.note_failure();
        assert!(watch.look(vec![stamp(1, 1)], 0, 100_000));
        assert!(!watch.look(vec![stamp(1, 1)], 0, 100_000));
    }

    #[test]
    fn a_link_that_is_swapped_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two, link) = (
            dir.path().join("1"),
            dir.path().join("2"),
            dir.path().join("l"),
        );
        fs::write(&one, b"x").unwrap();
        fs::write(&two, b"x").unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let before = FileStamp::of(&link);
        fs::remove_file(&link).unwrap();
        assert_eq!(FileStamp::of(&link), None);
        std::os::unix::fs::symlink(&two, &link).unwrap();
        let after = FileStamp::of(&link);
        assert!(before.is_some() && after.is_some() && before != after);
    }
}
