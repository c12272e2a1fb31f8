//! `forebay backup DIR.. TO`: a copy of the directories of a broker, which may run meanwhile.
//!
//! The copy is what `kill -9` at one instant would have left, in all directories together, so the
//! start from it is the start after a kill (docs/adr/0054). The story: the files are looked at and
//! held open ([`survey`]); the broker is stopped for some milliseconds, in which the names are
//! compared and the ends of the active segments are found ([`pause`]); then the held files are
//! copied while the broker goes on ([`copy`]), and the copy is checked as by `forebay check`.
//!
//! Invariants: nothing is written below a source; the destination gets its name only when the copy
//! is whole, checked and durable; memory is bounded by the files that this process may open.

mod copy;
mod others;
mod pause;
mod survey;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use broker::log_dirs;
use clap::Args;
use platform::disk::SMALL_FILE_BYTES_MAX;
use platform::lock::{self, LockState};
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use platform::{Platform as _, bounded};
use storage::check::{Severity, check};
use storage::checkpoint::meta_properties::{self, MetaProperties};
use wire::text::EscapedText;
use wire::types::Uuid;

use pause::PausedProcess;
use survey::Survey;

/// Looks at a running broker before the command gives up.
const TRIES: u32 = 3;
/// How long a write may take that the broker had begun before it was stopped.
const TORN_MAX: Duration = Duration::from_secs(10);
/// Between two looks at one.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The ending of the destination's name until the copy is whole.
const PARTIAL: &str = ".partial";

/// Arguments of `forebay backup`.
#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// All log directories of the broker and all paths of its tiers, then where to copy them: a
    /// directory that does not exist. Of several directories each has one there, 1, 2, ..
    #[arg(value_name = "DIR", num_args = 2.., required_unless_present = "resume")]
    paths: Vec<PathBuf>,
    /// The longest time for which a running broker is stopped, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=5000))]
    pause_max: u64,
    /// Resumes this process when standard input ends.
    #[arg(long, hide = true, value_name = "PID", conflicts_with = "paths")]
    resume: Option<i32>,
}

/// A copy that was made.
struct BackupSummary {
    logs: usize,
    files: u64,
    bytes: u64,
    /// How long the broker was stopped; `None` if none ran.
    paused: Option<Duration>,
    /// Files that the next start makes again, and segments that it takes out.
    to_make: u64,
}

impl BackupArgs {
    /// Makes the copy, and prints what is in it.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let most = Duration::from_millis(self.pause_max);
        if let Some(pid) = self.resume {
            pause::guard(pid, most)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (to, dirs) = self.paths.split_last().context("no destination")?;
        let partial = prepare(dirs, to)?;
        let mut summary = self.back_up(dirs, &partial, most)?;
        summary.to_make = verify(&partial, dirs.len())?;
        copy::hand_over(dirs, &partial, &targets(&partial, dirs.len()))?;
        fs::rename(&partial, to).with_context(|| format!("naming {}", to.display()))?;
        copy::sync_dir(&parent_of(to))?;
        super::print(&said(to, &summary))?;
        Ok(ExitCode::SUCCESS)
    }

    fn back_up(
        &self,
        dirs: &[PathBuf],
        partial: &Path,
        most: Duration,
    ) -> anyhow::Result<BackupSummary> {
        pause::raise_open_files();
        let (survey, paused) = self.survey(dirs, most)?;
        let mut outcome = BackupSummary {
            logs: survey.logs(),
            files: 0,
            bytes: 0,
            paused,
            to_make: 0,
        };
        copy::create_dir(partial)?;
        let targets = targets(partial, dirs.len());
        for (dir, target) in survey.dirs.iter().zip(&targets) {
            let (files, bytes) = copy::dir(dir, target, &survey)?;
            outcome.files = outcome.files.saturating_add(files);
            outcome.bytes = outcome.bytes.saturating_add(bytes);
        }
        wait_for_torn(&survey)?;
        copy::sync_all(partial)?;
        Ok(outcome)
    }

