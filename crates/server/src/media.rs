//! The media of the tiers' paths: their table, how each shard accesses their files, and what is
//! logged about them at the start.
//!
//! Invariant: a path that is not on its declared medium stops the start, unless it was declared
//! volatile. A missing path of a lower tier is handled when the tier is opened, not here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use platform::disk::Medium as Found;
use platform::memory;
use platform::os::System;
use platform::{Disk as _, Platform as _};
use storage::tier::{Medium, Safety, TierPath, TierTable};

use crate::config::Settings;
use crate::tiers::drained;

/// Returns the table of the tiers, with the paths that were being drained.
///
/// The broker adds the cordoned paths before it opens a log.
pub(crate) fn tier_table(settings: &Settings) -> Option<Arc<TierTable>> {
    let tiers = settings.tiers.as_ref()?;
    let table = TierTable::with_pools(tiers.tiers.clone(), tiers.pool);
    for path in table.paths() {
        if drained::is_drained(path.dir()) {
            tracing::info!(dir = %path.dir().display(), "a path of a tier is still being drained");
            path.set_draining(true);
        }
    }
    Some(table)
}

/// Lets the kernel give this process small pages only, unless mapped files need huge ones.
pub(crate) fn use_small_pages(settings: &Settings) {
    let mut tiers = settings.tiers.iter().flat_map(|tiers| &tiers.tiers);
    if tiers.any(|tier| tier.medium == Medium::Dax) {
        // The kernel's wish is about the whole process: a mapping of persistent memory would then
        // have 512 times as many page faults.
        return;
    }
    if let Err(error) = memory::use_small_pages() {
        tracing::warn!(%error, "the kernel may give huge pages, whose first touch takes long");
    }
}

/// Makes the files of tiers on persistent memory mapped; each shard maps its own.
pub(crate) async fn declare(platform: &System, tiers: &TierTable) -> anyhow::Result<()> {
    for path in tiers.paths() {
        let tier = &tiers.tiers()[path.tier];
        if tier.medium != Medium::Dax || is_absent(platform, path).await {
            continue;
        }
        let volatile = tier.safety == Safety::Volatile;
        let found = platform.disk().use_dax(path.dir(), volatile).await;
        let found = found.with_context(|| format!("storage.tier.{}.medium=dax", tier.name))?;
        path.set_emulated(found == Found::Dax { emulated: true });
    }
    Ok(())
}

/// Returns true for a path of a lower tier whose free space cannot be read: it is offline.
async fn is_absent(platform: &System, path: &TierPath) -> bool {
    path.tier > 0 && platform.disk().space(path.dir()).await.is_err()
}

/// Warns about directories in a memory file system that are not declared volatile: their
/// acknowledged records are lost with the power.
pub(crate) async fn warn_of_memory(
    platform: &System,
    log_dirs: &[PathBuf],
    tiers: Option<&TierTable>,
) {
    for (dir, tier) in claimed_durable(log_dirs, tiers) {
        let space = platform.disk().space(dir).await;
        if !space.is_ok_and(|space| space.in_memory) {
            continue;
        }
        let dir = dir.display();
        if let Some(tier) = tier {
            tracing::warn!(%tier, %dir,
                "the file system is memory: records are lost with the power; \
                 storage.tier.{tier}.durability=volatile says that this is meant");
        } else {
            tracing::warn!(%dir,
                "the file system of log.dirs is memory: records are lost with the power");
        }
    }
}

/// Returns the directories that are declared durable, with the names of their tiers.
fn claimed_durable<'a>(
    log_dirs: &'a [PathBuf],
    tiers: Option<&'a TierTable>,
) -> Vec<(&'a Path, Option<&'a str>)> {
    let paths = || tiers.into_iter().flat_map(TierTable::paths);
    let of_tiers = paths().filter_map(|path| {
        let tier = tiers?.tiers().get(path.tier)?;
        // An emulated path has caused a warning already.
        let claims = tier.safety == Safety::Durable && !path.is_emulated();
        claims.then_some((path.dir(), Some(&*tier.name)))
    });
    let others = log_dirs.iter().map(PathBuf::as_path);
    let others = others.filter(|dir| paths().all(|path| path.dir() != *dir));
    let others = others.map(|dir| (dir, None));
    others.chain(of_tiers).collect()
}

/// Records the room on each path before the first log is opened: new segments go where there is
/// room.
pub(crate) async fn say(platform: &System, tiers: &TierTable) {
    for path in tiers.paths() {
        let dir = path.dir().display();
        let tier = &tiers.tiers()[path.tier];
        if path.is_emulated() {
            tracing::warn!(tier = %tier.name, %dir,
                "not a DAX mount: the medium dax is EMULATED, nothing on it is durable");
        }
        match platform.disk().space(path.dir()).await {
            Ok(space) => {
                path.note_space(space.free, space.total);
                let (capacity_bytes, free_bytes) = (path.capacity_bytes(), space.free);
                let (tier, medium) = (&tier.name, tier.medium.name());
                let emulated = path.is_emulated();
                tracing::info!(%tier, %dir, medium, emulated, capacity_bytes, free_bytes, "path of a tier");
            }
            Err(error) => tracing::warn!(tier = %tier.name, %dir, %error, "no word of its room"),
        }
    }
}
