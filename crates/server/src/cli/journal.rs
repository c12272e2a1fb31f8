//! `forebay journal show`: what the rings of a log directory hold (docs/journal.md).
//!
//! It only reads, also beside a running broker, whose commits move on meanwhile. Output is printed
//! in pieces: a ring may have very many parts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use platform::Platform as _;
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use serde_json::{Value, json};
use storage::journal::file::{RingRow, ShownChange, look};
use storage::journal::marked;
use storage::journal::names::{ring_path, rings_in};
use wire::text::{EscapedText, escaped_json};
use wire::types::uuid_to_base64;

use super::format::Format;

/// Text that is kept before it is printed, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Arguments of `forebay journal`.
#[derive(Debug, Args)]
pub(super) struct JournalArgs {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(Debug, Subcommand)]
enum JournalCommand {
    /// Prints the headers, commits and parts of journals, and why they end where they do.
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A log directory, or the file of one ring.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Where the rings of the log directory are, if not where its meta.properties says.
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,
    /// Output format; JSON is one object per line.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl JournalArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let JournalCommand::Show(args) = &self.command;
        let shown = run_shard(None, async {
            let system = System::start(EngineChoice::Threads)?;
            system.disk().set_read_only();
            args.show(&system).await
        });
        shown.context("starting to look")??;
        Ok(ExitCode::SUCCESS)
    }
}

impl ShowArgs {
    async fn show(&self, system: &System) -> anyhow::Result<()> {
        if self.path.is_file() {
            return self.show_ring(system, &self.path, None).await;
        }
        let disk = system.disk();
        let meta = marked::read(disk, &self.path).await?;
        let id = meta.directory_id;
        let id = id.with_context(|| format!("{} has no id", self.path.display()))?;
        let mark = meta.journal.as_ref();
        let by_mark = mark.map_or(&*self.path, |mark| mark.rings_dir(&self.path));
        let dir = self.journal_dir.as_deref().unwrap_or(by_mark);
        let counting = mark.map_or(&[][..], |mark| &mark.rings);
        let counts = |shard| counting.iter().any(|ring| ring.shard == shard);
        let found = rings_in(disk, dir, id).await;
        let found = found.with_context(|| format!("listing {}", dir.display()))?;
        for ring in counting {
            let path = ring_path(dir, id, ring.shard);
            let is_there = found.iter().any(|(found, _)| *found == path);
            anyhow::ensure!(is_there, "{} counts, and is not there", path.display());
        }
        for (path, shard) in &found {
            self.show_ring(system, path, Some(counts(*shard))).await?;
        }
        if found.is_empty() && self.format == Format::Text {
            super::print(&format!("{}: no journal\n", dir.display()))?;
        }
        Ok(())
    }

    /// Shows one ring; `counts` says whether it does, if that is known.
    async fn show_ring(
        &self,
        system: &System,
        path: &Path,
        counts: Option<bool>,
    ) -> anyhow::Result<()> {
        let mut out = PrintedText::default();
        match self.format {
            Format::Text => out.add(&front(path, counts)),
            Format::Json => {
                let ring = path.display().to_string();
                out.add(&line(
                    &json!({"kind": "ring", "path": ring, "counts": counts}),
                ));
            }
        }
        let row = |row| match self.format {
            Format::Text => text(&row),
            Format::Json => line(&object(&row)),
        };
        look(system.disk(), path, |found| out.add(&row(found))).await?;
        out.finish()
    }
}

/// Text on its way out.
#[derive(Default)]
struct PrintedText {
    kept: String,
    /// The first failure; nothing is printed after it.
    failed: Option<anyhow::Error>,
}

impl PrintedText {
    fn add(&mut self, text: &str) {
        self.kept.push_str(text);
        if self.kept.len() >= KEPT_BYTES_MAX {
            self.print();
        }
    }

