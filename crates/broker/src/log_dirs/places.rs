//! What the configured directories are, before anything is written to one of them.
//!
//! A path is who its `meta.properties` says it is. Two that say the same are a directory and a copy of it, of which nobody
//! can tell which one is right. A log directory that is named as a path of a lower tier is one of two that were exchanged in
//! the settings: its logs would be taken for parts of others, and for those of topics that are no more.
//! Invariant: only reads. What cannot be read is the business of whoever opens the directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::Platform;
use storage::checkpoint::partition_metadata;
use wire::types::{Uuid, uuid_to_base64};

use super::{LogDirs, LogDirsError, Told, is_part, optional, read_identity, roster};
use crate::names::METADATA_TOPIC;

impl LogDirs {
    /// Refuses directories that are given twice, and log directories among the `lower` ones.
    pub async fn check_places<P: Platform>(
        platform: &P,
        homes: &[PathBuf],
        lower: &[PathBuf],
        told: Told,
    ) -> Result<(), LogDirsError> {
        let mut seen: BTreeMap<Uuid, &Path> = BTreeMap::new();
        for path in homes.iter().chain(lower) {
            let identity = read_identity(platform, path).await.ok().flatten();
            let Some(id) = identity.and_then(|meta| meta.directory_id) else {
                continue;
            };
            if let Some(one) = seen.insert(id, path) {
                return Err(LogDirsError::Twice {
                    one: one.to_path_buf(),
                    other: path.clone(),
                    id: uuid_to_base64(id),
                });
            }
        }
        for path in lower {
            if is_home(platform, path, told).await {
                return Err(LogDirsError::IsHome { path: path.clone() });
            }
        }
        Ok(())
    }
}

/// True for a directory that is, or was, one of log.dirs: it lists them all, or has the metadata log. When directories are
/// to be forgotten, one of them may become a path of a lower tier; with the metadata log in it, it may not.
async fn is_home<P: Platform>(platform: &P, path: &Path, told: Told) -> bool {
    let has = async |file: PathBuf| matches!(optional(platform, &file).await, Ok(Some(_)));
    let metadata = path.join(format!("{METADATA_TOPIC}-0"));
    let has_metadata = has(metadata.join(partition_metadata::FILE)).await
        // One that cannot be read counts as home: it is refused.
        && !is_part(platform, &metadata).await.unwrap_or(false);
    has_metadata || (!told.forget_missing && has(path.join(roster::FILE)).await)
}
