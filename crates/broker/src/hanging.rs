//! Directories whose disk does not answer: which they are, since when, and what does not wait for
//! them.
//!
//! A call to a hanging disk does not return, so nothing fails: work that needs the directory waits,
//! and all other work goes on. The only sign is the age of the operations under way
//! (`Disk::under_way_for`), by the monotonic clock. Each shard looks at its own operations; all
//! shards share [`HangingDirs`], so that each beginning and each end is logged once. This module
//! does not give up operations, because the disk may still carry them out. A stop gives up waiting
//! for one (`Broker::unless_hung_in`).

#![allow(
    clippy::disallowed_types,
    reason = "what hangs is said once for all shards; the lock is held for a look, once a second"
)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::clock::Instant;
use platform::task::JoinHandle;
use platform::{Disk, Platform, task};
use storage::Log;
use wire::types::TopicId;

use crate::Broker;
use crate::partition::Partition;

/// Age from which an operation hangs.
///
/// It is many times what an overloaded device takes (a second), and less than the 30 s after which
/// clients give up their requests, so that the operator knows first.
pub const HANGS_AFTER: Duration = Duration::from_secs(10);

/// How long a stop waits for an operation.
///
/// Together with everything else that a stop does, this is well within the 90 s after which a
/// supervisor kills the process (systemd's default).
const GIVEN_UP_AFTER: Duration = Duration::from_secs(20);

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Number of consecutive looks after which a round of upkeep is left to itself, if each found the
/// log's upkeep under way while a tier path hangs.
const LOOKS_MAX: usize = 10;

const _: () = assert!(
    LOOK_INTERVAL.as_millis() < HANGS_AFTER.as_millis(),
    "what hangs is seen before it ends"
);
const _: () = assert!(
    HANGS_AFTER.as_millis() < GIVEN_UP_AFTER.as_millis(),
    "a stop gives up only what hangs"
);

/// The directories that hang, for all shards; clones share it.
#[derive(Clone, Default, Debug)]
// Unbounded: the log directories and tier paths of the settings.
pub struct HangingDirs(Arc<Mutex<BTreeMap<PathBuf, DirHangs>>>);

/// The state of one directory.
#[derive(Default, Debug)]
struct DirHangs {
    /// How long the oldest operation of each shard has been under way.
    // Bounded: one for each shard, `num.shards`.
    of_shards: BTreeMap<usize, Duration>,
    /// Set while the directory hangs: the greatest age of an operation seen meanwhile.
    hangs: Option<Duration>,
}

/// The outcome of work that was begun in a directory.
pub(crate) enum DirOutcome<T> {
    /// It is done.
    Done(T),
    /// The directory hangs, and the work goes on by itself.
    Hangs(JoinHandle<T>),
    /// The shard ends, and so does the work.
    Stopping,
}

/// Logs with a round of upkeep that was left to itself; clones share it.
#[derive(Clone, Default)]
// Unbounded: a subset of the partitions of a shard.
pub(crate) struct AbandonedUpkeep(Rc<RefCell<BTreeSet<(TopicId, i32)>>>);

impl AbandonedUpkeep {
    fn has(&self, key: (TopicId, i32)) -> bool {
        self.0.borrow().contains(&key)
    }

