//! The group coordinator: the members and the leader of each consumer group, and the group's
//! committed offset in every partition.
//!
//! - [`classic`]: the rebalances of one classic group, a pure state machine;
//! - [`consumer`]: one group of the new protocol (KIP-848), also pure; [`assignor`]: computes
//!   assignments;
//! - [`groups`]: all groups of one partition of `__consumer_offsets`: state machines, committed
//!   offsets, records on their way to the log; also pure;
//! - [`coordinator`]: the asynchronous shell of a shard: waiting requests, appends, one timer.
//!
//! Invariants: a request becomes records, and the records are appended; durable state changes only
//! through [`groups::Groups::stage`] and [`groups::Groups::settle`], through
//! [`groups::Groups::load`] after a start, and through [`groups::Groups::commit_record`] for a
//! committed transaction; a failed append leaves no trace in memory; every waiting request is
//! answered exactly once. Not here: share groups, streams groups, compaction.

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
mod seen;
mod subscription;
pub mod survey;
pub mod unserved;
mod versioned;

use platform::clock::{Instant, Reading};
use wire::protocol::StrBytes;

pub use cluster::Topics;
pub(crate) use consumer::Pattern;
pub use coordinator::{GroupCoordinator, OffsetsLog};
pub use java_hash::partition_for;
pub use offsets::GoneTopics;
pub(crate) use offsets::{
    COMMIT_BY_ID, CheckedCommit, Commit, OffsetDeletion, OffsetFetchAnswer, Verdict, commit_answer,
    is_long,
};
pub(crate) use seen::SeenCluster;

/// Both clocks, read once per decision.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// The monotonic clock, for deadlines.
    pub at: Instant,
    /// The wall clock in milliseconds, for records.
    pub wall_ms: i64,
    /// By how much the wall clock was set and is not trusted yet.
    pub step_ms: i64,
}

impl ClockReading {
    /// Returns the reading of the wall clock by which ages are judged.
    fn reading(self) -> Reading {
        Reading {
            wall_ms: self.wall_ms,
            steady_ms: self.wall_ms.saturating_sub(self.step_ms),
        }
    }
}

/// The age of an event that has a wall-clock date, kept by the monotonic clock.
///
/// Later jumps of the wall clock do not change the age. A date in the future (the clock was set
/// back) counts as now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventAge {
    /// When this broker learned of the event.
    known: Instant,
    /// The age of the event at that time.
    age_ms: i64,
}

impl EventAge {
    /// Returns the age of an event dated `wall_ms`, which is learned of now.
    pub(crate) fn of(wall_ms: i64, now: ClockReading) -> Self {
        Self {
            known: now.at,
            age_ms: now.reading().age_ms(wall_ms).max(0),
        }
    }

    /// Returns the age of the event in milliseconds.
    pub(crate) fn age_ms(self, now: ClockReading) -> i64 {
        let known = now.at.saturating_duration_since(self.known);
        let known = i64::try_from(known.as_millis()).unwrap_or(i64::MAX);
        self.age_ms.saturating_add(known)
    }
}

/// The client that sent a request, as far as groups need it.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client id.
    pub id: StrBytes,
    /// The client's address as Java prints it: a slash and the number.
    pub host: StrBytes,
}

/// Returns a copy that does not keep the request's frame alive.
pub(crate) fn owned(text: &StrBytes) -> StrBytes {
    StrBytes::from_string(text.as_str().to_owned())
}
