//! Leader epochs of one log: the offset at which each epoch began. Kept on disk as
//! `leader-epoch-checkpoint`.
//!
//! A follower uses them to find where its log and the leader's diverge: the end of an epoch is the
//! start of the next.
//! Invariant: epochs and start offsets both grow strictly.
//! It does not: write the file. `assign` and the truncations return whether something changed, and
//! the owner stores `checkpoint::leader_epochs::encode(cache.entries())`.

use wire::types::{LeaderEpoch, Offset};

/// An epoch and the offset of its first record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of the first record the leader of that epoch wrote (or would write).
    pub start: Offset,
}

/// The known epochs of the batches that end between two offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochRun {
    from: Offset,
    below: Offset,
    least: LeaderEpoch,
    most: LeaderEpoch,
}

impl EpochRun {
    /// A run that covers no offset.
    pub(crate) const NOWHERE: Self = Self {
        from: Offset::ZERO,
        below: Offset::ZERO,
        least: LeaderEpoch::NONE,
        most: LeaderEpoch::NONE,
    };

    /// Returns true when the run covers `offset`.
    pub(crate) fn holds(&self, offset: Offset) -> bool {
        self.from <= offset && offset < self.below
    }

    /// Returns true when a batch in the run may have this epoch: the known one, or none.
    pub(crate) fn allows(&self, epoch: LeaderEpoch) -> bool {
        epoch == LeaderEpoch::NONE || (self.least <= epoch && epoch <= self.most)
    }
}

/// All epochs of one log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EpochCache {
    /// Growing strictly in both fields.
    entries: Vec<EpochStart>,
}

impl EpochCache {
    /// Builds a cache from the checkpointed entries.
    ///
    /// An entry that contradicts a later one gives way to it, as in [`EpochCache::assign`].
    pub fn new(entries: &[EpochStart]) -> Self {
        let mut cache = Self::default();
        for entry in entries {
            cache.assign(entry.epoch, entry.start);
        }
        cache
    }

