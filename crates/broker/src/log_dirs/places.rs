//! Checks the configured directories before anything is written to one of them.
//!
//! A path is identified by its `meta.properties`. Two paths with the same identity are a directory
//! and a copy of it, and it is unknown which one is right. A log directory that is named as a path
//! of a lower tier was exchanged with another in the settings: its logs would be taken for parts of
//! other logs, and for logs of deleted topics.
//!
//! Invariant: only reads. Files that cannot be read are left to the code that opens the directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::Platform;
use storage::checkpoint::partition_metadata;
use wire::types::{Uuid, uuid_to_base64};

use super::{LogDirs, LogDirsError, OperatorConsent, is_part, optional, read_identity, roster};
use crate::names::METADATA_TOPIC;

impl LogDirs {
    /// Refuses directories that are configured twice, and log directories among the `lower` ones.
    pub async fn check_places<P: Platform>(
        platform: &P,
        homes: &[PathBuf],
        lower: &[PathBuf],
        told: OperatorConsent,
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

/// Returns true for a directory that is or was one of log.dirs: it has the list of them, or the
/// metadata log.
///
/// If the operator forgets missing directories, one of them may become a path of a lower tier, but
/// not if it has the metadata log.
async fn is_home<P: Platform>(platform: &P, path: &Path, told: OperatorConsent) -> bool {
    let has = async |file: PathBuf| matches!(optional(platform, &file).await, Ok(Some(_)));
    let metadata = path.join(format!("{METADATA_TOPIC}-0"));
    let has_metadata = has(metadata.join(partition_metadata::FILE)).await
        // If the note of a part cannot be read, the directory counts as home, and is refused.
        && !is_part(platform, &metadata).await.unwrap_or(false);
    has_metadata || (!told.forget_missing && has(path.join(roster::FILE)).await)
}
