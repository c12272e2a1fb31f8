//! What passes between the application and the driver of a consumer, which may be on another
//! thread.
//!
//! Invariants: events are taken in the order in which they were put, but those about a revocation
//! come first; records of partitions that are given up are never taken after that. Locks are held
//! for moves in memory only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::clock::Instant;
use tokio::sync::{Notify, oneshot};
use wire::types::TopicPartition;

use super::Event;
use crate::error::{ClientError, Refusal};
use crate::fetch::{Position, Whence};

/// Most events about troubles that wait; further ones are dropped.
const NOTICES_MAX: usize = 1000;

/// The newest events among which an older end of a partition is looked for.
const NEAR_EVENTS: usize = 1000;

/// What the application asks for.
pub(super) enum Order {
    /// Commits what was stored.
    Commit(Instant, oneshot::Sender<Result<(), ClientError>>),
    /// Goes on somewhere else.
    Seek(TopicPartition, Whence),
    /// Stops fetching, or goes on.
    Pause(TopicPartition, bool),
    /// Ends in good order.
    Close(Instant, oneshot::Sender<Result<(), ClientError>>),
}

/// The mailbox.
pub(super) struct Mailbox {
    content: Mutex<Content>,
    /// Told when there is an event.
    told: Notify,
    /// Told when there is an order.
    asked: Notify,
}

struct Content {
    // Bounded: records by `Room`, ends by the partitions between records, revocations by the group,
    // the rest by `NOTICES_MAX`.
    events: VecDeque<Event>,
    notices: usize,
    orders: VecDeque<Order>,
    // Bounded: by the partitions that were read.
    stored: BTreeMap<TopicPartition, Position>,
    refusals: BTreeMap<TopicPartition, Refusal>,
    /// The application waits for an event.
    is_here: bool,
    /// When it last did.
    here_at: Instant,
    /// The driver waits for the application to be back.
    is_missed: bool,
    life: MailboxLife,
}

/// Whether both sides are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MailboxLife {
    Open,
    /// The application has gone.
    Abandoned,
    /// The driver has ended.
    Over,
}

impl Mailbox {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            content: Mutex::new(Content {
                events: VecDeque::new(),
                notices: 0,
                orders: VecDeque::new(),
                stored: BTreeMap::new(),
                refusals: BTreeMap::new(),
                is_here: false,
                here_at: now,
                is_missed: false,
                life: MailboxLife::Open,
            }),
            told: Notify::new(),
            asked: Notify::new(),
        }
    }

    /// Returns the content. A panic of another holder would leave it whole.
    fn held(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The application's side.

    /// Takes that the application waits for events, until the result is dropped.
    pub(super) fn enter(&self, now: Instant) -> Here<'_> {
        let mut content = self.held();
        content.is_here = true;
        content.here_at = now;
        if content.is_missed {
            self.asked.notify_one();
        }
        Here(self)
    }

    /// Returns the next event.
    pub(super) fn take(&self) -> Option<Event> {
        let mut content = self.held();
        let event = content.events.pop_front();
        match &event {
            Some(event) if is_notice(event) => content.notices = content.notices.saturating_sub(1),
            None if content.life == MailboxLife::Over => return Some(Event::Closed),
            _ => {}
        }
        event
    }

    /// Waits until there may be an event.
    pub(super) async fn told(&self) {
        self.told.notified().await;
    }

    /// Takes a position, unless the partition is lost and the application has not heard of it: it
    /// may be another member's, or have been given to this one again since.
    pub(super) fn store(&self, place: &TopicPartition, position: Position) {
        let mut content = self.held();
        // They come before all others.
        let mut first = content.events.iter().map_while(|event| match event {
            Event::Lost(places) => Some(places.contains(place)),
            Event::Revoking(_) => Some(false),
            _ => None,
        });
        if !first.any(|is_lost| is_lost) {
            content.stored.insert(place.clone(), position);
        }
    }

    pub(super) fn order(&self, order: Order) {
        let mut content = self.held();
        // Dropped, it is answered as closed.
        if content.life != MailboxLife::Over {
            content.orders.push_back(order);
        }
        self.asked.notify_one();
    }

    pub(super) fn refusals(&self) -> BTreeMap<TopicPartition, Refusal> {
        self.held().refusals.clone()
    }

    pub(super) fn abandon(&self) {
        let mut content = self.held();
        if content.life == MailboxLife::Open {
            content.life = MailboxLife::Abandoned;
        }
        self.asked.notify_one();
    }

    // The driver's side.

    /// Puts an event behind all others.
    pub(super) fn put(&self, event: Event) {
        let mut content = self.held();
        if is_notice(&event) {
            if content.notices >= NOTICES_MAX {
                return;
            }
            content.notices = content.notices.saturating_add(1);
        }
        content.drop_end_before(&event);
        content.events.push_back(event);
        self.told.notify_one();
    }

    /// Drops all records and ends of these partitions, then puts an event before all others.
    pub(super) fn put_first(&self, gone: &BTreeSet<TopicPartition>, event: Event) {
        let dropped = self.drop_of(gone);
        self.held().events.push_front(event);
        self.told.notify_one();
        // Their memory is given back without the lock.
        drop(dropped);
    }

    /// Drops all records and ends of a partition.
    pub(super) fn forget(&self, place: &TopicPartition) {
        let mut content = self.held();
        let all = std::mem::take(&mut content.events);
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|event| match event {
                Event::Records(records) => records.place != *place,
                Event::End { place: of, .. } => of != place,
                _ => true,
            });
        content.events = kept;
        drop(content);
        // Their memory is given back without the lock.
        drop(dropped);
    }

    /// Takes out what is about these partitions. An assignment that was not taken is without them
    /// from now on.
    fn drop_of(&self, gone: &BTreeSet<TopicPartition>) -> Vec<Event> {
        let mut content = self.held();
        let mut dropped = Vec::new();
        let all = std::mem::take(&mut content.events);
        for mut event in all {
            let is_gone = match &mut event {
                Event::Records(records) => gone.contains(&records.place),
                Event::End { place, .. } => gone.contains(place),
                Event::Assigned(places) => {
                    let had_some = !places.is_empty();
                    places.retain(|place| !gone.contains(place));
                    had_some && places.is_empty()
                }
                _ => false,
            };
            if is_gone {
                dropped.push(event);
            } else {
                content.events.push_back(event);
            }
        }
        dropped
    }

    /// Waits until there may be an order.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(super) fn next_order(&self) -> Option<Order> {
        self.held().orders.pop_front()
    }

    /// Returns true if the application holds no handle to the consumer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.held().life == MailboxLife::Abandoned
    }

    /// Returns the positions that were stored for these partitions.
    pub(super) fn stored(
        &self,
        of: &BTreeSet<TopicPartition>,
    ) -> BTreeMap<TopicPartition, Position> {
        let content = self.held();
        let stored = content
            .stored
            .iter()
            .filter(|(place, _)| of.contains(place));
        stored
            .map(|(place, position)| (place.clone(), *position))
            .collect()
    }

    /// Forgets the positions of partitions that are given up.
    pub(super) fn forget_stored(&self, gone: &BTreeSet<TopicPartition>) {
        self.held().stored.retain(|place, _| !gone.contains(place));
    }

    pub(super) fn tell_refusals(&self, refusals: BTreeMap<TopicPartition, Refusal>) {
        self.held().refusals = refusals;
    }

    /// Returns when the application will have been away for so long; `None` while it waits for
    /// events.
    pub(super) fn away_until(&self, longest: Duration) -> Option<Instant> {
        let content = self.held();
        if content.is_here {
            return None;
        }
        Some(crate::pauses::later(content.here_at, longest))
    }

    /// Takes whether the driver waits for the application to be back.
    pub(super) fn miss(&self, is_missed: bool) {
        self.held().is_missed = is_missed;
    }

    /// Takes that nothing comes any more: orders that wait are dropped.
    pub(super) fn end(&self) {
        let orders = {
            let mut content = self.held();
            content.life = MailboxLife::Over;
            std::mem::take(&mut content.orders)
        };
        drop(orders);
        self.told.notify_one();
    }
}