    /// Notes that `epoch` begins at `start`; returns true when something changed.
    ///
    /// Entries that contradict it (a higher or equal epoch, or a start at or past it) are dropped:
    /// the newest entry wins.
    ///
    /// With epochs 1 from 0 and 3 from 20: `assign(4, 30)` adds, `assign(3, 25)` changes nothing,
    /// `assign(3, 10)` leaves 1 from 0 and 3 from 10.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch.0 < 0 || start.0 < 0 {
            return false;
        }
        if self
            .entries
            .last()
            .is_some_and(|last| last.epoch == epoch && start >= last.start)
        {
            return false;
        }
        while self
            .entries
            .last()
            .is_some_and(|last| last.epoch >= epoch || last.start >= start)
        {
            self.entries.pop();
        }
        let before = self.entries.last();
        assert!(
            before.is_none_or(|before| before.epoch < epoch && before.start < start),
            "epochs and where they begin ascend"
        );
        self.entries.push(EpochStart { epoch, start });
        true
    }

    /// Returns the largest known epoch not above `requested`, and the offset after its last record.
    ///
    /// Returns `None` when the log cannot say: it has no epochs, or `requested` is past the latest.
    ///
    /// With epochs 1 from 0, 3 from 20 and a log end of 50: epoch 1 and 2 give `(1, 20)`, 3 gives
    /// `(3, 50)`, 4 nothing, and 0 gives `(0, 0)`: an epoch older than everything ends where the
    /// log begins.
    pub fn end_offset_for(
        &self,
        requested: LeaderEpoch,
        log_end: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        if requested.0 < 0 {
            return None;
        }
        let latest = self.entries.last()?;
        if latest.epoch == requested {
            return Some((requested, log_end));
        }
        let higher = self.entries.partition_point(|e| e.epoch <= requested);
        let next = self.entries.get(higher)?;
        let epoch = higher
            .checked_sub(1)
            .and_then(|floor| self.entries.get(floor))
            .map_or(requested, |floor| floor.epoch);
        Some((epoch, next.start))
    }

    /// Returns the epoch in which the record at `offset` was written.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|e| e.start <= offset);
        after
            .checked_sub(1)
            .and_then(|i| self.entries.get(i))
            .map(|e| e.epoch)
    }

    /// Returns the known epoch of a batch that ends at `offset`, with the run of offsets that share
    /// it.
    ///
    /// Below the first entry, only the upper bound is known: the first entry's epoch. Without
    /// entries, neither is known.
    pub(crate) fn run_at(&self, offset: Offset) -> EpochRun {
        let after = self.entries.partition_point(|e| e.start <= offset);
        let next = self.entries.get(after);
        let below = next.map_or(Offset(i64::MAX), |next| next.start);
        let entry = after.checked_sub(1).and_then(|at| self.entries.get(at));
        match entry {
            Some(entry) => EpochRun {
                from: entry.start,
                below,
                least: entry.epoch,
                most: entry.epoch,
            },
            None => EpochRun {
                from: Offset(i64::MIN),
                below,
                least: LeaderEpoch::NONE,
                most: next.map_or(LeaderEpoch(i32::MAX), |next| next.epoch),
            },
        }
    }

    /// Replaces the epochs between two offsets by those of the batches there.
    ///
    /// Epochs elsewhere stay, except those that contradict the new ones.
    pub(crate) fn replace_between(&mut self, from: Offset, below: Offset, found: &[EpochStart]) {
        let behind = self.epoch_at(below);
        let old = std::mem::take(&mut self.entries);
        let before = old.iter().filter(|entry| entry.start < from).copied();
        self.entries.extend(before);
        for entry in found {
            let latest = self.latest();
            if latest.is_none_or(|latest| latest.epoch != entry.epoch) {
                self.assign(entry.epoch, entry.start);
            }
        }
        let goes_on = behind.map(|epoch| EpochStart {
            epoch,
            start: below,
        });
        let after = old.iter().filter(|entry| entry.start > below).copied();
        for entry in goes_on.into_iter().chain(after) {
            if self
                .latest()
                .is_none_or(|latest| latest.epoch < entry.epoch)
            {
                self.assign(entry.epoch, entry.start);
            }
        }
    }

    /// Drops epochs that begin at or past `end`, the new log end; returns true when something
    /// changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        let keep = self.entries.partition_point(|e| e.start < end);
        self.entries.truncate(keep);
        self.entries.len() != before
    }

    /// Drops epochs that end before `start`, the new log start; returns true when something
    /// changed.
    ///
    /// The epoch that holds `start` then begins with it.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let past = self.entries.partition_point(|e| e.start <= start);
        let Some(first) = past
            .checked_sub(1)
            .and_then(|i| self.entries.get(i))
            .copied()
        else {
            return false;
        };
        if past == 1 && first.start == start {
            return false;
        }
        self.entries.drain(..past);
        self.entries.insert(0, EpochStart { start, ..first });
        true
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the latest epoch.
    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Returns all epochs, oldest first.
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(i32, i64)]) -> EpochCache {
        let mut cache = EpochCache::default();
        for &(epoch, start) in entries {
            cache.assign(LeaderEpoch(epoch), Offset(start));
        }
        cache
    }

    fn check(cache: &EpochCache, expect: &[(i32, i64)]) {
        let found: Vec<_> = cache
            .entries()
            .iter()
            .map(|e| (e.epoch.0, e.start.0))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn the_newest_word_counts() {
        check(
            &cache(&[(1, 0), (3, 20), (4, 30)]),
            &[(1, 0), (3, 20), (4, 30)],
        );
        check(&cache(&[(1, 0), (3, 20), (3, 25)]), &[(1, 0), (3, 20)]);
        check(&cache(&[(1, 0), (3, 20), (3, 10)]), &[(1, 0), (3, 10)]);
        check(&cache(&[(1, 0), (3, 20), (4, 20)]), &[(1, 0), (4, 20)]);
        check(&cache(&[(1, 0), (3, 20), (2, 40)]), &[(1, 0), (2, 40)]);
        check(&cache(&[(-1, 0), (0, -1)]), &[]);
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let cache = cache(&[(1, 5), (3, 20)]);
        let end = |epoch| {
            cache
                .end_offset_for(LeaderEpoch(epoch), Offset(50))
                .map(|(e, o)| (e.0, o.0))
        };
        assert_eq!([end(-1), end(4)], [None, None]);
        assert_eq!(end(0), Some((0, 5)));
        assert_eq!([end(1), end(2)], [Some((1, 20)); 2]);
        assert_eq!(end(3), Some((3, 50)));
        assert_eq!(
            EpochCache::default().end_offset_for(LeaderEpoch(0), Offset(9)),
            None
        );
    }

    #[test]
    fn truncation_keeps_the_epoch_that_the_bound_lies_in() {
        let start = |at| {
            let mut cache = cache(&[(1, 5), (3, 20), (4, 30)]);
            let changed = cache.truncate_from_start(Offset(at));
            (changed, cache)
        };
        check(&start(25).1, &[(3, 25), (4, 30)]);
        check(&start(30).1, &[(4, 30)]);
        check(&start(99).1, &[(4, 99)]);
        assert!(!start(4).0 && !start(5).0 && start(6).0);
        let end = |at| {
            let mut cache = cache(&[(1, 5), (3, 20), (4, 30)]);
            let changed = cache.truncate_from_end(Offset(at));
            (changed, cache)
        };
        check(&end(31).1, &[(1, 5), (3, 20), (4, 30)]);
        check(&end(30).1, &[(1, 5), (3, 20)]);
        check(&end(0).1, &[]);
        assert!(!end(31).0 && end(30).0);
    }

    #[test]
    fn a_batch_may_have_the_epoch_that_is_known_where_it_ends() {
        let allowed = |entries: &[(i32, i64)], offset| {
            let run = cache(entries).run_at(Offset(offset));
            assert!(run.holds(Offset(offset)));
            let all = [-2, -1, 0, 1, 2, 3, 4];
            let allowed = all
                .into_iter()
                .filter(|epoch| run.allows(LeaderEpoch(*epoch)));
            allowed.collect::<Vec<_>>()
        };
        let known = [(1, 5), (3, 20)];
        assert_eq!(allowed(&known, 4), [-1, 0, 1], "not above the first one");
        assert_eq!(allowed(&known, 5), [-1, 1]);
        assert_eq!(allowed(&known, 19), [-1, 1]);
        assert_eq!(allowed(&known, 20), [-1, 3]);
        assert_eq!(allowed(&[], 20), [-1, 0, 1, 2, 3, 4]);
        assert!(!EpochRun::NOWHERE.holds(Offset(0)));
    }

    #[test]
    fn what_the_batches_of_a_segment_say_takes_the_place_of_what_was_known_of_it() {
        let replaced = |entries, found: &[(i32, i64)], from, below| {
            let mut cache = cache(entries);
            let start = |&(epoch, start): &(i32, i64)| EpochStart {
                epoch: LeaderEpoch(epoch),
                start: Offset(start),
            };
            let found: Vec<_> = found.iter().map(start).collect();
            cache.replace_between(Offset(from), Offset(below), &found);
            cache
        };
        let known = &[(1, 0), (3, 20), (5, 40)];
        check(
            &replaced(known, &[(1, 10), (3, 15)], 10, 30),
            &[(1, 0), (3, 15), (5, 40)],
        );
        check(
            &replaced(known, &[(1, 10)], 10, 30),
            &[(1, 0), (3, 30), (5, 40)],
        );
        check(
            &replaced(known, &[(1, 0), (2, 7)], 0, 20),
            &[(1, 0), (2, 7), (3, 20), (5, 40)],
        );
        check(
            &replaced(&[(5, 0)], &[(1, 0), (2, 7)], 0, 20),
            &[(1, 0), (2, 7), (5, 20)],
        );
        check(
            &replaced(&[(2, 0), (9, 10)], &[(3, 20)], 20, 30),
            &[(2, 0), (3, 20), (9, 30)],
        );
    }

    #[test]
    fn the_epoch_of_an_offset_is_the_last_one_that_began_before_it() {
        let cache = cache(&[(1, 5), (3, 20)]);
        let at = |offset| cache.epoch_at(Offset(offset)).map(|e| e.0);
        assert_eq!(
            [at(4), at(5), at(19), at(20)],
            [None, Some(1), Some(1), Some(3)]
        );
    }
}
