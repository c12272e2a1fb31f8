//! Shows answers: a table for people, JSON for programs.
//!
//! Invariant: names, ids and messages of others are shown escaped ([`wire::text`]). A table escapes
//! its cells, [`print()`] everything but line feeds; code that writes text of others into its own
//! lines escapes it there, so that the text cannot forge a line.

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use wire::text::{escaped, escaped_json, escaped_lines};

/// The format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl Format {
    /// Shows an answer.
    pub(crate) fn show<T: Serialize>(
        self,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        write(&self.shown(answer, text)?)
    }

    /// Returns the text that is shown.
    fn shown<T: Serialize>(
        self,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        Ok(match self {
            Self::Text => escaped_lines(&text()).into_owned(),
            Self::Json => escaped_json(&serde_json::to_string_pretty(answer)?).into_owned() + "\n",
        })
    }
}

/// Writes lines to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write(&escaped_lines(text))
}

/// Writes a line of JSON to standard output.
pub(crate) fn print_json(json: &impl Serialize) -> anyhow::Result<()> {
    write(&(escaped_json(&serde_json::to_string(json)?).into_owned() + "\n"))
}

/// Writes a line to standard error.
pub(crate) fn say(line: &str) {
    // If standard error is closed, the exit code has to be sufficient.
    drop(writeln!(io::stderr(), "forebay: {}", escaped(line)));
}

/// Writes to standard output.
///
/// A closed pipe is no error: the reader has read enough.
fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Rows below a head, in columns as wide as needed.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn headed(head: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    /// Makes a table of two columns without a head: names and values.
    pub(crate) fn plain() -> Self {
        Self { rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, row: [String; N]) {
        self.rows
            .push(Vec::from(row.map(|cell| escaped(&cell).into_owned())));
    }

    /// Returns the lines, without trailing blanks.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths);
            let line: Vec<_> = cells
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            text.push_str(line.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Returns numbers separated by commas; `-` for none.
pub(crate) fn list(numbers: &[i32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    if numbers.is_empty() {
        "-".to_owned()
    } else {
        numbers.join(",")
    }
}

/// Returns a value, or `-`.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::text::is_unseen;

    use super::*;

    #[test]
    fn a_group_id_can_neither_move_the_cursor_nor_forge_a_row() {
        let mut table = Table::headed(&["GROUP", "STATE"]);
        table.row([
            "a\x1b[2J\x07\nforged  Stable".into(),
            "\u{9b}1mEmpty".into(),
        ]);
        let shown = "GROUP                               STATE\n\
                     a\\u{1b}[2J\\u{7}\\u{a}forged  Stable  \\u{9b}1mEmpty\n";
        assert_eq!(table.render(), shown);
    }

    proptest! {
        #[test]
        fn a_table_has_a_line_for_each_row_and_nothing_unseen(
            rows in proptest::collection::vec(("[\\x00-\\u{2100}]{0,12}", any::<String>()), 0..6)
        ) {
            let mut table = Table::headed(&["A", "B"]);
            let lines = rows.len() + 1;
            for (a, b) in rows {
                table.row([a, b]);
            }
            let text = table.render();
            prop_assert_eq!(text.matches('\n').count(), lines);
            prop_assert!(!text.contains(|c| c != '\n' && is_unseen(c)));
        }

        #[test]
        fn what_is_printed_shows_nothing_unseen_and_json_means_the_same(said in any::<String>(), hidden in "[\\x00-\\u{2100}]{0,12}") {
            let said = said + &hidden;
            prop_assert!(!Format::Text.shown(&said, || said.clone()).unwrap().contains(|c| !matches!(c, '\n' | '\t') && is_unseen(c)));
            let json = Format::Json.shown(&said, String::new).unwrap();
            prop_assert!(!json.contains(|c| c != '\n' && is_unseen(c)));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), said);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::headed(&["NAME", "N"]);
        table.row(["cars".into(), "12".into()]);
        table.row(["long-name".into(), String::new()]);
        assert_eq!(table.render(), "NAME       N\ncars       12\nlong-name\n");
        assert_eq!(Table::plain().render(), "");
    }
}
