//! The log directories: whose they are, how they were left, and which logs lie in which.
//!
//! Read once at start, before any log is opened; formats directories that are empty. Invariants: all directories
//! carry the same cluster id and node id, or the start is refused; a directory counts as cleanly left only if its marker
//! file was there, and the marker is gone before the first log is opened.
//! Not here: locking (the server holds it), the logs themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::OpenAs;
use storage::checkpoint::meta_properties::MetaProperties;
use storage::checkpoint::{
    Malformed, clean_shutdown, meta_properties, offsets, partition_metadata,
};
use wire::types::{NodeId, Offset, TopicId, TopicPartition, Uuid, uuid_to_base64};

mod lower;
mod moved;

pub(crate) use moved::Unfinished;
use moved::{Arrived, read_note};

/// The id of a node that nobody gave one.
const DEFAULT_NODE_ID: NodeId = NodeId(1);

/// Ends the name of the folder of a log that belongs to no topic.
const STRAY: &str = "-stray";
/// The longest name that file systems take.
const NAME_BYTES_MAX: usize = 255;

/// Why the log directories cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogDirsError {
    /// The file system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A directory of another cluster.
    #[error("{path} belongs to cluster {found}, not {expected}")]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Cluster id in its `meta.properties`.
        found: String,
        /// Cluster id expected.
        expected: String,
    },
    /// A directory of another node.
    #[error(
        "{path} belongs to node {found}, not {expected}: set node.id={found} or use another directory"
    )]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// Node id in its `meta.properties`.
        found: i32,
        /// Node id configured.
        expected: i32,
    },
}

/// One log directory as it was found.
#[derive(Debug)]
pub struct LogDir {
    /// Where it is.
    pub path: PathBuf,
    /// Its identity.
    pub id: Uuid,
    /// Broker epoch of the clean shutdown, if it was one.
    pub clean: Option<i64>,
    recovery_points: BTreeMap<TopicPartition, Offset>,
    log_starts: BTreeMap<TopicPartition, Offset>,
    compacted: BTreeMap<TopicPartition, Offset>,
}

/// The log directories of this node.
#[derive(Debug)]
pub struct LogDirs {
    /// The cluster's id.
    pub cluster_id: String,
    /// This node's id.
    pub node_id: NodeId,
    /// The directories, in the order of the configuration.
    pub dirs: Vec<LogDir>,
    found: BTreeMap<TopicPartition, (usize, Option<TopicId>)>,
    /// Logs that came from another directory, and whose note of it is still there.
    arrived: Vec<Arrived>,
    /// Copies of logs on their way to another directory when the process ended.
    unfinished: Vec<Unfinished>,
    /// Logs that lie in two directories.
    twins: Vec<(TopicPartition, usize, usize)>,
}

impl LogDir {
    /// How to open a log of this directory.
    pub fn open_as(&self, name: &TopicPartition) -> OpenAs {
        let at = |offsets: &BTreeMap<_, Offset>| offsets.get(name).copied().unwrap_or_default();
        OpenAs {
            clean: self.clean.is_some(),
            recovery_point: at(&self.recovery_points),
            log_start: at(&self.log_starts),
            compacted: self.compacted.get(name).copied(),
        }
    }
}

impl LogDirs {
    /// Reads the directories, creating and formatting those that are missing or empty. What is not configured (node
    /// id, cluster id) is taken from the directories, or made up for new ones.
    pub async fn open<P: Platform>(
        platform: &P,
        paths: &[PathBuf],
        node_id: Option<NodeId>,
        cluster_id: Option<&str>,
    ) -> Result<Self, LogDirsError> {
        let mut identities = Vec::new();
        for path in paths {
            let created = platform.disk().create_dir(path).await;
            created.map_err(failed("create", path))?;
            identities.push(read_identity(platform, path).await?);
        }
        let known = identities
            .iter()
            .flatten()
            .map(|meta| meta.cluster_id.clone())
            .next();
        let fresh = || uuid_to_base64(random_uuid(platform));
        let cluster_id = known
            .or_else(|| cluster_id.map(str::to_owned))
            .unwrap_or_else(fresh);
        let known = identities.iter().flatten().map(|meta| meta.node_id).next();
        let node_id = node_id.or(known).unwrap_or(DEFAULT_NODE_ID);
        let mut dirs = Self {
            cluster_id,
            node_id,
            dirs: Vec::new(),
            found: BTreeMap::new(),
            arrived: Vec::new(),
            unfinished: Vec::new(),
            twins: Vec::new(),
        };
        for (path, identity) in paths.iter().zip(identities) {
            let id = dirs.identify(platform, path, identity).await?;
            let dir = read_dir(platform, path, id).await?;
            dirs.list(platform, path).await?;
            dirs.dirs.push(dir);
        }
        dirs.finish_moves(platform).await?;
        Ok(dirs)
    }

