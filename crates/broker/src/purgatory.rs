//! Requests that wait for a partition to make progress.
//!
//! A fetch with too little data registers at every partition it reads on this shard, each time with the number of bytes
//! that must become readable there before it is worth asking again, and sleeps. Progress of a partition wakes those
//! whose number is reached, in the order of these numbers: who waits for more costs an append nothing.
//! Invariants: a registration is gone from its partition as soon as it is dropped, so that a request that was given up
//! leaves nothing behind; nothing here polls. Memory: one entry for each partition of a waiting fetch, which the bounds
//! on requests in flight hold down.
//! Not here: what is enough (`fetching.rs`), how far readers may read (`partition.rs`).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use platform::sync::Notify;
use wire::types::Offset;

/// One sleeping request.
#[derive(Default)]
pub(crate) struct Waiter {
    notify: Notify,
    /// What it calls the partitions that have reached its numbers since it was last woken.
    // Bounded: the partitions of one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    reached: RefCell<Vec<usize>>,
    /// A partition has ended, or is not what it was: everything has to be asked anew.
    alarmed: Cell<bool>,
}

/// Why a request was woken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// These partitions have come as far as it asked.
    Reached(Vec<usize>),
    /// A partition is not what it was.
    Alarm,
}

impl Waiter {
    pub(crate) fn sleeping() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// Completes when a partition it was registered at has something for it, also if that was before the call.
    pub(crate) async fn woken(&self) -> Woken {
        loop {
            if self.alarmed.get() {
                return Woken::Alarm;
            }
            let reached = std::mem::take(&mut *self.reached.borrow_mut());
            if !reached.is_empty() {
                return Woken::Reached(reached);
            }
            self.notify.notified().await;
        }
    }

    fn reach(&self, place: usize) {
        self.reached.borrow_mut().push(place);
        self.notify.notify_one();
    }

    fn alarm(&self) {
        self.alarmed.set(true);
        self.notify.notify_one();
    }
}

/// A waiter's place in the order: the count of bytes that it waits for, and a number that no other has.
type Place = (u64, u64);

/// The requests that wait at one partition for one readable end to move.
#[derive(Default)]
pub(crate) struct Waiters(Rc<Queue>);

#[derive(Default)]
struct Queue {
    /// The readable end that `grown` is about.
    end: Cell<Offset>,
    /// Bytes that became readable while somebody waited, since the first one did.
    grown: Cell<u64>,
    serial: Cell<u64>,
    /// Each waiter, and what it calls this partition. Bound: those of requests in flight.
    // Bounded: one for each partition of a waiting request, `wire::kafka::shape::DECODED_BYTES_MAX` and `queued.max.request.bytes`.
    waiting: RefCell<BTreeMap<Place, (Rc<Waiter>, usize)>>,
}

/// Keeps a request among the waiters of a partition; dropped, it is none of them any more.
pub(crate) struct Registration {
    queue: Weak<Queue>,
    place: Place,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.waiting.borrow_mut().remove(&self.place);
        }
    }
}

