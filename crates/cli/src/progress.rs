//! How far a command with many steps is, on standard error.
//!
//! It is one line that changes in place, on a terminal only, and only if the command takes long. It
//! is gone before the answer.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// A command that takes no longer shows nothing.
const LONG: Duration = Duration::from_secs(1);
/// Time between two changes of the line.
const CHANGE_EVERY: Duration = Duration::from_millis(200);
/// Moves the cursor to the begin of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// Returns the items, and shows how many of them were taken.
pub fn counted<'a, T>(what: &'static str, items: &'a [T]) -> impl Iterator<Item = &'a T> {
    let mut progress = Progress::of(what, items.len(), Instant::now());
    let is_terminal = io::stderr().is_terminal();
    items.iter().inspect(move |_| {
        let line = progress.step(Instant::now()).filter(|_| is_terminal);
        if let Some(line) = line {
            write(&line);
        }
    })
}

/// The line, and when it changes.
#[derive(Debug)]
struct Progress {
    what: &'static str,
    count: usize,
    done: usize,
    change_at: Instant,
    is_shown: bool,
}

impl Progress {
    fn of(what: &'static str, count: usize, now: Instant) -> Self {
        Self {
            what,
            count,
            done: 0,
            change_at: now + LONG,
            is_shown: false,
        }
    }

    /// Begins the next step; returns the line if it changes.
    fn step(&mut self, now: Instant) -> Option<String> {
        let done = self.done;
        self.done = done.saturating_add(1);
        if now < self.change_at {
            return None;
        }
        self.change_at = now + CHANGE_EVERY;
        self.is_shown = true;
        let (count, what) = (self.count, self.what);
        Some(format!("{CLEAR_LINE}{done} of {count} {what}"))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown && io::stderr().is_terminal() {
            write(CLEAR_LINE);
        }
    }
}

/// Nothing depends on what is shown.
fn write(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_command_shows_it_and_not_at_every_step() {
        let start = Instant::now();
        let mut progress = Progress::of("groups", 40, start);
        let mut shown = Vec::new();
        for step in 0..40 {
            let now = start + Duration::from_millis(step * 50);
            shown.extend(progress.step(now));
        }
        let lines = [20, 24, 28, 32, 36].map(|done| format!("\r\x1b[K{done} of 40 groups"));
        assert_eq!(shown, lines);
    }

    #[test]
    fn every_item_is_returned() {
        assert_eq!(counted("items", &[1, 2, 3]).sum::<i32>(), 6);
    }
}
