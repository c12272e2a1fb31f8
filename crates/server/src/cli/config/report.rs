//! What `forebay config check` found in all files: as text, as JSON, as an exit code.
//!
//! Invariant: text and JSON hold the same findings, and what the code says follows from them:
//! docs/signals.md.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use wire::text::{EscapedText, escaped_json};

use super::facts::Facts;
use super::finding::{Finding, Group};

/// Something refuses to start, or a file cannot be read.
const REFUSED: u8 = 1;
/// The directories could not be looked at, or not all of them.
const UNSEEN: u8 = 2;
/// With `--strict`: clients would see something else.
const CHANGES: u8 = 3;

/// All files.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) files: Vec<CheckedFile>,
}

/// One file.
#[derive(Debug)]
pub(super) struct CheckedFile {
    file: String,
    /// Why the file cannot be read.
    pub(super) unreadable: Option<String>,
    /// Why not everything in the directories could be looked at.
    pub(super) unseen: Vec<String>,
    /// What there is to say, in order.
    pub(super) findings: Vec<Finding>,
    /// What the directories are, if they were looked at.
    pub(super) facts: Option<Facts>,
}

impl Report {
    /// Returns what belongs on standard error.
    pub(super) fn troubles(&self) -> impl Iterator<Item = &str> {
        let each = self.files.iter();
        each.flat_map(|file| file.unreadable.iter().chain(&file.unseen))
            .map(String::as_str)
    }

    pub(super) fn text(&self) -> String {
        self.files.iter().map(CheckedFile::text).collect()
    }

    pub(super) fn json(&self) -> String {
        let files: Vec<_> = self.files.iter().map(CheckedFile::json).collect();
        escaped_json(&format!("{:#}\n", json!({ "files": files }))).into_owned()
    }

    pub(super) fn exit_code(&self, strict: bool) -> ExitCode {
        let any = |of: fn(&CheckedFile) -> bool| self.files.iter().any(of);
        ExitCode::from(if any(CheckedFile::is_refused) {
            REFUSED
        } else if any(|file| !file.unseen.is_empty()) {
            UNSEEN
        } else if strict && any(|file| file.count(Group::Changes) > 0) {
            CHANGES
        } else {
            0
        })
    }
}

impl CheckedFile {
    /// Nothing is known of the file yet.
    pub(super) fn of(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            unreadable: None,
            unseen: Vec::new(),
            findings: Vec::new(),
            facts: None,
        }
    }

    fn of_group(&self, group: Group) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(move |finding| finding.group == group)
    }

    fn count(&self, group: Group) -> usize {
        self.of_group(group).count()
    }

    fn is_refused(&self) -> bool {
        self.unreadable.is_some() || self.count(Group::Refuses) > 0
    }

    /// Returns the one word for the whole file, the same for people and for programs.
    fn verdict(&self) -> &'static str {
        if self.unreadable.is_some() {
            "unreadable"
        } else if self.is_refused() {
            "refused"
        } else if !self.unseen.is_empty() {
            "unseen"
        } else {
            "sound"
        }
    }

    /// Returns what standard error says of the file; `None` for nothing.
    fn error(&self) -> Option<String> {
        let all = self.unreadable.iter().chain(&self.unseen);
        let all: Vec<_> = all.map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the findings by group, and last the verdict; nothing for a file that cannot be read.
    fn text(&self) -> String {
        if self.unreadable.is_some() {
            return String::new();
        }
        let file = EscapedText(&self.file);
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(facts) = &self.facts {
            let _ = writeln!(text, "{file}: {}", EscapedText(&facts.to_string()));
        }
        let mut counts = Vec::new();
        for group in Group::ALL {
            let (title, count) = (group.title(), self.count(group));
            if count == 0 {
                continue;
            }
            counts.push(format!("{title}: {count}"));
            let _ = writeln!(text, "{file}: {title} ({count}):");
            for finding in self.of_group(group) {
                let _ = writeln!(text, "  {finding}");
                if !finding.advice.is_empty() {
                    let _ = writeln!(text, "      {}", EscapedText(&finding.advice));
                }
            }
        }
        let _ = write!(text, "{file}: {}", self.verdict());
        if !counts.is_empty() {
            let _ = write!(text, " ({})", counts.join(", "));
        }
        text.push('\n');
        text
    }

    fn json(&self) -> serde_json::Value {
        let counts = Group::ALL.map(|group| (group.name().to_owned(), json!(self.count(group))));
        let findings: Vec<_> = self.findings.iter().map(Finding::json).collect();
        json!({
            "file": self.file,
            "verdict": self.verdict(),
            "error": self.error(),
            "counts": serde_json::Map::from_iter(counts),
            "findings": findings,
            "data": self.facts.as_ref().map(Facts::json),
        })
    }
}
