//! Writes log lines to standard error without ending or blocking the broker.
//!
//! The reader of the lines may stand still (a stopped terminal, a hanging collector), be gone, or
//! have no room left. Then lines are lost, and the next line that can be written reports how many.
//! Invariants: nothing here waits, and no write error reaches the caller; a partly written line is
//! ended before the next one. Exception: a file on a hanging file system blocks, since the system
//! offers no way to ask.

use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Bytes that a pipe takes at once when it is ready.
const PIECE_BYTES: usize = 4096;
const NO_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A destination of lines; clones share it.
#[derive(Debug)]
pub(super) struct Lines<W> {
    to: Arc<W>,
    json: bool,
    state: Arc<Mutex<LineLoss>>,
}

#[derive(Default, Debug)]
struct LineLoss {
    /// Lines lost since the last one that was written.
    lost: u64,
    /// The last line was written in part.
    torn: bool,
}

impl<W> Clone for Lines<W> {
    fn clone(&self) -> Self {
        Self {
            to: Arc::clone(&self.to),
            json: self.json,
            state: Arc::clone(&self.state),
        }
    }
}

impl<W: AsFd> Lines<W> {
    pub(super) fn new(to: W, json: bool) -> Self {
        Self {
            to: Arc::new(to),
            json,
            state: Arc::default(),
        }
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.torn {
            let (_, ended) = self.write(b"\n");
            state.torn = !ended;
        }
        if !state.torn && state.lost > 0 {
            let (begun, said) = self.write(self.of_lost(state.lost).as_bytes());
            state.torn = begun && !said;
            if said {
                state.lost = 0;
            }
        }
        if state.torn || state.lost > 0 {
            state.lost = state.lost.saturating_add(1);
            return;
        }
        let (begun, done) = self.write(line);
        state.torn = begun && !done;
        state.lost = u64::from(!done);
    }

    fn of_lost(&self, lost: u64) -> String {
        let mut line = String::new();
        let what = "lines of the log were lost: nobody took them";
        let written = if self.json {
            writeln!(
                line,
                r#"{{"level":"WARN","message":"{what}","lost":{lost}}}"#
            )
        } else {
            writeln!(line, "WARN server::logging: {what} lost={lost}")
        };
        debug_assert!(written.is_ok(), "a string takes everything");
        line
    }

    /// Writes as much as the destination takes at once; returns whether any of it, and whether all
    /// of it, was written.
    fn write(&self, bytes: &[u8]) -> (bool, bool) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut asked = [PollFd::new(&*self.to, PollFlags::OUT)];
            match poll(&mut asked, Some(&NO_TIME)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => break,
            }
            let piece = rest.get(..PIECE_BYTES).unwrap_or(rest);
            match rustix::io::write(&*self.to, piece) {
                Ok(0) => break,
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        (rest.len() < bytes.len(), rest.is_empty())
    }
}

impl<W: AsFd> io::Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_reader_that_stands_still_holds_nobody_up_and_is_told_what_it_missed() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut lines = Lines::new(writer, false);
        let line = "x".repeat(999) + "\n";
        for _ in 0..2000 {
            lines.write_all(line.as_bytes()).unwrap();
        }
        let mut taken = vec![0; 1 << 20];
        let count = reader.read(&mut taken).unwrap();
        lines.write_all(b"last\n").unwrap();
        drop(lines);
        taken.truncate(count);
        reader.read_to_end(&mut taken).unwrap();
        let text = String::from_utf8(taken).unwrap();
        let whole = text.lines().filter(|it| it.len() == 999).count();
        let lost = text
            .lines()
            .find_map(|it| it.split_once("lost="))
            .unwrap()
            .1;
        let torn = text
            .lines()
            .filter(|it| it.starts_with('x') && it.len() < 999)
            .count();
        assert_eq!(lost.parse::<usize>().unwrap(), 2000 - whole);
        assert!(torn <= 1 && text.ends_with("\nlast\n"), "{torn}");
    }

    #[test]
    fn a_reader_that_is_gone_and_a_disk_without_room_are_no_errors() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        Lines::new(writer, true).write_all(b"{}\n").unwrap();
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        Lines::new(full, true).write_all(b"{}\n").unwrap();
    }
}
