//! This host as the world of an experiment: an arm is a transaction with a watchdog, a block is a
//! load or the host's own traffic, and the figures are counters per second and the numbers that the
//! load prints.
//!
//! Invariant: whichever process is killed, the change is taken back: each transaction has its own
//! watchdog, whose deadline exceeds the time of all blocks that can follow each other in one arm.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::assign::Arm;
use super::design::Design;
use super::run::{Block, BlockFigures, DROPPED, RECEIVED, World};
use crate::apply::Change;
use crate::boot;
use crate::change::{self, Order};
use crate::counter::Counters;
use crate::drop_reason::Tracer;
use crate::journal::store::transactions;
use crate::root::Root;
use crate::transaction::{Transaction, TransactionStanding};
use crate::undo::UndoOutcome;
use crate::watchdog;

/// Limit on the output of a load.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Interval at which the end of a load is checked.
const LOOK_MS: u64 = 20;
/// Time that a load may exceed its block.
const LOAD_MORE_MS: u64 = 60_000;
/// Longest wait for the output of a load after its end.
const OUTPUT_TIME: Duration = Duration::from_secs(10);

/// The host.
#[derive(Debug)]
pub struct Host<'a> {
    /// The tree of its files.
    pub tree: &'a Root,
    /// The root directory of the tree.
    pub root: &'a Path,
    /// Directory of its transactions.
    pub state: &'a Path,
    /// The design of the experiment.
    pub design: &'a Design,
    /// Digest of the plan.
    pub plan: String,
    /// Fingerprint of the hosts that the plan is for.
    pub fingerprint: String,
    /// Changes in effect in the control arm.
    pub control: &'a [Change],
    /// Changes in effect in the test arm.
    pub test: &'a [Change],
    /// The current arm and its transaction; none if the arm changes nothing.
    pub open: Option<(Arm, String)>,
    /// Counts the reasons of lost packets, if the design asks for them.
    pub tracer: Option<Tracer>,
}

impl Host<'_> {
    fn apply(&mut self, arm: Arm) -> anyhow::Result<()> {
        let changes = match arm {
            Arm::Control => self.control,
            Arm::Test => self.test,
        };
        if changes.is_empty() {
            return Ok(());
        }
        let (block, washout) = (self.design.block_ms, self.design.washout_ms);
        // Consecutive blocks of one arm share a transaction; at most, these are all blocks before
        // the first pair.
        let blocks = 2 * self.design.pairs_of_same() as u64 + 4;
        let within = block
            .saturating_add(washout)
            .saturating_mul(if self.control.is_empty() { 4 } else { blocks })
            .saturating_add(LOAD_MORE_MS);
        let order = Order {
            plan: self.plan.clone(),
            host: self.fingerprint.clone(),
            changes,
            confirm_within_ms: Some(within),
            taken: Vec::new(),
            ..Order::default()
        };
        let watch = |id: &str| watchdog::start(self.root, self.state, id);
        let report = change::begin(self.tree, self.state, order, watch)?;
        let report = report.map_err(|refusal| anyhow::anyhow!(refusal.why))?;
        anyhow::ensure!(
            report.whole,
            "the plan cannot be applied whole: {:?}",
            report.applied
        );
        self.open = Some((arm, report.transaction));
        Ok(())
    }

    /// Checks that the change was in effect until now: a load that far exceeds its block outlives
    /// the watchdog.
    fn is_in_effect(&self) -> anyhow::Result<()> {
        let Some((_, open)) = &self.open else {
            return Ok(());
        };
        let boot = boot::id(self.tree);
        let transactions = transactions(self.state)?;
        let is_open =
            |one: &Transaction| one.id == *open && one.standing(&boot) == TransactionStanding::Open;
        anyhow::ensure!(
            transactions.iter().any(is_open),
            "transaction {open} was taken back during a block: the load takes too long"
        );
        Ok(())
    }

    fn undo(&mut self) -> anyhow::Result<()> {
        let Some((_, open)) = self.open.take() else {
            return Ok(());
        };
        let which = change::UndoSelection {
            only: Some(&open),
            ..change::UndoSelection::default()
        };
        let done = change::undo(self.tree, self.state, which)?;
        for undone in done.iter().flat_map(|(_, undone)| undone) {
            let is_back = matches!(
                undone.outcome,
                UndoOutcome::Restored | UndoOutcome::Untouched
            );
            anyhow::ensure!(
                is_back,
                "{} is not as it was: {:?}",
                undone.item,
                undone.outcome
            );
        }
        Ok(())
    }
}

