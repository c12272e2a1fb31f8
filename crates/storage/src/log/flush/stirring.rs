//! The logs of a shard that have stirred since they were last seen at rest.
//!
//! Most logs of a broker rest. What looks after logs each second looks at these; at all of them
//! only now and then, which finds what stirred in another way. It does not know what rest is
//! (`idle.rs`).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// One look in this number is at all logs.
const LOOKS_TO_ALL: u32 = 60;

/// Those that have stirred.
pub(crate) struct Stirring<T> {
    // Bounded: the logs of the shard, each once.
    logs: RefCell<Vec<Weak<T>>>,
    /// Looks until the next one at all logs.
    until_all: Cell<u32>,
}

impl<T> Default for Stirring<T> {
    fn default() -> Self {
        Self {
            logs: RefCell::default(),
            until_all: Cell::new(0),
        }
    }
}

impl<T> Stirring<T> {
    /// Adds a log that is not in it.
    pub(super) fn add(&self, log: &Rc<T>) {
        self.logs.borrow_mut().push(Rc::downgrade(log));
    }

    /// Empties it for a look; returns the logs to be looked at, or `None` if it is the turn of all.
    pub(super) fn take(&self) -> Option<Vec<Rc<T>>> {
        let logs = self.logs.take();
        let until_all = self.until_all.get().checked_sub(1);
        self.until_all.set(until_all.unwrap_or(LOOKS_TO_ALL - 1));
        until_all.map(|_| logs.iter().filter_map(Weak::upgrade).collect())
    }
}