    fn print(&mut self) {
        let text = std::mem::take(&mut self.kept);
        if self.failed.is_none() {
            self.failed = super::print(&text).err();
        }
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.print();
        self.failed.map_or(Ok(()), Err)
    }
}

fn front(path: &Path, counts: Option<bool>) -> String {
    let path = path.display().to_string();
    let counts = match counts {
        Some(true) => ": counts",
        Some(false) => ": does not count",
        None => "",
    };
    format!("{}{counts}\n", EscapedText(&path))
}

fn line(value: &Value) -> String {
    escaped_json(&value.to_string()).into_owned() + "\n"
}

fn text(row: &RingRow) -> String {
    let mut text = String::from("  ");
    let _ = match row {
        RingRow::Header {
            id,
            size,
            generation,
            head,
            reserved,
        } => writeln!(
            text,
            "header {generation}: shard {}, directory {}, cluster {}, {} bytes, from commit {} at {}, up to {}",
            id.shard,
            uuid_to_base64(id.directory_id),
            EscapedText(&id.cluster_id),
            size.bytes(),
            head.sequence.0,
            head.position.0,
            reserved.0
        ),
        RingRow::NoHeader(error) => writeln!(text, "no header: {error}"),
        RingRow::Refused(error) => writeln!(text, "not read: {error}"),
        RingRow::Commit {
            sequence,
            position,
            synced_below,
            parts,
        } => writeln!(
            text,
            "commit {} at {}: {parts} parts, written when all below {} were synced",
            sequence.0, position.0, synced_below.0
        ),
        RingRow::Part {
            log,
            segment,
            position,
            change,
        } => {
            let (id, partition) = (log.topic_id, log.partition);
            let what = match change {
                ShownChange::Bytes {
                    length,
                    leader_epoch,
                } => format!("{length} bytes, leader epoch {}", leader_epoch.0),
                ShownChange::Cut { offset } => format!("cut, new end {}", offset.0),
            };
            writeln!(
                text,
                "  topic {id} partition {partition}: segment {} at byte {position}: {what}",
                segment.0
            )
        }
        RingRow::End { at, reason } => {
            writeln!(
                text,
                "end at commit {}, at {}: {reason}",
                at.sequence.0, at.position.0
            )
        }
    };
    text
}

fn object(row: &RingRow) -> Value {
    match row {
        RingRow::Header {
            id,
            size,
            generation,
            head,
            reserved,
        } => json!({
            "kind": "header",
            "generation": generation,
            "shard": id.shard,
            "directory_id": uuid_to_base64(id.directory_id),
            "cluster_id": id.cluster_id,
            "size": size.bytes(),
            "head_sequence": head.sequence.0,
            "head_position": head.position.0,
            "reserved_position": reserved.0,
        }),
        RingRow::NoHeader(error) => json!({"kind": "no_header", "reason": error.to_string()}),
        RingRow::Refused(error) => json!({"kind": "refused", "reason": error.to_string()}),
        RingRow::Commit {
            sequence,
            position,
            synced_below,
            parts,
        } => json!({
            "kind": "commit",
            "sequence": sequence.0,
            "position": position.0,
            "synced_below": synced_below.0,
            "parts": parts,
        }),
        RingRow::Part {
            log,
            segment,
            position,
            change,
        } => {
            let (what, number, epoch) = match change {
                ShownChange::Bytes {
                    length,
                    leader_epoch,
                } => ("length", json!(length), Some(leader_epoch.0)),
                ShownChange::Cut { offset } => ("cut_to_offset", json!(offset.0), None),
            };
            json!({
                "kind": "part",
                "topic_id": log.topic_id.to_string(),
                "partition": log.partition,
                "segment": segment.0,
                "position": position,
                "leader_epoch": epoch,
                what: number,
            })
        }
        RingRow::End { at, reason } => json!({
            "kind": "end",
            "sequence": at.sequence.0,
            "position": at.position.0,
            "reason": reason.to_string(),
        }),
    }
}
