//! Shows answers: a table for people, JSON for programs.
//!
//! Invariant: names, ids and messages of others are shown escaped ([`wire::text`]). A table escapes
//! its cells, [`print()`] everything but line feeds; code that writes text of others into its own
//! lines escapes it there, so that the text cannot forge a line.

mod table;

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use wire::text::{escaped, escaped_json, escaped_lines};

pub(crate) use table::Table;

/// Moves the cursor to the top of the terminal and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";

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
        write(&self.shown(answer, text)?)?;
        Ok(())
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

/// Writes lines to standard output; returns false if its reader is gone.
pub(crate) fn print(text: &str) -> anyhow::Result<bool> {
    write(&escaped_lines(text))
}

/// Writes lines in the place of everything on the terminal.
pub(crate) fn replace(text: &str) -> anyhow::Result<bool> {
    write(&format!("{CLEAR}{}", escaped_lines(text)))
}

/// Writes a line of JSON to standard output; returns false if its reader is gone.
pub(crate) fn print_json(json: &impl Serialize) -> anyhow::Result<bool> {
    write(&json_line(json)?)
}

/// Returns a line of JSON; [`print()`] leaves it as it is.
pub(crate) fn json_line(json: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped_json(&serde_json::to_string(json)?).into_owned() + "\n")
}

/// Writes a line to standard error.
pub(crate) fn say(line: &str) {
    // If standard error is closed, the exit code has to be sufficient.
    drop(writeln!(io::stderr(), "forebay: {}", escaped(line)));
}

/// Writes to standard output.
///
/// A closed pipe is no error, and returns false: the reader has read enough.
fn write(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
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

    proptest! {
        #[test]
        fn what_is_printed_shows_nothing_unseen_and_json_means_the_same(said in any::<String>(), hidden in "[\\x00-\\u{2100}]{0,12}") {
            let said = said + &hidden;
            prop_assert!(!Format::Text.shown(&said, || said.clone()).unwrap().contains(|c| !matches!(c, '\n' | '\t') && is_unseen(c)));
            let json = Format::Json.shown(&said, String::new).unwrap();
            prop_assert!(!json.contains(|c| c != '\n' && is_unseen(c)));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), said);
        }
    }
}
