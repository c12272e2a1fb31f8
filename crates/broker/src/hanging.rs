//! Directories whose disk does not answer: which they are, since when, and what does not wait for them.
//!
//! A call to a disk that hangs does not come back, so nothing fails: whoever wants what is in the directory waits, and all
//! else goes on. Only the age of what is under way tells (`Disk::under_way_for`), by the monotonic clock. Each shard looks at its own
//! operations; [`Hanging`] is for all of them, so that each beginning and each end is said once.
//! It does not: give up an operation, which the disk may still carry out. A stop gives up waiting for one ([`Broker::unless_hung`]).

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

/// An operation that takes longer hangs: many times what a device takes that is overloaded (a second), and less than the
/// 30 s after which clients give up their requests, so that the operator knows first.
pub const HANGS_AFTER: Duration = Duration::from_secs(10);

/// A stop waits no longer for an operation: together with what else it does that is well within the 90 s after which a
/// supervisor kills (systemd's default).
const GIVEN_UP_AFTER: Duration = Duration::from_secs(20);

/// How often is looked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A round of upkeep of a log is left to itself when so many looks one after the other found the log's upkeep under way beside a
/// path that hangs.
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
pub struct Hanging(Arc<Mutex<BTreeMap<PathBuf, Seen>>>);

/// What is known of one directory.
#[derive(Default, Debug)]
struct Seen {
    /// For how long the oldest operation of each shard has been under way.
    // Bounded: one for each shard, `num.shards`.
    of_shards: BTreeMap<usize, Duration>,
    /// It hangs, and has done so for this long at most.
    hangs: Option<Duration>,
}

/// What has become of work that was begun in a directory.
pub(crate) enum Begun<T> {
    /// It is done.
    Done(T),
    /// It goes on by itself: the directory hangs.
    Hangs(JoinHandle<T>),
    /// Nothing will: the shard ends.
    Stopping,
}

/// Logs with a round of upkeep that was left to itself; clones share it.
#[derive(Clone, Default)]
// Unbounded: some of the partitions of a shard.
pub(crate) struct Left(Rc<RefCell<BTreeSet<(TopicId, i32)>>>);

impl Left {
    fn has(&self, key: (TopicId, i32)) -> bool {
        self.0.borrow().contains(&key)
    }

    /// Until it is through.
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
    /// After that long.
    Ends(Duration),
}

impl Hanging {
    /// The directories that hang now, and for how long their oldest operations have been under way.
    pub fn now(&self) -> Vec<(PathBuf, Duration)> {
        let seen = self.seen();
        let hang = seen.iter().filter(|(_, seen)| seen.hangs.is_some());
        hang.map(|(dir, seen)| (dir.clone(), seen.longest()))
            .collect()
    }

    /// Takes in what a shard has seen of a directory; says whether that is news.
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

    fn seen(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn longest(&self) -> Duration {
        self.of_shards.values().max().copied().unwrap_or_default()
    }
}

/// Looks at what a shard has under way in `dirs`, and says when one begins to hang and when it goes on; for ever.
pub async fn watch<P: Platform>(platform: P, shard: usize, dirs: Vec<PathBuf>, hanging: Hanging) {
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
    /// Whether an operation of this shard in a directory hangs.
    pub(crate) fn hangs(&self, dir: &Path) -> bool {
        self.platform.disk().under_way_for(dir) >= HANGS_AFTER
    }

    /// Has `work` done in a directory, by a task of its own. Nobody waits for it while the directory hangs: then it is not begun, or goes on
    /// by itself, and `None` is the answer.
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

    /// Has `work` done in a directory, by a task of its own, and waits for it, but not while the directory hangs, or a path that
    /// may have parts of what is in it: then it goes on by itself.
    pub(crate) async fn begin_in<T: 'static>(
        &self,
        dir: &Path,
        work: impl Future<Output = T> + 'static,
    ) -> Begun<T> {
        let work = task::spawn(work);
        if self.hangs(dir) {
            return Begun::Hangs(work);
        }
        let hangs = || self.hangs(dir) || self.tier_hangs();
        self.wait_unless(hangs, work).await
    }

