//! The outcome of a command for each of the things that it names.
//!
//! Invariant: the exit code is a failure if one of them failed.

use std::fmt::Display;
use std::process::ExitCode;

use serde::Serialize;

use crate::show::{self, Format, Table};

/// The outcome for one thing.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    name: String,
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    words: String,
}

impl Outcome {
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
}

/// Tells on standard error how a command is carried out that only showed what it would do.
pub(crate) fn say_planned() {
    show::say("nothing was changed; --execute does it");
}

/// Shows what would become of things, which nobody has confirmed yet.
pub(crate) fn show_planned(
    format: Format,
    head: &str,
    names: &[String],
    done: &str,
) -> anyhow::Result<ExitCode> {
    let planned = names.iter().map(|name| Outcome {
        name: name.clone(),
        done: false,
        error: None,
        words: format!("would be {done}"),
    });
    let shown = show(format, head, &planned.collect::<Vec<_>>())?;
    say_planned();
    Ok(shown)
}

/// Shows all outcomes; returns a failure if one of them failed.
pub(crate) fn show(format: Format, head: &str, outcomes: &[Outcome]) -> anyhow::Result<ExitCode> {
    format.show(&outcomes, || {
        let mut table = Table::headed(&[head, "STATUS"]);
        for outcome in outcomes {
            table.row([outcome.name.clone(), outcome.words.clone()]);
        }
        table.render()
    })?;
    let failed = outcomes.iter().any(|outcome| outcome.error.is_some());
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
