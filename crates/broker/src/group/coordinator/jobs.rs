//! What takes long to find out for groups, done on another thread: nobody waits for it but the groups' members, whose
//! next heartbeats find the result.
//!
//! Invariants: one job of a shard is done at a time, and for a while only; of each address one is in line for that, the
//! others wait behind it, so that nobody's many or endless jobs keep another's from their turn. What no group waits for any
//! more is not gone on with.

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::task::{self, Span, elsewhere};

use super::{GroupCoordinator, OffsetsLog};
use crate::group::groups::Work;
use crate::network::network_of_host;

/// How long one job goes on before another has its turn.
const TURN: Duration = Duration::from_millis(50);

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
