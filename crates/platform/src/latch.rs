//! The memory of a failure: after a failed write or sync nobody knows what the file holds, and a
//! second sync may claim success for bytes that were dropped. So there is no second one.

use std::cell::RefCell;
use std::io;

/// Set by the first failure of a file, for good.
#[derive(Default, Debug)]
pub(crate) struct Latch {
    failure: RefCell<Option<String>>,
}

impl Latch {
    /// Refuses when there was a failure.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.failure.borrow().as_ref() {
            None => Ok(()),
            Some(failure) => Err(io::Error::other(format!(
                "file latched by earlier failure: {failure}"
            ))),
        }
    }

    /// Remembers the first failure; gives the result back as it is.
    pub(crate) fn watch<T>(&self, doing: &str, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut failure = self.failure.borrow_mut();
            failure.get_or_insert_with(|| format!("{doing}: {error}"));
        }
        result
    }
}
