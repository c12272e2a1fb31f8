//! `forebay tune ...`: one file per command.
//!
//! Invariant: standard output contains only the answer; texts from outside are shown escaped. Exit
//! codes are those of `Exit`.

mod change;
mod experiment;
mod fleet;
mod inspect;
mod plan;
mod rollout;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::firmware::Firmware;
use crate::root::Root;
use show::Format;

/// Directory of the transactions. Not below the broker's `/var/lib/forebay`: its user, who owns
/// that, could have root write any knob.
const STATE: &str = "/var/lib/forebay-tune";

/// The exit code of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    /// Everything was done.
    Done = 0,
    /// Something failed.
    Failed = 1,
    /// The host differs from what was applied.
    Drift = 3,
    /// The experiment showed no benefit worth a change.
    Inconclusive = 4,
    /// The change made something worse and was taken back.
    Harmful = 5,
    /// It was done, and comes into effect when the host starts again.
    Reboot = 6,
    /// The command was refused, and nothing was done.
    Refused = 7,
}

/// The settings of this host: shows them, proposes helpful changes, and applies them so that they
/// can be taken back.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Root directory other than `/`: a recorded tree, or the host's root from inside a container.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    sysroot: PathBuf,
    /// Directory of the transactions.
    #[arg(
        long,
        value_name = "DIR",
        default_value = STATE,
        global = true
    )]
    state: PathBuf,
    /// Format of the answer.
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows processors, cards, disks, dropped packets by place, every knob and its owner.
    Inspect {
        /// Counts for this long why the kernel drops packets, by reason and place.
        #[arg(long, value_name = "TIME", value_parser = change::time)]
        reasons: Option<std::time::Duration>,
    },
    /// Proposes settings that help this host, from its counters, and writes them as a plan.
    Plan(plan::PlanArgs),
    /// Writes a plan's values, and takes them back unless they are confirmed.
    Apply(change::ApplyArgs),
    /// Keeps an applied transaction.
    Confirm {
        /// The transaction.
        #[arg(value_name = "TX")]
        transaction: String,
    },
    /// Compares this host with and without a plan, in pairs of blocks of time, and shows whether
    /// the plan helps.
    Experiment(experiment::ExperimentArgs),
    /// Draws the result of an experiment as a page.
    Report {
        /// The file that `experiment -o` wrote.
        #[arg(value_name = "RESULT.json", required_unless_present = "samples")]
        result: Option<PathBuf>,
        /// Instead of a result, made-up samples of a fleet: shows the content of its report.
        #[arg(long, conflicts_with = "result")]
        samples: bool,
        /// The page.
        #[arg(short, long, value_name = "FILE.html")]
        output: PathBuf,
    },
    /// Compares what was applied with the current values.
    Verify {
        /// Runs until it is ended, and rewrites what a reset of a link or of its queues takes away.
        #[arg(long)]
        watch: bool,
    },
    /// Takes back the newest transaction, item by item, except items that others have changed
    /// since.
    Undo {
        /// All transactions down to this one.
        #[arg(long, value_name = "TX")]
        to: Option<String>,
        /// Only this transaction.
        #[arg(long, value_name = "TX", conflicts_with = "to")]
        only: Option<String>,
        /// Only this item, of the newest transaction that has it.
        #[arg(long, value_name = "ID", conflicts_with_all = ["to", "only"])]
        item: Option<String>,
    },
    /// Reapplies the confirmed changes when the host starts (a service does this).
    Boot {
        /// Records that the host has run for five minutes with them.
        #[arg(long, conflicts_with = "again")]
        lived: bool,
        /// Applies them even after two starts that did not last five minutes.
        #[arg(long)]
        again: bool,
    },
    /// Writes the confirmed changes, or a plan, in the format of another program to standard
    /// output.
    Export {
        /// The format.
        #[arg(value_enum, value_name = "FORM")]
        form: crate::export::ExportFormat,
        /// A plan; by default the confirmed changes of this host.
        #[arg(value_name = "PLAN.toml")]
        plan: Option<PathBuf>,
    },
    /// Applies a plan to many hosts, in stages; a failure on one takes it back on all.
    #[command(subcommand)]
    Rollout(rollout::RolloutCommand),
    /// Experiments on many hosts: who gets the change, and what their days say of it.
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Lists the transactions of this host.
    Status,
    /// Copies what the other commands read of this host into a tar, without serial numbers,
    /// addresses and names.
    Record {
        /// The file.
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,
    },
    /// Waits for the deadline of a transaction, and takes it back.
    #[command(hide = true)]
    Watchdog {
        /// The transaction.
        #[arg(value_name = "TX")]
        transaction: String,
    },
}

impl TuneArgs {
    /// Runs the subcommand.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        // Absolute, because the watchdog runs in another directory.
        let sysroot = std::path::absolute(self.sysroot)?;
        let firmware = Firmware::configured(Root::new(&sysroot).is_this_machine());
        // The watchdog takes back what it can without the controller, and tries again.
        let is_watchdog = matches!(self.command, Command::Watchdog { .. });
        let firmware = match firmware {
            Err(_) if is_watchdog => None,
            firmware => firmware.context("the controller of this host's firmware")?,
        };
        let place = CommandPlace {
            root: Root::with_firmware(&sysroot, firmware),
            sysroot,
            state: std::path::absolute(self.state)?,
            format: self.format,
        };
        let exit = match self.command {
            Command::Inspect { reasons } => inspect::run(&place, reasons)?,
            Command::Plan(plan) => plan.run(&place)?,
            Command::Record { file } => plan::record(&place, &file)?,
            Command::Apply(apply) => apply.run(&place)?,
            Command::Experiment(experiment) => experiment.run(&place)?,
            Command::Report { result, output, .. } => {
                experiment::report(result.as_deref(), &output)?
            }
            Command::Confirm { transaction } => change::confirm(&place, &transaction)?,
            Command::Verify { watch: false } => change::verify(&place)?,
            Command::Verify { watch: true } => change::watch(&place)?,
            Command::Undo { to, only, item } => {
                let (to, only, item) = (to.as_deref(), only.as_deref(), item.as_deref());
                change::undo(&place, crate::change::UndoSelection { to, only, item })?
            }
            Command::Rollout(rollout) => rollout.run(&place)?,
            Command::Fleet(fleet) => fleet.run(&place)?,
            Command::Export { form, plan } => plan::export(&place, form, plan.as_deref())?,
            Command::Boot { lived, again } => change::boot(&place, lived, again)?,
            Command::Status => change::status(&place)?,
            Command::Watchdog { transaction } => {
                crate::watchdog::be(&place.sysroot, &place.state, &transaction)?;
                Exit::Done
            }
        };
        Ok(ExitCode::from(exit as u8))
    }
}

/// The directories and the format of a command.
#[derive(Debug)]
struct CommandPlace {
    root: Root,
    sysroot: PathBuf,
    state: PathBuf,
    format: Format,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A directory of journals below one of another user is refused: by default it is not.
    #[test]
    fn the_directory_of_transactions_is_below_none_of_the_brokers() {
        let made = include_str!("../../../deploy/systemd/forebay.tmpfiles.conf");
        for line in made.lines().filter(|line| line.starts_with("d ")) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (dir, user) = (words[1], words[3]);
            let is_below = Path::new(STATE).starts_with(dir);
            assert!(
                user == "root" || !is_below,
                "{STATE} is below {dir} of {user}"
            );
        }
    }
}
