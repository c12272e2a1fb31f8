//! A log line that says the same again and again, said now and then.
//!
//! Clients repeat what fails, some once a second for ever: a line for each teaches operators to pass over lines. What was
//! not said is counted, and said with the next. Pure: it is told the time.

use std::cell::Cell;
use std::time::Duration;

use platform::clock::Instant;

/// How often it is said.
const EVERY: Duration = Duration::from_mins(1);

/// One line of the log.
#[derive(Default, Debug)]
pub(crate) struct Seldom {
    said: Cell<Option<Instant>>,
    unsaid: Cell<u64>,
}

impl Seldom {
    /// How many times it was not said since the last time; `None`: it is not to be said now either.
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
        let seldom = Seldom::default();
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let said: Vec<_> = (0..180).map(|n| seldom.turn(began + n * second)).collect();
        let said: Vec<_> = said.into_iter().flatten().collect();
        assert_eq!(said, [0, 59, 59]);
    }
}