    /// Keeps `key` until `work` has ended.
    fn note<T: 'static>(&self, key: (TopicId, i32), work: JoinHandle<T>) {
        self.0.borrow_mut().insert(key);
        let left = self.clone();
        task::spawn(async move {
            drop(work.await);
            left.0.borrow_mut().remove(&key);
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Begins(Duration),
    /// The directory hung for this long.
    Ends(Duration),
}

impl HangingDirs {
    /// Returns the directories that hang now, and how long their oldest operations have been under
    /// way.
    pub fn now(&self) -> Vec<(PathBuf, Duration)> {
        let seen = self.seen();
        let hang = seen.iter().filter(|(_, seen)| seen.hangs.is_some());
        hang.map(|(dir, seen)| (dir.clone(), seen.longest()))
            .collect()
    }

    /// Records what a shard has seen of a directory, and returns the change, if there is one.
    fn look(&self, shard: usize, dir: &Path, under_way_for: Duration) -> Option<Change> {
        let mut all = self.seen();
        if under_way_for.is_zero() && !all.contains_key(dir) {
            return None;
        }
        let seen = all.entry(dir.to_owned()).or_default();
        seen.of_shards.insert(shard, under_way_for);
        let longest = seen.longest();
        match seen.hangs {
            None if longest >= HANGS_AFTER => {
                seen.hangs = Some(longest);
                Some(Change::Begins(longest))
            }
            Some(for_at_most) if longest < HANGS_AFTER => {
                seen.hangs = None;
                Some(Change::Ends(for_at_most))
            }
            hangs => {
                seen.hangs = hangs.map(|for_at_most| for_at_most.max(longest));
                None
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<PathBuf, DirHangs>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirHangs {
    fn longest(&self) -> Duration {
        self.of_shards.values().max().copied().unwrap_or_default()
    }
}

/// Looks at what a shard has under way in `dirs`, and logs when a directory begins to hang and when
/// it answers again; never ends.
pub async fn watch<P: Platform>(
    platform: P,
    shard: usize,
    dirs: Vec<PathBuf>,
    hanging: HangingDirs,
) {
    loop {
        platform.clock().sleep(LOOK_INTERVAL).await;
        for dir in &dirs {
            let under_way_for = platform.disk().under_way_for(dir);
            match hanging.look(shard, dir, under_way_for) {
                Some(Change::Begins(waited)) => {
                    tracing::warn!(dir = %dir.display(), waited_s = waited.as_secs(),
                        "a disk does not answer: an operation in this directory has not come back; what needs the directory waits for it");
                }
                Some(Change::Ends(waited)) => {
                    tracing::info!(dir = %dir.display(), waited_s = waited.as_secs(),
                        "a disk answers again: nothing in this directory waits any more");
                }
                None => {}
            }
        }
    }
}

impl<P: Platform> Broker<P> {
    /// Returns whether an operation of this shard in a directory hangs.
    pub(crate) fn hangs(&self, dir: &Path) -> bool {
        self.platform.disk().under_way_for(dir) >= HANGS_AFTER
    }

    /// Runs `work` in a directory, in a task of its own, and returns `None` if the directory hangs.
    ///
    /// The work is then not begun, or goes on by itself.
    pub(crate) async fn while_it_answers<T: 'static>(
        &self,
        dir: &Path,
        work: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        if self.hangs(dir) {
            return None;
        }
        let mut work = task::spawn(work);
        loop {
            match task::timeout(LOOK_INTERVAL, &mut work).await {
                Ok(done) => return done.ok(),
                Err(_) if self.hangs(dir) => return None,
                Err(_) => {}
            }
        }
    }

    /// Runs `work` in a directory, in a task of its own, and waits for it.
    ///
    /// It does not wait while the directory hangs, or a path that may hold parts of its logs: the
    /// work then goes on by itself.
    pub(crate) async fn begin_in<T: 'static>(
        &self,
        dir: &Path,
        work: impl Future<Output = T> + 'static,
    ) -> DirOutcome<T> {
        let work = task::spawn(work);
        if self.hangs(dir) {
            return DirOutcome::Hangs(work);
        }
        let hangs = || self.hangs(dir) || self.tier_hangs();
        self.wait_unless(hangs, work).await
    }

    /// Waits for `work` until it ends or `hangs`, which is called at each look, returns true.
    pub(crate) async fn wait_unless<T: 'static>(
        &self,
        mut hangs: impl FnMut() -> bool,
        mut work: JoinHandle<T>,
    ) -> DirOutcome<T> {
        loop {
            match task::timeout(LOOK_INTERVAL, &mut work).await {
                Ok(Ok(done)) => return DirOutcome::Done(done),
                Ok(Err(_)) => return DirOutcome::Stopping,
                Err(_) if hangs() => return DirOutcome::Hangs(work),
                Err(_) => {}
            }
        }
    }

    /// Runs a round of upkeep of a log, unless a directory that the log lies in hangs.
    ///
    /// Another round follows later. `None`: the round was not begun (a directory hangs, or an
    /// earlier round was left to itself and is still under way), was left to itself, or the shard
    /// ends.
    pub(crate) async fn keep_up<T: 'static>(
        &self,
        partition: &Partition<P>,
        left: &AbandonedUpkeep,
        work: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let key = (partition.topic_id, partition.name.partition);
        let log = &partition.log;
        if left.has(key) || self.log_hangs(log) {
            return None;
        }
        let mut looks = 0;
        let hangs = || {
            // Segments that are being copied to a path, or were removed from it, are not among
            // those that the log lists. The log's upkeep is then under way at every look. A round
            // on a slow disk is under way at some looks only.
            let waits = log.is_under_upkeep() && self.tier_hangs();
            looks = if waits { looks + 1 } else { 0 };
            looks >= LOOKS_MAX || self.log_hangs(log)
        };
        match self.wait_unless(hangs, task::spawn(work)).await {
            DirOutcome::Done(done) => Some(done),
            DirOutcome::Hangs(work) => {
                left.note(key, work);
                None
            }
            DirOutcome::Stopping => None,
        }
    }

    /// Returns whether a log lies in a directory that hangs, or has segments on a path that does.
    pub(crate) fn log_hangs(&self, log: &Log<P>) -> bool {
        let any_of_its = || self.dirs_of(log).iter().any(|dir| self.hangs(dir));
        self.hangs(log.dir()) || (self.tier_hangs() && any_of_its())
    }

    /// Returns the directory of a log and the tier paths that have segments of it, in order.
    pub(crate) fn dirs_of(&self, log: &Log<P>) -> BTreeSet<PathBuf> {
        let tiers = self.store.tiers();
        let on = log.tiers().bytes_by_path().into_iter();
        let paths = on.filter_map(|(id, _)| tiers?.path(id));
        let paths = paths.map(|path| path.dir().to_owned());
        paths.chain([log.dir().to_owned()]).collect()
    }

    /// Returns the directory that work in `dir` waits for: `dir` or a path that may hold parts of
    /// its logs.
    pub(crate) fn waits_for<'a>(&'a self, dir: &'a Path) -> &'a Path {
        let mut dirs = [dir].into_iter().chain(self.tier_dirs());
        // If none hangs any more, the answer is the directory of the work.
        dirs.find(|dir| self.hangs(dir)).unwrap_or(dir)
    }

    /// Returns whether a path of a tier hangs.
    pub(crate) fn tier_hangs(&self) -> bool {
        self.tier_dirs().any(|dir| self.hangs(dir))
    }

    /// Returns all paths of tiers.
    ///
    /// With tiers, a log in one log directory may have parts in another one.
    fn tier_dirs(&self) -> impl Iterator<Item = &Path> {
        let homes = self.store.tiers().map(|_| &self.options.log_dirs);
        let dirs = homes.into_iter().flatten().chain(&self.options.lower_dirs);
        dirs.map(PathBuf::as_path)
    }

    /// Waits for `work` of a stop, unless the path of a lower tier hangs and the work takes too
    /// long.
    ///
    /// `None`: the rest of the work is given up. The time begins now, whatever the stop has waited
    /// for before.
    pub(crate) async fn unless_lower_hung<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let end = self.platform.clock().after(GIVEN_UP_AFTER);
        let dirs = &self.options.lower_dirs;
        let done = self.unless_hung_by(end, dirs, work).await;
        self.tell_given_up(dirs, done)
    }

    /// Waits for `work` of a stop in `dirs`, unless one of them hangs when the stop's time is over.
    ///
    /// The time covers everything that the stop does there. Work in other directories is waited for
    /// to its end, however long these have hung.
    pub(crate) async fn unless_hung_in<T>(
        &self,
        dirs: &[PathBuf],
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let end = self.stop_begins() + GIVEN_UP_AFTER;
        let done = self.unless_hung_by(end, dirs, work).await;
        self.tell_given_up(dirs, done)
    }

    /// Logs that the stop waits no longer, if `done` is `None`.
    fn tell_given_up<T>(&self, dirs: &[PathBuf], done: Option<T>) -> Option<T> {
        if done.is_none()
            && let Some((dir, waited)) = self.given_up(dirs)
        {
            tracing::error!(dir = %dir.display(), waited_s = waited.as_secs(),
                "the stop waits no longer for a disk that does not answer: what it would have written there is left to the recovery of the next start");
        }
        done
    }

    /// Returns when the stop began; if it had not, it begins now.
    pub(crate) fn stop_begins(&self) -> Instant {
        let began = self.stopping_since.get();
        let began = began.unwrap_or_else(|| self.platform.clock().now());
        self.stopping_since.set(Some(began));
        began
    }

    async fn unless_hung_by<T>(
        &self,
        end: Instant,
        dirs: &[PathBuf],
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = task::timeout(LOOK_INTERVAL, work.as_mut()).await {
                return Some(done);
            }
            let is_over = self.platform.clock().now() >= end;
            if is_over && self.given_up(dirs).is_some() {
                return None;
            }
        }
    }

