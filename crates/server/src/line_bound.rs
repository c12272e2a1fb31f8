//! A bound on the lines of the log about what clients do wrong.
//!
//! A client that fails and tries again at once would fill the log with its lines, and hide those of
//! other clients. So there are some in a second, whatever the cause, and besides one of each cause
//! that had none in that second: a flood of one kind hides no other. The next line of a cause has
//! the number of those that were left out. The caller passes the time. Not here: the metrics, which
//! count all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Most lines within [`SPAN`], beside the first of each cause.
const LINES_MAX: u32 = 20;
const SPAN: Duration = Duration::from_secs(1);

/// The lines of one second, by their causes.
#[derive(Default, Debug)]
pub(crate) struct LineBound {
    /// When the present span began.
    since: Option<Instant>,
    /// Lines in this span.
    lines: u32,
    // Unbounded: causes are words of this program.
    causes: BTreeMap<&'static str, CauseLines>,
}

#[derive(Default, Debug)]
struct CauseLines {
    /// True if there was one in this span.
    is_said: bool,
    left_out: u64,
}

impl LineBound {
    /// Returns how many lines of this cause were left out since its last one; `None` if this one is
    /// left out, too.
    pub(crate) fn turn(&mut self, cause: &'static str, now: Instant) -> Option<u64> {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= SPAN;
        if self.since.is_none_or(is_over) {
            (self.since, self.lines) = (Some(now), 0);
            self.causes
                .values_mut()
                .for_each(|cause| cause.is_said = false);
        }
        let cause = self.causes.entry(cause).or_default();
        if cause.is_said && self.lines >= LINES_MAX {
            cause.left_out = cause.left_out.saturating_add(1);
            return None;
        }
        cause.is_said = true;
        self.lines = self.lines.saturating_add(1);
        Some(std::mem::take(&mut cause.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_failures_in_a_second_make_some_lines_and_none_is_uncounted() {
        let (mut lines, begin) = (LineBound::default(), Instant::now());
        let mut said = |at: Duration| lines.turn("closed", begin + at);
        let ms = Duration::from_millis(1);
        let first: Vec<_> = (0..1000).filter_map(|n| said(n * ms)).collect();
        assert_eq!(first, [0; LINES_MAX as usize]);
        assert_eq!(said(SPAN), Some(1000 - u64::from(LINES_MAX)));
        assert_eq!(said(SPAN), Some(0));
    }

    #[test]
    fn a_flood_of_one_cause_hides_no_other() {
        let (mut lines, begin) = (LineBound::default(), Instant::now());
        for _ in 0..1000 {
            lines.turn("kafka_plaintext", begin);
        }
        assert_eq!(lines.turn("certificate_expired", begin), Some(0));
        assert_eq!(lines.turn("certificate_expired", begin), None);
        let later = begin + SPAN;
        for number in 0..1000 {
            let said = lines.turn("kafka_plaintext", later);
            assert_eq!(said.is_some(), number < LINES_MAX);
        }
        assert_eq!(lines.turn("certificate_expired", later), Some(1));
        assert_eq!(lines.turn("timeout", later), Some(0));
    }
}