    /// How to open the log of a topic in `dir`: what the checkpoints say is of use only for the log that was found, not
    /// for one of the same name that comes after it.
    pub fn open_as(&self, dir: &LogDir, topic_id: TopicId, name: &TopicPartition) -> OpenAs {
        let found = self.found.get(name);
        if found.is_some_and(|(_, id)| id.is_none_or(|id| id == topic_id)) {
            return self.since_arrival(dir, name, dir.open_as(name));
        }
        OpenAs {
            clean: dir.clean.is_some(),
            recovery_point: Offset::ZERO,
            log_start: Offset::ZERO,
            compacted: None,
        }
    }

    /// True when every directory was left cleanly; the broker epoch of then.
    pub fn clean_epoch(&self) -> Option<i64> {
        let mut epochs = self.dirs.iter().map(|dir| dir.clean);
        let first = epochs.next()??;
        epochs.all(|epoch| epoch == Some(first)).then_some(first)
    }

    /// The directory where the log of `name` was found, else the first.
    pub fn holding(&self, name: &TopicPartition) -> &LogDir {
        let index = self.found.get(name).map_or(0, |(index, _)| *index);
        self.dirs.get(index).unwrap_or(&self.dirs[0])
    }

    /// Position in `dirs` of the directory that holds `log`.
    pub fn index_of(&self, log: &Path) -> usize {
        self.dirs
            .iter()
            .position(|dir| log.starts_with(&dir.path))
            .unwrap_or(0)
    }

    /// The directory of a partition: the one where its log lies, or for a new one the one with the most room.
    /// Directories with about the same room (one file system, often) share new partitions by number. A directory that
    /// is closed to new ones is taken only where all are.
    pub async fn place<P: Platform>(
        &self,
        platform: &P,
        topic_id: TopicId,
        name: &TopicPartition,
        is_closed: impl Fn(&Path) -> bool,
    ) -> &LogDir {
        let here = |(index, id): &(usize, Option<TopicId>)| {
            id.is_none_or(|id| id == topic_id)
                .then(|| self.dirs.get(*index))
                .flatten()
        };
        if let Some(dir) = self.found.get(name).and_then(here) {
            return dir;
        }
        let mut roomy: Vec<(u64, &LogDir)> = Vec::with_capacity(self.dirs.len());
        for dir in &self.dirs {
            let free = platform
                .disk()
                .space(&dir.path)
                .await
                .map_or(0, |space| space.free);
            roomy.push((free, dir));
        }
        if !self.dirs.iter().all(|dir| is_closed(&dir.path)) {
            roomy.retain(|(_, dir)| !is_closed(&dir.path));
        }
        let most = roomy.iter().map(|(free, _)| *free).max().unwrap_or(0);
        roomy.retain(|(free, _)| *free >= most - most / 8);
        let spread = topic_id
            .0
            .as_u64_pair()
            .1
            .wrapping_add(u64::from(name.partition.unsigned_abs()));
        let index = usize::try_from(spread % roomy.len().max(1) as u64).unwrap_or(0);
        roomy.get(index).map_or(&self.dirs[0], |(_, dir)| dir)
    }

    /// The logs that lie in the directories, with the topic id of each that has one.
    pub fn found(&self) -> impl Iterator<Item = (&TopicPartition, Option<TopicId>)> {
        self.found.iter().map(|(name, (_, id))| (name, *id))
    }

