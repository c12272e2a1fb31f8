//! A bound on the lines of the log about clients of the admin endpoint, which any of its threads
//! writes. What is left out is in the metrics, and its number in the next line.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Most lines within [`SPAN`].
const LINES_MAX: u32 = 20;
const SPAN: Duration = Duration::from_secs(1);

/// The bound.
#[derive(Default, Debug)]
pub(super) struct Lines(Mutex<Counts>);

#[derive(Default, Debug)]
struct Counts {
    /// When the present span began.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Lines {
    /// Returns how many lines were left out since the last one; `None` if this one is left out,
    /// too.
    pub(super) fn turn(&self, now: Instant) -> Option<u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since: Instant| now.saturating_duration_since(since) >= SPAN;
        if counts.since.is_none_or(is_over) {
            (counts.since, counts.lines) = (Some(now), 0);
        }
        if counts.lines >= LINES_MAX {
            counts.left_out = counts.left_out.saturating_add(1);
            return None;
        }
        counts.lines = counts.lines.saturating_add(1);
        Some(std::mem::take(&mut counts.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_makes_some_lines_and_none_is_uncounted() {
        let (lines, begin) = (Lines::default(), Instant::now());
        let said: Vec<_> = (0..1000).filter_map(|_| lines.turn(begin)).collect();
        assert_eq!(said, [0; LINES_MAX as usize]);
        assert_eq!(lines.turn(begin + SPAN), Some(1000 - u64::from(LINES_MAX)));
    }
}
