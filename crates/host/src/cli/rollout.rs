//! `rollout`: applies a plan to many hosts. It runs on a controller, whose own settings it does not
//! change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use platform::lock::DirLock;
use serde::Serialize;

use super::show::{say, table};
use super::{CommandPlace, Exit};
use crate::boot;
use crate::fleet::carry::Program;
use crate::fleet::design::{Restart, Rollout, hosts};
use crate::fleet::gate;
use crate::fleet::run::{ABORTED, Desk, run};
use crate::fleet::state::{Event, HostInRollout, HostStanding, RolloutState, Step};
use crate::journal::store::{self, JournalFile};
use crate::journal::{Log as _, Record};
use crate::knob::{self, Class};
use crate::plan::Plan;

/// Limit on the size of a design, a plan, or the list of all hosts.
const BYTES_MAX: u64 = 256 << 20;
/// How often a pause by an operator is checked.
const LOOK_MS: u64 = 500;

#[derive(Debug, Subcommand)]
pub(super) enum RolloutCommand {
    /// Decides the order of the hosts and writes it into a new directory. Nothing is done on any
    /// host.
    Init {
        /// The hosts, their stages, and how many at the same time.
        #[arg(value_name = "ROLLOUT.toml")]
        design: PathBuf,
        /// The directory of everything about this rollout.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Runs until all is done, all was taken back, or an operator must look. May be killed and
    /// restarted.
    Run(Dir),
    /// Shows the state of each host.
    Status(Dir),
    /// Stops `run` from beginning anything new.
    Pause(Dir),
    /// Ends the pause, and gives up the hosts that are out of reach; `run` can be started again.
    Resume(Dir),
    /// Makes `run` take everything back: the one that runs after its step, else the next.
    Abort(Dir),
}

#[derive(Debug, clap::Args)]
pub(super) struct Dir {
    /// The directory made by `init`.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl RolloutCommand {
    pub(super) fn run(self, place: &CommandPlace) -> anyhow::Result<Exit> {
        match self {
            RolloutCommand::Init { design, output } => init(place, &design, &output),
            RolloutCommand::Run(Dir { dir }) => go(place, &dir),
            RolloutCommand::Status(Dir { dir }) => {
                let (_, state) = read(&dir)?;
                show(place, &state)?;
                Ok(Exit::Done)
            }
            RolloutCommand::Pause(Dir { dir }) => {
                read(&dir)?;
                std::fs::write(wish(&dir), "")?;
                Ok(Exit::Done)
            }
            RolloutCommand::Resume(Dir { dir }) => tell(&dir, Event::Resume),
            RolloutCommand::Abort(Dir { dir }) => abort(&dir),
        }
    }
}

fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    platform::bounded::file(file, BYTES_MAX).with_context(|| format!("reading {}", file.display()))
}

fn init(place: &CommandPlace, file: &Path, output: &Path) -> anyhow::Result<Exit> {
    let text = String::from_utf8(bytes(file)?)?;
    let design = Rollout::parse(&text).with_context(|| file.display().to_string())?;
    let beside = file.parent().unwrap_or(file);
    let plan = String::from_utf8(bytes(&beside.join(&design.plan))?)?;
    let parsed = Plan::parse(&plan).with_context(|| design.plan.display().to_string())?;
    let restarts = parsed
        .items
        .iter()
        .any(|item| item.class >= Class::P || knob::outlives_boot(&item.id));
    if let Some(why) = design.refuses(restarts) {
        anyhow::bail!("{}: {why}", file.display());
    }
    let inventory = beside.join(&design.inventory);
    let hosts = hosts(&bytes(&inventory)?).with_context(|| inventory.display().to_string())?;
    let turns = design.turns(hosts)?;
    std::fs::create_dir(output).with_context(|| format!("making {}", output.display()))?;
    // Copies, so that later edits of the originals do not affect this rollout.
    std::fs::write(output.join("rollout.toml"), &text)?;
    std::fs::write(output.join("plan.toml"), &plan)?;
    let (_, mut journal) = store::open::<Event>(&path(output))?;
    let plan = crate::hex::sha256(&plan);
    journal.append(Event::Init {
        plan,
        turns,
        restarts,
    })?;
    let (_, state) = read(output)?;
    show(place, &state)?;
    Ok(Exit::Done)
}

fn path(dir: &Path) -> PathBuf {
    dir.join("rollout.jsonl")
}

/// Returns the file by which an operator requests a pause.
fn wish(dir: &Path) -> PathBuf {
    dir.join("pause")
}

fn design(dir: &Path) -> anyhow::Result<Rollout> {
    Rollout::parse(&String::from_utf8(bytes(&dir.join("rollout.toml"))?)?)
}

fn state(records: &[Record<Event>]) -> RolloutState {
    RolloutState::of(records.iter().map(|record| (record.at_ms, &record.event)))
}

fn read(dir: &Path) -> anyhow::Result<(Rollout, RolloutState)> {
    let text = bytes(&path(dir))?;
    let (records, _) = crate::journal::records::<Event>(&text).map_err(anyhow::Error::msg)?;
    Ok((design(dir)?, state(&records)))
}