impl World for Host<'_> {
    fn enter(&mut self, arm: Arm) -> anyhow::Result<()> {
        // Both arms wait equally long, whether something is changed or not.
        if self.open.as_ref().is_none_or(|(open, _)| *open != arm) {
            self.undo()?;
            self.apply(arm)?;
        }
        boot::wait_ms(self.design.washout_ms);
        Ok(())
    }

    fn leave(&mut self) -> anyhow::Result<()> {
        self.undo()
    }

    fn block(&mut self) -> anyhow::Result<Block> {
        if let Some(tracer) = &mut self.tracer {
            // What was dropped between the blocks belongs to none.
            drop(tracer.take());
        }
        let before = Counters::read(self.tree);
        let begin = boot::now_ms();
        let mut figures = match self.design.load.split_first() {
            None => {
                boot::wait_ms(self.design.block_ms);
                BlockFigures::new()
            }
            Some((program, arguments)) => match load(program, arguments, self.design.block_ms)? {
                Block::Figures(figures) => figures,
                alarm @ Block::Alarm(_) => return Ok(alarm),
            },
        };
        self.is_in_effect()?;
        let seconds = boot::now_ms().saturating_sub(begin).max(1) as f64 / 1_000.0;
        let added = Counters::read(self.tree).since(&before);
        let drops: u64 = added
            .drops()
            .values()
            .fold(0, |all, count| all.saturating_add(*count));
        figures.insert("drops".to_owned(), drops as f64 / seconds);
        figures.insert(DROPPED.to_owned(), drops as f64);
        figures.insert(RECEIVED.to_owned(), added.packets() as f64);
        if let Some(tracer) = &mut self.tracer {
            for ((reason, _), count) in tracer.take() {
                *figures.entry(format!("reason.{reason}")).or_default() += count as f64 / seconds;
            }
        }
        for (name, count) in &added.0 {
            figures.insert(name.clone(), *count as f64 / seconds);
        }
        Ok(Block::Figures(figures))
    }
}

/// Runs a load for a block; a load that fails or does not end is an alarm.
fn load(program: &str, arguments: &[String], block_ms: u64) -> anyhow::Result<Block> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("FOREBAY_BLOCK_MS", block_ms.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // In its own process group, so that the processes it started end with it.
    let mut child = command
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let out = child.stdout.take().context("it has an output")?;
    // A thread reads the output, so that a load that prints much is not blocked by the wait for its
    // end, and a process it left behind with the output open is not waited for either.
    let (sender, printed) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(platform::bounded::stream(out, OUTPUT_BYTES_MAX)));
    let until = boot::now_ms()
        .saturating_add(block_ms)
        .saturating_add(LOAD_MORE_MS);
    let ended = wait(&mut child, until)?;
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // Fails if the group is empty, which is the normal case.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let text = printed
        .recv_timeout(OUTPUT_TIME)
        .with_context(|| format!("{program} left something running that has its output"))??;
    match ended {
        None => Ok(Block::Alarm(format!("{program} did not end"))),
        Some(status) if !status.success() => {
            Ok(Block::Alarm(format!("{program} failed: {status}")))
        }
        Some(_) => {
            let figures: BlockFigures =
                serde_json::from_slice(&text).with_context(|| format!("what {program} prints"))?;
            Ok(Block::Figures(figures))
        }
    }
}

/// Returns the exit status; none if the child had to be killed.
fn wait(child: &mut Child, until_ms: u64) -> anyhow::Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if boot::now_ms() >= until_ms {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        boot::wait_ms(LOOK_MS);
    }
}
