//! Remembers the first failure of a file.
//!
//! After a failed write or sync the content of the file is unknown, and a second sync may report
//! success for bytes that were dropped: the system tells each failure of writing back once for each
//! open file. Invariants: a latched file is never synced again; what ends after the first failure
//! has failed, even if it began before. Not here: closing or replacing the file.

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

    /// Records the first failure, and returns it.
    ///
    /// A success is a failure if the file has failed meanwhile: that failure may be of these bytes.
    pub(crate) fn watch<T>(&self, doing: &str, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut failure = self.failure.borrow_mut();
            failure.get_or_insert_with(|| format!("{doing}: {error}"));
        }
        let done = result?;
        self.check()?;
        Ok(done)
    }
}
