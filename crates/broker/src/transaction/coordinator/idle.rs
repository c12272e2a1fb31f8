//! What time does to transactional ids: overdue transactions are aborted, unused ids forgotten.

use std::rc::Rc;

use platform::Platform;
use platform::clock::Reading;
use platform::task::yield_now;
use wire::types::ErrorCode;

use super::{Change, FORGOTTEN_AT_ONCE, TransactionCoordinator, TransactionSlotPhase};
use crate::join::join_all;
use crate::transaction::log::{self, TransactionAppendError};
use crate::transaction::machine::Transaction;
use crate::transaction::metrics::TransactionEnd;
use crate::transaction::state::{self, Entry};

impl<P: Platform> TransactionCoordinator<P> {
    /// Aborts transactions that exceeded their timeout.
    pub(crate) async fn abort_overdue(self: &Rc<Self>) {
        self.count_bytes();
        let now_ms = self.now_ms();
        let up_ms = i64::try_from(self.born.elapsed().as_millis()).unwrap_or(i64::MAX);
        for partition in self.partitions() {
            let mut after = None;
            loop {
                let see = |it: &mut Transaction| it.time_out(now_ms, up_ms);
                for (change, entry) in self.sweep_some(partition, &mut after, see) {
                    tracing::info!(
                        id = change.id,
                        "a transaction has taken too long and is aborted"
                    );
                    platform::task::spawn(Rc::clone(self).abort(change, entry));
                }
                yield_now().await;
                if after.is_none() {
                    break;
                }
            }
        }
    }

    async fn abort(self: Rc<Self>, change: Change, entry: Entry) {
        let id = change.id.clone();
        let decided = self.decide(change, entry, TransactionEnd::TimedOut).await;
        if let Err(code) = decided {
            tracing::warn!(id, ?code, "an overdue transaction could not be aborted");
        }
    }

    /// Begins to remove ids that were not used for long.
    ///
    /// Each partition has a task of its own, so that one whose log has no room, or is on a disk
    /// that hangs, does not delay the others; the next task of a partition begins only after the
    /// last one ended.
    pub(crate) fn forget_idle(self: &Rc<Self>) {
        let Ok(broker) = self.broker() else { return };
        let expiration = broker.options.transaction.id_expiration.as_millis();
        let expiration_ms = i64::try_from(expiration).unwrap_or(i64::MAX);
        let now = broker.platform.clock().reading();
        drop(broker);
        for (partition, slot) in self.slots.borrow_mut().iter_mut() {
            if slot.phase != TransactionSlotPhase::Active
                || std::mem::replace(&mut slot.is_swept, true)
            {
                continue;
            }
            let (me, partition, incarnation) = (Rc::clone(self), *partition, slot.incarnation);
            platform::task::spawn(async move {
                me.forget_idle_of(partition, incarnation, expiration_ms, now)
                    .await;
                let mut slots = me.slots.borrow_mut();
                let slot = slots.get_mut(&partition);
                if let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) {
                    slot.is_swept = false;
                }
            });
        }
    }

    async fn forget_idle_of(
        self: &Rc<Self>,
        partition: i32,
        incarnation: u64,
        expiration_ms: i64,
        now: Reading,
    ) {
        let mut after = None;
        while self.is_served(partition, incarnation) {
            let see = |it: &mut Transaction| it.expire(expiration_ms, now).then_some(());
            let found = self.sweep_some(partition, &mut after, see);
            let mut found = found.into_iter().map(|(change, ())| self.forget(change));
            // Up to a million may be removed, but not concurrently.
            while found.len() > 0 {
                join_all(found.by_ref().take(FORGOTTEN_AT_ONCE)).await;
            }
            yield_now().await;
            if after.is_none() {
                break;
            }
        }
    }

    /// Returns whether the ids of a partition are served, in the same leadership as before.
    fn is_served(&self, partition: i32, incarnation: u64) -> bool {
        let slots = self.slots.borrow();
        let slot = slots.get(&partition);
        slot.is_some_and(|slot| {
            slot.incarnation == incarnation && slot.phase == TransactionSlotPhase::Active
        })
    }

    async fn forget(self: &Rc<Self>, change: Change) {
        // Other ids may have been removed first, which takes time.
        if !self.is_served(change.partition, change.incarnation) {
            return;
        }
        let written = match (self.broker(), self.led(change.partition)) {
            (Ok(broker), Ok(partition)) => {
                let record = (state::key(&change.id), None);
                log::append(&broker, &partition, record).await
            }
            _ => Err(TransactionAppendError::Refused(ErrorCode::NotCoordinator)),
        };
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&change.partition) else {
            return;
        };
        if slot.incarnation != change.incarnation {
            return;
        }
        match written {
            Ok(()) => {
                slot.by_id.remove(&change.id);
            }
            Err(TransactionAppendError::Refused(code)) => {
                tracing::warn!(
                    id = change.id,
                    ?code,
                    "an unused transactional id was not removed"
                );
                slot.by_id.settle(&change.id, None);
            }
            Err(TransactionAppendError::Unknown) => {
                drop(slots);
                self.fail(change.partition, change.incarnation);
            }
        }
    }
}
