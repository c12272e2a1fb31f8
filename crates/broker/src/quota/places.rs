//! Which buckets the metrics show: clients choose their names, so not all of them can be shown.
//!
//! A bucket takes a place when it is charged and a place is free, and keeps it while it is used; so
//! the metrics do not change from one client to another. A bucket that was not used for
//! [`KEPT_IDLE`] gives up its place, and when all places are taken, one that has no usage left.
//! Bounded: [`PLACES_MAX`] places over all shards, and names of [`NAMES_BYTES_MAX`]; charges of
//! buckets without a place are counted. Pure. Not here: what is shown of a bucket (`usage.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use super::limits::Bucket;
use super::rate::Windows;

/// Most places over all shards, if a shard does not get too few of them.
const PLACES_MAX: usize = 1024;

/// Fewest places of a shard.
const PLACES_MIN: usize = 16;

/// Most bytes of a user's and a client's name together.
const NAMES_BYTES_MAX: usize = 256;

/// For how long a bucket is shown after it was used.
const KEPT_IDLE: Duration = Duration::from_mins(5);

const _: () = assert!(PLACES_MIN <= PLACES_MAX, "one shard has all the places");

/// The buckets of one shard that are shown.
#[derive(Debug)]
pub(super) struct Places {
    // Bounded: `take`, by `PLACES_MAX`.
    taken: BTreeSet<Bucket>,
    count_max: usize,
    /// Charges of buckets without a place.
    left_out: u64,
}

impl Places {
    /// Creates the places of one of `shards` shards.
    pub(super) fn new(shards: usize) -> Self {
        Self {
            taken: BTreeSet::new(),
            count_max: (PLACES_MAX / shards.max(1)).max(PLACES_MIN),
            left_out: 0,
        }
    }

    /// Gives a bucket that is charged a place, and returns whether it has one.
    pub(super) fn take(&mut self, bucket: &Bucket) -> bool {
        let (_, user, client_id) = bucket.parts();
        let is_short = user.len().saturating_add(client_id.len()) <= NAMES_BYTES_MAX;
        if is_short && self.taken.len() < self.count_max {
            self.taken.insert(bucket.clone());
            return true;
        }
        self.left_out = self.left_out.saturating_add(1);
        false
    }

    /// Returns for how long a bucket keeps its place after it was used.
    pub(super) fn kept_idle(&self, windows: Windows) -> Duration {
        if self.taken.len() < self.count_max {
            KEPT_IDLE.max(windows.span())
        } else {
            windows.span()
        }
    }

    /// Takes the places of all buckets for which `keeps` returns false.
    pub(super) fn retain(&mut self, keeps: impl FnMut(&Bucket) -> bool) {
        self.taken.retain(keeps);
        assert!(
            self.taken.len() <= self.count_max,
            "no more places than there are"
        );
    }

    /// Returns how many charges were of buckets without a place.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
