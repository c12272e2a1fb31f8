//! `forebay acl suggest`: reads what a broker has written down under `authorizer.mode=log`, and
//! proposes the ACLs with which it would have refused nothing.
//!
//! The audit file of a broker (`audit.path`) has each right that was asked for; its log has one
//! line a minute of each kind.
//!
//! It changes nothing and asks no broker: it prints lines for an operator to read and to run. The
//! text of clients is in them, so each is quoted for a shell, and a name that would open more than
//! was asked for (`*`) or that cannot be typed is left out with a message.

mod line;
mod rights;
mod words;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde::Serialize;
use wire::acl::{Principal, ResourceType};
use wire::text::EscapedText;

use crate::resource::{self, NamedResource};
use crate::show;
use crate::target::ChosenTarget;
use line::LoggedDenial;
use rights::AskedRights;

/// The longest line that is read; those of the broker are shorter.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Reasons for leaving something out that are shown with their first example.
const EXAMPLE_BYTES_MAX: usize = 200;

/// Which tool the lines are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Tool {
    Forebay,
    Kafka,
}

#[derive(Debug, Args)]
pub(super) struct Suggest {
    /// Audit files (audit.path) of brokers with authorizer.mode=log, or their logs (text or JSON);
    /// standard input if it is -.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Makes one prefixed ACL of all names that begin so, such as topic:orders-; can be given many
    /// times.
    #[arg(long, value_name = "TYPE:PREFIX", value_parser = resource::parse)]
    prefix: Vec<NamedResource>,
    /// Permits each right only from the addresses that asked for it.
    #[arg(long)]
    by_host: bool,
    /// Only lines for this tool [default: both].
    #[arg(long, value_enum)]
    tool: Option<Tool>,
    /// Also reads what was refused with authorizer.mode=enforce.
    #[arg(long)]
    denied: bool,
}

/// What is proposed for one principal.
#[derive(Debug, Serialize)]
struct Suggestion {
    principal: String,
    /// The address; `*` for all.
    host: String,
    /// Lines of the log that ask for it.
    lines: u64,
    forebay: Vec<String>,
    kafka: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SuggestedAcls {
    suggestions: Vec<Suggestion>,
    /// Denials that the broker counted and did not log, by type of resource and operation.
    unsaid: BTreeMap<String, u64>,
    /// What was left out, with the reasons.
    left_out: Vec<String>,
}

/// What was read.
#[derive(Debug, Default)]
struct ReadLogs {
    asked: AskedRights,
    unsaid: BTreeMap<String, u64>,
    /// Reason, how often, and the first example.
    left_out: BTreeMap<&'static str, (u64, String)>,
}

impl Suggest {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut logs = ReadLogs::default();
        for file in &self.files {
            let named = || file.display().to_string();
            if file.as_os_str() == "-" {
                logs.take(io::stdin().lock(), self.denied)
                    .context("standard input")?;
            } else {
                let open = File::open(file).with_context(named)?;
                logs.take(BufReader::new(open), self.denied)
                    .with_context(named)?;
            }
        }
        let all = logs.suggestions(&self.prefix, self.by_host);
        target.format.show(&all, || self.text(&all))?;
        for warning in warnings(&all) {
            show::say(&warning);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, all: &SuggestedAcls) -> String {
        let mut text = String::new();
        for one in &all.suggestions {
            let head = format!(
                "# {} from {}: asked in {} lines",
                one.principal, one.host, one.lines
            );
            let mut lines = vec![EscapedText(&head).to_string()];
            if self.tool != Some(Tool::Kafka) {
                lines.extend(one.forebay.iter().cloned());
            }
            if self.tool != Some(Tool::Forebay) {
                lines.extend(one.kafka.iter().cloned());
            }
            text.push_str(&(lines.join("\n") + "\n"));
        }
        text
    }
}

impl ReadLogs {
    /// Reads a log to its end.
    fn take(&mut self, mut from: impl BufRead, denied: bool) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        let mut is_rest = false;
        loop {
            bytes.clear();
            from.by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut bytes)?;
            if bytes.is_empty() {
                return Ok(());
            }
            let is_whole = bytes.ends_with(b"\n") || (bytes.len() as u64) < LINE_BYTES_MAX;
            if is_whole && !is_rest {
                self.take_line(&String::from_utf8_lossy(&bytes), denied)?;
            }
            is_rest = !is_whole;
        }
    }

    fn take_line(&mut self, line: &str, denied: bool) -> anyhow::Result<()> {
        let Some(found) = line::parse(line, denied) else {
            return Ok(());
        };
        let found = match found {
            Ok(found) => found,
            Err(reason) => {
                self.leave_out(reason, line.trim_end());
                return Ok(());
            }
        };
        if found.unsaid > 0 {
            let kind = format!("{} {}", found.operation, found.resource_type);
            let sum = self.unsaid.entry(kind).or_default();
            *sum = sum.saturating_add(found.unsaid);
        }
        if let Some(reason) = refusal(&found) {
            let example = format!("{} {} {}", found.principal, found.operation, found.name);
            self.leave_out(reason, &example);
            return Ok(());
        }
        self.asked.add(found)
    }

    fn leave_out(&mut self, reason: &'static str, example: &str) {
        let example = || wire::text::cut(example, EXAMPLE_BYTES_MAX).to_owned();
        let (count, _) = self
            .left_out
            .entry(reason)
            .or_insert_with(|| (0, example()));
        *count = count.saturating_add(1);
    }

    fn suggestions(self, prefixes: &[NamedResource], by_host: bool) -> SuggestedAcls {
        let asked = self.asked.of_each(prefixes, by_host);
        let suggestions = asked.into_iter();
        let suggestions = suggestions.map(|((principal, host), (lines, grants))| {
            let each = grants.iter();
            let forebay = each.filter_map(|grant| words::forebay(&principal, &host, grant));
            let forebay = forebay.collect();
            let kafka = grants
                .iter()
                .map(|grant| words::kafka(&principal, &host, grant));
            Suggestion {
                forebay,
                kafka: kafka.collect(),
                principal,
                host,
                lines,
            }
        });
        let left_out = self.left_out.into_iter().map(|(reason, (count, example))| {
            format!(
                "{count} lines: {reason}, such as: {}",
                EscapedText(&example)
            )
        });
        SuggestedAcls {
            suggestions: suggestions.collect(),
            unsaid: self.unsaid,
            left_out: left_out.collect(),
        }
    }
}