    /// Checks whose directory it is; one that is nobody's becomes ours.
    async fn identify<P: Platform>(
        &self,
        platform: &P,
        path: &Path,
        identity: Option<MetaProperties>,
    ) -> Result<Uuid, LogDirsError> {
        if let Some(meta) = &identity {
            let expected = self.cluster_id.clone();
            if meta.cluster_id != expected {
                let found = meta.cluster_id.clone();
                return Err(LogDirsError::OtherCluster {
                    path: path.to_owned(),
                    found,
                    expected,
                });
            }
            if meta.node_id != self.node_id {
                let (found, expected) = (meta.node_id.0, self.node_id.0);
                return Err(LogDirsError::OtherNode {
                    path: path.to_owned(),
                    found,
                    expected,
                });
            }
            if let Some(id) = meta.directory_id {
                return Ok(id);
            }
        }
        let id = random_uuid(platform);
        let meta = MetaProperties {
            cluster_id: self.cluster_id.clone(),
            node_id: self.node_id,
            directory_id: Some(id),
        };
        let now = wire::types::TimestampMs(platform.clock().wall_ms());
        let file = path.join(meta_properties::FILE);
        let written = platform
            .disk()
            .replace_file(&file, &meta_properties::encode(&meta, now))
            .await;
        written.map_err(failed("write", &file))?;
        Ok(id)
    }

    /// Notes the logs in a directory; names what is not ours and leaves it alone.
    async fn list<P: Platform>(&mut self, platform: &P, path: &Path) -> Result<(), LogDirsError> {
        let index = self.dirs.len();
        let entries = platform
            .disk()
            .list(path)
            .await
            .map_err(failed("list", path))?;
        for entry in entries {
            let full = path.join(&entry.name);
            if !entry.is_dir {
                if !is_ours(&entry.name) {
                    tracing::warn!(file = %full.display(), "foreign file in a log directory: left alone");
                }
            } else if is_deleted(&entry.name) {
                tracing::info!(dir = %full.display(), "the deletion of a log will be finished");
            } else if let Some(name) = partition_of(&entry.name) {
                let id = read_topic_id(platform, &full).await?;
                if id.is_none() && is_part(platform, &full).await? {
                    continue;
                }
                if let Some(moved) = read_note(platform, &full).await? {
                    let name = name.clone();
                    self.arrived.push(Arrived { name, index, moved });
                }
                if let Some((other, _)) = self.found.insert(name.clone(), (index, id)) {
                    self.twins.push((name, other, index));
                }
            } else if let Some(name) = storage::parse_future_folder_name(&entry.name) {
                let topic_id = read_topic_id(platform, &full).await?;
                self.unfinished.push(Unfinished {
                    name,
                    topic_id,
                    index,
                    folder: full,
                });
            } else if entry.name != "lost+found" && !entry.name.ends_with(STRAY) {
                tracing::warn!(dir = %full.display(), "foreign directory in a log directory: left alone");
            }
        }
        Ok(())
    }
}

/// `topic-3` as a partition; `None` for every other directory name.
fn partition_of(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let digits = !partition.is_empty() && partition.bytes().all(|c| c.is_ascii_digit());
    let partition = digits.then(|| partition.parse().ok()).flatten()?;
    (!topic.is_empty()).then(|| TopicPartition {
        topic: topic.into(),
        partition,
    })
}

/// True for `topic-3.<32 hex digits>-delete`: a log whose deletion was under way.
fn is_deleted(name: &str) -> bool {
    let parts = name
        .strip_suffix("-delete")
        .and_then(|name| name.rsplit_once('.'));
    parts.is_some_and(|(log, unique)| {
        partition_of(log).is_some()
            && unique.len() == 32
            && unique.bytes().all(|c| c.is_ascii_hexdigit())
    })
}

/// Renames the folder of a log that is in the way of another, as Kafka names strays; gives its new name.
pub(crate) async fn set_aside<P: Platform>(
    platform: &P,
    dir: &Path,
    name: &TopicPartition,
) -> storage::Result<PathBuf> {
    let unique = random_uuid(platform).simple().to_string();
    let mut folder = name.to_string();
    // Names of topics are ASCII, so any byte is a boundary.
    folder.truncate(NAME_BYTES_MAX - unique.len() - 1 - STRAY.len());
    let from = dir.join(name.to_string());
    let to = dir.join(format!("{folder}.{unique}{STRAY}"));
    let renamed = platform.disk().rename(&from, &to).await;
    renamed.map_err(storage::Error::io("rename", &from))?;
    let synced = platform.disk().sync_dir(dir).await;
    synced.map_err(storage::Error::io("sync", dir))?;
    Ok(to)
}

/// True for a folder with segments of a log that is at home elsewhere.
async fn is_part<P: Platform>(platform: &P, dir: &Path) -> Result<bool, LogDirsError> {
    let part = optional(platform, &dir.join(partition_metadata::PART_FILE)).await?;
    Ok(part.is_some())
}

