//! `forebay metadata ...`, `forebay config reset` and `forebay user set --data-dir`: the metadata
//! log of a broker that does not run (docs/repair.md).
//!
//! `check` and `show` only read. The others lock the directory against a running broker
//! and write one snapshot that replaces the whole log. They delete nothing: files that they
//! replace keep their bytes under another name. What they write is for the owner of the directory
//! and its group, whatever the umask of the operator is: keys and passwords are in it.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use broker::METADATA_TOPIC;
use broker::controller::offline::{self, Files, Reading};
use clap::{Args, Subcommand};
use platform::bounded;
use platform::disk::SMALL_FILE_BYTES_MAX;
use platform::lock::DirLock;
use storage::checkpoint::{meta_properties, partition_metadata};
use wire::text::{EscapedText, escaped_json};
use wire::types::{NodeId, TopicId};

use super::format::Format;
use crate::config::keys;

/// The mode of what is written, as a broker writes it.
const FILE_MODE: u32 = 0o640;

/// Larger files of the folder are ignored.
const FILE_BYTES_MAX: u64 = 2 << 30;

/// Arguments of `forebay metadata`.
#[derive(Debug, Args)]
pub(super) struct MetadataArgs {
    #[command(subcommand)]
    command: MetadataCommand,
}

#[derive(Debug, Subcommand)]
enum MetadataCommand {
    /// Reports which records of the metadata log cannot be applied, and where; fails if there are
    /// any.
    Check(MetadataDirArgs),
    /// Prints every record.
    Show(MetadataDirArgs),
    /// Sets the log aside, starts a new one with all readable records, and reports what is dropped.
    Repair {
        /// The log directory with `__cluster_metadata-0`.
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
struct MetadataDirArgs {
    /// The log directory with `__cluster_metadata-0`.
    dir: PathBuf,
    /// Output format; JSON is one object per line.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl MetadataArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            MetadataCommand::Check(of) => check(of),
            MetadataCommand::Show(of) => show(of),
            MetadataCommand::Repair { dir } => repair(dir),
        }
    }
}

fn folder_of(dir: &Path) -> PathBuf {
    dir.join(format!("{METADATA_TOPIC}-0"))
}

