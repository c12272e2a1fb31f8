//! Tells systemd's journal how grave a line is, by a number before it that the journal takes off.
//!
//! Without one every line counts as information, and `journalctl -p warning` shows none of a
//! broker's warnings. It is written only where standard error is the journal, which the variable
//! `JOURNAL_STREAM` says with the device and the inode: a process that has the variable and another
//! standard error writes lines without it.
//! Not here: what a line has (`logging`).

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstat;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The journal's numbers (`sd-daemon(3)`).
const ERROR: u8 = b'3';
const WARNING: u8 = b'4';
const INFORMATION: u8 = b'6';
const DEBUG: u8 = b'7';

/// Returns true if the journal takes what is written to standard error.
pub(crate) fn takes_stderr() -> bool {
    let named = std::env::var("JOURNAL_STREAM");
    named.is_ok_and(|named| is_stream(&named, io::stderr()))
}

/// Returns true if a file has the device and the inode that are named.
fn is_stream(named: &str, file: impl AsFd) -> bool {
    let numbers = named.split_once(':').and_then(|(device, inode)| {
        let device: u64 = device.parse().ok()?;
        Some((device, inode.parse::<u64>().ok()?))
    });
    fstat(file).is_ok_and(|facts| numbers == Some((facts.st_dev, facts.st_ino)))
}

/// Returns an error message as the journal takes it, each line with its number.
pub(crate) fn as_error(text: &str) -> String {
    let mut lines = String::new();
    for line in text.split_inclusive('\n') {
        lines.push_str("<3>");
        lines.push_str(line);
    }
    lines
}

/// Writers that say how grave each line is, if `to_journal`.
#[derive(Clone, Debug)]
pub(super) struct Graded<M> {
    pub(super) to: M,
    pub(super) to_journal: bool,
}

/// A writer of one event.
pub(super) struct GradedWriter<W> {
    to: W,
    grade: Option<u8>,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Graded<M> {
    type Writer = GradedWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        GradedWriter {
            to: self.to.make_writer(),
            grade: self.to_journal.then_some(INFORMATION),
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        let grade = match *event.level() {
            Level::ERROR => ERROR,
            Level::WARN => WARNING,
            Level::INFO => INFORMATION,
            _ => DEBUG,
        };
        GradedWriter {
            to: self.to.make_writer_for(event),
            grade: self.to_journal.then_some(grade),
        }
    }
}

impl<W: io::Write> io::Write for GradedWriter<W> {
    /// Takes the whole event, as it is formatted before it is written.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let Some(grade) = self.grade else {
            return self.to.write(event);
        };
        let mut graded = Vec::with_capacity(event.len().saturating_add(3));
        // A backtrace spans several lines.
        for line in event.split_inclusive(|byte| *byte == b'\n') {
            graded.extend([b'<', grade, b'>']);
            graded.extend(line);
        }
        self.to.write_all(&graded)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::super::tests::LogBuffer;
    use super::*;

    fn logged(to_journal: bool) -> String {
        let kept = LogBuffer::default();
        let to = kept.clone();
        let to = Graded {
            to: move || to.clone(),
            to_journal,
        };
        let by = super::super::json(tracing_subscriber::EnvFilter::new("debug"), false, to);
        tracing::subscriber::with_default(by, || {
            tracing::error!("of a disk");
            tracing::warn!("soon");
            tracing::info!("fine");
            tracing::debug!("a detail");
        });
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn only_the_journal_hears_how_grave_a_line_is() {
        let graded = logged(true);
        let grades: Vec<_> = graded.lines().map(|line| &line[..4]).collect();
        assert_eq!(grades, ["<3>{", "<4>{", "<6>{", "<7>{"]);
        assert!(logged(false).lines().all(|line| line.starts_with('{')));
        assert_eq!(
            as_error("forebay: wrong:\n  x\n"),
            "<3>forebay: wrong:\n<3>  x\n"
        );
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let file = tempfile::tempfile().unwrap();
        let facts = file.metadata().unwrap();
        let named = format!("{}:{}", facts.dev(), facts.ino());
        assert!(is_stream(&named, &file));
        for other in [
            "",
            "8:x",
            "8",
            &format!("{}:{}", facts.dev(), facts.ino() + 1),
        ] {
            assert!(!is_stream(other, &file), "{other}");
        }
    }
}