fn is_ours(name: &str) -> bool {
    let names = [
        meta_properties::FILE,
        clean_shutdown::FILE,
        offsets::RECOVERY_POINTS,
        offsets::LOG_STARTS,
        offsets::HIGH_WATERMARKS,
        "cleaner-offset-checkpoint",
        "bootstrap.checkpoint",
        lower::FILE,
        storage::tier::DRAINED_FILE,
        ".lock",
    ];
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    names.contains(&name) || storage::is_pooled(name)
}

async fn read_dir<P: Platform>(
    platform: &P,
    path: &Path,
    id: Uuid,
) -> Result<LogDir, LogDirsError> {
    let marker = path.join(clean_shutdown::FILE);
    let clean = match optional(platform, &marker).await? {
        Some(bytes) => {
            // From here on a crash must be seen as one.
            let removed = platform.disk().remove_file(&marker).await;
            removed.map_err(failed("remove", &marker))?;
            platform
                .disk()
                .sync_dir(path)
                .await
                .map_err(failed("sync", path))?;
            Some(clean_shutdown::parse(&marker, &bytes).unwrap_or(-1))
        }
        None => None,
    };
    Ok(LogDir {
        path: path.to_owned(),
        id,
        clean,
        recovery_points: read_offsets(platform, &path.join(offsets::RECOVERY_POINTS)).await?,
        log_starts: read_offsets(platform, &path.join(offsets::LOG_STARTS)).await?,
        compacted: read_offsets(platform, &path.join(offsets::COMPACTED)).await?,
    })
}

/// A damaged checkpoint is as good as none: recovery then reads more, and loses nothing.
async fn read_offsets<P: Platform>(
    platform: &P,
    file: &Path,
) -> Result<BTreeMap<TopicPartition, Offset>, LogDirsError> {
    let Some(bytes) = optional(platform, file).await? else {
        return Ok(BTreeMap::new());
    };
    match offsets::parse(file, &bytes) {
        Ok(offsets) => Ok(offsets.into_iter().collect()),
        Err(error) => {
            tracing::warn!(%error, "ignoring a damaged checkpoint");
            Ok(BTreeMap::new())
        }
    }
}

async fn read_identity<P: Platform>(
    platform: &P,
    dir: &Path,
) -> Result<Option<MetaProperties>, LogDirsError> {
    let file = dir.join(meta_properties::FILE);
    let bytes = optional(platform, &file).await?;
    Ok(bytes
        .map(|bytes| meta_properties::parse(&file, &bytes))
        .transpose()?)
}

async fn read_topic_id<P: Platform>(
    platform: &P,
    dir: &Path,
) -> Result<Option<TopicId>, LogDirsError> {
    let file = dir.join(partition_metadata::FILE);
    let bytes = optional(platform, &file).await?;
    Ok(bytes
        .map(|bytes| partition_metadata::parse(&file, &bytes))
        .transpose()?)
}

/// The bytes of a file that may be missing.
async fn optional<P: Platform>(platform: &P, file: &Path) -> Result<Option<Vec<u8>>, LogDirsError> {
    match platform.disk().read_file(file).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", file)(error)),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> LogDirsError {
    let path = path.to_owned();
    move |source| LogDirsError::Io {
        action,
        path,
        source,
    }
}

/// A random UUID (version 4, so none of Kafka's reserved ones).
pub(crate) fn random_uuid<P: Platform>(platform: &P) -> Uuid {
    let bits = u128::from(platform.random_u64()) << 64 | u128::from(platform.random_u64());
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::{is_deleted, partition_of};

    #[test]
    fn names_of_directories_are_topics_and_numbers() {
        let name = |dir| partition_of(dir).map(|name| (name.topic.to_string(), name.partition));
        assert_eq!(name("cars-0"), Some(("cars".to_owned(), 0)));
        assert_eq!(name("a-b-12"), Some(("a-b".to_owned(), 12)));
        for foreign in [
            "cars",
            "cars-",
            "-1",
            "cars-x",
            "cars-1.tmp",
            "cars--99999999999",
        ] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn only_logs_under_deletion_are_removed() {
        assert!(is_deleted("cars-0.0123456789abcdef0123456789abcdef-delete"));
        for other in [
            "my-delete",
            "cars-0-delete",
            "cars-0.0123-delete",
            "x.0123456789abcdef0123456789abcdef-delete",
        ] {
            assert!(!is_deleted(other), "{other}");
        }
    }
}