/// Returns why nothing is proposed for a line.
fn refusal(found: &LoggedDenial) -> Option<&'static str> {
    // The broker cuts longer texts at this length, or up to three bytes before it.
    const CUT_BYTES: usize = 200 - 3;
    let texts = [&found.principal, &found.name];
    if found.name == "*" && found.resource_type != ResourceType::Cluster {
        Some("an ACL for the name * would be for every name")
    } else if found.principal == Principal::EVERYONE {
        Some("an ACL for the principal User:* would be for every client")
    } else if !found.is_audited && texts.iter().any(|text| text.len() >= CUT_BYTES) {
        Some("the name is as long as the log shows names, and may be cut")
    } else if texts
        .iter()
        .any(|text| text.contains(wire::text::is_unseen))
    {
        Some("the name has characters that cannot be seen")
    } else if found.name.is_empty() || Principal::parse(&found.principal).is_err() {
        Some("no ACL can be made for an empty name or a principal without type")
    } else {
        None
    }
}

/// Returns what an operator has to know before the lines are run.
fn warnings(all: &SuggestedAcls) -> Vec<String> {
    let mut warnings = Vec::new();
    if all.suggestions.is_empty() {
        warnings.push("no line asks for a right that an ACL would have to permit".to_owned());
    }
    let anonymous = "User:ANONYMOUS";
    if all.suggestions.iter().any(|one| one.principal == anonymous) {
        warnings.push(format!(
            "{anonymous} is every client without a login or a certificate"
        ));
    }
    for (kind, count) in &all.unsaid {
        warnings.push(format!(
            "{kind}: {count} denials are counted and not in the log, which has one line a minute of \
             each kind: there may be more names and principals (an audit file has them: audit.path)"
        ));
    }
    warnings.extend(
        all.left_out
            .iter()
            .map(|reason| format!("left out: {reason}")),
    );
    warnings
}

#[cfg(test)]
mod tests;
