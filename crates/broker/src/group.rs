//! The group coordinator: who is in a consumer group, who leads it, and where the group stands in
//! every partition.
//!
//! - [`classic`]: one group's rebalances, a pure state machine;
//! - [`consumer`]: one group of the new protocol (KIP-848), pure too; [`assignor`]: who gets what;
//! - [`groups`]: all groups of one partition of `__consumer_offsets`: machines, committed offsets,
//!   what is on its way to the log; pure too;
//! - [`coordinator`]: the async shell of a shard: waiting requests, appends, one timer.
//!
//! Invariants: a request becomes records, the records are appended, and [`groups::Groups::stage`]
//! and [`groups::Groups::settle`] (or [`groups::Groups::load`] after a start) are the only ways
//! into durable state; what was not appended leaves no trace in memory; every waiting request is
//! answered once. Not here: share groups and streams groups, compaction.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an index out of bounds ends the broker"
    )
)]

pub mod assignor;
pub mod classic;
pub mod cluster;
pub mod consumer;
pub mod coordinator;
mod embedded;
pub mod groups;
mod java_hash;
mod metadata_hash;
pub mod metrics;
mod offsets;
mod open;
pub mod records;
mod subscription;
mod versioned;

use platform::clock::{Instant, Reading};
use wire::protocol::StrBytes;

pub use cluster::Topics;
pub(crate) use consumer::Pattern;
pub use coordinator::{GroupCoordinator, OffsetsLog};
pub use java_hash::partition_for;
pub use offsets::GoneTopics;
pub(crate) use offsets::{COMMIT_BY_ID, Commit, Fetched, Going, Readied, Verdict, is_long};

/// Both clocks, read once per decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Monotonic, for deadlines.
    pub at: Instant,
    /// Wall clock in milliseconds, for what is written.
    pub wall_ms: i64,
    /// By how much it was set and is not believed yet.
    pub step_ms: i64,
}

impl Now {
    /// The wall clock, for judging ages.
    fn reading(self) -> Reading {
        Reading {
            wall_ms: self.wall_ms,
            steady_ms: self.wall_ms.saturating_sub(self.step_ms),
        }
    }
}

/// When something happened that is dated by a wall clock, as the monotonic clock has it: what the wall clock does once
/// it is known changes nothing. A date in the future (the clock was set back) is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    /// When it became known.
    known: Instant,
    /// How long ago it was then.
    age_ms: i64,
}

impl Since {
    /// Something dated `wall_ms` that is known from now on.
    pub(crate) fn of(wall_ms: i64, now: Now) -> Self {
        Self {
            known: now.at,
            age_ms: now.reading().age_ms(wall_ms).max(0),
        }
    }

    /// How long ago it was, in milliseconds.
    pub(crate) fn age_ms(self, now: Now) -> i64 {
        let known = now.at.saturating_duration_since(self.known);
        let known = i64::try_from(known.as_millis()).unwrap_or(i64::MAX);
        self.age_ms.saturating_add(known)
    }
}

/// Who asks, as far as groups care.
#[derive(Clone, Debug)]
pub struct Client {
    /// What the client calls itself.
    pub id: StrBytes,
    /// Its address as Java prints it: a slash and the number.
    pub host: StrBytes,
}

/// A copy that does not keep the request's frame alive.
pub(crate) fn owned(text: &StrBytes) -> StrBytes {
    StrBytes::from_string(text.as_str().to_owned())
}
