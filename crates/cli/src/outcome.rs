//! The outcome of a command for each of the things that it names.
//!
//! Invariants: the exit code is a failure if one of them failed. What a command only would do is
//! not `done`.

use std::fmt::Display;
use std::process::ExitCode;

use serde::Serialize;

use crate::ask::Failure;
use crate::show::{self, Format, Table};

/// The outcome of a command for one of the things that it names.
#[derive(Debug, Serialize)]
pub(crate) struct CommandOutcome {
    name: String,
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    words: String,
}

impl CommandOutcome {
    /// Makes an outcome; `done` is the text that is shown for a success.
    pub(crate) fn of(name: &str, result: Result<(), impl Display>, done: &str) -> Self {
        let error = result.err().map(|error| error.to_string());
        Self {
            name: name.to_owned(),
            done: error.is_none(),
            words: error.clone().unwrap_or_else(|| done.to_owned()),
            error,
        }
    }

    /// Makes the outcome of something that can be done and was not; `would` is the text for it.
    pub(crate) fn would(name: &str, would: &str) -> Self {
        let possible = Self::of(name, Ok::<(), Failure>(()), would);
        Self {
            done: false,
            ..possible
        }
    }

    /// Makes the outcome of a change, or with `dry_run` of the question whether it can be made.
    pub(crate) fn tried(
        name: &str,
        result: Result<(), impl Display>,
        done: &str,
        dry_run: bool,
    ) -> Self {
        if dry_run && result.is_ok() {
            return Self::would(name, &format!("would be {done}"));
        }
        Self::of(name, result, done)
    }
}

/// Tells on standard error how a command is carried out that only showed what it would do.
pub(crate) fn say_planned() {
    show::say("nothing was changed; --execute does it");
}

/// Shows what would become of things, before the user confirms it.
pub(crate) fn show_planned(
    format: Format,
    head: &str,
    names: &[String],
    done: &str,
) -> anyhow::Result<ExitCode> {
    let would = format!("would be {done}");
    let planned = names.iter().map(|name| CommandOutcome::would(name, &would));
    let shown = show(format, head, &planned.collect::<Vec<_>>())?;
    say_planned();
    Ok(shown)
}

/// Shows all outcomes; returns a failure if one of them failed.
pub(crate) fn show(
    format: Format,
    head: &str,
    outcomes: &[CommandOutcome],
) -> anyhow::Result<ExitCode> {
    format.show(&outcomes, || {
        let mut table = Table::headed(&[head, "STATUS"]);
        for outcome in outcomes {
            table.row([outcome.name.clone(), outcome.words.clone()]);
        }
        table.render()
    })?;
    Ok(exit_code(
        outcomes.iter().any(|outcome| outcome.error.is_some()),
    ))
}

/// Returns what could be found out; tells the errors of the rest on standard error.
///
/// Also returns whether there are any.
pub(crate) fn found<T>(results: impl Iterator<Item = anyhow::Result<T>>) -> (Vec<T>, bool) {
    let mut errors = Vec::new();
    let found = results.filter_map(|result| result.map_err(|error| errors.push(error)).ok());
    let found = found.collect();
    // Not earlier: the iterator may have a line of progress on the terminal.
    for error in &errors {
        show::say(&format!("{error:#}"));
    }
    (found, !errors.is_empty())
}

/// Returns the exit code of a command; `failed` if a part of it failed.
pub(crate) fn exit_code(failed: bool) -> ExitCode {
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_done_is_done() {
        let refused = || Err(Failure::LeftOut);
        let left_out = "the broker did not answer for it";
        for (outcome, json, words) in [
            (
                CommandOutcome::tried("cars", Ok::<(), Failure>(()), "changed", false),
                json!({"name": "cars", "done": true}),
                "changed",
            ),
            (
                CommandOutcome::tried("cars", Ok::<(), Failure>(()), "changed", true),
                json!({"name": "cars", "done": false}),
                "would be changed",
            ),
            (
                CommandOutcome::tried("cars", refused(), "changed", true),
                json!({"name": "cars", "done": false, "error": left_out}),
                left_out,
            ),
            (
                CommandOutcome::tried("cars", refused(), "changed", false),
                json!({"name": "cars", "done": false, "error": left_out}),
                left_out,
            ),
        ] {
            assert_eq!(serde_json::to_value(&outcome).unwrap(), json);
            assert_eq!(outcome.words, words);
        }
    }

    #[test]
    fn what_fails_hides_nothing_else() {
        let results = [Ok(1), Err(anyhow::anyhow!("topic cars")), Ok(3)];
        assert_eq!(found(results.into_iter()), (vec![1, 3], true));
        let all = [Ok(1), Ok(2)];
        assert_eq!(found(all.into_iter()), (vec![1, 2], false));
    }
}