impl Content {
    /// Drops an end that an event tells again. Positions move without records, too (aborted
    /// transactions), and an application that is away would find an end for each.
    fn drop_end_before(&mut self, event: &Event) {
        let Event::End { place: ended, .. } = event else {
            return;
        };
        let near = self.events.iter().enumerate().rev().take(NEAR_EVENTS);
        let about_it = near.filter(|(_, event)| match event {
            Event::End { place, .. } => place == ended,
            Event::Records(records) => records.place == *ended,
            _ => false,
        });
        let newest = about_it.map(|(at, event)| (at, matches!(event, Event::End { .. })));
        if let Some((at, true)) = newest.take(1).last() {
            self.events.remove(at);
        }
    }
}

/// The application, waiting for events.
pub(super) struct Here<'a>(&'a Mailbox);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let mut content = self.0.held();
        content.is_here = false;
        content.here_at = Instant::now();
    }
}

/// Returns true for events that may be dropped when there are too many.
fn is_notice(event: &Event) -> bool {
    matches!(
        event,
        Event::Trouble(_) | Event::Failed { .. } | Event::Truncated { .. }
    )
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: i32) -> TopicPartition {
        TopicPartition {
            topic: "t".into(),
            partition,
        }
    }

    fn at(offset: i64) -> Position {
        let epoch = None;
        Position { offset, epoch }
    }

    #[test]
    fn what_is_lost_is_not_stored_until_the_application_has_heard_of_it() {
        let mailbox = Mailbox::new(Instant::now());
        let both = BTreeSet::from([place(0), place(1)]);
        let lost = BTreeSet::from([place(0)]);
        mailbox.store(&place(0), at(5));
        mailbox.forget_stored(&lost);
        mailbox.put_first(&lost, Event::Lost(lost.clone()));
        // The group gives it back at once, behind another member's position.
        mailbox.put(Event::Assigned(lost.clone()));
        mailbox.store(&place(0), at(7));
        mailbox.store(&place(1), at(8));
        assert_eq!(mailbox.stored(&both), BTreeMap::from([(place(1), at(8))]));
        assert!(matches!(mailbox.take(), Some(Event::Lost(_))));
        mailbox.store(&place(0), at(20));
        assert_eq!(mailbox.stored(&lost), BTreeMap::from([(place(0), at(20))]));
    }

    #[test]
    fn ends_that_nobody_takes_are_one_for_each_partition() {
        let mailbox = Mailbox::new(Instant::now());
        for offset in 0..1000 {
            for partition in 0..3 {
                let place = place(partition);
                mailbox.put(Event::End { place, offset });
            }
        }
        let left = std::iter::from_fn(|| mailbox.take()).map(|event| match event {
            Event::End { place, offset } => (place.partition, offset),
            other => panic!("{other:?}"),
        });
        assert_eq!(left.collect::<Vec<_>>(), [(0, 999), (1, 999), (2, 999)]);
    }
}
