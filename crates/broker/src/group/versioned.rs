//! A value with newer versions that may be on their way to the log.
//!
//! Decisions use the latest version, readers get the committed one; a version whose append failed
//! is dropped without a trace. Committed versions settle in the order in which they were staged.

use std::collections::VecDeque;

/// Number of an append in the order of one partition's appends.
pub(super) type Sequence = u64;

/// A committed value (or none) and the staged versions after it.
#[derive(Clone, Debug)]
pub(super) struct VersionedValue<T> {
    committed: Option<T>,
    // Bounded: versions of requests in flight, `queued.max.request.bytes`.
    staged: VecDeque<(Sequence, Option<T>)>,
}

impl<T> Default for VersionedValue<T> {
    fn default() -> Self {
        Self {
            committed: None,
            staged: VecDeque::new(),
        }
    }
}

impl<T> VersionedValue<T> {
    /// Returns the value that is known to be in the log.
    pub(super) fn committed(&self) -> Option<&T> {
        self.committed.as_ref()
    }

    /// Returns the value that will be in the log when all appends succeed.
    pub(super) fn latest(&self) -> Option<&T> {
        match self.staged.back() {
            Some((_, value)) => value.as_ref(),
            None => self.committed(),
        }
    }

    /// Returns true when a staged version exists.
    pub(super) fn is_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    pub(super) fn stage(&mut self, sequence: Sequence, value: Option<T>) {
        debug_assert!(self.staged.back().is_none_or(|(last, _)| *last <= sequence));
        self.staged.push_back((sequence, value));
    }

    /// Ends the versions of an append, which succeeded or failed.
    ///
    /// Successful appends settle in order; a failed one may settle before earlier ones that are in
    /// flight.
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

    /// Sets the committed value, under all staged versions.
    pub(super) fn commit(&mut self, value: Option<T>) {
        self.committed = value;
    }

    /// Returns true when no version is committed or staged.
    pub(super) fn is_vacant(&self) -> bool {
        self.committed.is_none() && self.staged.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::VersionedValue;

    #[test]
    fn decisions_see_the_latest_and_readers_the_committed_version() {
        let mut value = VersionedValue::default();
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
        // A later version is dropped while an earlier one is in flight.
        value.stage(4, None);
        value.stage(5, Some("c"));
        value.settle(5, false);
        assert_eq!((value.committed(), value.latest()), (Some(&"a"), None));
        value.settle(4, true);
        assert!(value.is_vacant());
    }
}
