//! The log directories: which cluster and node they belong to, how they were left, and which logs
//! each holds.
//!
//! Read once at start, before any log is opened; formats directories that are empty. Invariants:
//! all directories have the same cluster id and node id, or the start is refused; a directory
//! counts as cleanly left only if its marker file was there, and the marker is removed before the
//! first log is opened.
//!
//! Not here: locking (the server holds the locks), the logs themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::disk::is_unreadable;
use platform::task::timeout;
use platform::{Disk, Platform};
use storage::OpenAs;
use storage::checkpoint::meta_properties::MetaProperties;
use storage::checkpoint::{clean_shutdown, meta_properties, offsets, partition_metadata};
use storage::journal::marked::is_of_journal;
use storage::journal::replay::RefusedLog;
use wire::types::{NodeId, Offset, TopicId, TopicPartition, Uuid, uuid_to_base64};

mod claims;
mod companions;
mod error;
mod folders;
mod found;
mod journals;
mod look;
mod lower;
mod moved;
mod places;
mod roster;

use crate::names::METADATA_TOPIC;
use crate::options::JournalSettings;
pub(crate) use claims::{Claim, Claims};
pub use companions::{LISTS, listed};
pub use error::LogDirsError;
use found::{FoundLogs, Log};
pub use journals::RefusedLogs;
pub use look::ExaminedDirs;
use moved::ArrivedLog;
pub(crate) use moved::UnfinishedMove;

/// The node id if neither the settings nor a directory have one.
const DEFAULT_NODE_ID: NodeId = NodeId(1);

/// Suffix of the folder of a log that belongs to no topic.
const STRAY: &str = "-stray";
/// The folder that `forebay metadata repair` creates before it puts the old metadata log aside.
const REPAIRED: &str = "__cluster_metadata-0.new";
/// Suffixes of directories that are not logs and need no warning: strays, folders that were put
/// aside, and what file systems create.
const KNOWN_ENDS: [&str; 3] = [STRAY, ".aside", "lost+found"];
/// Maximum length of a file name.
const NAME_BYTES_MAX: usize = 255;
/// How long a directory may take to report its free space; after that, it counts as having none.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Ids below this one do not mean a directory, as in Kafka: unassigned, lost, migrating.
const RESERVED_IDS: u128 = 100;

/// The operator's statements about the directories, for one start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OperatorConsent {
    /// A directory without `meta.properties` beside others is a new one.
    pub format_new: bool,
    /// A missing directory is permanently gone; its logs start again, empty.
    pub forget_missing: bool,
    /// A journal that counts and cannot be read is given up, with what it alone had.
    pub forget_journals: bool,
}

/// One log directory as the start found it.
#[derive(Debug)]
pub struct LogDir {
    /// Its path.
    pub path: PathBuf,
    /// Its directory id.
    pub id: Uuid,
    /// Broker epoch of the clean shutdown, if there was one.
    pub clean: Option<i64>,
    // Bounded: what a start reads, of a file of `platform::disk::SMALL_FILE_BYTES_MAX`.
    recovery_points: BTreeMap<TopicPartition, Offset>,
    // Bounded: what a start reads, of a file of `platform::disk::SMALL_FILE_BYTES_MAX`.
    log_starts: BTreeMap<TopicPartition, Offset>,
    // Bounded: what a start reads, of a file of `platform::disk::SMALL_FILE_BYTES_MAX`.
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
    found: FoundLogs,
    /// Logs that came from another directory, and whose note about that is still there.
    arrived: Vec<ArrivedLog>,
    /// Copies of logs that were moving to another directory when the process ended.
    unfinished: Vec<UnfinishedMove>,
    /// Index of a directory with segments of logs whose home is another directory.
    parts_in: Option<usize>,
    /// Index of a directory with the new metadata log of an interrupted repair.
    repaired_in: Option<usize>,
    told: OperatorConsent,
    /// Logs that do not have what the journals had of them.
    refused: Vec<RefusedLog>,
    /// Names of logs that are being opened or deleted.
    pub(crate) claims: Claims,
}

