//! The wall clock in Kafka's unit.
//!
//! Invariant: a clock before 1970 reads as 0, and one beyond 63 bits as the largest number. Not
//! here: the clock of the broker, which a simulation replaces (`platform::clock`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    milliseconds(since.unwrap_or_default())
}

/// Returns whole milliseconds.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
