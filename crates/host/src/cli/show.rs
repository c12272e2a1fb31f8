//! The format of answers: lines for people, JSON for programs.
//!
//! Invariant: characters that a terminal would hide, or that would move its cursor or the order of
//! letters, are written as `\u{1b}`: names of devices and messages of the kernel are not under this
//! program's control.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::Serialize;

/// The format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub(super) enum Format {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

impl Format {
    /// Shows an answer.
    pub(super) fn show<T: Serialize>(
        self,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self {
            Format::Text => print(&escaped(&text())),
            Format::Json => print(&(serde_json::to_string_pretty(answer)? + "\n")),
        }
    }

    /// Shows one of many answers, as a line.
    pub(super) fn line<T: Serialize>(
        self,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self {
            Format::Text => print(&(escaped(&text()) + "\n")),
            Format::Json => print(&(serde_json::to_string(answer)? + "\n")),
        }
    }
}

/// Writes text to standard output.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader closed the pipe because it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes a line to standard error.
pub(super) fn say(line: &str) {
    // If standard error is closed, the exit code must suffice.
    drop(writeln!(io::stderr(), "forebay: {}", escaped(line)));
}

fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if (letter.is_control() && letter != '\n') || turns(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Returns whether a character changes the direction of those behind it.
fn turns(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns rows with aligned columns.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_moves_no_cursor() {
        assert_eq!(escaped("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\nc");
    }

    #[test]
    fn columns_are_below_each_other() {
        let rows = [["a", "b"], ["long", "c"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a     b\nlong  c\n");
    }
}
