//! A bound on the lines of the log about connections that a fault of their client ended.
//!
//! A client that fails and connects again at once would fill the log with its lines, and hide those
//! of other clients. So a shard writes some in a second, and the next line has the number of lines
//! that it left out. The caller passes the time. Not here: the metrics, which count every fault.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

/// Most lines of a shard within [`SPAN`].
const LINES_MAX: u32 = 20;
const SPAN: Duration = Duration::from_secs(1);

/// The bound on the lines of one shard; clones share it.
#[derive(Clone, Default, Debug)]
pub struct ClientFaultLines(Rc<Counts>);

#[derive(Default, Debug)]
struct Counts {
    /// When the present span began.
    since: Cell<Option<Instant>>,
    /// Lines in this span.
    lines: Cell<u32>,
    left_out: Cell<u64>,
}

impl ClientFaultLines {
    /// Returns how many lines were left out since the last one; `None` if this one is left out,
    /// too.
    pub(crate) fn turn(&self, now: Instant) -> Option<u64> {
        let counts = &self.0;
        let is_over = |since| now.saturating_duration_since(since) >= SPAN;
        if counts.since.get().is_none_or(is_over) {
            counts.since.set(Some(now));
            counts.lines.set(0);
        }
        if counts.lines.get() == LINES_MAX {
            counts.left_out.set(counts.left_out.get().saturating_add(1));
            return None;
        }
        counts.lines.set(counts.lines.get().saturating_add(1));
        assert!(counts.lines.get() <= LINES_MAX, "some lines in a span");
        Some(counts.left_out.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_failures_in_a_second_make_some_lines_and_none_is_uncounted() {
        let lines = ClientFaultLines::default();
        let begin = Instant::now();
        let said = |at: Duration| lines.turn(begin + at);
        let ms = Duration::from_millis(1);
        let first: Vec<_> = (0..1000).filter_map(|n| said(n * ms)).collect();
        assert_eq!(first, [0; LINES_MAX as usize]);
        assert_eq!(said(SPAN), Some(1000 - u64::from(LINES_MAX)));
        assert_eq!(said(SPAN), Some(0));
    }
}
