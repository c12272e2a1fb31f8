//! The homes of logs: the folders of a log directory, by the topic ids in them.
//!
//! Invariants: a log counts as deleted only where every folder with segments says whose it is; one
//! that does not may be any log's. Copies that are on their way, deleted folders and those of
//! other tiers are no homes.
//! It does not change anything.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use platform::disk::{Disk, Entry, is_unreadable};
use wire::types::{Offset, TopicId};

use crate::checkpoint::partition_metadata;
use crate::journal::LogId;
use crate::journal::error::{JournalError, Result};
use crate::journal::unlanded::{Key, key};
use crate::segment::naming::{Name, Role, classify, parse_folder_name};

/// Folders whose small files are read together: the way to a thread and back costs more.
const FOLDERS: usize = 128;

/// Longest file that is read. They have a few lines.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The homes of the logs of a log directory.
#[derive(Default)]
pub(super) struct Homes {
    /// Bounded: the folders of the directory.
    by_log: BTreeMap<Key, PathBuf>,
    /// Further folders of these logs: copies that an operator has left. Bounded: the same.
    second: BTreeMap<Key, PathBuf>,
    /// A folder does not say whose it is.
    pub(super) is_in_doubt: bool,
}

impl Homes {
    /// Reads whose each folder is.
    pub(super) async fn read<D: Disk>(disk: &D, dir: &Path) -> Result<Self> {
        let listed = disk.list(dir).await;
        let entries = listed.map_err(JournalError::io("list", dir))?;
        let mut homes = Self::default();
        let folders = entries.iter().filter(|entry| entry.is_dir);
        let folders = folders.filter_map(|entry| {
            let partition = parse_folder_name(&entry.name)?.partition;
            Some((partition, dir.join(&entry.name)))
        });
        for some in folders.collect::<Vec<_>>().chunks(FOLDERS) {
            for (owner, (partition, folder)) in owners(disk, dir, some).await?.into_iter().zip(some)
            {
                homes.note(disk, (*partition, folder), owner).await?;
            }
        }
        Ok(homes)
    }

    /// Takes whose a folder is.
    async fn note<D: Disk>(
        &mut self,
        disk: &D,
        (partition, folder): (i32, &Path),
        owner: Owner,
    ) -> Result<()> {
        match owner {
            Owner::Topic(topic_id) => {
                let log = key(LogId {
                    topic_id,
                    partition,
                });
                if let Some(before) = self.by_log.insert(log, folder.to_path_buf()) {
                    self.second.insert(log, before);
                }
            }
            Owner::OtherTier => {}
            // A log says whose it is before it has a segment, and parts in a ring after that.
            Owner::Unknown if segments_in(disk, folder).await?.is_empty() => {}
            Owner::Unknown => {
                tracing::warn!(folder = %folder.display(), "a folder does not say of which topic it is");
                self.is_in_doubt = true;
            }
        }
        Ok(())
    }

    /// Refuses a log with two folders: what the ring has of it belongs into one of them, and the
    /// other would count as whole without it.
    pub(super) fn refuse_two(&self, log: Key) -> Result<()> {
        match (self.second.get(&log), self.by_log.get(&log)) {
            (Some(first), Some(second)) => Err(JournalError::TwoFolders {
                first: first.clone(),
                second: second.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the folder of a log.
    pub(super) fn of(&self, log: LogId) -> Option<&Path> {
        self.by_log.get(&key(log)).map(PathBuf::as_path)
    }
}

/// Whose a folder is.
enum Owner {
    Topic(TopicId),
    /// Its log is at home elsewhere.
    OtherTier,
    Unknown,
}

/// Reads whose these folders of `dir` are.
async fn owners<D: Disk>(disk: &D, dir: &Path, folders: &[(i32, PathBuf)]) -> Result<Vec<Owner>> {
    // Two for each folder, in a row.
    let files = folders.iter().flat_map(|(_, folder)| {
        let files = [partition_metadata::FILE, partition_metadata::PART_FILE];
        files.map(|file| folder.join(file))
    });
    let files: Vec<_> = files.collect();
    let read = disk.read_files(dir, files.clone(), FILE_BYTES_MAX).await;
    let mut read = read.into_iter().zip(files);
    let mut owners = Vec::with_capacity(folders.len());
    while let Some(own) = read.next()
        && let Some(of_tier) = read.next()
    {
        owners.push(owner(own, of_tier)?);
    }
    assert_eq!(owners.len(), folders.len(), "each file has a result");
    Ok(owners)
}

/// A small file that was read.
type ReadFile = (io::Result<Vec<u8>>, PathBuf);

/// Returns whose a folder is, by what its two small files say.
fn owner((own, file): ReadFile, (of_tier, part_file): ReadFile) -> Result<Owner> {
    match own {
        Ok(bytes) => {
            let found = partition_metadata::parse(&file, &bytes);
            return Ok(found.map_or(Owner::Unknown, Owner::Topic));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) if is_unreadable(&error) => return Ok(Owner::Unknown),
        Err(error) => return Err(JournalError::io("read", &file)(error)),
    }
    match of_tier {
        Ok(_) => Ok(Owner::OtherTier),
        Err(error) if error.kind() == ErrorKind::NotFound || is_unreadable(&error) => {
            Ok(Owner::Unknown)
        }
        Err(error) => Err(JournalError::io("read", &part_file)(error)),
    }
}

/// Returns the segments in a folder, with the lengths of their data files.
pub(super) async fn segments_in<D: Disk>(disk: &D, folder: &Path) -> Result<BTreeMap<Offset, u64>> {
    let entries = listed(disk, folder).await?;
    let segment = |entry: &Entry| match classify(&entry.name) {
        Name::Segment(base, Role::Log) if !entry.is_dir => Some((base, entry.len)),
        _ => None,
    };
    Ok(entries.iter().filter_map(segment).collect())
}

/// Returns the offsets behind `end` that have a producer snapshot in a folder.
pub(super) async fn snapshots_behind<D: Disk>(
    disk: &D,
    folder: &Path,
    end: Offset,
) -> Result<Vec<Offset>> {
    let entries = listed(disk, folder).await?;
    let snapshot = |entry: &Entry| match classify(&entry.name) {
        Name::Segment(at, Role::Snapshot) if at > end => Some(at),
        _ => None,
    };
    Ok(entries.iter().filter_map(snapshot).collect())
}

async fn listed<D: Disk>(disk: &D, folder: &Path) -> Result<Vec<Entry>> {
    let listed = disk.list(folder).await;
    listed.map_err(JournalError::io("list", folder))
}