/// Reads the files of the metadata log in a log directory.
pub(super) fn files_of(dir: &Path) -> anyhow::Result<Files> {
    let folder = folder_of(dir);
    let mut files = Files::new();
    let listed = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in listed {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        let path = entry.path();
        let facts = fs::metadata(&path).with_context(|| format!("reading {}", path.display()))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if facts.is_file() && facts.len() <= FILE_BYTES_MAX {
            let bytes = bounded::file(&path, FILE_BYTES_MAX)
                .with_context(|| format!("reading {}", path.display()))?;
            files.push((name, bytes.into()));
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the metadata of a log directory. Values of settings that the table lacks are hidden.
fn read(dir: &Path) -> anyhow::Result<Reading> {
    Ok(offline::read(&files_of(dir)?, keys::for_broker(&[])))
}

fn check(of: &MetadataDirArgs) -> anyhow::Result<ExitCode> {
    let reading = read(&of.dir)?;
    let mut text = String::new();
    for finding in &reading.findings {
        let said = match of.format {
            Format::Text => line(finding),
            Format::Json => json(&serde_json::json!({
                "file": finding.file,
                "offset": finding.offset,
                "fatal": finding.fatal,
                "problem": finding.problem,
            })),
        };
        text.push_str(&said);
        text.push('\n');
    }
    if of.format == Format::Text {
        text += &summary(&reading, &of.dir);
    }
    super::print(&text)?;
    let sound = reading.findings.is_empty();
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn line(finding: &offline::Finding) -> String {
    let offline::Finding {
        file,
        offset,
        fatal,
        problem,
        ..
    } = finding;
    let kind = if *fatal { "error" } else { "warning" };
    let file = if file.is_empty() { "the log" } else { file };
    format!("{kind}: {file}: offset {offset}: {}", EscapedText(problem))
}

fn summary(reading: &Reading, dir: &Path) -> String {
    let topics = reading.topics().count();
    let dir = dir.display();
    let verdict = if reading.is_fatal() {
        format!(
            "the broker does not start; `forebay metadata repair {dir}` sets it aside and keeps what can be read"
        )
    } else if reading.findings.is_empty() {
        "sound".to_owned()
    } else {
        "the broker starts, without what does not fit".to_owned()
    };
    format!("{dir}: {topics} topics: {verdict}\n")
}

fn json(value: &serde_json::Value) -> String {
    escaped_json(&value.to_string()).into_owned()
}

fn show(of: &MetadataDirArgs) -> anyhow::Result<ExitCode> {
    let reading = read(&of.dir)?;
    let lines = reading.shown.iter().map(|shown| match of.format {
        Format::Text => format!(
            "{}\t{}\t{}\n",
            shown.file,
            shown.offset,
            EscapedText(&shown.text)
        ),
        Format::Json => {
            let (file, offset, record) = (&shown.file, shown.offset, &shown.text);
            let object = serde_json::json!({"file": file, "offset": offset, "record": record});
            json(&object) + "\n"
        }
    });
    super::print(&lines.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn repair(dir: &Path) -> anyhow::Result<ExitCode> {
    let _lock = DirLock::acquire(dir)?;
    refuse_journal(dir)?;
    let folder = folder_of(dir);
    let new = dir.join(format!("{METADATA_TOPIC}-0.new"));
    if !folder.exists() && new.exists() {
        // A repair was interrupted after it had set the old folder aside: the new folder is
        // complete.
        fs::rename(&new, &folder).with_context(|| format!("renaming {}", new.display()))?;
        sync_dir(dir)?;
        let done = format!(
            "{}: a repair that was cut short is finished\n",
            dir.display()
        );
        super::print(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let reading = read(dir)?;
    if reading.findings.is_empty() {
        super::print(&format!("{}: nothing to repair\n", dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Write the new folder completely before setting the old one aside.
    if new.exists() {
        fs::remove_dir_all(&new).with_context(|| format!("removing {}", new.display()))?;
    }
    platform::os::create_dir(&new).with_context(|| format!("creating {}", new.display()))?;
    platform::lock::give_to_owner_of(dir, &new);
    let (name, bytes) = reading.snapshot()?;
    write(&new.join(&name), &bytes)?;
    let (state, bytes) = reading.quorum_state(node_of(dir));
    write(&new.join(state), &bytes)?;
    let id = partition_metadata::encode(TopicId::METADATA);
    write(&new.join(partition_metadata::FILE), &id)?;
    sync_dir(&new)?;
    let aside = (0..u16::MAX)
        .map(|at| dir.join(format!("{METADATA_TOPIC}-0.{at}.aside")))
        .find(|path| !path.exists())
        .context("no name is free")?;
    fs::rename(&folder, &aside).with_context(|| format!("renaming {}", folder.display()))?;
    fs::rename(&new, &folder).with_context(|| format!("renaming {}", new.display()))?;
    sync_dir(dir)?;
    let mut text = String::new();
    for finding in &reading.findings {
        let _ = writeln!(text, "dropped: {}", line(finding));
    }
    for (topic, partitions) in reading.topics() {
        let _ = writeln!(text, "kept: topic {topic:?} with {partitions} partitions");
    }
    let _ = writeln!(text, "set aside: {}", aside.display());
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `forebay config reset`: removes dynamic values.
pub(super) fn reset(keys: &[String], topic: Option<&str>, dir: &Path) -> anyhow::Result<ExitCode> {
    let _lock = DirLock::acquire(dir)?;
    let mut reading = read_whole(dir)?;
    let mut text = String::new();
    for key in keys {
        let dropped = reading.reset(key, topic);
        anyhow::ensure!(!dropped.is_empty(), "{key} has no dynamic value there");
        for value in dropped {
            let _ = writeln!(text, "dropped: {value}");
        }
    }
    replace(dir, &reading)?;
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `forebay user set --data-dir`: gives a user a password.
pub(super) fn set_user(offline: &cli::OfflineUser) -> anyhow::Result<ExitCode> {
    let (dir, name) = (offline.data_dir.as_path(), &offline.name);
    let _lock = DirLock::acquire(dir)?;
    let mut reading = read_whole(dir)?;
    for credential in &offline.credentials {
        reading.set_user(name, credential)?;
    }
    replace(dir, &reading)?;
    let (name, dir) = (EscapedText(name), dir.display());
    super::print(&format!("{name}: set in {dir}, from the next start on\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads metadata that have to be whole.
fn read_whole(dir: &Path) -> anyhow::Result<Reading> {
    refuse_journal(dir)?;
    let reading = read(dir)?;
    let (folder, dir) = (folder_of(dir), dir.display());
    anyhow::ensure!(
        !reading.is_fatal(),
        "{} cannot be read to its end: `forebay metadata repair {dir}` first",
        folder.display(),
    );
    Ok(reading)
}

/// Writes a snapshot in the place of all that was read.
fn replace(dir: &Path, reading: &Reading) -> anyhow::Result<()> {
    let (name, bytes) = reading.snapshot()?;
    let folder = folder_of(dir);
    let path = folder.join(name);
    write(&path.with_extension("reset"), &bytes)?;
    if path.exists() {
        // The new snapshot ends where the log ends, so an older one may have the same name. It is
        // kept under another name. A hard link leaves it in place until the rename, since the log
        // may no longer hold the records before it.
        let kept = path.with_extension("replaced");
        if kept.exists() {
            fs::remove_file(&kept).with_context(|| format!("removing {}", kept.display()))?;
        }
        fs::hard_link(&path, &kept).with_context(|| format!("naming {}", kept.display()))?;
    }
    let written = path.with_extension("reset");
    fs::rename(&written, &path).with_context(|| format!("renaming {}", written.display()))?;
    sync_dir(&folder)
}

/// Refuses a directory whose journal may have records of the metadata log that its files lack.
fn refuse_journal(dir: &Path) -> anyhow::Result<()> {
    let file = dir.join(meta_properties::FILE);
    let bytes = bounded::file(&file, SMALL_FILE_BYTES_MAX).unwrap_or_default();
    // The next start reports what else is wrong with that file.
    let meta = meta_properties::parse_marked(&file, &bytes);
    anyhow::ensure!(
        meta.map_or(true, |meta| meta.journal.is_none()),
        "{} was not left cleanly, and its journal may have the last records: `forebay recover {}` first",
        dir.display(),
        dir.display()
    );
    Ok(())
}

fn node_of(dir: &Path) -> NodeId {
    let file = dir.join(meta_properties::FILE);
    let bytes = bounded::file(&file, SMALL_FILE_BYTES_MAX).unwrap_or_default();
    // The next start reports what is wrong with that file, and writes this node's id into
    // `quorum-state` again.
    meta_properties::parse(&file, &bytes).map_or(NodeId(0), |meta| meta.node_id)
}

/// Writes a file durably, for the owner of its directory and its group.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let written = options.mode(FILE_MODE).open(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.with_context(|| format!("writing {}", path.display()))?;
    // The operator who repairs is often another user than the broker, which must be able to write
    // here afterwards.
    if let Some(dir) = path.parent() {
        platform::lock::give_to_owner_of(dir, path);
    }
    Ok(())
}

pub(super) fn sync_dir(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.with_context(|| format!("syncing {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn other_users_do_not_read_what_is_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home
            .path()
            .join("00000000000000000007-0000000001.checkpoint");
        write(&path, b"keys").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o137, 0);
        assert_eq!(fs::read(&path).unwrap(), b"keys");
    }
}
