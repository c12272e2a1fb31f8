//! A queue of entries that may be evicted, the oldest first; entries that cannot be evicted yet are
//! tried again later.
//!
//! Invariant: an entry whose eviction failed is not tried again before something was written or
//! evicted. While nothing can be evicted, all callers that ask for room together try each entry
//! once.

use std::collections::VecDeque;

/// The result of trying to evict an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Eviction {
    /// The entry was evicted.
    GivenUp,
    /// The entry no longer exists.
    Gone,
    /// The entry cannot be evicted before it is written.
    Stays,
}

/// The entries, with the number of failed tries in a row.
#[derive(Debug)]
pub(super) struct Queue<T> {
    entries: VecDeque<T>,
    /// Failed tries in a row.
    vain: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            vain: 0,
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn extend(&mut self, entries: impl Iterator<Item = T>) {
        self.entries.extend(entries);
    }

    /// Notes that something was written, so that failed entries are worth another try.
    pub(super) fn note_written(&mut self) {
        self.vain = 0;
    }

    /// Tries the next entry; returns false when no try can succeed before something is written.
    pub(super) fn look(&mut self, look: impl FnOnce(&T) -> Eviction) -> bool {
        if self.vain >= self.entries.len() {
            return false;
        }
        let Some(entry) = self.entries.pop_front() else {
            return false;
        };
        match look(&entry) {
            Eviction::GivenUp => self.vain = 0,
            Eviction::Gone => {}
            Eviction::Stays => {
                self.entries.push_back(entry);
                self.vain = self.vain.saturating_add(1);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_while_nothing_can_be_given_up_does_not_look_at_everything_again() {
        let mut queue = Queue::default();
        let mut looks = 0;
        for taken in 0..10_000 {
            queue.extend(std::iter::once(taken));
            while queue.look(|_| {
                looks += 1;
                Eviction::Stays
            }) {}
        }
        assert!(looks <= 20_000, "{looks} looks");
        queue.note_written();
        assert!(queue.look(|taken| {
            assert!(*taken < 10_000);
            Eviction::GivenUp
        }));
    }

    #[test]
    fn everything_that_can_be_given_up_is() {
        let mut queue = Queue::default();
        queue.extend(0..10);
        let mut given_up = Vec::new();
        while queue.look(|taken| match taken % 3 {
            0 => Eviction::Gone,
            1 => {
                given_up.push(*taken);
                Eviction::GivenUp
            }
            _ => Eviction::Stays,
        }) {}
        assert_eq!(given_up, [1, 4, 7]);
        queue.note_written();
        let mut left = 0;
        while queue.look(|_| {
            left += 1;
            Eviction::Gone
        }) {}
        assert_eq!(left, 3);
    }
}
