//! The small files of logs' folders that a start reads before it opens any log: which topic a log
//! belongs to, and where it came from.
//!
//! Invariants: the files of `FOLDERS` folders are asked for at once, because the way to a thread
//! and back costs more than the reads; a file that cannot be read concerns its own folder only.

use std::io;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::checkpoint::moved_log::{self, MovedLog};
use storage::checkpoint::partition_metadata;
use wire::types::TopicId;

use super::{failed, understood};

/// Folders whose files are read together.
const FOLDERS: usize = 128;
/// Longest file that is read, so that those of all these folders take 16 MiB at most. They have a
/// few lines; a longer one is none of them.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What the small files of a folder say. `None`: the file is missing, or cannot be understood,
/// which is logged.
pub(super) struct FolderFiles {
    pub(super) topic: Option<TopicId>,
    pub(super) moved: Option<MovedLog>,
}

/// Reads the files of these folders of `dir`, in their order.
pub(super) async fn read<P: Platform>(
    platform: &P,
    dir: &Path,
    folders: &[PathBuf],
) -> Vec<FolderFiles> {
    let mut found = Vec::with_capacity(folders.len());
    for some in folders.chunks(FOLDERS) {
        // Two for each folder, in a row.
        let files = some.iter().flat_map(|folder| {
            [partition_metadata::FILE, moved_log::FILE].map(|file| folder.join(file))
        });
        let mut read = platform
            .disk()
            .read_files(dir, files.collect(), FILE_BYTES_MAX)
            .await
            .into_iter();
        for folder in some {
            let mut content = |file: &str| {
                let path = folder.join(file);
                let Some(result) = read.next() else {
                    unreachable!("each file has a result")
                };
                let bytes = present(result);
                (bytes.map_err(failed("read", &path)), path)
            };
            let (topic, file) = content(partition_metadata::FILE);
            let topic = topic.and_then(|bytes| {
                let parsed = bytes.map(|bytes| partition_metadata::parse(&file, &bytes));
                Ok(parsed.transpose()?)
            });
            let (moved, file) = content(moved_log::FILE);
            let moved = moved.and_then(|bytes| {
                let parsed = bytes.map(|bytes| moved_log::parse(&file, &bytes));
                Ok(parsed.transpose()?)
            });
            found.push(FolderFiles {
                topic: understood(topic, folder).flatten(),
                moved: understood(moved, folder).flatten(),
            });
        }
    }
    found
}

/// Tells a file that is missing from one that cannot be read.
fn present(read: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