impl LogDir {
    /// Returns how to open a log of this directory.
    pub fn open_as(&self, name: &TopicPartition) -> OpenAs {
        // A log that a checkpoint does not name starts at 0 and is read from there.
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
    /// Reads the directories, creating and formatting them if all are missing or empty.
    ///
    /// A node id or cluster id that is not configured is taken from the directories, or generated
    /// for new ones.
    pub async fn open<P: Platform>(
        platform: &P,
        paths: &[PathBuf],
        node_id: Option<NodeId>,
        cluster_id: Option<&str>,
    ) -> Result<Self, LogDirsError> {
        Self::open_as_told(
            platform,
            paths,
            node_id,
            cluster_id,
            OperatorConsent::default(),
        )
        .await
    }

    /// Reads the directories like `open`, where some may be new or gone.
    pub async fn open_as_told<P: Platform>(
        platform: &P,
        paths: &[PathBuf],
        node_id: Option<NodeId>,
        cluster_id: Option<&str>,
        told: OperatorConsent,
    ) -> Result<Self, LogDirsError> {
        Self::open_with_rings(platform, paths, None, (node_id, cluster_id), told).await
    }

    /// Does the same; rings that are not where their directories say may be where the settings say.
    pub async fn open_with_rings<P: Platform>(
        platform: &P,
        paths: &[PathBuf],
        journals: Option<&JournalSettings>,
        (node_id, cluster_id): (Option<NodeId>, Option<&str>),
        told: OperatorConsent,
    ) -> Result<Self, LogDirsError> {
        let mut identities = Vec::new();
        for path in paths {
            let created = platform.disk().create_dir(path).await;
            created.map_err(failed("create", path))?;
            identities.push(read_identity(platform, path).await?);
        }
        let fresh = || uuid_to_base64(random_uuid(platform));
        let mut dirs = Self::of(&identities, node_id, cluster_id, told, fresh);
        for (path, identity) in paths.iter().zip(&identities) {
            dirs.check_owner(path, identity.as_ref())?;
        }
        let roster = roster::check(platform, paths, &identities, told).await?;
        for (index, path) in paths.iter().enumerate() {
            dirs.list(platform, path, index).await?;
        }
        // Up to here the start has only created missing directories: a refused start writes no
        // file.
        dirs.check_found(paths, &identities)?;
        roster.write(platform, paths).await?;
        let all = paths.iter().zip(identities).zip(&roster.ids);
        for (index, ((path, identity), id)) in all.enumerate() {
            let has_journal = identity.as_ref().is_some_and(|meta| meta.journal.is_some());
            let id = dirs.identify(platform, path, identity, Some(*id)).await?;
            if has_journal {
                let also_in = journals.map(|journals| journals.places(index, path));
                let also_in = also_in.unwrap_or_default();
                dirs.settle(platform, path, &also_in).await?;
            }
            let dir = read_dir(platform, path, id).await?;
            dirs.dirs.push(dir);
        }
        dirs.finish_moves(platform).await?;
        Ok(dirs)
    }

    /// Returns the directories with their identities only; `fresh` makes the id of
    /// a new cluster.
    fn of(
        identities: &[Option<MetaProperties>],
        node_id: Option<NodeId>,
        cluster_id: Option<&str>,
        told: OperatorConsent,
        fresh: impl FnOnce() -> String,
    ) -> Self {
        let known = identities.iter().flatten().next();
        let cluster_id = known
            .map(|meta| meta.cluster_id.clone())
            .or_else(|| cluster_id.map(str::to_owned))
            .unwrap_or_else(fresh);
        let node_id = node_id.or(known.map(|meta| meta.node_id));
        Self {
            cluster_id,
            node_id: node_id.unwrap_or(DEFAULT_NODE_ID), // Neither set nor formatted: a first start.
            dirs: Vec::new(),
            found: FoundLogs::default(),
            arrived: Vec::new(),
            unfinished: Vec::new(),
            parts_in: None,
            repaired_in: None,
            told,
            refused: Vec::new(),
            claims: Claims::default(),
        }
    }

    /// Refuses logs of topics without the metadata log, whose directory is then missing, and logs
    /// in a directory without an identity.
    fn check_found(
        &self,
        paths: &[PathBuf],
        identities: &[Option<MetaProperties>],
    ) -> Result<(), LogDirsError> {
        let is_metadata = |name: &TopicPartition| name.topic.as_ref() == METADATA_TOPIC;
        let is_there = self.found.all().any(|(name, _)| is_metadata(name));
        let owned = self.found.all().filter(|(_, log)| log.id.is_some());
        let owned = owned.map(|(_, log)| log.index);
        if let Some(index) = owned.clone().chain(self.parts_in).next()
            && !is_there
            && !self.told.forget_missing
        {
            // Both indexes are valid; otherwise the message would lack the path.
            let at = |index: usize| paths.get(index).cloned().unwrap_or_default();
            return Err(match self.repaired_in.map(at) {
                Some(path) => LogDirsError::CutShort { path },
                None => LogDirsError::NoMetadata { path: at(index) },
            });
        }
        let is_nobodys = |index: &usize| identities.get(*index).is_some_and(Option::is_none);
        match owned.filter(is_nobodys).find_map(|index| paths.get(index)) {
            Some(path) if !self.told.format_new => {
                Err(LogDirsError::NoIdentity { path: path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the log of this topic was found; a log of another topic with the same name
    /// does not count.
    pub(crate) fn has(&self, topic_id: TopicId, name: &TopicPartition) -> bool {
        self.found.of(topic_id, name).is_some()
    }

    /// Returns true if logs of topics were found, so the metadata log must not be empty.
    pub(crate) fn has_logs(&self) -> bool {
        !self.told.forget_missing
            && self
                .found()
                .any(|(_, id)| id.is_some_and(|id| id != TopicId::METADATA))
    }

    /// Returns true if the metadata places the partition in one of `directories`, and its log is in
    /// a directory that is missing here.
    ///
    /// An empty log must not be created in its place.
    pub(crate) fn is_elsewhere(
        &self,
        topic_id: TopicId,
        name: &TopicPartition,
        directories: &[Uuid],
    ) -> bool {
        let is_here = |id: &Uuid| self.dirs.iter().any(|dir| dir.id == *id);
        let is_one = |id: &&Uuid| id.as_u128() >= RESERVED_IDS;
        !self.told.forget_missing
            && !self.has(topic_id, name)
            && directories.iter().any(|id| is_one(&id) && !is_here(id))
    }

    /// Returns how to open the log of a topic in `dir`.
    ///
    /// The checkpoints apply only to the log that was found, not to a later one of the same name.
    pub fn open_as(&self, dir: &LogDir, topic_id: TopicId, name: &TopicPartition) -> OpenAs {
        if self.has(topic_id, name) {
            return self.since_arrival(dir, name, dir.open_as(name));
        }
        OpenAs {
            clean: dir.clean.is_some(),
            recovery_point: Offset::ZERO,
            log_start: Offset::ZERO,
            compacted: None,
        }
    }

    /// Returns the broker epoch of the last shutdown, if every directory was left cleanly by it.
    pub fn clean_epoch(&self) -> Option<i64> {
        let mut epochs = self.dirs.iter().map(|dir| dir.clean);
        let first = epochs.next()??;
        epochs.all(|epoch| epoch == Some(first)).then_some(first)
    }

    /// Returns the directory where the metadata log, called `name`, was found, otherwise the first.
    pub fn holding(&self, name: &TopicPartition) -> &LogDir {
        let log = self.found.of(TopicId::METADATA, name);
        let log = log.or_else(|| self.found.any_of(name));
        self.at(log.map_or(0, |log| log.index))
    }

    /// Returns the directory at an index.
    fn at(&self, index: usize) -> &LogDir {
        let Some(dir) = self.dirs.get(index) else {
            unreachable!("a log is found in one of the directories, of which there is one at least")
        };
        dir
    }

    /// Returns the directory of a partition: the one that holds its log, or for a new log the one
    /// with the most free space.
    ///
    /// Directories with about the same free space (often one file system) share new partitions by
    /// number. A cordoned directory is used only if all are cordoned.
    pub async fn place<P: Platform>(
        &self,
        platform: &P,
        topic_id: TopicId,
        name: &TopicPartition,
        is_closed: impl Fn(&Path) -> bool,
    ) -> &LogDir {
        let found = self.found.of(topic_id, name);
        if let Some(log) = found {
            return self.at(log.index);
        }
        let mut roomy: Vec<(u64, &LogDir)> = Vec::with_capacity(self.dirs.len());
        let is_any_open = !self.dirs.iter().all(|dir| is_closed(&dir.path));
        let open = |dir: &&LogDir| !is_any_open || !is_closed(&dir.path);
        for dir in self.dirs.iter().filter(open) {
            let look = timeout(LOOK_MAX, platform.disk().space(&dir.path)).await;
            let free = look.ok().and_then(Result::ok);
            let free = free.map_or(0, |space| space.free);
            roomy.push((free, dir));
        }
        // No directory is the same as one without room: the first is taken below.
        let most = roomy.iter().map(|(free, _)| *free).max().unwrap_or(0);
        roomy.retain(|(free, _)| *free >= most - most / 8);
        let spread = topic_id
            .0
            .as_u64_pair()
            .1
            .wrapping_add(u64::from(name.partition.unsigned_abs()));
        let index = usize::try_from(spread % roomy.len().max(1) as u64).unwrap_or(0);
        // Empty if all directories were cordoned during the loop.
        roomy.get(index).map_or(self.at(0), |(_, dir)| dir)
    }

    /// Returns the logs in the directories, with the topic id of each that has one.
    pub fn found(&self) -> impl Iterator<Item = (&TopicPartition, Option<TopicId>)> {
        self.found.all().map(|(name, log)| (name, log.id))
    }

    /// Refuses a directory of another cluster or node.
    fn check_owner(
        &self,
        path: &Path,
        identity: Option<&MetaProperties>,
    ) -> Result<(), LogDirsError> {
        let Some(meta) = identity else { return Ok(()) };
        if meta.cluster_id != self.cluster_id {
            return Err(LogDirsError::OtherCluster {
                path: path.to_owned(),
                found: meta.cluster_id.clone(),
                expected: self.cluster_id.clone(),
            });
        }
        if meta.node_id != self.node_id {
            return Err(LogDirsError::OtherNode {
                path: path.to_owned(),
                found: meta.node_id.0,
                expected: self.node_id.0,
            });
        }
        Ok(())
    }

    /// Checks the owner of a directory, and formats one without an owner for this node.
    async fn identify<P: Platform>(
        &self,
        platform: &P,
        path: &Path,
        identity: Option<MetaProperties>,
        planned: Option<Uuid>,
    ) -> Result<Uuid, LogDirsError> {
        self.check_owner(path, identity.as_ref())?;
        if let Some(id) = identity.and_then(|meta| meta.directory_id) {
            return Ok(id);
        }
        let id = planned.unwrap_or_else(|| random_uuid(platform));
        let meta = MetaProperties {
            cluster_id: self.cluster_id.clone(),
            node_id: self.node_id,
            directory_id: Some(id),
            journal: None,
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

    /// Records the logs in a directory; logs foreign files and leaves them alone.
    async fn list<P: Platform>(
        &mut self,
        platform: &P,
        path: &Path,
        index: usize,
    ) -> Result<(), LogDirsError> {
        let entries = platform
            .disk()
            .list(path)
            .await
            .map_err(failed("list", path))?;
        let mut deleted = 0_usize;
        let (mut logs, mut folders) = (Vec::new(), Vec::new());
        for entry in entries {
            let full = path.join(&entry.name);
            if !entry.is_dir {
                if !is_ours(&entry.name) {
                    tracing::warn!(file = %full.display(), "foreign file in a log directory: left alone");
                }
            } else if storage::is_deleted_folder(&entry.name) {
                deleted = deleted.saturating_add(1);
            } else if let Some(name) = storage::parse_folder_name(&entry.name) {
                logs.push(name);
                folders.push(full);
            } else if let Some(name) = storage::parse_future_folder_name(&entry.name) {
                let topic_id = understood(topic_of(platform, &full).await, &full).flatten();
                self.unfinished.push(UnfinishedMove {
                    name,
                    topic_id,
                    index,
                    folder: full,
                });
            } else if entry.name == REPAIRED {
                self.repaired_in = Some(index);
            } else if !KNOWN_ENDS.iter().any(|end| entry.name.ends_with(end)) {
                tracing::warn!(dir = %full.display(), "foreign directory in a log directory: left alone");
            }
        }
        // A log whose files cannot be read makes only its own partition offline, when it is opened.
        let files = folders::read(platform, path, &folders).await;
        for ((name, folder), files) in logs.into_iter().zip(&folders).zip(files) {
            let is_part = || async { is_part(platform, folder).await };
            if files.topic.is_none() && understood(is_part().await, folder).unwrap_or(false) {
                self.parts_in = Some(index);
                continue;
            }
            if let Some(moved) = files.moved {
                let name = name.clone();
                self.arrived.push(ArrivedLog { name, index, moved });
            }
            self.found.note(
                name,
                Log {
                    index,
                    id: files.topic,
                },
            );
        }
        if deleted > 0 {
            tracing::info!(dir = %path.display(), logs = deleted, "the deletion of logs will be finished");
        }
        Ok(())
    }
}

/// Returns the content of a small file of a log; an unreadable one is logged and ignored, because
/// it concerns its own log only.
fn understood<T>(read: Result<T, LogDirsError>, folder: &Path) -> Option<T> {
    read.inspect_err(
        |error| tracing::error!(log = %folder.display(), %error, "a log's folder cannot be understood"),
    )
    .ok()
}

/// Renames the folder of a log that is in the way of another, in Kafka's form for strays; returns
/// the new path.
pub(crate) async fn set_aside<P: Platform>(
    platform: &P,
    dir: &Path,
    name: &TopicPartition,
) -> storage::Result<PathBuf> {
    let unique = random_uuid(platform).simple().to_string();
    let mut folder = name.to_string();
    // Topic names are ASCII, so every byte is a character boundary.
    folder.truncate(NAME_BYTES_MAX - unique.len() - 1 - STRAY.len());
    let from = dir.join(name.to_string());
    let to = dir.join(format!("{folder}.{unique}{STRAY}"));
    let renamed = platform.disk().rename(&from, &to).await;
    renamed.map_err(storage::Error::io("rename", &from))?;
    let synced = platform.disk().sync_dir(dir).await;
    synced.map_err(storage::Error::io("sync", dir))?;
    Ok(to)
}

/// Returns true for a folder with segments of a log whose home is another directory.
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
        roster::FILE,
        crate::checkpoints::room::FILE,
        crate::names::CLOCK_FILE,
        storage::tier::DRAINED_FILE,
        ".lock",
    ];
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    names.contains(&name) || storage::is_pooled(name) || is_of_journal(name)
}

async fn read_dir<P: Platform>(
    platform: &P,
    path: &Path,
    id: Uuid,
) -> Result<LogDir, LogDirsError> {
    let marker = path.join(clean_shutdown::FILE);
    let clean = match optional(platform, &marker).await? {
        Some(bytes) => {
            // After this, a crash must be recognized as one.
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
        log_starts: read_lines(platform, &path.join(offsets::LOG_STARTS)).await?,
        compacted: read_lines(platform, &path.join(offsets::COMPACTED)).await?,
    })
}

/// Returns the valid lines of a checkpoint, and logs the others. No other file has this
/// information.
async fn read_lines<P: Platform>(
    platform: &P,
    file: &Path,
) -> Result<BTreeMap<TopicPartition, Offset>, LogDirsError> {
    let Some(bytes) = checkpoint(platform, file).await? else {
        return Ok(BTreeMap::new());
    };
    let (offsets, damage) = offsets::parse_lines(file, &bytes);
    for error in damage {
        tracing::error!(%error, "a line of a checkpoint is ignored");
    }
    Ok(offsets.into_iter().collect())
}

/// Returns the recovery points; damaged ones count as none, so that recovery reads more and loses
/// nothing.
async fn read_offsets<P: Platform>(
    platform: &P,
    file: &Path,
) -> Result<BTreeMap<TopicPartition, Offset>, LogDirsError> {
    let Some(bytes) = checkpoint(platform, file).await? else {
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

/// Returns the bytes of a checkpoint, if it is not empty. Kafka creates the files empty, and fills
/// them with its first checkpoint.
async fn checkpoint<P: Platform>(
    platform: &P,
    file: &Path,
) -> Result<Option<Vec<u8>>, LogDirsError> {
    match optional(platform, file).await {
        Ok(bytes) => Ok(bytes.filter(|bytes| !bytes.is_empty())),
        Err(LogDirsError::Io { source, .. }) if is_unreadable(&source) => {
            tracing::error!(file = %file.display(), error = %source, "a checkpoint cannot be read and is ignored");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn read_identity<P: Platform>(
    platform: &P,
    dir: &Path,
) -> Result<Option<MetaProperties>, LogDirsError> {
    let file = dir.join(meta_properties::FILE);
    let bytes = optional(platform, &file).await?;
    Ok(bytes
        .map(|bytes| meta_properties::parse_marked(&file, &bytes))
        .transpose()?)
}

/// Returns the topic of the log in a folder, if the folder names it.
pub(crate) async fn topic_of<P: Platform>(
    platform: &P,
    dir: &Path,
) -> Result<Option<TopicId>, LogDirsError> {
    let file = dir.join(partition_metadata::FILE);
    let bytes = optional(platform, &file).await?;
    Ok(bytes
        .map(|bytes| partition_metadata::parse(&file, &bytes))
        .transpose()?)
}

/// Returns the bytes of a file that may be missing.
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

/// Returns a random UUID (version 4, so none of Kafka's reserved ones).
pub(crate) fn random_uuid<P: Platform>(platform: &P) -> Uuid {
    let bits = u128::from(platform.random_u64()) << 64 | u128::from(platform.random_u64());
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}
