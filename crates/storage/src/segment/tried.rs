//! The result of checking, against a segment's batches, whether an index or epoch that readers rely
//! on is wrong.
//!
//! Invariant: only the batches decide finally. After a disk error the check is repeated, but not at
//! once: until then every caller gets that error.

use std::cell::RefCell;

use platform::clock::Instant;

use crate::error::{Error, Result};

/// The result of the last check.
#[derive(Clone, Default, Debug)]
pub(crate) enum CheckOutcome {
    /// Not tried yet, or failed only because the machine was short of something.
    #[default]
    Not,
    /// The disk failed; the next try is not before this time.
    Refused(Instant, Error),
    /// Corrected in memory only; the file on disk is still wrong.
    ForNow,
    /// Corrected, or the batches themselves are damaged.
    ForGood,
}

/// The last attempt and its result.
#[derive(Default, Debug)]
pub(crate) struct Attempt(RefCell<CheckOutcome>);

impl Attempt {
    pub(crate) fn set(&self, tried: CheckOutcome) {
        *self.0.borrow_mut() = tried;
    }

    /// Returns true when the batches have not decided yet.
    pub(crate) fn is_open(&self) -> bool {
        matches!(
            &*self.0.borrow(),
            CheckOutcome::Not | CheckOutcome::Refused(..)
        )
    }

    /// Returns whether a check may be tried; an error if the disk has failed recently.
    pub(crate) fn may_try(&self, now: Instant) -> Result<bool> {
        match &*self.0.borrow() {
            CheckOutcome::Refused(until, error) if now < *until => Err(error.clone()),
            _ => Ok(self.is_open()),
        }
    }

    /// Forgets a correction in memory that is lost.
    pub(crate) fn forget_what_is_for_now(&self) {
        let mut tried = self.0.borrow_mut();
        if matches!(&*tried, CheckOutcome::ForNow) {
            *tried = CheckOutcome::Not;
        }
    }
}
