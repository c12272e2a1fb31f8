//! Detects and logs steps of the wall clock, for everything that deletes by age.
//!
//! The shard of the controller compares both clocks every few seconds, and sets the clocks of all
//! shards to the result of [`Steps`]: retention, compaction, producers, group offsets,
//! transactional ids and tiers judge ages by a [`platform::clock::Reading`]. The result is saved in
//! the directory of the metadata log, for the next start; where it is missing (Kafka's
//! directories), the time of the newest checkpoint file replaces it.
//!
//! Invariant: nothing is deleted for its age between the opening of the first log and the first
//! comparison. It does not refuse timestamps, which follow the wall clock as it is, or affect
//! timeouts, which follow the monotonic clock.

mod look;

use std::cell::{Cell, RefCell};

use platform::clock::steps::{Mark, Steps};
use storage::checkpoint::properties;

pub(crate) use look::watch;

/// The clock state of the controller's shard.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    steps: RefCell<Option<Steps>>,
    /// Monotonic time when the note was written.
    noted_ms: Cell<Option<i64>>,
}

/// A step that is not trusted yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldStep {
    /// The size of the step, in milliseconds.
    pub by_ms: i64,
    /// Time until the step is trusted, if the clock runs steadily until then, in milliseconds.
    pub left_ms: i64,
}

fn encode(mark: Mark) -> String {
    let Mark {
        wall_ms,
        steady_ms,
        held_ms,
    } = mark;
    format!("version=0\nwall.ms={wall_ms}\nsteady.ms={steady_ms}\nheld.ms={held_ms}\n")
}

fn parse(path: &std::path::Path, bytes: &[u8]) -> Option<Mark> {
    let entries = properties::parse(path, bytes).ok()?;
    let number = |key: &str| {
        let entry = entries.iter().find(|entry| entry.key == key)?;
        entry.value.parse::<i64>().ok()
    };
    let mark = Mark {
        wall_ms: number("wall.ms")?,
        steady_ms: number("steady.ms")?,
        held_ms: number("held.ms")?,
    };
    (number("version")? == 0).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_a_damaged_one_is_none() {
        let mark = Mark {
            wall_ms: 5,
            steady_ms: -3,
            held_ms: i64::MAX,
        };
        let path = std::path::Path::new("clock-checkpoint");
        assert_eq!(parse(path, encode(mark).as_bytes()), Some(mark));
        for damaged in [
            "",
            "version=0\nwall.ms=1\n",
            "version=1\nwall.ms=1\nsteady.ms=1\nheld.ms=1",
        ] {
            assert_eq!(parse(path, damaged.as_bytes()), None);
        }
    }
}
