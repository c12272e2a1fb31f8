//! Log lines, as text or JSON, on standard error; and the handling of a panic.
//!
//! Invariant: an event is one line and moves no cursor, whatever its fields contain: they hold
//! names, ids and messages of clients ([`wire::text`]). Only backtraces span several lines.

use std::backtrace::Backtrace;
use std::fmt;
use std::io::{self, IsTerminal};

use tracing::field::Field;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use wire::text::{escaped, escaped_json, escaped_lines};

use crate::config::Settings;

pub(crate) mod journal;
mod lines;

use journal::Graded;
use lines::Lines;

/// The field that spans several lines; it contains no text of a client.
const BACKTRACE: &str = "backtrace";

/// Starts logging according to the settings. Call it once per process.
pub fn begin(settings: &Settings) -> anyhow::Result<()> {
    let filter: EnvFilter = settings.log_level.parse()?;
    let ansi = io::stderr().is_terminal();
    let lines = Lines::new(io::stderr(), settings.log_json);
    let to = Graded {
        to: move || lines.clone(),
        to_journal: journal::takes_stderr(),
    };
    let begun = if settings.log_json {
        tracing::subscriber::set_global_default(json(filter, ansi, to))
    } else {
        tracing::subscriber::set_global_default(text(filter, ansi, to))
    };
    begun.map_err(|error| anyhow::anyhow!("logging: {error}"))
}

fn text(
    filter: EnvFilter,
    ansi: bool,
    to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(debug_fn(write_field).delimited(" "))
        .with_ansi(ansi)
        // They would go to standard error, which panics if the write fails.
        .log_internal_errors(false)
        .with_writer(to)
        .finish()
}

fn json(
    filter: EnvFilter,
    ansi: bool,
    to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(ansi)
        .json()
        .flatten_event(true)
        .log_internal_errors(false)
        .with_writer(EscapingWriter(to))
        .finish()
}

/// Writes a field of an event as `name=value`, the message without its name.
fn write_field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let ansi = to.has_ansi_escapes();
    match field.name() {
        "message" => {}
        name if ansi => write!(to, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
        name => write!(to, "{name}=")?,
    }
    let value = format!("{value:?}");
    to.write_str(&match field.name() {
        BACKTRACE => escaped_lines(&value),
        _ => escaped(&value),
    })
}

/// Escapes the characters in JSON lines that a terminal would not show.
struct EscapingWriter<M>(M);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for EscapingWriter<M> {
    type Writer = EscapingWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapingWriter(self.0.make_writer())
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        EscapingWriter(self.0.make_writer_for(event))
    }
}

impl<W: io::Write> io::Write for EscapingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(json) => self.0.write_all(escaped_json(json).as_bytes())?,
            Err(_) => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Makes a panic on any thread end the process, with the reason in the log.
///
/// A broker without one of its shards would answer for some partitions and not for others.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = Backtrace::force_capture();
        let thread = thread.name().unwrap_or("unnamed");
        tracing::error!(thread, %panic, %backtrace, "panic, the process ends");
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use wire::text::is_unseen;

    use super::*;

    /// Where a test has the log written.
    #[derive(Clone, Default)]
    pub(super) struct LogBuffer(pub(super) Arc<Mutex<Vec<u8>>>);

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(by: impl Subscriber + Send + Sync, kept: &LogBuffer) -> String {
        let forged = "g\n2026-01-01T00:00:00Z ERROR forged\u{9b}1m\u{202e}\x1b[2J";
        tracing::subscriber::with_default(by, || {
            tracing::warn!(group = %forged, client = forged, member = ?forged, count = 3, "it is {forged}");
        });
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn what_a_client_calls_itself_forges_no_line_of_the_log() {
        let kept = LogBuffer::default();
        let to = kept.clone();
        let by = text(EnvFilter::new("info"), false, move || to.clone());
        let line = logged(by, &kept);
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        assert!(!line.trim_end().contains(is_unseen), "{line:?}");
        assert!(
            line.contains(" WARN ") && line.contains("it is g\\u{a}2026"),
            "{line}"
        );
        assert!(
            line.contains(" group=g\\u{a}2026") && line.contains(" count=3"),
            "{line}"
        );

        let kept = LogBuffer::default();
        let to = kept.clone();
        let by = json(EnvFilter::new("info"), false, move || to.clone());
        let line = logged(by, &kept);
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        assert!(!line.trim_end().contains(is_unseen), "{line:?}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            read["group"].as_str().unwrap().contains("forged\u{9b}1m"),
            "{line}"
        );
    }
}
