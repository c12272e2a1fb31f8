//! A failed partition of `__transaction_state` is loaded again without an operator.
//!
//! A partition fails when an append has an unknown outcome or the log is unreadable: the state of
//! its ids is then unknown, and none is served. As soon as the log accepts appends it is read again
//! from its start, after growing pauses if that fails. The task that loads the partition carries
//! out earlier decisions. Not here: a log without room, for which appends wait.

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;

use super::survey::discard;
use super::{TransactionCoordinator, TransactionSlotPhase};

/// First and longest pause between a failure and a look at the log.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_mins(1);

impl<P: Platform> TransactionCoordinator<P> {
    /// Stops serving the ids of a partition until its log has been read again.
    pub(super) fn fail(self: &Rc<Self>, partition: i32, incarnation: u64) {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            return;
        };
        if slot.phase == TransactionSlotPhase::Failed {
            return;
        }
        if self.led(partition).is_ok_and(|led| led.is_closed()) {
            // The broker stops; nothing has failed.
            slot.phase = TransactionSlotPhase::Loading;
            return;
        }
        slot.phase = TransactionSlotPhase::Failed;
        discard(std::mem::take(&mut slot.by_id));
        slot.failures = slot.failures.saturating_add(1);
        let failures = slot.failures;
        drop(slots);
        self.count_failed();
        tracing::error!(
            partition,
            "the transaction log failed: its transactional ids are served again when it has been read anew"
        );
        let me = Rc::clone(self);
        platform::task::spawn(me.revive(partition, incarnation, failures));
    }

    async fn revive(self: Rc<Self>, partition: i32, incarnation: u64, failures: u32) {
        let doubled = 1 << failures.saturating_sub(1).min(6);
        let mut pause = (FIRST_LOOK * doubled).min(LAST_LOOK);
        loop {
            let Ok(broker) = self.broker() else { return };
            broker.platform.clock().sleep(pause).await;
            let slots = self.slots.borrow();
            let still = slots.get(&partition);
            if still.is_none_or(|slot| slot.incarnation != incarnation) {
                return;
            }
            drop(slots);
            if let Ok(led) = self.led(partition)
                && led.log.failed().is_none()
            {
                tracing::info!(partition, "the transaction log is read again");
                self.begin_load_after(&led, failures);
                return;
            }
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// Updates the gauge of bytes.
    pub(super) fn count_bytes(&self) {
        let Ok(broker) = self.broker() else { return };
        let bytes = i64::try_from(self.bytes()).unwrap_or(i64::MAX);
        let before = self.counted_bytes.replace(bytes);
        let gauge = &broker.metrics.transaction_state_bytes;
        gauge.inc_by(bytes.saturating_sub(before));
    }

    /// Updates the gauge of failed partitions.
    pub(super) fn count_failed(&self) {
        let Ok(broker) = self.broker() else { return };
        let slots = self.slots.borrow();
        let failed = slots
            .values()
            .filter(|slot| slot.phase == TransactionSlotPhase::Failed);
        let failed = i64::try_from(failed.count()).unwrap_or(i64::MAX);
        let before = self.counted_failed.replace(failed);
        let gauge = &broker.metrics.failed_transaction_partitions;
        gauge.inc_by(failed.saturating_sub(before));
    }
}
