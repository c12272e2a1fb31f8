//! The carrier: a program that runs `forebay tune` with given arguments on each host, and reports
//! how each command ended.
//!
//! It reads `{"plan": FILE, "hosts": {NAME: [ARGUMENTS]}}` and prints `{NAME: {"code": N, "out":
//! TEXT}}`; a host that is missing in the answer was not reached. `{plan}` among the arguments
//! stands for the path of the plan on that host. Invariants: this module, not the carrier,
//! interprets the answers, by exit code and JSON; a carrier that does not end in its time has
//! reached no host, so that one that hangs does not hold the rollout.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::state::{HostAnswer, Step};
use crate::journal::store::is_id;

/// Limit on the answers of all hosts.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;
/// Limit on the part of a host's output that is kept.
const WHY_LETTERS_MAX: usize = 400;

/// The end of a command on a host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct CommandEnd {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    #[serde(default)]
    pub out: String,
}

/// Runs commands on hosts.
pub trait Carrier {
    /// Runs the commands, and returns how each ended on the hosts that were reached.
    fn carry(
        &mut self,
        hosts: &BTreeMap<String, Vec<String>>,
    ) -> anyhow::Result<BTreeMap<String, CommandEnd>>;
}

/// A carrier that is a program.
#[derive(Debug)]
pub struct Program<'a> {
    /// The program and its own arguments.
    pub command: &'a [String],
    /// The plan on this machine.
    pub plan: &'a Path,
    /// Its working directory.
    pub dir: &'a Path,
    /// How long a step may take.
    pub within: Duration,
}

#[derive(Serialize)]
struct Request<'a> {
    plan: &'a Path,
    hosts: &'a BTreeMap<String, Vec<String>>,
}

impl Carrier for Program<'_> {
    fn carry(
        &mut self,
        hosts: &BTreeMap<String, Vec<String>>,
    ) -> anyhow::Result<BTreeMap<String, CommandEnd>> {
        let (program, arguments) = self.command.split_first().context("no carrier")?;
        let request = serde_json::to_vec(&Request {
            plan: self.plan,
            hosts,
        })?;
        // In its own process group, so that the processes it started end with it.
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let group = Pid::from_child(&child);
        let mut to = child.stdin.take().context("it has an input")?;
        // In a thread, because the program may print before it has read everything. A program that
        // ends without reading reports the reason by its exit code.
        std::thread::spawn(move || drop(to.write_all(&request)));
        let out = child.stdout.take().context("it has an output")?;
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let text = platform::bounded::stream(out, OUTPUT_BYTES_MAX);
            // The receiver is gone if the program took too long.
            drop(sender.send((child.wait(), text)));
        });
        let ended = ended.recv_timeout(self.within);
        // Fails if the group is empty, which is the normal case.
        let _ = kill_process_group(group, Signal::KILL);
        let Ok((status, text)) = ended else {
            return Ok(BTreeMap::new());
        };
        let status = status?;
        anyhow::ensure!(status.success(), "{program} failed: {status}");
        serde_json::from_slice(&text?).with_context(|| format!("what {program} prints"))
    }
}

/// Returns the arguments of a step on a host.
pub fn arguments(
    step: Step,
    transaction: Option<&str>,
    within_ms: u64,
    class_max: &str,
) -> Vec<String> {
    let id = transaction.unwrap_or_default();
    let within = format!("{within_ms}ms");
    let words: Vec<&str> = match step {
        Step::Apply => vec![
            "apply",
            "{plan}",
            "--confirm-within",
            &within,
            "--class-max",
            class_max,
        ],
        // The others are programs of the controller.
        Step::Settle | Step::Drain | Step::Restart | Step::Ready => vec!["status"],
        Step::Verify => vec!["verify"],
        Step::Confirm => vec!["confirm", id],
        Step::Undo => vec!["undo", "--only", id],
    };
    ["--format", "json"]
        .iter()
        .chain(&words)
        .map(|word| (*word).to_owned())
        .collect()
}

#[derive(Deserialize)]
struct ApplyAnswer {
    transaction: String,
    whole: bool,
}

#[derive(Deserialize)]
struct ListedTransaction {
    transaction: String,
    standing: String,
    plan: String,
    #[serde(default)]
    whole: bool,
    #[serde(default)]
    seconds_left: u64,
}

/// The exit code of an `apply` that comes into effect when the host starts again.
const AFTER_RESTART: i32 = 6;

/// Seconds after which an `apply` that is not done counts as killed.
const APPLYING_S: u64 = 60;

/// Interprets an answer; `within_ms` is the time a host has for its confirmation.
pub fn came(step: Step, ended: Option<&CommandEnd>, plan: &str, within_ms: u64) -> HostAnswer {
    let Some(ended) = ended else {
        return HostAnswer::Unreachable;
    };
    let failed = |why: &str| {
        let said: String = ended.out.chars().take(WHY_LETTERS_MAX).collect();
        // On one line: a host's lines would look like ours.
        let said: Vec<&str> = said.split_whitespace().collect();
        let why = format!("{why} (exit code {}): {}", ended.code, said.join(" "));
        HostAnswer::Failed { why }
    };
    let transaction = match step {
        Step::Apply if [0, AFTER_RESTART].contains(&ended.code) => {
            match serde_json::from_str::<ApplyAnswer>(&ended.out) {
                // It becomes an argument of later commands.
                Ok(applied) if applied.whole && is_id(&applied.transaction) => {
                    Some(applied.transaction)
                }
                _ => return failed("it was not applied"),
            }
        }
        Step::Settle if ended.code == 0 => {
            match serde_json::from_str::<Vec<ListedTransaction>>(&ended.out) {
                Ok(listed) => {
                    let is_ours = |one: &&ListedTransaction| {
                        one.standing == "open" && one.plan == plan && is_id(&one.transaction)
                    };
                    let found = listed.iter().rev().find(is_ours);
                    let is_new = |one: &ListedTransaction| {
                        one.seconds_left.saturating_add(APPLYING_S) >= within_ms / 1_000
                    };
                    if found.is_some_and(|one| !one.whole && is_new(one)) {
                        return HostAnswer::Later;
                    }
                    found.map(|one| one.transaction.clone())
                }
                Err(_) => return failed("it does not say what is applied"),
            }
        }
        _ if ended.code == 0 => None,
        _ => return failed("it failed"),
    };
    HostAnswer::Done { transaction }
}
