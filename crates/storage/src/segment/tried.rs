//! What came of finding out, by a segment's batches, whether what readers go by is wrong.
//!
//! Invariant: final is only what the batches have said. What a disk refused is tried again, not at once: who asks meanwhile
//! is told of the refusal.

use std::cell::RefCell;

use platform::clock::Instant;

use crate::error::{Error, Result};

/// What came of it.
#[derive(Clone, Default, Debug)]
pub(crate) enum Tried {
    /// Not tried yet, or only for want of what the machine has again soon.
    #[default]
    Not,
    /// The disk failed; not again before then.
    Refused(Instant, Error),
    /// Done, in memory: what is on the disk is still wrong.
    ForNow,
    /// Done, or the batches themselves are damaged.
    ForGood,
}

/// The last attempt.
#[derive(Default, Debug)]
pub(crate) struct Attempt(RefCell<Tried>);

impl Attempt {
    pub(crate) fn set(&self, tried: Tried) {
        *self.0.borrow_mut() = tried;
    }

    /// True when the batches have not been heard.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&*self.0.borrow(), Tried::Not | Tried::Refused(..))
    }

    /// Whether it may be tried; an error where the disk has just refused it.
    pub(crate) fn may_try(&self, now: Instant) -> Result<bool> {
        match &*self.0.borrow() {
            Tried::Refused(until, error) if now < *until => Err(error.clone()),
            _ => Ok(self.is_open()),
        }
    }

    /// What was done in memory is lost.
    pub(crate) fn forget_what_is_for_now(&self) {
        let mut tried = self.0.borrow_mut();
        if matches!(&*tried, Tried::ForNow) {
            *tried = Tried::Not;
        }
    }
}
