//! Requests that wait for a partition to make progress.
//!
//! A fetch with too little data registers at every partition that it reads on this shard, each time
//! with the number of bytes that must become readable there before another look can help, and
//! sleeps. Progress of a partition wakes the fetches whose number is reached, in the order of these
//! numbers: a fetch that waits for more costs an append nothing.
//!
//! Invariants: dropping a registration removes it from its partition, so that an abandoned request
//! leaves nothing behind; nothing here polls. Memory: one entry for each partition of a waiting
//! fetch, bounded by the bounds on requests in flight. Not here: how much data is enough
//! (`fetching.rs`), how far readers may read (`partition.rs`).

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
    /// The request's names of the partitions that have reached their numbers since it was last
    /// woken.
    // Bounded: the partitions of one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    reached: RefCell<Vec<usize>>,
    /// Set when a partition has ended or has changed: the request must ask everything again.
    alarmed: Cell<bool>,
}

/// Why a request was woken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WakeReason {
    /// These partitions have as many readable bytes as the request asked for.
    Reached(Vec<usize>),
    /// A partition has ended or has changed.
    Alarm,
}

impl Waiter {
    pub(crate) fn sleeping() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// Completes when a partition of the request has reached its number or raised an alarm, even
    /// before the call.
    pub(crate) async fn woken(&self) -> WakeReason {
        loop {
            if self.alarmed.get() {
                return WakeReason::Alarm;
            }
            let reached = std::mem::take(&mut *self.reached.borrow_mut());
            if !reached.is_empty() {
                return WakeReason::Reached(reached);
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

/// A waiter's place in the order: the value of `grown` that it waits for, and a serial number.
type WaiterPlace = (u64, u64);

/// The requests that wait at one partition for one readable end to move.
#[derive(Default)]
pub(crate) struct Waiters(Rc<Queue>);

#[derive(Default)]
struct Queue {
    /// The readable end up to which `grown` counts.
    end: Cell<Offset>,
    /// Bytes that became readable since the first of the present waiters came.
    grown: Cell<u64>,
    serial: Cell<u64>,
    /// Each waiter, and its name for this partition.
    // Bounded: one for each partition of a waiting request, `wire::kafka::shape::DECODED_BYTES_MAX`
    // and `queued.max.request.bytes`.
    waiting: RefCell<BTreeMap<WaiterPlace, (Rc<Waiter>, usize)>>,
}

/// Keeps a request among the waiters of a partition; dropping it removes the request.
pub(crate) struct Registration {
    queue: Weak<Queue>,
    place: WaiterPlace,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.waiting.borrow_mut().remove(&self.place);
        }
    }
}

impl Waiters {
    /// Returns the number of waiters.
    pub(crate) fn count(&self) -> usize {
        self.0.waiting.borrow().len()
    }

    /// Wakes `waiter`, which calls this partition `name`, once `bytes` more than now are readable.
    ///
    /// If `bytes` is `None`, only an alarm wakes it. Readers may read up to `end` now.
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

    /// Records that readers may read up to `end` now, and wakes the waiters whose numbers are
    /// reached.
    ///
    /// `between` returns the number of bytes between two offsets, or more.
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

    /// Wakes all waiters: the partition has ended, or its leadership has changed.
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

    /// Counts one byte for each offset.
    fn between(from: Offset, to: Offset) -> usize {
        usize::try_from(to.0 - from.0).unwrap()
    }

    fn woken(waiter: &Waiter) -> Option<WakeReason> {
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
        assert_eq!(woken(&few), Some(WakeReason::Reached(vec![7])));
        assert_eq!(woken(&many), None);
        assert_eq!(waiters.count(), 1);
        waiters.advance(Offset(2000), between);
        assert_eq!(woken(&many), Some(WakeReason::Reached(vec![8])));
        assert_eq!(waiters.count(), 0);
    }

    #[test]
    fn what_grew_before_somebody_came_is_not_counted_for_him() {
        let waiters = Waiters::default();
        let first = Waiter::sleeping();
        let _first = waiters.register(&first, 0, Some(1000), Offset(0), between);
        let second = Waiter::sleeping();
        // The partition has grown, and `advance` was not called yet.
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
            assert_eq!(woken(&waiter), Some(WakeReason::Alarm));
        }
    }
}
