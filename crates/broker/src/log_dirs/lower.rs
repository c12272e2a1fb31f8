//! The paths of lower tiers: which node they belong to, and whether they are mounted.
//!
//! A file system that is not mounted looks like a new, empty directory. So the log directories
//! remember the lower paths that were used and their directory ids (`tier-paths`). A remembered
//! path that is empty now is offline, not new, unless its directory id is on another path, and
//! nothing is concluded from what is missing on it. A path is identified by its directory id,
//! wherever it is mounted. This module does not lock the paths: the server does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::checkpoint::meta_properties::MetaProperties;
use storage::checkpoint::partition_metadata;
use storage::tier::{Safety, TierPath, TierTable};
use wire::types::{TimestampMs, TopicId, Uuid, uuid_from_base64, uuid_to_base64};

use super::{LogDirs, LogDirsError, failed, optional, read_identity};

/// Name of the file in a log directory.
pub(super) const FILE: &str = "tier-paths";

/// Marks a folder of a topic that is unknown to metadata older than the folder.
const KEPT: &str = "unknown-topic.aside";

type DirIds = BTreeMap<PathBuf, Uuid>;

impl LogDirs {
    /// Reads the paths of lower tiers, and formats new ones; refuses the start if one belongs to
    /// another node.
    ///
    /// A path that is unusable or not mounted is marked as failed and its segments are offline; the
    /// rest continues.
    pub async fn open_lower_tiers<P: Platform>(
        &self,
        platform: &P,
        tiers: &TierTable,
    ) -> Result<(), LogDirsError> {
        let mut known = DirIds::new();
        for dir in &self.dirs {
            known.extend(read_known(platform, &dir.path).await?);
        }
        let before = known.clone();
        let home = self.dirs.iter().map(|dir| (dir.path.clone(), dir.id));
        let at_home: DirIds = home.collect();
        // The paths known before this start, which old notes refer to.
        tiers.learn(
            before
                .iter()
                .chain(&at_home)
                .map(|(at, id)| (at.clone(), *id))
                .collect(),
        );
        for path in tiers.paths().iter().filter(|path| path.tier == 0) {
            if let Some(id) = at_home.get(path.dir()) {
                path.set_identity(*id);
            }
        }
        let mut found = Vec::new();
        for path in tiers.paths().iter().filter(|path| path.tier > 0) {
            found.push((path, look(platform, path.dir()).await));
        }
        let here: Vec<Uuid> = found
            .iter()
            .filter_map(|(_, identity)| identity.as_ref().ok()?.as_ref()?.directory_id)
            .collect();
        for (path, identity) in found {
            let options = tiers.tiers().get(path.tier);
            let keeps = options.is_none_or(|tier| tier.safety == Safety::Durable);
            let was_here = known.get(path.dir()).copied().filter(|_| keeps);
            let is_lost = was_here.is_some_and(|id| !here.contains(&id));
            let opened = match identity {
                Ok(identity) => {
                    self.open_lower(platform, path.dir(), identity, is_lost)
                        .await
                }
                Err(error) => Err(error),
            };
            match opened {
                Ok(id) => {
                    path.set_identity(id);
                    known.insert(path.dir().to_path_buf(), id);
                }
                Err(LogDirsError::Io {
                    action,
                    path: at,
                    source,
                }) => {
                    let reason = format!("cannot {action} {}: {source}", at.display());
                    take_offline(path, &reason, was_here);
                }
                Err(LogDirsError::Malformed(error)) => {
                    take_offline(path, &error.to_string(), was_here);
                }
                Err(other) => return Err(other),
            }
        }
        warn_of_missing(tiers, &known);
        if known == before {
            return Ok(());
        }
        self.remember(platform, &known).await
    }

    /// Writes the used paths into every log directory.
    async fn remember<P: Platform>(
        &self,
        platform: &P,
        known: &DirIds,
    ) -> Result<(), LogDirsError> {
        let bytes = encode(known);
        for dir in &self.dirs {
            let file = dir.path.join(FILE);
            let written = platform.disk().replace_file(&file, &bytes).await;
            written.map_err(failed("write", &file))?;
        }
        Ok(())
    }

    /// Removes from the paths of lower tiers the folders of topics that were deleted while the path
    /// was not mounted.
    ///
    /// It leaves a folder alone if a home directory still has a part of it, or if it names no
    /// topic. The same applies to a folder newer than `known_until`, the time of the last metadata
    /// record: metadata that are older (a backup) contain neither the creation of its topic nor its
    /// deletion. Such a folder is marked, so that a later start does not take its topic for a
    /// deleted one.
    pub async fn remove_orphans<P: Platform>(
        &self,
        platform: &P,
        tiers: &TierTable,
        is_topic: impl Fn(TopicId) -> bool,
        known_until: TimestampMs,
    ) {
        for path in tiers
            .paths()
            .iter()
            .filter(|path| path.tier > 0 && path.failed().is_none())
        {
            let entries = match platform.disk().list(path.dir()).await {
                Ok(entries) => entries,
                Err(error) => {
                    tracing::warn!(dir = %path.dir().display(), %error,
                        "a path of a tier cannot be listed: segments of topics that were deleted may stay there");
                    continue;
                }
            };
            for entry in entries.iter().filter(|entry| entry.is_dir) {
                let folder = path.dir().join(&entry.name);
                let stray = entry.name.ends_with(super::STRAY);
                if !stray && storage::parse_folder_name(&entry.name).is_none() {
                    continue;
                }
                let Some(id) = owner(platform, &folder).await else {
                    continue;
                };
                if id == TopicId::METADATA
                    || is_topic(id)
                    || self.found().any(|(_, at_home)| at_home == Some(id))
                {
                    continue;
                }
                if !is_older(platform, &folder, known_until).await {
                    keep(platform, &folder, id).await;
                    continue;
                }
                match platform.disk().remove_dir(&folder).await {
                    Ok(()) => tracing::info!(folder = %folder.display(), topic_id = %id,
                        "segments of a topic that was deleted are removed"),
                    Err(error) => tracing::warn!(folder = %folder.display(), %error,
                        "segments of a topic that was deleted stay"),
                }
            }
        }
    }

