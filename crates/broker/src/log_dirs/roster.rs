//! The list of log directories: each directory has a list of all (`log-dirs`), so that a missing
//! one is noticed.
//!
//! A file system that is not mounted looks like a new directory, and the start does not see a
//! directory that is not configured: logs in either would be created again, empty. So the start
//! accepts neither unless the operator confirms it.
//!
//! Invariants: every directory has the list before the first of them is formatted, so that an
//! interrupted first start differs from a directory that is not mounted; directories are identified
//! by id, the paths are for people.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::checkpoint::meta_properties::MetaProperties;
use wire::types::{Uuid, uuid_from_base64, uuid_to_base64};

use super::{LogDirsError, OperatorConsent, failed, optional, random_uuid};

/// Name of the file in a log directory.
pub(super) const FILE: &str = "log-dirs";

type Roster = BTreeMap<Uuid, PathBuf>;

/// The checked directories, and their list.
pub(super) struct CheckedDirs {
    /// The id of each directory.
    pub(super) ids: Vec<Uuid>,
    /// The current list in each directory.
    before: Vec<Option<Roster>>,
}

/// Checks that the directories are exactly those of the last start. Writes nothing.
pub(super) async fn check<P: Platform>(
    platform: &P,
    paths: &[PathBuf],
    identities: &[Option<MetaProperties>],
    told: OperatorConsent,
) -> Result<CheckedDirs, LogDirsError> {
    let is_new = identities.iter().all(Option::is_none);
    let mut known = Roster::new();
    let (mut ids, mut before) = (Vec::new(), Vec::new());
    for (path, identity) in paths.iter().zip(identities) {
        let listed = read(platform, path).await?;
        let planned = listed.iter().flatten().find(|(_, at)| *at == path);
        let id = match (identity, planned) {
            (Some(meta), _) => meta.directory_id,
            (None, Some((id, _))) => Some(*id),
            (None, None) if is_new || listed.is_some() || told.format_new => None,
            (None, None) => {
                return Err(LogDirsError::Unformatted { path: path.clone() });
            }
        };
        ids.push(id.unwrap_or_else(|| random_uuid(platform)));
        known.extend(listed.iter().flatten().map(|(id, at)| (*id, at.clone())));
        before.push(listed);
    }
    let missing = known.iter().find(|(id, _)| !ids.contains(id));
    if let Some((id, path)) = missing.filter(|_| !is_new) {
        let (id, path) = (uuid_to_base64(*id), path.clone());
        if !told.forget_missing {
            return Err(LogDirsError::Missing { id, path });
        }
        tracing::warn!(%id, last = %path.display(), "a log directory is forgotten, with what was in it");
    }
    Ok(CheckedDirs { ids, before })
}

impl CheckedDirs {
    /// Writes the list into each directory.
    pub(super) async fn write<P: Platform>(
        &self,
        platform: &P,
        paths: &[PathBuf],
    ) -> Result<(), LogDirsError> {
        let ids = self.ids.iter().copied();
        let all: Roster = ids.zip(paths.iter().cloned()).collect();
        for (path, before) in paths.iter().zip(&self.before) {
            if before.as_ref() != Some(&all) {
                let file = path.join(FILE);
                let written = platform.disk().replace_file(&file, &encode(&all)).await;
                written.map_err(failed("write", &file))?;
            }
        }
        Ok(())
    }
}

/// Reads the list in a log directory. An invalid line is logged and dropped.
async fn read<P: Platform>(platform: &P, dir: &Path) -> Result<Option<Roster>, LogDirsError> {
    let file = dir.join(FILE);
    let Some(bytes) = optional(platform, &file).await? else {
        return Ok(None);
    };
    let mut listed = Roster::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        let parsed = line.split_once(' ');
        let parsed = parsed.and_then(|(id, path)| Some((uuid_from_base64(id)?, path)));
        if let Some((id, path)) = parsed {
            listed.insert(id, path.into());
        } else {
            tracing::warn!(file = %file.display(), line, "not a log directory");
        }
    }
    Ok(Some(listed))
}

fn encode(roster: &Roster) -> Vec<u8> {
    let lines = roster
        .iter()
        .map(|(id, path)| format!("{} {}\n", uuid_to_base64(*id), path.display()));
    lines.collect::<String>().into_bytes()
}
