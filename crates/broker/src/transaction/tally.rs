//! How many transactional ids are in each state, and when the oldest open transaction began.
//!
//! It follows every change of an id, so that the metrics visit none of them: there may be a
//! million. Invariant: it counts exactly the ids in the log and those on their way there, once each
//! (`weight.rs`). Pure.

use std::collections::BTreeMap;

use platform::clock::Reading;

use super::state::{Entry, TransactionState};

/// Number of states.
pub(super) const STATES: usize = TransactionState::ALL.len();

/// The counts of one partition of `__transaction_state`.
#[derive(Default, Debug)]
pub(super) struct Tally {
    /// Number of ids by state, in the order of [`TransactionState::ALL`].
    by_state: [usize; STATES],
    /// Number of open transactions by their beginning.
    // Bounded: `weight::IDS_MAX`, as an id has at most one.
    open: BTreeMap<i64, usize>,
}

impl Tally {
    /// Counts an id with this entry.
    pub(super) fn add(&mut self, entry: &Entry) {
        let count = self.count(entry.state);
        *count = count.saturating_add(1);
        if entry.state == TransactionState::Ongoing {
            let open = self.open.entry(entry.start_ms).or_default();
            *open = open.saturating_add(1);
        }
    }

    /// No longer counts an id with this entry.
    pub(super) fn remove(&mut self, entry: &Entry) {
        let count = self.count(entry.state);
        assert!(*count > 0, "an id that goes was counted");
        *count = count.saturating_sub(1);
        if entry.state == TransactionState::Ongoing
            && let Some(open) = self.open.get_mut(&entry.start_ms)
        {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.open.remove(&entry.start_ms);
            }
        }
    }

    /// Returns the number of ids by state.
    pub(super) fn by_state(&self) -> [usize; STATES] {
        self.by_state
    }

    /// Returns for how long the oldest open transaction has been open; 0 without one.
    pub(super) fn oldest_ms(&self, now: Reading) -> i64 {
        let oldest = self.open.first_key_value();
        oldest.map_or(0, |(start_ms, _)| now.age_ms(*start_ms).max(0))
    }

    fn count(&mut self, state: TransactionState) -> &mut usize {
        let Some(count) = self.by_state.get_mut(state as usize) else {
            unreachable!("all states are counted");
        };
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::types::ProducerId;

    fn entry(state: TransactionState, start_ms: i64) -> Entry {
        Entry {
            state,
            start_ms,
            ..Entry::unused(ProducerId(1), 1000, 0)
        }
    }

    #[test]
    fn each_state_has_its_own_count() {
        for (at, (state, ..)) in TransactionState::ALL.into_iter().enumerate() {
            let mut tally = Tally::default();
            tally.add(&entry(state, 0));
            let mut expected = [0; STATES];
            expected[at] = 1;
            assert_eq!(tally.by_state(), expected);
            tally.remove(&entry(state, 0));
            assert_eq!(tally.by_state(), [0; STATES]);
        }
    }

    #[test]
    fn the_oldest_is_the_one_that_began_first_of_those_still_open() {
        let open = |start_ms| entry(TransactionState::Ongoing, start_ms);
        let mut tally = Tally::default();
        let now = Reading::from(1_000);
        assert_eq!(tally.oldest_ms(now), 0);
        for start_ms in [300, 100, 200, 100] {
            tally.add(&open(start_ms));
        }
        tally.add(&entry(TransactionState::CompleteCommit, 1));
        tally.remove(&open(100));
        assert_eq!(tally.oldest_ms(now), 900, "another one began then, too");
        tally.remove(&open(100));
        assert_eq!(tally.oldest_ms(now), 800);
        tally.remove(&open(200));
        tally.remove(&open(300));
        assert_eq!(tally.oldest_ms(now), 0);
        // The clock was set back.
        tally.add(&open(5_000));
        assert_eq!(tally.oldest_ms(now), 0);
    }
}