    async fn open_lower<P: Platform>(
        &self,
        platform: &P,
        path: &Path,
        identity: Option<MetaProperties>,
        is_lost: bool,
    ) -> Result<Uuid, LogDirsError> {
        if identity.is_none() && is_lost {
            let reason = "it is empty and was not before. Is its file system mounted? To use it as a new one, remove \
                          its line from tier-paths in the log directories";
            return Err(failed("use", path)(std::io::Error::other(reason)));
        }
        if self.told.forget_missing {
            // The path was one of log.dirs: `places` refuses it otherwise.
            let file = path.join(super::roster::FILE);
            if optional(platform, &file).await?.is_some() {
                let removed = platform.disk().remove_file(&file).await;
                removed.map_err(failed("remove", &file))?;
            }
        }
        self.identify(platform, path, identity, None).await
    }
}

/// Returns true for a folder that was created before the last metadata record, and that no earlier
/// start marked.
async fn is_older<P: Platform>(platform: &P, folder: &Path, known_until: TimestampMs) -> bool {
    let Ok(entries) = platform.disk().list(folder).await else {
        return false;
    };
    let mut made = entries
        .iter()
        .filter(|entry| entry.name == partition_metadata::PART_FILE);
    let is_kept = entries.iter().any(|entry| entry.name == KEPT);
    !is_kept && made.all(|entry| entry.modified_ms <= known_until.0)
}

/// Marks a folder so that this start and later ones, which have newer metadata, leave it alone.
async fn keep<P: Platform>(platform: &P, folder: &Path, id: TopicId) {
    let mark = folder.join(KEPT);
    let marked = platform.disk().replace_file(&mark, b"").await;
    let error = marked.err().map(|error| error.to_string());
    tracing::error!(folder = %folder.display(), topic_id = %id, error,
        "segments of a topic that the metadata do not know, and that are newer than the metadata: were those restored from \
         a backup? They are left alone; remove them if they are not wanted");
}

/// Returns the topic to which a folder's segments belong, as its file says.
async fn owner<P: Platform>(platform: &P, folder: &Path) -> Option<TopicId> {
    let file = folder.join(partition_metadata::PART_FILE);
    let bytes = platform.disk().read_file(&file).await.ok()?;
    partition_metadata::parse(&file, &bytes).ok()
}

async fn look<P: Platform>(
    platform: &P,
    path: &Path,
) -> Result<Option<MetaProperties>, LogDirsError> {
    let created = platform.disk().create_dir(path).await;
    created.map_err(failed("create", path))?;
    read_identity(platform, path).await
}

fn take_offline(path: &TierPath, reason: &str, was_here: Option<Uuid>) {
    tracing::error!(dir = %path.dir().display(), reason, "a path of a tier is offline");
    if let Some(id) = was_here {
        path.set_identity(id);
    }
    path.fail(reason);
}

/// Logs directories that were used and are no longer paths. Their logs report the segments on them.
fn warn_of_missing(tiers: &TierTable, known: &DirIds) {
    let is_path = |id: Uuid| tiers.paths().iter().any(|path| path.identity() == Some(id));
    for (last, id) in known.iter().filter(|(_, id)| !is_path(**id)) {
        let id = uuid_to_base64(*id);
        tracing::warn!(%id, last = %last.display(),
            "a directory that a tier had is none of its paths. If that is meant, remove its line from tier-paths in the \
             log directories");
    }
}

/// Reads the paths that a log directory remembers. An invalid line is logged and dropped.
async fn read_known<P: Platform>(platform: &P, dir: &Path) -> Result<DirIds, LogDirsError> {
    let file = dir.join(FILE);
    let bytes = optional(platform, &file).await?.unwrap_or_default();
    let mut known = DirIds::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        let parsed = line.split_once(' ');
        let parsed = parsed.and_then(|(id, path)| Some((uuid_from_base64(id)?, path)));
        if let Some((id, path)) = parsed {
            known.insert(path.into(), id);
        } else {
            tracing::warn!(file = %file.display(), line, "not a path of a tier");
        }
    }
    Ok(known)
}

fn encode(known: &DirIds) -> Vec<u8> {
    let lines = known
        .iter()
        .map(|(path, id)| format!("{} {}\n", uuid_to_base64(*id), path.display()));
    lines.collect::<String>().into_bytes()
}
