//! `forebay config ...`: what settings mean, without running the broker.
//!
//! `check` judges files, and with `--data` the directories that they name; `show` lists the values
//! in force; `reference` prints the table; `reset` takes back dynamic values of a broker that does
//! not run. All but `reset` only read. Exit codes of `check`: docs/signals.md.

mod directories;
mod facts;
mod finding;
mod groups;
mod reading;
mod report;
mod show;
mod stores;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::format::Format;
use crate::config::{CheckedSettings, RawSettings, Settings, keys, reference};
use crate::machine::Machine;
use finding::{Finding, Group};
use report::{CheckedFile, Report};

/// Arguments of `forebay config`.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Says of files of settings what refuses to start, what changes what clients see, and what has
    /// no effect. Exit codes: 0 sound, 1 refused or unreadable, 2 not everything could be looked
    /// at, 3 sound, but clients would see something else (with --strict).
    Check(CheckArgs),
    /// Lists the settings that `serve` would run with, and where each value comes from.
    Show(show::ShowArgs),
    /// Prints the reference of all settings (docs/configuration.md).
    Reference,
    /// Removes dynamic values from the metadata of a broker that does not run.
    Reset {
        /// Settings of brokers, topics, groups or client metrics, or quotas, by name: all values of
        /// that name are removed.
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        /// The log directory with `__cluster_metadata-0`.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// Only of this topic.
        #[arg(long, value_name = "NAME")]
        topic: Option<String>,
    },
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The files; each is judged by itself.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Ends with exit code 3 if something changes what clients see.
    #[arg(long)]
    strict: bool,
    /// Also looks into the directories that the files name, and says what in them would not be
    /// served or enforced, and opens their keys and certificates. They are only read.
    #[arg(long)]
    data: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl ConfigArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            ConfigCommand::Check(check) => check.run(),
            ConfigCommand::Show(show) => show.run(),
            ConfigCommand::Reference => {
                super::print(&reference::page())?;
                Ok(ExitCode::SUCCESS)
            }
            ConfigCommand::Reset {
                keys,
                data_dir,
                topic,
            } => super::metadata::reset(keys, topic.as_deref(), data_dir),
        }
    }
}

impl CheckArgs {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let machine = Machine::read();
        let files = self.files.iter();
        let report = Report {
            files: files.map(|file| self.check(file, &machine)).collect(),
        };
        for trouble in report.troubles() {
            super::complain(&wire::text::escaped_lines(trouble));
        }
        super::print(&match self.format {
            Format::Text => report.text(),
            Format::Json => report.json(),
        })?;
        Ok(report.exit_code(self.strict))
    }

    fn check(&self, file: &Path, machine: &Machine) -> CheckedFile {
        let mut checked = CheckedFile::of(file);
        let mut raw = RawSettings::default();
        if let Err(error) = raw.add_file(file) {
            checked.unreadable = Some(error);
            return checked;
        }
        raw.settle();
        let CheckedSettings {
            settings,
            warnings,
            problems,
        } = Settings::judge(&raw, machine);
        let findings = &mut checked.findings;
        findings.extend(problems.iter().map(Finding::of_problem));
        findings.extend(warnings.iter().map(Finding::of_warning));
        findings.extend(of_no_settings(&raw));
        if self.data {
            let seen = directories::look(&settings, &raw, &problems);
            checked.findings.extend(seen.findings);
            checked.facts = seen.facts;
            checked.unseen = seen.unseen;
            let seen = stores::look(&settings, &raw, &problems);
            checked.findings.extend(seen.findings);
            checked.unseen.extend(seen.unseen);
        }
        checked.findings.sort_by_key(Finding::rank);
        checked
    }
}

/// Says so if nothing in a file is, or resembles, a setting: it is probably another file.
fn of_no_settings(raw: &RawSettings) -> Option<Finding> {
    let is_setting = |key: &str| {
        keys::find(key).is_some()
            || keys::of_listener(key).is_some()
            || keys::why_without_effect(key).is_some()
    };
    let resembles = |key: &str| keys::nearest(key).is_some();
    let first = raw.entries.first()?;
    let mut asked = raw.entries.iter().take(keys::ASKED_MAX);
    if raw.entries.iter().any(|entry| is_setting(&entry.key))
        || asked.any(|entry| resembles(&entry.key))
    {
        return None;
    }
    Some(Finding {
        group: Group::Changes,
        place: first.origin.to_string(),
        line: None,
        key: keys::shown(&first.key).to_owned(),
        value: None,
        what: "no line of this file is a setting: a start would take the defaults".into(),
        advice: "is it the right file, with key=value on each line?".into(),
    })
}
