//! How many clients' topics are being made behind an answer that did not wait for the end.
//!
//! Invariant: of these there are at most [`LEFT_MAX`] on a shard, so that the names which they hold are bounded; more requests
//! wait until their topics are there. It does not: make topics, or wait for them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// An answer waits so long for the topics that its request names.
pub(crate) const SOON: Duration = Duration::from_millis(500);
/// Ten thousand names of 249 bytes each at most: 10 MB a shard.
const LEFT_MAX: usize = 4;

/// Counts what is being made.
#[derive(Debug, Default)]
pub(crate) struct Making(Rc<Cell<usize>>);

/// Something that is being made, until it is dropped.
#[derive(Debug)]
pub(crate) struct Made(Rc<Cell<usize>>);

impl Making {
    /// The right to go on behind the answer; none while too many have it.
    pub(crate) fn begin(&self) -> Option<Made> {
        let count = self.0.get();
        (count < LEFT_MAX).then(|| {
            self.0.set(count + 1);
            Made(Rc::clone(&self.0))
        })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_and_no_more_go_on_behind_their_answers() {
        let making = Making::default();
        let mut made: Vec<_> = (0..LEFT_MAX).map(|_| making.begin().unwrap()).collect();
        assert!(making.begin().is_none());
        made.pop();
        assert!(making.begin().is_some());
    }
}