    /// Looks at the directories as they are at one instant.
    fn survey(
        &self,
        dirs: &[PathBuf],
        most: Duration,
    ) -> anyhow::Result<(Survey, Option<Duration>)> {
        let mut survey = Survey::new(dirs);
        for _ in 0..TRIES {
            let Some(pid) = holder(dirs)? else {
                survey.look(false, None)?;
                if holder(dirs)?.is_none() {
                    return Ok((survey, None));
                }
                // A broker has started meanwhile.
                continue;
            };
            others::refuse_unnamed(pid, dirs)?;
            // Most of the work is done while the broker runs.
            survey.look(true, None)?;
            let paused = PausedProcess::begin(pid, most)?;
            let looked = survey.look(true, Some(paused.since() + most));
            let lasted = paused.end()?;
            // Ended and started again, it is another process.
            if looked? && holder(dirs)? == Some(pid) {
                return Ok((survey, Some(lasted)));
            }
        }
        bail!(
            "the directories of the running broker could not be looked at within {} ms: with more \
             (--pause-max), when the disk has less to do, or while the broker is stopped",
            self.pause_max
        )
    }
}

/// Waits until what followed the last batch of a file at the instant has become a batch.
///
/// What the kernel was writing for the broker then is there soon. What stays is damage, and a copy
/// that ends before it would not show it.
fn wait_for_torn(survey: &Survey) -> anyhow::Result<()> {
    let deadline = Instant::now() + TORN_MAX;
    for (path, held) in survey.torn() {
        while !held.has_gone_on()? {
            ensure!(
                Instant::now() < deadline,
                "{}: what follows its last batch is none, and is not being written: a start ends \
                 the log there (docs/repair.md)",
                EscapedText(&path.display().to_string())
            );
            sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

/// Returns the process that uses the directories, which is the same for all of them.
fn holder(dirs: &[PathBuf]) -> anyhow::Result<Option<i32>> {
    let mut holders = dirs.iter().map(|dir| match lock::state(dir) {
        LockState::Held(Some(pid)) => Ok(Some(pid.as_raw_nonzero().get())),
        LockState::Held(None) | LockState::Own => bail!(
            "{}: the process that uses it is not visible from here: run this where the broker runs",
            dir.display()
        ),
        LockState::Free => Ok(None),
    });
    let first = holders.next().context("no directory")??;
    for other in holders {
        ensure!(
            other? == first,
            "the directories are not all used by one broker, which has to use all or none of them"
        );
    }
    Ok(first)
}

/// Checks the directories and the destination; returns the name of the copy until it is whole.
fn prepare(dirs: &[PathBuf], to: &Path) -> anyhow::Result<PathBuf> {
    ensure!(
        fs::symlink_metadata(to).is_err(),
        "{} exists: a backup overwrites nothing",
        to.display()
    );
    let name = to.file_name().context("the destination has no name")?;
    let mut name = name.to_owned();
    name.push(PARTIAL);
    let parent = parent_of(to);
    let partial = parent.join(name);
    ensure!(
        fs::symlink_metadata(&partial).is_err(),
        "{} exists, left by a backup that did not end: remove it",
        partial.display()
    );
    let parent = fs::canonicalize(&parent).with_context(|| parent.display().to_string())?;
    let mut identities = Vec::new();
    for dir in dirs {
        let at = fs::canonicalize(dir).with_context(|| dir.display().to_string())?;
        ensure!(
            !parent.starts_with(&at),
            "{} is in {}, which is copied",
            to.display(),
            dir.display()
        );
        identities.push(identity(dir)?);
    }
    check_identities(dirs, &identities)?;
    Ok(partial)
}

fn identity(dir: &Path) -> anyhow::Result<MetaProperties> {
    let file = dir.join(meta_properties::FILE);
    let bytes = bounded::file(&file, SMALL_FILE_BYTES_MAX);
    let bytes = bytes.with_context(|| format!("reading {}", file.display()))?;
    let meta = meta_properties::parse_marked(&file, &bytes)?;
    ensure!(
        meta.journal.is_none(),
        "{} has a journal that counts, and a copy would not have it as at one instant: stop the broker first, or run \
         it with journal.bytes=0; after a crash `forebay recover` first",
        dir.display()
    );
    Ok(meta)
}

/// Checks that the directories are all that belong together, by the lists in them.
fn check_identities(dirs: &[PathBuf], identities: &[MetaProperties]) -> anyhow::Result<()> {
    let ids: Vec<_> = identities
        .iter()
        .filter_map(|one| one.directory_id)
        .collect();
    for (at, one) in identities.iter().enumerate() {
        let first = identities.first().unwrap_or(one);
        ensure!(
            (&one.cluster_id, one.node_id) == (&first.cluster_id, first.node_id),
            "the directories are of different brokers"
        );
        let before = identities.iter().take(at);
        ensure!(
            one.directory_id.is_none()
                || before.clone().all(|it| it.directory_id != one.directory_id),
            "one directory is named twice"
        );
    }
    for dir in dirs {
        for (id, path) in listed(dir)? {
            ensure!(
                ids.contains(&id),
                "{} belongs to the same broker ({}) and is not named: all its directories and all \
                 paths of its tiers make one backup",
                EscapedText(&path.display().to_string()),
                dir.display()
            );
        }
    }
    Ok(())
}

/// Returns the directories that the lists in a log directory name.
fn listed(dir: &Path) -> anyhow::Result<Vec<(Uuid, PathBuf)>> {
    let mut named = Vec::new();
    for name in log_dirs::LISTS {
        let file = dir.join(name);
        match bounded::file(&file, SMALL_FILE_BYTES_MAX) {
            Ok(bytes) => named.extend(log_dirs::listed(&bytes)),
            // Kafka has none, and a path of a lower tier neither.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
        }
    }
    Ok(named)
}

/// Returns where each directory goes.
fn targets(to: &Path, count: usize) -> Vec<PathBuf> {
    if count == 1 {
        return vec![to.to_owned()];
    }
    (1..=count)
        .map(|number| to.join(number.to_string()))
        .collect()
}

/// Checks the copy as `forebay check` does; returns the number of hints.
///
/// A kill may leave a segment without its indexes, just after it was rolled, and one that begins
/// before the end of the one before it was written.
fn verify(partial: &Path, count: usize) -> anyhow::Result<u64> {
    let dirs = targets(partial, count);
    let report = run_shard(None, async {
        let system = System::start(EngineChoice::Threads).map_err(std::io::Error::other)?;
        system.disk().set_read_only();
        check(system.disk(), &dirs).await
    });
    let report = report
        .and_then(|report| report)
        .context("checking the copy")?;
    let [_, hints, damage] = report.counts;
    let mut findings = report.findings.iter();
    let first = findings.find(|one| one.severity == Severity::Damage);
    if let Some(first) = first {
        let path = first.path.display().to_string();
        bail!(
            "the copy is not sound, and keeps its name {}: {}: {} (`forebay check` names all; if \
             it finds the same in the source, that is where it is)",
            partial.display(),
            EscapedText(&path),
            EscapedText(&first.what)
        );
    }
    // More findings than are kept.
    ensure!(damage == 0, "the copy {} is not sound", partial.display());
    Ok(hints)
}

fn said(to: &Path, summary: &BackupSummary) -> String {
    let BackupSummary {
        logs,
        files,
        bytes,
        paused,
        to_make,
    } = summary;
    let how = match paused {
        Some(paused) => format!("the broker was stopped for {} ms", paused.as_millis()),
        None => "no broker ran".to_owned(),
    };
    let hints = if *to_make == 0 {
        String::new()
    } else {
        format!(" ({to_make} things the start makes again or takes out)")
    };
    format!(
        "{}: {logs} logs, {files} files, {bytes} bytes, checked{hints}; {how}\n",
        to.display()
    )
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
