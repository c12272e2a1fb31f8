//! What takes long to find out for groups, done on another thread: nobody waits for it but the groups' members, whose
//! next heartbeats find the result.
//!
//! Invariants: one job of a shard is done at a time, and for a while only; of each address one is in line for that, the
//! others wait behind it, so that nobody's many or endless jobs keep another's from their turn. What no group waits for any
//! more is not gone on with.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use platform::Platform;
use platform::sync::{OwnedSemaphorePermit, Semaphore};
use platform::task::{self, Span, elsewhere};
use wire::protocol::StrBytes;

use super::{GroupCoordinator, OffsetsLog};
use crate::group::groups::Work;

/// How long one job goes on before another has its turn.
const TURN: Duration = Duration::from_millis(50);

/// Who is in line.
pub(super) struct Queues {
    shard: Arc<Semaphore>,
    // Bounded: addresses with a job, of which each has a group, `groups::GROUPS_MAX`.
    by_host: RefCell<BTreeMap<StrBytes, Weak<Semaphore>>>,
}

/// A turn; ends when it is dropped.
type Turn = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Default for Queues {
    fn default() -> Self {
        Self {
            shard: Arc::new(Semaphore::new(1)),
            by_host: RefCell::default(),
        }
    }
}

impl Queues {
    /// The line of an address.
    fn of(&self, host: &StrBytes) -> Arc<Semaphore> {
        let mut by_host = self.by_host.borrow_mut();
        if let Some(line) = by_host.get(host).and_then(Weak::upgrade) {
            return line;
        }
        by_host.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Semaphore::new(1));
        by_host.insert(host.clone(), Arc::downgrade(&line));
        line
    }

    /// Waits for a turn of somebody in that line. They are never closed.
    async fn turn(&self, line: &Arc<Semaphore>) -> Option<Turn> {
        let first = Arc::clone(line).acquire_owned().await.ok()?;
        let turn = Arc::clone(&self.shard).acquire_owned().await.ok()?;
        Some((first, turn))
    }
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Begins what decisions on groups of the partition have left to be found out.
    pub(super) fn begin_jobs(&self, partition: i32) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&partition) else {
            return;
        };
        if slot.groups.jobs.is_empty() {
            return;
        }
        let jobs = std::mem::take(&mut slot.groups.jobs);
        let incarnation = slot.incarnation;
        drop(slots);
        for work in jobs {
            if let Some(me) = self.me.upgrade() {
                task::spawn(me.find_out(partition, incarnation, work));
            }
        }
    }

    async fn find_out(self: Rc<Self>, partition: i32, incarnation: u64, work: Work) {
        let Work {
            group,
            host,
            mut job,
        } = work;
        let line = self.elsewhere.of(&host);
        loop {
            let Some(turn) = self.elsewhere.turn(&line).await else {
                return;
            };
            let awaited = self.slot(partition, incarnation, |slot| {
                slot.groups.awaits(&group, &job)
            });
            if awaited != Some(true) {
                return;
            }
            let gone_on = elsewhere(move || {
                // Held until it is over, also if nobody waits for it any more.
                let _turn = turn;
                let span = Span::of(TURN);
                job.go_on(&|| span.is_over())
            });
            match gone_on.await {
                Some(Err(rest)) => job = rest,
                Some(Ok(done)) => {
                    self.slot(partition, incarnation, |slot| {
                        slot.groups.take_in(&group, done);
                    });
                    return;
                }
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn many_jobs_of_one_address_keep_another_only_from_every_second_turn() {
        let lines = Queues::default();
        let (mine, theirs) = (
            StrBytes::from_static_str("a"),
            StrBytes::from_static_str("b"),
        );
        let mut cx = Context::from_waker(Waker::noop());
        let (mine, theirs) = (lines.of(&mine), lines.of(&theirs));
        let mut all: Vec<_> = (0..100).map(|_| Box::pin(lines.turn(&mine))).collect();
        let ready: Vec<_> = all
            .iter_mut()
            .map(|turn| turn.as_mut().poll(&mut cx))
            .collect();
        let mut other = Box::pin(lines.turn(&theirs));
        assert!(other.as_mut().poll(&mut cx).is_pending());
        assert_eq!(ready.iter().filter(|turn| turn.is_ready()).count(), 1);
        drop(ready);
        assert!(matches!(other.as_mut().poll(&mut cx), Poll::Ready(Some(_))));
        assert_eq!(lines.by_host.borrow().len(), 2);
        drop((all, other));
        drop((mine, theirs));
        lines.of(&StrBytes::from_static_str("c"));
        assert_eq!(lines.by_host.borrow().len(), 1, "only who has a job");
    }
}
