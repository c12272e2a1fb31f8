//! Counts of the changes of partitions, which all shards read without a message.
//!
//! Each shard counts, in a table of a fixed size, what may change what a fetch finds at one of its
//! partitions: an offset that moves, an epoch, the end of its leadership. Partitions share places.
//! So a count that is the same means that none of its partitions has changed; one that is not means
//! nothing. Who found nothing at some partitions keeps the counts from before it looked, and need
//! not ask again as long as they are the same; it sleeps until one is not.
//!
//! Invariants: a change is made before it is counted, without a wait in between; a sleeper first
//! asks to be woken and then compares, and a shard first counts and then looks who asks, so one of
//! the two sees the other. A shard sends word of a change only to those that asked.
//! Not here: what a fetch found (`fetching/quiet.rs`), waits for some bytes (`purgatory.rs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use platform::sync::Notify;
use wire::types::TopicId;

/// Counters of each shard's table, of 16 bytes each. With fewer, a busy partition wakes readers of
/// others more often.
const PLACES: usize = 2048;

/// The table of one shard.
pub(crate) struct Counts(Box<[ChangeCounter]>);

/// What partitions that share a place have in common.
#[derive(Default)]
struct ChangeCounter {
    changes: AtomicU64,
    /// The shards that ask to be told of the next change, a bit each; those beyond 64 share.
    asking: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        Self((0..PLACES).map(|_| ChangeCounter::default()).collect())
    }
}

impl Counts {
    fn at(&self, place: usize) -> &ChangeCounter {
        let Some(place) = self.0.get(place) else {
            unreachable!("a remainder is less than the number of places");
        };
        place
    }
}

/// The count of a partition's changes at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SeenCount {
    shard: usize,
    place: usize,
    changes: u64,
}

/// The tables of all shards, as seen from one of them, and who sleeps here.
pub(crate) struct Changes {
    me: usize,
    counts: Vec<Arc<Counts>>,
    /// Sends word of a change of a place to another shard, which calls [`Changes::wake`].
    send: Box<dyn Fn(usize, usize)>,
    /// Who sleeps until a place changes.
    // Bounded: a few for each waiting fetch, `queued.max.request.bytes`.
    asleep: RefCell<BTreeMap<(usize, usize, u64), Rc<Notify>>>,
    serial: Cell<u64>,
}

/// One that sleeps; dropping it removes it.
struct Sleeper<'a> {
    changes: &'a Changes,
    seen: &'a [SeenCount],
    serial: u64,
    notify: Rc<Notify>,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let mut asleep = self.changes.asleep.borrow_mut();
        for seen in self.seen {
            asleep.remove(&(seen.shard, seen.place, self.serial));
        }
    }
}

impl Changes {
    pub(crate) fn new(
        me: usize,
        counts: Vec<Arc<Counts>>,
        send: impl Fn(usize, usize) + 'static,
    ) -> Rc<Self> {
        assert!(me < counts.len(), "each shard has a table");
        Rc::new(Self {
            me,
            counts,
            send: Box::new(send),
            asleep: RefCell::default(),
            serial: Cell::default(),
        })
    }

    /// Returns the place of a partition in the table of its shard.
    pub(crate) fn place_of((topic, partition): (TopicId, i32)) -> usize {
        let (high, low) = topic.0.as_u64_pair();
        let spread = (high ^ low).wrapping_add(u64::from(partition.unsigned_abs()));
        // The upper bits of the product depend on all bits of the sum.
        let spread = spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(spread).unwrap_or(0) % PLACES
    }

    /// Returns the present count of a partition's changes.
    pub(crate) fn seen(&self, shard: usize, target: (TopicId, i32)) -> SeenCount {
        let place = Self::place_of(target);
        SeenCount {
            shard,
            place,
            changes: self.at(shard, place).changes.load(Ordering::SeqCst),
        }
    }

    /// Returns true if all counts are still the same.
    pub(crate) fn are_same(&self, seen: &[SeenCount]) -> bool {
        let changes = |seen: &SeenCount| &self.at(seen.shard, seen.place).changes;
        seen.iter()
            .all(|seen| changes(seen).load(Ordering::SeqCst) == seen.changes)
    }

    /// Completes when one of the counts is not the same.
    pub(crate) async fn changed(&self, seen: &[SeenCount]) {
        let sleeper = self.sleeper(seen);
        let me = bit(self.me);
        loop {
            for seen in seen {
                let asking = &self.at(seen.shard, seen.place).asking;
                if asking.load(Ordering::SeqCst) & me == 0 {
                    asking.fetch_or(me, Ordering::SeqCst);
                }
            }
            if !self.are_same(seen) {
                return;
            }
            // Another partition of a place may have changed before it was looked at.
            sleeper.notify.notified().await;
        }
    }

    /// Counts a change of a partition of this shard, after it was made.
    pub(crate) fn count(&self, place: usize) {
        let at = self.at(self.me, place);
        at.changes.fetch_add(1, Ordering::SeqCst);
        if at.asking.load(Ordering::SeqCst) == 0 {
            return;
        }
        let asking = at.asking.swap(0, Ordering::SeqCst);
        for shard in 0..self.counts.len() {
            if asking & bit(shard) == 0 {
                continue;
            }
            if shard == self.me {
                self.wake(shard, place);
            } else {
                (self.send)(shard, place);
            }
        }
    }

    /// Wakes those that sleep here until a place of a shard changes.
    pub(crate) fn wake(&self, shard: usize, place: usize) {
        let asleep = self.asleep.borrow();
        for (_, notify) in asleep.range((shard, place, 0)..=(shard, place, u64::MAX)) {
            notify.notify_one();
        }
    }

    fn sleeper<'a>(&'a self, seen: &'a [SeenCount]) -> Sleeper<'a> {
        let serial = self.serial.get();
        self.serial.set(serial.wrapping_add(1));
        let notify = Rc::new(Notify::new());
        let mut asleep = self.asleep.borrow_mut();
        for seen in seen {
            asleep.insert((seen.shard, seen.place, serial), Rc::clone(&notify));
        }
        Sleeper {
            changes: self,
            seen,
            serial,
            notify,
        }
    }

    fn at(&self, shard: usize, place: usize) -> &ChangeCounter {
        let Some(counts) = self.counts.get(shard) else {
            unreachable!("a shard of this process has a table");
        };
        counts.at(place)
    }
}

fn bit(shard: usize) -> u64 {
    1 << (shard % 64)
}
