//! The paths of lower tiers: whose they are, and whether they are there at all.
//!
//! A file system that is not mounted looks like a new, empty directory. So the log directories remember the lower paths
//! that were used (`tier-paths`); one of them that is empty now is offline, not new, and nothing is concluded from what
//! is not found on it. It does not lock them: the server does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::tier::{Safety, TierPath, TierTable};
use wire::types::{Uuid, uuid_from_base64, uuid_to_base64};

use super::{LogDirs, LogDirsError, failed, optional, read_identity};

/// Name of the file in a log directory.
pub(super) const FILE: &str = "tier-paths";

type Known = BTreeMap<PathBuf, Uuid>;

impl LogDirs {
    /// Reads the paths of lower tiers, and formats those that are new: they are this node's or the start is refused.
    /// One that cannot be used, or is not there, is marked as failed and its segments are offline; the rest goes on.
    pub async fn open_lower_tiers<P: Platform>(
        &self,
        platform: &P,
        tiers: &TierTable,
    ) -> Result<(), LogDirsError> {
        let mut known = Known::new();
        for dir in &self.dirs {
            known.extend(read_known(platform, &dir.path).await?);
        }
        let before = known.clone();
        for path in tiers.paths().iter().filter(|path| path.tier > 0) {
            let options = tiers.tiers().get(path.tier);
            let keeps = options.is_none_or(|tier| tier.safety == Safety::Durable);
            let was_used = keeps && known.contains_key(path.dir());
            match self.open_lower(platform, path.dir(), was_used).await {
                Ok(id) => drop(known.insert(path.dir().to_path_buf(), id)),
                Err(LogDirsError::Io {
                    action,
                    path: at,
                    source,
                }) => {
                    let reason = format!("cannot {action} {}: {source}", at.display());
                    take_offline(path, &reason);
                }
                Err(other) => return Err(other),
            }
        }
        if known == before {
            return Ok(());
        }
        let bytes = encode(&known);
        for dir in &self.dirs {
            let file = dir.path.join(FILE);
            let written = platform.disk().replace_file(&file, &bytes).await;
            written.map_err(failed("write", &file))?;
        }
        Ok(())
    }

    async fn open_lower<P: Platform>(
        &self,
        platform: &P,
        path: &Path,
        was_used: bool,
    ) -> Result<Uuid, LogDirsError> {
        let created = platform.disk().create_dir(path).await;
        created.map_err(failed("create", path))?;
        let identity = read_identity(platform, path).await?;
        if identity.is_none() && was_used {
            let reason = "it is empty and was not before. Is its file system mounted? To use it as a new one, remove \
                          its line from tier-paths in the log directories";
            return Err(failed("use", path)(std::io::Error::other(reason)));
        }
        self.identify(platform, path, identity).await
    }
}

fn take_offline(path: &TierPath, reason: &str) {
    tracing::error!(dir = %path.dir().display(), reason, "a path of a tier is offline");
    path.fail(reason);
}

/// The paths that a log directory remembers. A line that makes no sense is named and forgotten.
async fn read_known<P: Platform>(platform: &P, dir: &Path) -> Result<Known, LogDirsError> {
    let file = dir.join(FILE);
    let bytes = optional(platform, &file).await?.unwrap_or_default();
    let mut known = Known::new();
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

fn encode(known: &Known) -> Vec<u8> {
    let lines = known
        .iter()
        .map(|(path, id)| format!("{} {}\n", uuid_to_base64(*id), path.display()));
    lines.collect::<String>().into_bytes()
}
