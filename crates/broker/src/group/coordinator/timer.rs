//! Time for groups: one task per shard that sleeps until the nearest deadline.

use std::rc::{Rc, Weak};

use platform::Platform;
use platform::clock::Instant;
use platform::sync::Notify;
use platform::task;
use wire::protocol::StrBytes;

use super::{Append, Done, GroupCoordinator, OffsetsLog, Phase, Slot};

/// Groups whose offsets are looked at before others have the thread.
const EXPIRED_AT_ONCE_MAX: usize = 100;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Makes sure that the task wakes in time for every group.
    pub(super) fn rearm(&self) {
        let slots = self.slots.borrow();
        let next = slots.values().filter_map(Slot::next_deadline).min();
        match (self.wakes_at.get(), next) {
            (None, _) if !slots.is_empty() => {
                let first = self.next_check();
                self.wakes_at
                    .set(Some(next.map_or(first, |next| next.min(first))));
                task::spawn(run(self.me.clone(), Rc::clone(&self.wake), first));
            }
            (Some(wakes), Some(next)) if next < wakes => {
                self.wakes_at.set(Some(next));
                self.wake.notify_one();
            }
            _ => {}
        }
    }

    fn next_check(&self) -> Instant {
        self.platform.clock().now() + self.options.offsets_retention_check
    }

    fn expire(&self) {
        let now = self.now();
        let cluster = self.log.cluster();
        let mut slots = self.slots.borrow_mut();
        let due = slots.iter_mut().filter(|(_, slot)| {
            let next = slot.next_deadline();
            next.is_some_and(|deadline| deadline <= now.at)
        });
        let due: Vec<_> = due
            .map(|(index, slot)| (*index, slot.groups.expire(now, &cluster)))
            .collect();
        drop(slots);
        for (partition, outcome) in due {
            self.carry_out(partition, outcome);
        }
    }

    /// Looks through all groups for offsets that have expired, some at a time.
    async fn expire_offsets(self: Rc<Self>) {
        let slots: Vec<(i32, u64)> = {
            let slots = self.slots.borrow();
            let all = slots.iter();
            all.map(|(partition, slot)| (*partition, slot.incarnation))
                .collect()
        };
        for (partition, incarnation) in slots {
            let mut after: Option<StrBytes> = None;
            loop {
                let now = self.now();
                let looked = self.slot(partition, incarnation, |slot| {
                    let active = slot.phase == Phase::Active && !slot.stalled;
                    active.then(|| {
                        let groups = &slot.groups;
                        groups.expire_offsets(after.as_ref(), EXPIRED_AT_ONCE_MAX, now)
                    })
                });
                let Some((expired, last)) = looked.flatten() else {
                    break;
                };
                for records in expired {
                    self.enqueue(partition, Append::of(records), Done::Nobody);
                }
                task::yield_now().await;
                after = last;
                if after.is_none() {
                    break;
                }
            }
        }
    }

    /// Does what is due and says when to come back.
    fn tick(&self, check: &mut Instant) -> Instant {
        self.expire();
        if *check <= self.platform.clock().now() {
            *check = self.next_check();
            if let Some(me) = self.me.upgrade() {
                task::spawn(me.expire_offsets());
            }
        }
        let slots = self.slots.borrow();
        let bytes = slots.values().map(|slot| slot.groups.bytes());
        let bytes = i64::try_from(bytes.fold(0, usize::saturating_add)).unwrap_or(i64::MAX);
        let before = self.counted_bytes.replace(bytes);
        self.metrics
            .state_bytes
            .inc_by(bytes.saturating_sub(before));
        let next = slots.values().filter_map(Slot::next_deadline).min();
        let wakes = next.map_or(*check, |next| next.min(*check));
        self.wakes_at.set(Some(wakes));
        wakes
    }
}

impl Slot {
    /// Nobody's time runs out while the log is behind, or is being read: no one could have been heard.
    fn next_deadline(&self) -> Option<Instant> {
        let next = self.groups.next_deadline();
        next.filter(|_| !self.stalled && self.phase == Phase::Active)
    }
}

impl<P: Platform, L: OffsetsLog> Drop for GroupCoordinator<P, L> {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

async fn run<P: Platform, L: OffsetsLog>(
    coordinator: Weak<GroupCoordinator<P, L>>,
    wake: Rc<Notify>,
    mut check: Instant,
) {
    loop {
        let Some(alive) = coordinator.upgrade() else {
            return;
        };
        let wakes = alive.tick(&mut check);
        drop(alive);
        // Whatever is due at once, everybody else gets a turn before.
        task::yield_now().await;
        // Woken early or late makes no difference: the next tick looks for itself.
        let _ = task::timeout_at(wakes, wake.notified()).await;
    }
}
