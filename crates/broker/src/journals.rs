//! The journals that the logs of this process use: how the shards begin to use them, and how a stop
//! leaves the log directories without.
//!
//! Order at the start: each shard opens its rings ([`OpenedRings::open`]); when all have, one of
//! them marks the log directories with what was opened ([`mark`]); then each shard uses the rings
//! of those directories that are marked ([`OpenedRings::use_in`]); then logs are opened.
//! Invariants: no commit is written before its ring is named by a durable mark; a ring that cannot
//! be opened, or a directory that cannot be marked, keeps no start from its way: its logs are
//! flushed without a journal, and `/readyz` says so. Not here: what rings of an earlier process
//! have (`log_dirs/journals.rs`), and how the rings are used (`storage`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use platform::disk::Disk;
use platform::{Clock, Platform};
use storage::Store;
use storage::checkpoint::journal_mark::{JournalMark, RingMark};
use storage::journal::file::OpenRing;
use storage::journal::header::RingId;
use storage::journal::marked;
use storage::journal::start::{remove_unused, renew_ring};
use wire::types::TimestampMs;

use crate::Broker;
use crate::broker::ProcessState;
use crate::log_dirs::{LogDir, LogDirs};
use crate::names::CONTROLLER_SHARD;
use crate::options::JournalSettings;
use crate::shards::ShardIndex;

type File<P> = <<P as Platform>::Disk as Disk>::File;

/// A ring that was opened, by the index of its log directory.
pub type OpenedMark = (usize, RingMark);

/// The rings of a shard, one for each log directory, or why there is none.
pub struct OpenedRings<P: Platform> {
    // Bounded: the log directories.
    rings: Vec<Result<OpenRing<File<P>>, String>>,
}

impl<P: Platform> OpenedRings<P> {
    /// Opens the rings of a shard, or makes them; there are none without settings for them.
    ///
    /// No log directory is marked: `shards` is how many shards there are.
    pub async fn open(
        platform: &P,
        shared: &ProcessState,
        shard: ShardIndex,
        shards: usize,
    ) -> Self {
        let mut rings = Vec::new();
        if let Some(settings) = &shared.options.journal {
            for (index, dir) in shared.log_dirs.dirs.iter().enumerate() {
                let place = (index, dir, settings);
                rings.push(open_ring(platform, &shared.log_dirs, place, shard).await);
                if shard == CONTROLLER_SHARD {
                    remove_those_of_former_shards(platform, place, shards).await;
                }
            }
        }
        Self { rings }
    }

    /// Returns what the log directories are to be marked with.
    pub fn marks(&self) -> Vec<OpenedMark> {
        let rings = self.rings.iter().enumerate();
        let opened = rings.filter_map(|(index, ring)| Some((index, ring.as_ref().ok()?.mark())));
        opened.collect()
    }

    /// Has the logs of a shard use its rings, in those log directories that are `marked`.
    pub fn use_in(self, store: &Store<P>, shared: &ProcessState, marked: &[bool]) {
        let Some(settings) = &shared.options.journal else {
            return;
        };
        let dirs = shared.log_dirs.dirs.iter().zip(marked);
        for (ring, (dir, is_marked)) in self.rings.into_iter().zip(dirs) {
            let used = match ring {
                Ok(ring) if *is_marked => store
                    .use_journal(&dir.path, ring, settings.options)
                    .map_err(|error| error.to_string()),
                Ok(_) => Err("meta.properties could not be written".to_owned()),
                Err(reason) => Err(reason),
            };
            if let Err(reason) = used {
                store.go_without_journal(&dir.path, reason);
            }
        }
    }
}

async fn open_ring<P: Platform>(
    platform: &P,
    log_dirs: &LogDirs,
    (index, dir, settings): (usize, &LogDir, &JournalSettings),
    shard: ShardIndex,
) -> Result<OpenRing<File<P>>, String> {
    let rings_dir = settings.rings_dir(index, &dir.path);
    let made = platform.disk().create_dir(rings_dir).await;
    made.map_err(|error| format!("cannot create {}: {error}", rings_dir.display()))?;
    let id = RingId {
        cluster_id: log_dirs.cluster_id.clone(),
        directory_id: dir.id,
        shard: u32::try_from(shard).map_err(|error| error.to_string())?,
    };
    let opened = renew_ring(platform, id, rings_dir, settings.size).await;
    opened.map_err(|error| error.to_string())
}

/// Removes rings that no shard uses any more; one that cannot be removed takes room, and
/// disturbs no start.
async fn remove_those_of_former_shards<P: Platform>(
    platform: &P,
    (index, dir, settings): (usize, &LogDir, &JournalSettings),
    shards: usize,
) {
    let rings_dir = settings.rings_dir(index, &dir.path);
    let is_used = |shard: u32| usize::try_from(shard).is_ok_and(|shard| shard < shards);
    let removed = remove_unused(platform.disk(), rings_dir, dir.id, is_used).await;
    if let Err(error) = removed {
        tracing::warn!(%error, "rings of shards that are no more may stay");
    }
}

