//! What the broker writes to its log while something runs: warnings and errors, as text.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

struct Journal;

thread_local! {
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Sees to it that lines are heard of, before the first is written.
///
/// One subscriber serves all tests of the process, and for good: whether a line is wanted at all is
/// decided when its place in the code is first reached, and that could be missed while subscribers
/// came and went on other threads.
pub(crate) fn listen() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Journal).expect("the only one"));
}

/// Runs something and gives the lines that this thread wrote meanwhile.
pub(crate) fn lines_of(work: impl FnOnce()) -> Vec<String> {
    listen();
    LINES.set(Some(Vec::new()));
    work();
    LINES.take().expect("nobody else takes them")
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
        // Not of a thread that is ending, nor of one whose lines no test reads.
        let _ = LINES.try_with(|lines| {
            if let Some(lines) = lines.borrow_mut().as_mut() {
                lines.push(line.0);
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