impl Waiters {
    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.0.waiting.borrow().len()
    }

    /// Wakes `waiter`, which calls this partition `name`, once `bytes` more than now are readable. `None`: only when
    /// the partition is not any more what it was. Readers may read up to `end` now.
    pub(crate) fn register(
        &self,
        waiter: &Rc<Waiter>,
        name: usize,
        bytes: Option<u64>,
        end: Offset,
        between: impl Fn(Offset, Offset) -> usize,
    ) -> Registration {
        if self.0.waiting.borrow().is_empty() {
            self.0.end.set(end);
        } else {
            self.advance(end, between);
        }
        let queue = &self.0;
        let serial = queue.serial.get();
        queue.serial.set(serial.wrapping_add(1));
        let due = bytes.map_or(u64::MAX, |bytes| {
            queue.grown.get().saturating_add(bytes.max(1))
        });
        let place = (due, serial);
        let entry = (Rc::clone(waiter), name);
        let taken = queue.waiting.borrow_mut().insert(place, entry);
        assert!(taken.is_none(), "a place is one waiter's");
        Registration {
            queue: Rc::downgrade(queue),
            place,
        }
    }

    /// Readers may read up to `end` now; `between` says how many bytes lie between two offsets, or more than that.
    pub(crate) fn advance(&self, end: Offset, between: impl Fn(Offset, Offset) -> usize) {
        let queue = &self.0;
        if queue.waiting.borrow().is_empty() {
            return;
        }
        let before = queue.end.replace(end);
        if end < before {
            return self.alarm();
        }
        if end == before {
            return;
        }
        let grown = queue.grown.get();
        let grown = grown.saturating_add(between(before, end) as u64);
        queue.grown.set(grown);
        let mut waiting = queue.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry()
            && first.key().0 <= grown
        {
            let (waiter, name) = first.remove();
            waiter.reach(name);
        }
    }

    /// Wakes everybody: the partition has ended, or is led in another way than before.
    pub(crate) fn alarm(&self) {
        let waiting = std::mem::take(&mut *self.0.waiting.borrow_mut());
        for (waiter, _) in waiting.into_values() {
            waiter.alarm();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition whose offsets are its bytes.
    fn between(from: Offset, to: Offset) -> usize {
        usize::try_from(to.0 - from.0).unwrap()
    }

    fn woken(waiter: &Waiter) -> Option<Woken> {
        use std::future::Future;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(waiter.woken()).poll(&mut context) {
            std::task::Poll::Ready(woken) => Some(woken),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn progress_wakes_those_whose_number_is_reached_and_nobody_else() {
        let waiters = Waiters::default();
        let few = Waiter::sleeping();
        let many = Waiter::sleeping();
        let _few = waiters.register(&few, 7, Some(10), Offset(100), between);
        let _many = waiters.register(&many, 8, Some(1000), Offset(100), between);
        waiters.advance(Offset(109), between);
        assert_eq!((woken(&few), woken(&many)), (None, None));
        waiters.advance(Offset(110), between);
        assert_eq!(woken(&few), Some(Woken::Reached(vec![7])));
        assert_eq!(woken(&many), None);
        assert_eq!(waiters.count(), 1);
        waiters.advance(Offset(2000), between);
        assert_eq!(woken(&many), Some(Woken::Reached(vec![8])));
        assert_eq!(waiters.count(), 0);
    }

    #[test]
    fn what_grew_before_somebody_came_is_not_counted_for_him() {
        let waiters = Waiters::default();
        let first = Waiter::sleeping();
        let _first = waiters.register(&first, 0, Some(1000), Offset(0), between);
        let second = Waiter::sleeping();
        // The partition has moved, and nobody has said so yet.
        let _second = waiters.register(&second, 0, Some(100), Offset(500), between);
        waiters.advance(Offset(599), between);
        assert_eq!(woken(&second), None);
        waiters.advance(Offset(600), between);
        assert!(woken(&second).is_some() && woken(&first).is_none());
        waiters.advance(Offset(1000), between);
        assert!(woken(&first).is_some());
    }

    #[test]
    fn who_goes_away_leaves_nothing_behind() {
        let waiters = Waiters::default();
        let waiter = Waiter::sleeping();
        let registered: Vec<_> = (0..100)
            .map(|name| waiters.register(&waiter, name, Some(5), Offset(0), between))
            .collect();
        assert_eq!(waiters.count(), 100);
        drop(registered);
        assert_eq!(waiters.count(), 0);
        assert_eq!(Rc::strong_count(&waiter), 1);
    }

    #[test]
    fn an_end_that_goes_back_and_an_alarm_wake_everybody() {
        for end in [Some(Offset(10)), None] {
            let waiters = Waiters::default();
            let waiter = Waiter::sleeping();
            let _registered = waiters.register(&waiter, 0, None, Offset(50), between);
            waiters.advance(Offset(1_000_000), between);
            assert_eq!(woken(&waiter), None, "it waits for no bytes");
            match end {
                Some(end) => waiters.advance(end, between),
                None => waiters.alarm(),
            }
            assert_eq!(woken(&waiter), Some(Woken::Alarm));
        }
    }
}
