//! A value that may have newer versions on their way to the log.
//!
//! Decisions look at the latest version, readers are shown the committed one; a version whose
//! append failed is dropped as if it had never been. Versions that are committed settle in the order
//! in which they were staged.

use std::collections::VecDeque;

/// Position of an append in the order of one partition's appends.
pub(super) type Sequence = u64;

/// A committed value (or none) and the versions after it.
#[derive(Clone, Debug)]
pub(super) struct Versioned<T> {
    committed: Option<T>,
    // Bounded: versions of requests in flight, `queued.max.request.bytes`.
    staged: VecDeque<(Sequence, Option<T>)>,
}

impl<T> Default for Versioned<T> {
    fn default() -> Self {
        Self {
            committed: None,
            staged: VecDeque::new(),
        }
    }
}

impl<T> Versioned<T> {
    /// What is known to be in the log.
    pub(super) fn committed(&self) -> Option<&T> {
        self.committed.as_ref()
    }

    /// What will be in the log once all appends are through.
    pub(super) fn latest(&self) -> Option<&T> {
        match self.staged.back() {
            Some((_, value)) => value.as_ref(),
            None => self.committed(),
        }
    }

    /// True when the latest version is on its way.
    pub(super) fn is_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    pub(super) fn stage(&mut self, sequence: Sequence, value: Option<T>) {
        debug_assert!(self.staged.back().is_none_or(|(last, _)| *last <= sequence));
        self.staged.push_back((sequence, value));
    }

    /// Ends the versions of an append: in the log, or not. Those that are in the log end in their order; what never will
    /// be may go before what is still on its way.
    pub(super) fn settle(&mut self, sequence: Sequence, appended: bool) {
        if !appended {
            self.staged.retain(|(staged, _)| *staged != sequence);
            return;
        }
        while let Some((first, _)) = self.staged.front() {
            if *first > sequence {
                return;
            }
            if let Some((_, value)) = self.staged.pop_front() {
                self.committed = value;
            }
        }
    }

    /// Takes in a version that is in the log already, before all that are on their way.
    pub(super) fn commit(&mut self, value: Option<T>) {
        self.committed = value;
    }

    /// True when nothing is committed and nothing is on its way.
    pub(super) fn is_vacant(&self) -> bool {
        self.committed.is_none() && self.staged.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Versioned;

    #[test]
    fn decisions_see_the_latest_and_readers_the_committed_version() {
        let mut value = Versioned::default();
        value.stage(1, Some("a"));
        value.stage(2, Some("b"));
        value.stage(3, None);
        assert_eq!((value.committed(), value.latest()), (None, None));
        value.settle(1, true);
        assert_eq!(value.committed(), Some(&"a"));
        value.settle(2, false);
        assert_eq!((value.committed(), value.latest()), (Some(&"a"), None));
        value.settle(3, false);
        assert_eq!(
            (value.committed(), value.latest()),
            (Some(&"a"), Some(&"a"))
        );
        // A later one is given up while an earlier one is on its way.
        value.stage(4, None);
        value.stage(5, Some("c"));
        value.settle(5, false);
        assert_eq!((value.committed(), value.latest()), (Some(&"a"), None));
        value.settle(4, true);
        assert!(value.is_vacant());
    }
}