    /// Waits for what is under way until it `hangs`, which is asked at each look.
    pub(crate) async fn wait_unless<T: 'static>(
        &self,
        mut hangs: impl FnMut() -> bool,
        mut work: JoinHandle<T>,
    ) -> Begun<T> {
        loop {
            match task::timeout(LOOK_INTERVAL, &mut work).await {
                Ok(Ok(done)) => return Begun::Done(done),
                Ok(Err(_)) => return Begun::Stopping,
                Err(_) if hangs() => return Begun::Hangs(work),
                Err(_) => {}
            }
        }
    }

    /// The same for a round of upkeep of a log, which there is another time for: not while anything hangs that the log lies in, nor
    /// before a round that was left to itself is through. `None`: not now.
    pub(crate) async fn keep_up<T: 'static>(
        &self,
        partition: &Partition<P>,
        left: &Left,
        work: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let key = (partition.topic_id, partition.name.partition);
        let log = &partition.log;
        if left.has(key) || self.log_hangs(log) {
            return None;
        }
        let mut looks = 0;
        let hangs = || {
            // What is on its way to a path, or was removed from it, is not among the segments that the log lists. Upkeep of
            // the log is under way then, and stays so. A round whose disk is slow is under way, too, but not at each look.
            let waits = log.is_under_upkeep() && self.tier_hangs();
            looks = if waits { looks + 1 } else { 0 };
            looks >= LOOKS_MAX || self.log_hangs(log)
        };
        match self.wait_unless(hangs, task::spawn(work)).await {
            Begun::Done(done) => Some(done),
            Begun::Hangs(work) => {
                left.note(key, work);
                None
            }
            Begun::Stopping => None,
        }
    }

    /// Whether a log lies in a directory that hangs, or has segments on a path that does.
    pub(crate) fn log_hangs(&self, log: &Log<P>) -> bool {
        let any_of_its = || self.dirs_of(log).iter().any(|dir| self.hangs(dir));
        self.hangs(log.dir()) || (self.tier_hangs() && any_of_its())
    }

    /// The directory that a log lies in, and the paths of tiers that it has segments on, in order.
    pub(crate) fn dirs_of(&self, log: &Log<P>) -> BTreeSet<PathBuf> {
        let tiers = self.store.tiers();
        let on = log.tiers().bytes_by_path().into_iter();
        let paths = on.filter_map(|(id, _)| tiers?.path(id));
        let paths = paths.map(|path| path.dir().to_owned());
        paths.chain([log.dir().to_owned()]).collect()
    }

    /// The directory that work in `dir` waits for: that one, or a path that may have parts of what is in it.
    pub(crate) fn waits_for<'a>(&'a self, dir: &'a Path) -> &'a Path {
        let mut dirs = [dir].into_iter().chain(self.tier_dirs());
        // By now none may hang: then it is told of the one in which the work is.
        dirs.find(|dir| self.hangs(dir)).unwrap_or(dir)
    }

    /// Whether a path of a tier hangs.
    pub(crate) fn tier_hangs(&self) -> bool {
        self.tier_dirs().any(|dir| self.hangs(dir))
    }

    /// All paths of tiers. With tiers a log in one log directory may have parts in another one, too.
    fn tier_dirs(&self) -> impl Iterator<Item = &Path> {
        let homes = self.store.tiers().map(|_| &self.options.log_dirs);
        let dirs = homes.into_iter().flatten().chain(&self.options.lower_dirs);
        dirs.map(PathBuf::as_path)
    }

    /// Waits for `work` of a stop, unless the path of a lower tier hangs and it takes too long; `None`: what is left of it is given
    /// up. It has its time whatever was waited for before.
    pub(crate) async fn unless_lower_hung<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let end = self.platform.clock().after(GIVEN_UP_AFTER);
        let dirs = &self.options.lower_dirs;
        let done = self.unless_hung_by(end, dirs, work).await;
        self.tell_given_up(dirs, done)
    }

    /// The same in some directories, for as long as all that a stop does there takes together. However long another disk has
    /// hung, what is not on it is waited for to its end.
    pub(crate) async fn unless_hung_in<T>(
        &self,
        dirs: &[PathBuf],
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let end = self.stop_begins() + GIVEN_UP_AFTER;
        let done = self.unless_hung_by(end, dirs, work).await;
        self.tell_given_up(dirs, done)
    }

    /// Says so, if what was waited for is not done.
    fn tell_given_up<T>(&self, dirs: &[PathBuf], done: Option<T>) -> Option<T> {
        if done.is_none()
            && let Some((dir, waited)) = self.given_up(dirs)
        {
            tracing::error!(dir = %dir.display(), waited_s = waited.as_secs(),
                "the stop waits no longer for a disk that does not answer: what it would have written there is left to the recovery of the next start");
        }
        done
    }

    /// When the stop began, which is now if it had not.
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

    /// The one of these directories that this shard has waited for longest, if that is too long for a stop.
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
        let hanging = Hanging::default();
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
