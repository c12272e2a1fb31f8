//! Whether a log takes appends: *open* -> *full* -> *failed* -> *closed*.
//!
//! Invariants: only *full* leads back to *open*; a report that a directory has no room is taken
//! back once.
//! It does not: decide what a failure makes unusable beside the log (`PathFailure`).

use platform::Platform;

use crate::error::{Error, Result};
use crate::log::views::{LogCondition, LogTiers};

/// Whether a log takes appends.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Open,
    /// There is no room, or there are no descriptors or no memory.
    ///
    /// Appended bytes stay in memory and are written when there is room again.
    Full(Error),
    /// A write or sync failed.
    Failed(Error),
    Closed,
}

impl<P: Platform> LogCondition<'_, P> {
    /// Refuses an operation on a log that failed half-way: its parts may contradict each other.
    pub(in crate::log) fn refuse_beyond_repair(self) -> Result<()> {
        match self.failed() {
            Some(error) if self.is_beyond_repair() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns true when there is no point in writing any more.
    pub(in crate::log) fn is_beyond_repair(self) -> bool {
        let condition = self.condition.borrow();
        matches!(&*condition, Condition::Failed(_) | Condition::Closed) || self.health.is_failed()
    }

    pub(in crate::log) fn enter_full(self, error: Error) {
        let mut condition = self.condition.borrow_mut();
        match &mut *condition {
            // It is reported once; what is missing may change.
            Condition::Full(known) => *known = error,
            Condition::Open => {
                tracing::debug!(partition = %self.partition, %error, "appends are refused");
                self.health.enter_full(&self.dir, &error);
                *condition = Condition::Full(error);
                drop(condition);
                self.tell();
            }
            Condition::Failed(_) | Condition::Closed => {}
        }
    }

    pub(in crate::log) fn leave_full(self) {
        let mut condition = self.condition.borrow_mut();
        if matches!(&*condition, Condition::Full(_)) {
            *condition = Condition::Open;
            drop(condition);
            tracing::debug!(partition = %self.partition, "appends are taken again");
            self.health.leave_full(&self.dir);
            self.tell();
        }
    }

    /// Leaves the current state for a final one: *failed* or *closed*.
    pub(in crate::log) fn become_finally(self, last: Condition) {
        assert!(
            matches!(last, Condition::Failed(_) | Condition::Closed),
            "there is a way back from the others"
        );
        let before = self.condition.replace(last);
        LogTiers(self.0).refuses_no_more();
        if matches!(before, Condition::Full(_)) {
            self.health.end_full();
        }
    }
}
