//! The operations of a directory that are in flight, and since when.
//!
//! Invariants: an operation counts until the kernel is done with it, even when the caller stops
//! waiting; no more entries are kept than there are places in a lane. Not here: limits
//! (`os/lanes.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Instant;

/// The operations in flight of one lane.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<LaneOperations>);

#[derive(Default)]
struct LaneOperations {
    /// When each operation began; `None` for a free entry.
    // Bounded: the places of a lane.
    since: Vec<Option<Instant>>,
    free: Vec<usize>,
}

/// An operation in flight; it ends when this is dropped.
pub(super) struct Begin {
    of: Arc<UnderWay>,
    at: usize,
}

impl UnderWay {
    /// Records the begin of an operation.
    pub(super) fn begin(self: &Arc<Self>, now: Instant) -> Begin {
        let mut begun = self.begun();
        let at = if let Some(at) = begun.free.pop() {
            at
        } else {
            begun.since.push(None);
            begun.since.len() - 1
        };
        if let Some(since) = begun.since.get_mut(at) {
            *since = Some(now);
        }
        drop(begun);
        Begin {
            of: Arc::clone(self),
            at,
        }
    }

    /// Returns the age of the oldest operation in flight; zero without one.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        let first = self.begun().since.iter().flatten().min().copied();
        first.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn begun(&self) -> MutexGuard<'_, LaneOperations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begin {
    fn drop(&mut self) {
        let mut begun = self.of.begun();
        if let Some(since) = begun.since.get_mut(self.at) {
            *since = None;
            begun.free.push(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_began_first_tells_until_it_has_ended() {
        let all = Arc::new(UnderWay::default());
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let longest = |s: u64| all.longest(at(s)).as_secs();
        assert_eq!(longest(5), 0);
        let first = all.begin(at(1));
        let second = all.begin(at(4));
        assert_eq!(longest(9), 8);
        drop(first);
        assert_eq!(longest(9), 5);
        let third = all.begin(at(9));
        assert_eq!(
            (longest(10), longest(2)),
            (6, 0),
            "also when time is behind"
        );
        drop((second, third));
        assert_eq!(longest(20), 0);
        for _ in 0..1000 {
            drop(all.begin(at(20)));
        }
        assert_eq!(all.begun().since.len(), 2, "places are used again");
    }
}