fn open(dir: &Path) -> anyhow::Result<(DirLock, RolloutState, JournalFile)> {
    let lock = DirLock::acquire(dir)?;
    let (records, journal) = store::open::<Event>(&path(dir))?;
    Ok((lock, state(&records), journal))
}

/// Returns the file by which an operator requests that everything is taken back.
fn abort_wish(dir: &Path) -> PathBuf {
    dir.join("abort")
}

fn abort(dir: &Path) -> anyhow::Result<Exit> {
    let why = ABORTED.to_owned();
    match tell(dir, Event::Fail { why }) {
        Err(error) if store::is_held(&error) => {
            read(dir)?;
            std::fs::write(abort_wish(dir), "")?;
            say("`run` takes everything back after its present step");
            Ok(Exit::Done)
        }
        told => told,
    }
}

/// Records an operator's command; fails while `run` holds the lock.
fn tell(dir: &Path, event: Event) -> anyhow::Result<Exit> {
    let (lock, _, mut journal) = open(dir)?;
    remove(&wish(dir))?;
    journal.append(event)?;
    drop(lock);
    Ok(Exit::Done)
}

fn remove(wish: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(wish) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn go(place: &CommandPlace, dir: &Path) -> anyhow::Result<Exit> {
    let dir = std::path::absolute(dir)?;
    let design = design(&dir)?;
    let (lock, mut state, mut journal) = open(&dir)?;
    let plan = dir.join("plan.toml");
    let digest = crate::hex::sha256(&String::from_utf8(bytes(&plan)?)?);
    anyhow::ensure!(
        digest == state.plan,
        "{} is not the plan that it was begun with",
        plan.display()
    );
    let mut carrier = Program {
        command: &design.carrier,
        plan: &plan,
        dir: &dir,
        within: Duration::from_millis(design.carrier_within_ms),
    };
    let mut desk = Operator {
        dir: &dir,
        gate: &design.gate,
        restart: design.restart.as_ref(),
    };
    let stopped = run(&design, &mut state, &mut journal, &mut carrier, &mut desk)?;
    drop(lock);
    show(place, &state)?;
    let lost = state
        .hosts
        .values()
        .filter(|of| of.stands == HostStanding::Quarantined)
        .count();
    if let Some(why) = stopped {
        say(&format!("paused: {why}"));
        return Ok(Exit::Inconclusive);
    }
    if let Some(why) = &state.failed {
        say(&format!("taken back: {why}"));
    }
    if lost > 0 {
        say(&format!(
            "{lost} hosts are out of reach, or could not be taken back"
        ));
    }
    Ok(if state.failed.is_some() {
        Exit::Failed
    } else {
        Exit::Done
    })
}

struct Operator<'a> {
    dir: &'a Path,
    gate: &'a [String],
    restart: Option<&'a Restart>,
}

impl Desk for Operator<'_> {
    fn now_ms(&mut self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
    }

    fn wait(&mut self, until_ms: i64) {
        loop {
            let left = u64::try_from(until_ms.saturating_sub(self.now_ms())).unwrap_or(0);
            if left == 0 || self.is_stopped() || self.is_aborted() {
                return;
            }
            boot::wait_ms(left.min(LOOK_MS));
        }
    }

    fn is_stopped(&mut self) -> bool {
        wish(self.dir).exists()
    }

    fn is_aborted(&mut self) -> bool {
        abort_wish(self.dir).exists()
    }

    fn forget_abort(&mut self) {
        // One that stays is recorded once more, which changes nothing.
        drop(remove(&abort_wish(self.dir)));
    }

    fn tell(&mut self, what: &str) {
        say(what);
    }

    fn gate(&mut self, host: &str) -> Result<(), String> {
        gate::passes(self.gate, host)
    }

    fn service(&mut self, step: Step, hosts: &[String]) -> BTreeMap<String, Result<(), String>> {
        let Some(restart) = self.restart else {
            return BTreeMap::new();
        };
        let program = match step {
            Step::Drain => &restart.drain,
            Step::Restart => &restart.restart,
            _ => &restart.ready,
        };
        gate::for_each(program, hosts, Duration::from_millis(restart.within_ms))
    }
}

fn show(place: &CommandPlace, state: &RolloutState) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Answer<'a> {
        hosts: Vec<&'a HostInRollout>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failed: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        paused: Option<&'a str>,
    }
    let mut hosts: Vec<&HostInRollout> = state.hosts.values().collect();
    hosts.sort_by_key(|of| of.turn.stage.unwrap_or(usize::MAX));
    let answer = Answer {
        hosts,
        failed: state.failed.as_deref(),
        paused: state.paused.as_deref(),
    };
    place.format.show(&answer, || {
        let row = |of: &&HostInRollout| {
            let stage = of.turn.stage.map_or_else(
                || "held out".to_owned(),
                |stage| format!("stage {}", stage + 1),
            );
            let host = &of.turn.host;
            let stands = format!("{:?}", of.stands).to_lowercase();
            vec![
                stage,
                host.name.clone(),
                host.site.clone(),
                host.group.clone(),
                stands,
            ]
        };
        table(&answer.hosts.iter().map(row).collect::<Vec<_>>())
    })
}