    /// Returns the directory that this shard has waited for longest, if that is too long for a
    /// stop.
    fn given_up<'a>(&self, dirs: &'a [PathBuf]) -> Option<(&'a PathBuf, Duration)> {
        dirs.iter()
            .map(|dir| (dir, self.platform.disk().under_way_for(dir)))
            .filter(|(_, waited)| *waited >= GIVEN_UP_AFTER)
            .max_by_key(|(_, waited)| *waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_beginning_and_each_end_is_news_once_whichever_shards_wait() {
        let hanging = HangingDirs::default();
        let (dir, secs) = (Path::new("/a"), Duration::from_secs);
        let look = |shard, waited| hanging.look(shard, dir, secs(waited));
        assert_eq!((look(0, 0), look(1, 9)), (None, None));
        assert!(hanging.now().is_empty());
        assert_eq!(look(0, 10), Some(Change::Begins(secs(10))));
        assert_eq!((look(1, 12), look(0, 13)), (None, None));
        assert_eq!(hanging.now(), [(dir.to_owned(), secs(13))]);
        assert_eq!(look(0, 0), None, "another shard still waits");
        assert_eq!(look(1, 3), Some(Change::Ends(secs(13))));
        assert_eq!(look(1, 0), None);
        assert!(hanging.now().is_empty());
        assert_eq!(look(1, 11), Some(Change::Begins(secs(11))));
    }
}
