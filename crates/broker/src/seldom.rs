//! A line of the log that would repeat often, written only now and then.
//!
//! Clients repeat what fails, some once a second forever: with a line for each failure, operators
//! would stop reading them. The lines left out are counted, and the next line has their number. The
//! caller passes the time.

use std::cell::Cell;
use std::time::Duration;

use platform::clock::Instant;

/// Shortest time between two lines.
const EVERY: Duration = Duration::from_mins(1);

/// One line of the log.
#[derive(Default, Debug)]
pub(crate) struct SeldomLine {
    said: Cell<Option<Instant>>,
    unsaid: Cell<u64>,
}

impl SeldomLine {
    /// Returns how many lines were left out since the last one; `None` if this one is left out,
    /// too.
    pub(crate) fn turn(&self, now: Instant) -> Option<u64> {
        let since = |said| now.saturating_duration_since(said);
        if self.said.get().is_some_and(|said| since(said) < EVERY) {
            self.unsaid.set(self.unsaid.get().saturating_add(1));
            return None;
        }
        self.said.set(Some(now));
        Some(self.unsaid.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_asks_every_second_makes_a_line_a_minute() {
        let seldom = SeldomLine::default();
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let said: Vec<_> = (0..180).map(|n| seldom.turn(began + n * second)).collect();
        let said: Vec<_> = said.into_iter().flatten().collect();
        assert_eq!(said, [0, 59, 59]);
    }
}
