//! Small files of a folder that were read when the folder was listed (`log/open/look.rs`), for
//! those who would read them next.
//!
//! Invariant: each content is given out once, to the first who asks for the file: no reader sees
//! what is older than a change that opening the log has made.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;

use platform::disk::Disk;

/// What is left of a look.
pub(crate) struct LookedFiles {
    folder: Rc<Path>,
    /// What was read, by name.
    // Bounded: what was chosen for the look.
    read: RefCell<BTreeMap<String, io::Result<Vec<u8>>>>,
    /// Names that were not there.
    // Bounded: what could have been chosen for the look.
    missing: RefCell<BTreeSet<String>>,
    /// The folder has the files of a log at rest and no other.
    is_at_rest: bool,
}

impl LookedFiles {
    /// Returns what a look at a folder has found.
    pub(crate) fn new(
        folder: &Rc<Path>,
        read: BTreeMap<String, io::Result<Vec<u8>>>,
        missing: BTreeSet<String>,
        is_at_rest: bool,
    ) -> Self {
        Self {
            is_at_rest,
            folder: Rc::clone(folder),
            read: RefCell::new(read),
            missing: RefCell::new(missing),
        }
    }

    /// Returns true when the folder had the files of a log at rest and no other.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_at_rest
    }

    /// Reads a whole file of at most `bytes_max` bytes, as the look found it or from the disk.
    pub(crate) async fn read<D: Disk>(
        &self,
        disk: &D,
        path: &Path,
        bytes_max: u64,
    ) -> io::Result<Vec<u8>> {
        match self.take(path) {
            Some(Ok(bytes)) if bytes.len() as u64 <= bytes_max => Ok(bytes),
            Some(Err(error)) => Err(error),
            // A longer one is refused there.
            Some(Ok(_)) | None => disk.read_file_within(path, bytes_max).await,
        }
    }

    /// Returns what the look found of a file, the first time.
    fn take(&self, path: &Path) -> Option<io::Result<Vec<u8>>> {
        if path.parent() != Some(&*self.folder) {
            return None;
        }
        let name = path.file_name()?.to_str()?;
        if self.missing.borrow_mut().remove(name) {
            return Some(Err(io::ErrorKind::NotFound.into()));
        }
        self.read.borrow_mut().remove(name)
    }
}

#[cfg(test)]
mod tests {
    use platform::Platform;
    use platform::runtime::run_simulated;
    use platform::sim::SimPlatform;

    use super::*;

    #[test]
    fn each_content_is_given_out_once() {
        run_simulated(async {
            let platform = SimPlatform::new(1);
            let disk = platform.disk();
            let folder: Rc<Path> = Path::new("/data/t-0").into();
            let (there, gone) = (folder.join("there"), folder.join("gone"));
            for path in [&there, &gone] {
                disk.put(path, b"new").unwrap();
            }
            let read = [("there".to_owned(), Ok(b"old".to_vec()))].into();
            let missing = ["gone".to_owned()].into();
            let looked = LookedFiles::new(&folder, read, missing, true);
            let other = Path::new("/data/t-1/there");
            disk.put(other, b"other").unwrap();
            let read = async |path: &Path| looked.read(disk, path, 9).await;
            assert_eq!(read(other).await.unwrap(), b"other");
            assert_eq!(read(&there).await.unwrap(), b"old");
            assert_eq!(read(&there).await.unwrap(), b"new");
            let kind = read(&gone).await.unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::NotFound);
            assert_eq!(read(&gone).await.unwrap(), b"new");
        })
        .unwrap();
    }

    #[test]
    fn what_is_longer_than_its_reader_takes_is_read_by_the_reader() {
        run_simulated(async {
            let platform = SimPlatform::new(1);
            let folder: Rc<Path> = Path::new("/data/t-0").into();
            let path = folder.join("long");
            platform.disk().put(&path, b"long").unwrap();
            let read = [("long".to_owned(), Ok(b"long".to_vec()))].into();
            let looked = LookedFiles::new(&folder, read, BTreeSet::new(), true);
            let refused = looked.read(platform.disk(), &path, 3).await.unwrap_err();
            assert!(platform::disk::is_unreadable(&refused));
        })
        .unwrap();
    }
}
