//! Remembers the first failure of a file.
//!
//! After a failed write or sync the content of the file is unknown, and a second sync may report
//! success for bytes that were dropped. Invariant: a latched file is never synced again. Not here:
//! closing or replacing the file.

use std::cell::RefCell;
use std::io;

/// The first failure of a file, set permanently.
#[derive(Default, Debug)]
pub(crate) struct Latch {
    failure: RefCell<Option<String>>,
}

impl Latch {
    /// Fails when a failure is recorded.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.failure.borrow().as_ref() {
            None => Ok(()),
            Some(failure) => Err(io::Error::other(format!(
                "file latched by earlier failure: {failure}"
            ))),
        }
    }

    /// Records the first failure, and returns the result unchanged.
    pub(crate) fn watch<T>(&self, doing: &str, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut failure = self.failure.borrow_mut();
            failure.get_or_insert_with(|| format!("{doing}: {error}"));
        }
        result
    }
}
