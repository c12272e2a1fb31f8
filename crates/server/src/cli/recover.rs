//! `forebay recover DIR...`: what the journals of log directories have goes into their logs,
//! without a broker (docs/journal.md).
//!
//! Afterwards no journal counts, and the directories are Kafka's, as after a kill of Kafka. It
//! locks the directories against a running broker. It exits with 1 if a log did not get what a
//! journal had of it: that is kept in files beside its segments.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use platform::Platform as _;
use platform::lock::{DirLock, give_to_owner_of};
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use serde_json::json;
use storage::checkpoint::meta_properties;
use storage::journal::replay::ReplayReport;
use storage::journal::start::{SettledDirectory, UnsettledDirectory, settle};
use wire::text::{EscapedText, escaped_json};

use super::format::Format;

/// Arguments of `forebay recover`.
#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    /// Log directories.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Where the journals are now, if they are not where the broker had them.
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,
    /// Goes on without journals that are missing or cannot be read: records that were only in them
    /// are lost.
    #[arg(long)]
    forget_journals: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl RecoverArgs {
    /// Recovers the directories, and says what that did.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let locks = self.dirs.iter().map(|dir| DirLock::acquire(dir));
        let _locks = locks.collect::<Result<Vec<_>, _>>()?;
        let settled = run_shard(None, async {
            let system = System::start(EngineChoice::Threads)?;
            let mut settled = Vec::new();
            for dir in &self.dirs {
                let done = self.settle(&system, dir).await;
                settled.push((dir, done.with_context(|| dir.display().to_string())?));
            }
            anyhow::Ok(settled)
        });
        let settled = settled.context("starting to recover")??;
        let mut is_whole = true;
        for (dir, settled) in &settled {
            give_what_was_made(dir, &settled.report);
            is_whole &= settled.report.is_whole() && settled.given_up.is_empty();
        }
        let text = match self.format {
            Format::Text => settled.iter().map(|(dir, it)| text(dir, it)).collect(),
            Format::Json => {
                let all: Vec<_> = settled.iter().map(|(dir, it)| json(dir, it)).collect();
                escaped_json(&format!("{:#}\n", json!(all))).into_owned()
            }
        };
        super::print(&text)?;
        Ok(ExitCode::from(u8::from(!is_whole)))
    }

    async fn settle(&self, system: &System, dir: &Path) -> anyhow::Result<SettledDirectory> {
        // A replay may need the room that deleted logs still take.
        storage::remove_some_leftovers(system.disk(), dir).await?;
        let unsettled = UnsettledDirectory {
            path: dir,
            rings_dir: self.journal_dir.as_deref(),
            gives_up: self.forget_journals,
        };
        Ok(settle(system, &unsettled).await?)
    }
}

/// Gives what was made to the owner of the directory: who recovers is often another user than the
/// broker.
fn give_what_was_made(dir: &Path, report: &ReplayReport) {
    give_to_owner_of(dir, &dir.join(meta_properties::FILE));
    for log in &report.logs {
        for base in &log.made {
            give_to_owner_of(dir, &log.folder.join(format!("{:020}.log", base.0)));
        }
    }
    let refused = report.refused.iter().flat_map(|log| &log.kept);
    let unknown = report.unknown.iter().flat_map(|log| &log.kept);
    for kept in refused.chain(unknown) {
        give_to_owner_of(dir, kept);
    }
}

fn shown(path: &Path) -> String {
    EscapedText(&path.display().to_string()).to_string()
}

fn text(dir: &Path, settled: &SettledDirectory) -> String {
    let SettledDirectory { report, given_up } = settled;
    let mut text = String::new();
    let at = shown(dir);
    if report.rings.is_empty() && given_up.is_empty() {
        let _ = writeln!(text, "{at}: no journal counts: its logs have everything");
        return text;
    }
    let commits = report.rings.iter().map(|ring| ring.commits);
    let written = report.logs.iter().map(|log| log.written_bytes);
    let _ = writeln!(
        text,
        "{at}: {} journals, {} commits: {} logs, which lacked {} bytes",
        report.rings.len(),
        commits.fold(0, u64::saturating_add),
        report.logs.len(),
        written.fold(0, u64::saturating_add),
    );
    for (ring, why) in given_up {
        let _ = writeln!(text, "given up: {}: {}", shown(ring), EscapedText(why));
    }
    for log in &report.refused {
        let kept: Vec<_> = log.kept.iter().map(|path| shown(path)).collect();
        let (folder, kept) = (shown(&log.folder), kept.join(", "));
        let _ = writeln!(text, "refused: {folder}: {}; kept in {kept}", log.reason);
    }
    for log in report.unknown.iter().filter(|log| !log.kept.is_empty()) {
        let kept: Vec<_> = log.kept.iter().map(|path| shown(path)).collect();
        let (id, partition) = (log.log.topic_id, log.log.partition);
        let kept = kept.join(", ");
        let _ = writeln!(
            text,
            "without a folder: topic {id}, partition {partition}; kept in {kept}"
        );
    }
    text
}

fn json(dir: &Path, settled: &SettledDirectory) -> serde_json::Value {
    let SettledDirectory { report, given_up } = settled;
    let name = |path: &PathBuf| path.display().to_string();
    let names = |paths: &[PathBuf]| paths.iter().map(name).collect::<Vec<_>>();
    let rings = report.rings.iter().map(|ring| {
        json!({
            "path": name(&ring.path),
            "shard": ring.shard,
            "commits": ring.commits,
            "parts": ring.parts,
            "bytes": ring.bytes,
        })
    });
    let logs = report.logs.iter().map(|log| {
        json!({
            "folder": name(&log.folder),
            "topic_id": log.log.topic_id.to_string(),
            "partition": log.log.partition,
            "bytes": log.bytes,
            "written_bytes": log.written_bytes,
        })
    });
    let refused = report.refused.iter().map(|log| {
        json!({
            "folder": name(&log.folder),
            "reason": log.reason.to_string(),
            "kept": names(&log.kept),
        })
    });
    let unknown = report.unknown.iter().map(|log| {
        json!({
            "topic_id": log.log.topic_id.to_string(),
            "partition": log.log.partition,
            "bytes": log.bytes,
            "kept": names(&log.kept),
        })
    });
    let given_up = given_up
        .iter()
        .map(|(ring, why)| json!({"path": name(ring), "reason": why}));
    json!({
        "dir": dir.display().to_string(),
        "whole": report.is_whole() && settled.given_up.is_empty(),
        "journals": rings.collect::<Vec<_>>(),
        "logs": logs.collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
        "unknown": unknown.collect::<Vec<_>>(),
        "given_up": given_up.collect::<Vec<_>>(),
    })
}
