//! How a partition of `__transaction_state` is loaded, served and given up.
//!
//! Invariant: what a load reads counts only for the slot, by its incarnation, for which it began.

use std::rc::Rc;

use platform::Platform;
use platform::clock::Instant;
use platform::task::yield_now;

use super::survey::{AT_ONCE, discard};
use super::{TransactionCoordinator, TransactionSlot, TransactionSlotPhase};
use crate::partition::Partition;
use crate::rests::Rests;
use crate::transaction::machine::Transaction;
use crate::transaction::weight::Ids;
use crate::transaction::{log, markers};

impl<P: Platform> TransactionCoordinator<P> {
    /// Begins to load a partition; until it ends, requests for its ids get an error to retry.
    pub(crate) fn begin_load(self: &Rc<Self>, partition: &Rc<Partition<P>>) {
        self.begin_load_after(partition, 0);
    }

    pub(super) fn begin_load_after(self: &Rc<Self>, partition: &Rc<Partition<P>>, failures: u32) {
        let incarnation = self.next_incarnation.get();
        self.next_incarnation.set(incarnation + 1);
        let slot = TransactionSlot {
            phase: TransactionSlotPhase::Loading,
            incarnation,
            failures,
            is_swept: false,
            by_id: Ids::default(),
        };
        let index = partition.name.partition;
        self.slots.borrow_mut().insert(index, slot);
        self.count_failed();
        let (me, partition, began) = (Rc::clone(self), Rc::clone(partition), Instant::now());
        platform::task::spawn(async move { me.load(partition, incarnation, began).await });
    }

    async fn load(self: Rc<Self>, partition: Rc<Partition<P>>, incarnation: u64, began: Instant) {
        let index = partition.name.partition;
        let mut by_id = Ids::default();
        let now_ms = self.now_ms();
        let loaded = log::replay(&partition, |id, entry| match entry {
            Some(entry) => by_id.insert(id, Transaction::loaded(entry.known_by(now_ms))),
            None => by_id.remove(&id),
        });
        let loaded = loaded.await;
        // No request reaches these ids yet, so the prepared ones stay prepared until they are
        // carried out.
        let mut prepared = Vec::new();
        let mut rests = Rests::new();
        for (id, it) in by_id.behind(None) {
            if it.entry().state.is_prepared() {
                prepared.push(id.clone());
            }
            rests.item().await;
        }
        match loaded {
            Ok(count) => {
                tracing::debug!(partition = %partition.name, records = count, "transactional ids loaded");
                if !self.serve(index, incarnation, by_id) {
                    return;
                }
                self.note_load(began);
            }
            Err(error) => {
                tracing::error!(partition = %partition.name, %error, "transactional ids cannot be loaded");
                discard(by_id);
                self.fail(index, incarnation);
                return;
            }
        }
        for some in prepared.chunks(AT_ONCE) {
            for id in some {
                let carried_out =
                    markers::carry_out(Rc::clone(&self), index, incarnation, id.clone());
                platform::task::spawn(carried_out);
            }
            yield_now().await;
        }
    }

    /// Begins to serve the ids of a partition; returns false if the leadership has changed since
    /// the load began.
    fn serve(&self, index: i32, incarnation: u64, by_id: Ids) -> bool {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&index);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            discard(by_id);
            return false;
        };
        slot.phase = TransactionSlotPhase::Active;
        slot.failures = 0;
        slot.by_id = by_id;
        true
    }

    /// Removes a partition that this shard no longer leads.
    pub(crate) fn unload(&self, partition: i32) {
        let gone = self.slots.borrow_mut().remove(&partition);
        if let Some(slot) = gone {
            discard(slot.by_id);
        }
        self.count_failed();
    }
}
