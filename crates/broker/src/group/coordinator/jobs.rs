//! Jobs of groups, done on another thread: no request waits for the result; the next heartbeat of a
//! member finds it.
//!
//! Invariants: a shard runs one job at a time, for a limited turn; each address has one job in line
//! and its other jobs wait behind it, so that many or endless jobs of one address do not keep
//! another's from their turn. A job whose result no group awaits is not continued.

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::task::{self, Span, elsewhere};

use super::{GroupCoordinator, OffsetsLog};
use crate::group::groups::Work;
use crate::network::network_of_host;

/// How long one job runs before another has its turn.
const TURN: Duration = Duration::from_millis(50);

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Begins the jobs that decisions on groups of the partition have left.
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
        let line = self.elsewhere.of(&network_of_host(&host));
        loop {
            let turn = self.elsewhere.turn(&line).await;
            let awaited = self.slot(partition, incarnation, |slot| {
                slot.groups.awaits(&group, &job)
            });
            if awaited != Some(true) {
                return;
            }
            let gone_on = elsewhere(move || {
                // Holds the turn until the job stops, even if its task is dropped.
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
