//! This host as the world of an experiment: the change is a transaction with a watchdog, a block is a load or the host's own
//! traffic, its figures are counters per second and what the load prints.
//!
//! Invariant: whoever is killed, the change is taken back: each block of the test arm has a watchdog of its own, whose time
//! is that of the block and as much again.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use super::assign::Arm;
use super::design::Design;
use super::run::{Block, Measured, World};
use crate::apply::Change;
use crate::boot;
use crate::change::{self, Order};
use crate::counter::Counters;
use crate::journal::store::transactions;
use crate::root::Root;
use crate::transaction::{Standing, Transaction};
use crate::undo::Outcome;
use crate::watchdog;

/// More than figures are.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Between two looks whether a load has ended.
const LOOK_MS: u64 = 20;
/// What a load may take longer than its block.
const LOAD_MORE_MS: u64 = 60_000;

/// The host.
#[derive(Debug)]
pub struct Host<'a> {
    /// Its names.
    pub tree: &'a Root,
    /// Where they are.
    pub root: &'a Path,
    /// Where its transactions are.
    pub state: &'a Path,
    /// What is done.
    pub design: &'a Design,
    /// Digest of the plan.
    pub plan: String,
    /// For which hosts the plan is.
    pub fingerprint: String,
    /// The change.
    pub changes: &'a [Change],
    /// The transaction that is in effect.
    pub open: Option<String>,
}

impl Host<'_> {
    fn apply(&mut self) -> anyhow::Result<()> {
        let (block, washout) = (self.design.block_ms, self.design.washout_ms);
        let within = block
            .saturating_add(washout)
            .saturating_mul(2)
            .saturating_add(LOAD_MORE_MS);
        let order = Order {
            plan: self.plan.clone(),
            host: self.fingerprint.clone(),
            changes: self.changes,
            confirm_within_ms: Some(within),
        };
        let watch = |id: &str| watchdog::start(self.root, self.state, id);
        let report = change::begin(self.tree, self.state, order, watch)?;
        let report = report.map_err(|refusal| anyhow::anyhow!(refusal.why))?;
        anyhow::ensure!(
            report.whole,
            "the plan cannot be applied whole: {:?}",
            report.applied
        );
        self.open = Some(report.transaction);
        Ok(())
    }

    /// Whether the change was in effect until now: a load that takes much longer than its block outlives the watchdog.
    fn is_in_effect(&self) -> anyhow::Result<()> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        let boot = boot::id(self.tree);
        let transactions = transactions(self.state)?;
        let is_open = |one: &Transaction| one.id == *open && one.standing(&boot) == Standing::Open;
        anyhow::ensure!(
            transactions.iter().any(is_open),
            "transaction {open} was taken back during a block: the load takes too long"
        );
        Ok(())
    }

    fn undo(&mut self) -> anyhow::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let done = change::undo(self.tree, self.state, Some(&open), None)?;
        for undone in done.iter().flat_map(|(_, undone)| undone) {
            let is_back = matches!(undone.outcome, Outcome::Restored | Outcome::Untouched);
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
        match (arm, &self.open) {
            (Arm::Test, None) => self.apply()?,
            (Arm::Control, Some(_)) => self.undo()?,
            // It is in that arm; both arms wait as long.
            _ => {}
        }
        boot::wait_ms(self.design.washout_ms);
        Ok(())
    }

    fn block(&mut self) -> anyhow::Result<Block> {
        let before = Counters::read(self.tree);
        let begin = boot::now_ms();
        let mut figures = match self.design.load.split_first() {
            None => {
                boot::wait_ms(self.design.block_ms);
                Measured::new()
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
        for (name, count) in &added.0 {
            figures.insert(name.clone(), *count as f64 / seconds);
        }
        Ok(Block::Figures(figures))
    }
}

/// Runs a load for a block. One that fails is an alarm, and so is one that does not end.
fn load(program: &str, arguments: &[String], block_ms: u64) -> anyhow::Result<Block> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("FOREBAY_BLOCK_MS", block_ms.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let out = child.stdout.take().context("it has an output")?;
    // Beside, so that a load that prints much does not wait for who waits for it.
    let reading = std::thread::spawn(move || platform::bounded::stream(out, OUTPUT_BYTES_MAX));
    let until = boot::now_ms()
        .saturating_add(block_ms)
        .saturating_add(LOAD_MORE_MS);
    let ended = wait(&mut child, until)?;
    let text = reading
        .join()
        .map_err(|_| anyhow::anyhow!("reading what {program} prints"))??;
    match ended {
        None => Ok(Block::Alarm(format!("{program} did not end"))),
        Some(status) if !status.success() => {
            Ok(Block::Alarm(format!("{program} failed: {status}")))
        }
        Some(_) => {
            let figures: Measured =
                serde_json::from_slice(&text).with_context(|| format!("what {program} prints"))?;
            Ok(Block::Figures(figures))
        }
    }
}

/// How it ended; none where it had to be ended.
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
