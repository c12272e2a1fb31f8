//! What a decision makes of a member's timers.
//!
//! Invariant: a change is of one member. It does not: keep timers (`timers.rs`).

use platform::clock::Instant;

/// What to do with a member's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerChange {
    /// It has until then to be heard of again.
    Session(Instant),
    /// It has until then to leave this epoch.
    Rebalance(Instant, i32),
    /// It has given up what it had to.
    Rebalanced,
    /// It has until then to join again, unless it already has to by an earlier time.
    JoinBy(Instant),
    /// It has joined, and has until then to ask for its assignment.
    SyncBy(Instant),
    /// It has asked for its assignment.
    Synced,
    /// It is gone.
    Gone,
}
