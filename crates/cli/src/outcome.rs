//! The outcome of a command for each of the things that it names.
//!
//! Invariant: the exit code is a failure if one of them failed.

use std::process::ExitCode;

use serde::Serialize;

use crate::ask::Refusal;
use crate::show::{Format, Table};

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
    pub(crate) fn of(name: &str, result: Result<(), Refusal>, done: &str) -> Self {
        let error = result.err().map(|refusal| refusal.to_string());
        Self {
            name: name.to_owned(),
            done: error.is_none(),
            words: error.clone().unwrap_or_else(|| done.to_owned()),
            error,
        }
    }
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
    let all = outcomes.iter().all(|outcome| outcome.done);
    Ok(if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
