//! Timeouts of groups: one task per shard sleeps until the nearest deadline.

use std::rc::{Rc, Weak};

use platform::Platform;
use platform::clock::Instant;
use platform::sync::Notify;
use platform::task;
use wire::protocol::StrBytes;

use super::{Append, AppendReceiver, GroupCoordinator, GroupSlot, GroupSlotPhase, OffsetsLog};

/// Most groups whose offsets are checked before other tasks have the thread.
const EXPIRED_AT_ONCE_MAX: usize = 100;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Ensures that the timer task wakes in time for every group.
    pub(super) fn rearm(&self) {
        let slots = self.slots.borrow();
        let next = slots.values().filter_map(GroupSlot::next_deadline).min();
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

    /// Checks the offsets of all groups for expiry, some groups at a time.
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
                    let active = slot.phase == GroupSlotPhase::Active && !slot.stalled;
                    active.then(|| {
                        let groups = &slot.groups;
                        groups.expire_offsets(after.as_ref(), EXPIRED_AT_ONCE_MAX, now)
                    })
                });
                let Some((expired, last)) = looked.flatten() else {
                    break;
                };
                for records in expired {
                    self.enqueue(partition, Append::of(records), AppendReceiver::Nobody);
                }
                task::yield_now().await;
                after = last;
                if after.is_none() {
                    break;
                }
            }
        }
    }

    /// Handles what is due and returns when to wake next.
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
        let next = slots.values().filter_map(GroupSlot::next_deadline).min();
        let wakes = next.map_or(*check, |next| next.min(*check));
        self.wakes_at.set(Some(wakes));
        wakes
    }
}

impl GroupSlot {
    /// Returns the next deadline; none while the slot does not handle heartbeats, because it is
    /// stalled or not active.
    fn next_deadline(&self) -> Option<Instant> {
        let next = self.groups.next_deadline();
        next.filter(|_| !self.stalled && self.phase == GroupSlotPhase::Active)
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
        // Other tasks have a turn first, even if the next deadline is already due.
        task::yield_now().await;
        // Waking early or late does no harm: the next tick checks the deadlines itself.
        let _ = task::timeout_at(wakes, wake.notified()).await;
    }
}
