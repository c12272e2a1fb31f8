//! What takes long to find out for a group, done on another thread: nobody waits for it but the group's members, whose
//! next heartbeats find the result.

use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use platform::task::{self, elsewhere};
use wire::protocol::StrBytes;

use super::{GroupCoordinator, OffsetsLog};
use crate::group::consumer::Job;

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
        for (id, job) in jobs {
            if let Some(me) = self.me.upgrade() {
                task::spawn(me.find_out(partition, incarnation, id, job));
            }
        }
    }

    async fn find_out(self: Rc<Self>, partition: i32, incarnation: u64, id: StrBytes, job: Job) {
        let Ok(permit) = Arc::clone(&self.elsewhere).acquire_owned().await else {
            return;
        };
        let done = elsewhere(move || {
            // Held until it is done, also if nobody waits for it any more.
            let _permit = permit;
            job.run()
        });
        if let Some(done) = done.await {
            self.slot(partition, incarnation, |slot| {
                slot.groups.take_in(&id, done);
            });
        }
    }
}
