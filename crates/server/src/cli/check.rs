//! `forebay check DIR...`: what the files of log directories hold, and what is wrong with them.
//!
//! It only reads. It exits with 0 when all is sound, 1 when something is damaged, 2 when the check
//! could not be completed.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use platform::Platform as _;
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use serde_json::json;
use storage::check::{FINDINGS_MAX, Finding, Report, Severity, check};
use wire::text::{EscapedText, escaped_json, escaped_lines};

use super::format::Format;

/// Arguments of `forebay check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Log directories, and the paths of tiers that hold segments of their logs.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also shows notes: what is not wrong, but worth knowing.
    #[arg(long)]
    notes: bool,
}

impl CheckArgs {
    /// Checks the directories and prints the findings.
    pub(super) fn run(&self) -> ExitCode {
        let report = run_shard(None, async {
            let system = System::start(EngineChoice::Threads).map_err(std::io::Error::other)?;
            system.disk().set_read_only();
            check(system.disk(), &self.dirs).await
        });
        let report = match report.and_then(|report| report) {
            Ok(report) => report,
            Err(error) => {
                let error = error.to_string();
                super::complain(&format!(
                    "cannot look at everything: {}",
                    escaped_lines(&error)
                ));
                return ExitCode::from(2);
            }
        };
        let text = match self.format {
            Format::Text => self.text(&report),
            Format::Json => escaped_json(&format!("{:#}\n", self.json(&report))).into_owned(),
        };
        if let Err(error) = super::print(&text) {
            super::complain(&escaped_lines(&super::why::why(&error)));
            return ExitCode::from(2);
        }
        ExitCode::from(u8::from(!report.is_sound()))
    }

    fn shown<'a>(&self, report: &'a Report) -> impl Iterator<Item = &'a Finding> {
        let least = if self.notes {
            Severity::Note
        } else {
            Severity::Hint
        };
        let findings = report.findings.iter();
        findings.filter(move |finding| finding.severity >= least)
    }

    fn text(&self, report: &Report) -> String {
        let mut text = String::new();
        for finding in self.shown(report) {
            let at = finding.position.map(|at| format!(" at byte {at}"));
            let (severity, path) = (finding.severity.name(), finding.path.display().to_string());
            let _ = writeln!(
                text,
                "{severity}: {}{}: {}",
                EscapedText(&path),
                at.unwrap_or_default(),
                EscapedText(&finding.what)
            );
        }
        let [notes, hints, damage] = report.counts;
        let _ = writeln!(
            text,
            "{} logs, {} segments, {} batches, {} bytes: {damage} damaged, {hints} hints damaged, {notes} notes",
            report.logs, report.segments, report.batches, report.bytes
        );
        if report.findings.len() >= FINDINGS_MAX {
            let _ = writeln!(text, "only the first {FINDINGS_MAX} findings were kept");
        }
        text
    }

    fn json(&self, report: &Report) -> serde_json::Value {
        let findings: Vec<_> = self
            .shown(report)
            .map(|finding| {
                json!({
                    "severity": finding.severity.name(),
                    "path": finding.path.display().to_string(),
                    "position": finding.position,
                    "what": finding.what,
                })
            })
            .collect();
        let [notes, hints, damage] = report.counts;
        json!({
            "sound": report.is_sound(),
            "logs": report.logs,
            "segments": report.segments,
            "batches": report.batches,
            "bytes": report.bytes,
            "counts": { "damage": damage, "hint": hints, "note": notes },
            "findings": findings,
        })
    }
}
