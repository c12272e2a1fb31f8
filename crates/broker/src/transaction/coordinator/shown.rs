//! What the metrics show of a shard's transactional ids.
//!
//! A load and a commit are noted when they end; everything else is a sum that the ids keep anyway.
//! Invariant: nothing here visits the ids: there may be a million.

use platform::Platform;
use platform::clock::Instant;

use super::TransactionCoordinator;
use crate::transaction::metrics::{ShardTransactions, TransactionEnd};

impl<P: Platform> TransactionCoordinator<P> {
    /// Shows what the ids of this shard are doing, before the metrics are read.
    pub(crate) fn show(&self) {
        let Ok(broker) = self.broker() else { return };
        let clock = broker.platform.clock();
        let (now, reading) = (clock.now(), clock.reading());
        let loads = self.loads.borrow_mut().noted(now);
        let commits = self.commits.borrow_mut().noted(now);
        let mut shown = ShardTransactions::after(loads, commits);
        for slot in self.slots.borrow().values() {
            shown.add(slot.by_id.tally(), reading);
        }
        broker.metrics.transactions.show(broker.shards.me(), shown);
    }

    /// Notes that a partition is loaded; the load began at `began`.
    pub(super) fn note_load(&self, began: Instant) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began);
        self.loads.borrow_mut().note(took, now);
    }

    /// Notes that a commit is carried out; that began at `began`.
    pub(in crate::transaction) fn note_commit(&self, began: Instant) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began);
        self.commits.borrow_mut().note(took, now);
    }

    /// Counts a transaction whose end is in the log.
    pub(super) fn count_end(&self, end: TransactionEnd) {
        if let Ok(broker) = self.broker() {
            broker.metrics.transactions.ended(end);
        }
    }
}
