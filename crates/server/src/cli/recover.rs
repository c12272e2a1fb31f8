//! `forebay recover DIR...`: what the journals of log directories have goes into their logs,
//! without a broker (docs/journal.md).
//!
//! Afterwards no journal counts, and the directories are Kafka's, as after a kill of Kafka. It
//! locks the directories against a running broker. It exits with 1 if a log did not get what a
//! journal had of it: that is kept in files beside its segments.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
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
use storage::journal::marked;
use storage::journal::replay::ReplayReport;
use storage::journal::start::{SettledDirectory, UnsettledDirectory, settle};
use wire::text::{EscapedText, escaped_json};

use super::format::Format;
use crate::rings_lock;

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
        let tried = run_shard(None, async {
            let system = System::start(EngineChoice::Threads)?;
            let (mut settled, mut failed) = (Vec::new(), Vec::new());
            for dir in &self.dirs {
                // One that fails keeps none of the others from being whole.
                match self.settle(&system, dir).await {
                    Ok(done) => settled.push((dir, done)),
                    Err(error) => failed.push((dir, error)),
                }
            }
            anyhow::Ok((settled, failed))
        });
        let (settled, failed) = tried.context("starting to recover")??;
        let mut is_whole = true;
        for (dir, settled) in &settled {
            give_what_was_made(dir, &settled.report);
            is_whole &= settled.report.is_whole() && settled.given_up.is_empty();
        }
        for (dir, _) in &failed {
            give_everything(dir);
        }
        let text = match self.format {
            Format::Text => settled.iter().map(|(dir, it)| text(dir, it)).collect(),
            Format::Json => {
                let all: Vec<_> = settled.iter().map(|(dir, it)| json(dir, it)).collect();
                escaped_json(&format!("{:#}\n", json!(all))).into_owned()
            }
        };
        super::print(&text)?;
        let failed = failed.into_iter().map(|(dir, error)| {
            let dir = dir.display().to_string();
            error.context(dir)
        });
        let failed = failed.reduce(|first, next| anyhow::anyhow!("{first:#}\n{next:#}"));
        failed.map_or(Ok(ExitCode::from(u8::from(!is_whole))), Err)
    }

    async fn settle(&self, system: &System, dir: &Path) -> anyhow::Result<SettledDirectory> {
        let _lock = self.lock_rings(system, dir).await?;
        // A replay may need the room that deleted logs still take.
        storage::remove_some_leftovers(system.disk(), dir).await?;
        let unsettled = UnsettledDirectory {
            path: dir,
            rings_dir: self.journal_dir.as_deref(),
            also_in: &[],
            gives_up: self.forget_journals,
        };
        let settled = settle(system, &unsettled).await;
        settled.map_err(|error| {
            let remedy = error.remedy().unwrap_or_default();
            anyhow::anyhow!("{error}{remedy}")
        })
    }

    /// Locks the rings that are to be read, if they lie elsewhere: the directory may be a copy of
    /// one that a broker uses, and rings that are being written are of no instant.
    async fn lock_rings(&self, system: &System, dir: &Path) -> anyhow::Result<Option<DirLock>> {
        let Ok(meta) = marked::read(system.disk(), dir).await else {
            return Ok(None); // The replay says what is wrong with it.
        };
        let by_mark = meta.journal.as_ref().map(|mark| mark.rings_dir(dir));
        let rings_dir = by_mark.map(|by_mark| self.journal_dir.as_deref().unwrap_or(by_mark));
        let (Some(rings_dir), Some(id)) = (rings_dir.filter(|at| *at != dir), meta.directory_id)
        else {
            return Ok(None);
        };
        Ok(rings_lock::acquire(rings_dir, id)?)
    }
}

/// Gives all files that this user has made to the owner of the directory, after a failure: which
/// these are is not known.
fn give_everything(dir: &Path) {
    for path in entries_of(dir) {
        // A link may lead anywhere.
        let Ok(facts) = path.symlink_metadata() else {
            continue;
        };
        if facts.is_dir() {
            let files = entries_of(&path).into_iter();
            files.for_each(|file| give_own_file(dir, &file));
        } else {
            give_own_file(dir, &path);
        }
    }
}

fn entries_of(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn give_own_file(dir: &Path, path: &Path) {
    let facts = path.symlink_metadata();
    if facts.is_ok_and(|facts| facts.is_file() && facts.nlink() == 1) {
        give_to_owner_of(dir, path);
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