/// Marks the log directories with the rings that all shards have opened; returns which are marked.
pub async fn mark<P: Platform>(
    platform: &P,
    shared: &ProcessState,
    opened: &[OpenedMark],
) -> Vec<bool> {
    let mut are_marked = Vec::new();
    for (index, dir) in shared.log_dirs.dirs.iter().enumerate() {
        let of_dir = opened.iter().filter(|(of, _)| *of == index);
        let mut rings: Vec<_> = of_dir.map(|(_, ring)| *ring).collect();
        rings.sort_unstable_by_key(|ring| ring.shard);
        let settings = shared.options.journal.as_ref();
        let own_dir = settings.and_then(|settings| settings.own_dir(index));
        let journal = JournalMark {
            dir: own_dir.map(PathBuf::from),
            rings,
        };
        are_marked.push(!journal.rings.is_empty() && mark_dir(platform, dir, journal).await);
    }
    are_marked
}

async fn mark_dir<P: Platform>(platform: &P, dir: &LogDir, journal: JournalMark) -> bool {
    let rings = journal.rings.len();
    let in_dir = journal.rings_dir(&dir.path).display().to_string();
    let now = now(platform.clock());
    match marked::mark(platform.disk(), &dir.path, journal, now).await {
        Ok(()) => {
            tracing::info!(dir = %dir.path.display(), rings, in_dir, "the logs use a journal");
            true
        }
        Err(error) => {
            tracing::error!(dir = %dir.path.display(), %error,
                "the log directory cannot be marked, and its logs do without a journal");
            false
        }
    }
}

fn now(clock: &Clock) -> TimestampMs {
    TimestampMs(clock.wall_ms())
}

impl<P: Platform> Broker<P> {
    /// Ends the use of all journals, when the logs of all shards are closed, and unmarks the log
    /// directories; adds those whose journal a start has to read.
    pub(crate) async fn leave_journals(&self, unclean: &mut BTreeSet<PathBuf>) {
        if self.options.journal.is_none() {
            return;
        }
        let close = |broker: Rc<Self>| async move { broker.close_journals().await };
        let closed = self.shards.call_all(close).await;
        // A shard that is gone has not closed its own.
        let are_all_closed = closed.len() == self.shards.count();
        let needed: BTreeSet<_> = closed.into_iter().flatten().collect();
        for dir in &self.log_dirs.dirs {
            // A log that was not left in order, for want of room, has what its journal had.
            let is_needed = !are_all_closed || needed.contains(&dir.path);
            if is_needed || !self.unmark(dir).await {
                unclean.insert(dir.path.clone());
            }
        }
    }

    /// Returns log directories, and the directories of their rings: what work on logs waits for.
    pub(crate) fn with_rings(&self, dirs: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
        let mut all: Vec<_> = dirs.into_iter().collect();
        let Some(settings) = &self.options.journal else {
            return all;
        };
        let known = self.log_dirs.dirs.iter().enumerate();
        let used = known.filter(|(_, dir)| all.contains(&dir.path));
        let rings = used.filter_map(|(index, _)| settings.own_dir(index));
        let rings: Vec<_> = rings.map(PathBuf::from).collect();
        all.extend(rings);
        all
    }

    /// Ends the use of this shard's journals, when its logs are closed.
    ///
    /// Returns the log directories whose journal still has what a start needs.
    async fn close_journals(&self) -> Vec<PathBuf> {
        let mut unclean = Vec::new();
        for dir in &self.log_dirs.dirs {
            let waits_for = self.with_rings([dir.path.clone()]);
            let closing = self.store.close_journal(&dir.path);
            match self.unless_hung_in(&waits_for, closing).await {
                Some(Ok(())) => continue,
                Some(Err(error)) => tracing::warn!(dir = %dir.path.display(), %error,
                    "the journal has what the logs lack: the next start gives them that"),
                None => {}
            }
            unclean.push(dir.path.clone());
        }
        unclean
    }

    /// Unmarks a log directory whose logs have everything; returns false if that failed.
    async fn unmark(&self, dir: &LogDir) -> bool {
        let now = now(self.platform.clock());
        let unmarking = marked::unmark(self.platform.disk(), &dir.path, now);
        let waits_for = std::slice::from_ref(&dir.path);
        match self.unless_hung_in(waits_for, unmarking).await {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                tracing::warn!(dir = %dir.path.display(), %error,
                    "cannot note that the journal has nothing that is needed: the next start reads it");
                false
            }
            None => false,
        }
    }
}
