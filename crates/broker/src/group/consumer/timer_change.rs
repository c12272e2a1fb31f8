//! The changes that a decision makes to a member's timers.
//!
//! Invariant: a change concerns one member. Not here: the timers (`timers.rs`).

use platform::clock::Instant;

/// A change of a member's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerChange {
    /// The member must send a heartbeat before this time.
    Session(Instant),
    /// The member must leave this epoch before this time.
    Rebalance(Instant, i32),
    /// The member has given up the partitions that it had to.
    Rebalanced,
    /// The member must rejoin before this time, or before an earlier one that is already set.
    JoinBy(Instant),
    /// The member has joined, and must ask for its assignment before this time.
    SyncBy(Instant),
    /// The member has asked for its assignment.
    Synced,
    /// The member is removed.
    Gone,
}
