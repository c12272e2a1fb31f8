//! What the broker writes to its log while something runs: warnings and errors, as text.

use std::fmt::{Debug, Write as _};
use std::sync::mpsc::{Sender, channel};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

struct Journal(Sender<String>);

/// Runs something and gives the lines it wrote.
pub(crate) fn lines_of(work: impl FnOnce()) -> Vec<String> {
    let (sender, lines) = channel();
    tracing::subscriber::with_default(Journal(sender), work);
    lines.try_iter().collect()
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.send(line.0).unwrap();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
