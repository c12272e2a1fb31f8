//! `forebay tune ...`: a file per command.
//!
//! Invariant: standard output holds the answer alone; texts of others are shown escaped. Exit codes are [`Exit`]'s.

mod change;
mod experiment;
mod inspect;
mod plan;
mod rollout;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::root::Root;
use show::Format;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    /// All was done.
    Done = 0,
    /// Something failed.
    Failed = 1,
    /// The host is not as it was left.
    Drift = 3,
    /// It showed nothing that would be worth a change.
    Inconclusive = 4,
    /// The change made something worse, and was taken back.
    Harmful = 5,
    /// It was refused, and nothing was done.
    Refused = 7,
}

/// The settings of this host: what they are, what would help, and a change that can be taken back.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Another root than `/`: a recorded tree, or the host's from inside a container.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    sysroot: PathBuf,
    /// Where transactions are kept.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/forebay/tune",
        global = true
    )]
    state: PathBuf,
    /// How the answer is shown.
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows processors, cards, disks, what is dropped where, every knob and who else sets it.
    Inspect,
    /// Says what would help this host, by what it counted, and writes a plan of it.
    Plan(plan::PlanArgs),
    /// Writes a plan's values, and takes them back unless they are confirmed.
    Apply(change::ApplyArgs),
    /// Keeps what was applied.
    Confirm {
        /// The transaction.
        #[arg(value_name = "TX")]
        transaction: String,
    },
    /// Compares this host with a plan and without it, in pairs of blocks of time, and says whether it helps.
    Experiment(experiment::ExperimentArgs),
    /// Draws what was kept of an experiment as a page.
    Report {
        /// What `experiment -o` wrote.
        #[arg(value_name = "RESULT.json", required_unless_present = "samples")]
        result: Option<PathBuf>,
        /// Instead of a result, made-up samples of a fleet: what its report shows.
        #[arg(long, conflicts_with = "result")]
        samples: bool,
        /// The page.
        #[arg(short, long, value_name = "FILE.html")]
        output: PathBuf,
    },
    /// Compares what was applied with what the host has.
    Verify {
        /// Goes on until it is ended, and writes anew what a reset of a link or of its queues takes away.
        #[arg(long)]
        watch: bool,
    },
    /// Takes back the newest transaction, item by item, except what somebody else has changed since.
    Undo {
        /// All transactions down to this one.
        #[arg(long, value_name = "TX")]
        to: Option<String>,
        /// This transaction alone.
        #[arg(long, value_name = "TX", conflicts_with = "to")]
        only: Option<String>,
        /// This item only, of the newest transaction that has it.
        #[arg(long, value_name = "ID", conflicts_with_all = ["to", "only"])]
        item: Option<String>,
    },
    /// Applies anew what is kept, when the host starts (a service does this).
    Boot {
        /// Notes that the host has lived for five minutes with it.
        #[arg(long, conflicts_with = "again")]
        lived: bool,
        /// Also after two starts with it that did not live.
        #[arg(long)]
        again: bool,
    },
    /// Writes what is kept, or a plan, in the form of another program, to standard output.
    Export {
        /// The form.
        #[arg(value_enum, value_name = "FORM")]
        form: crate::export::As,
        /// A plan; without it, what is kept on this host.
        #[arg(value_name = "PLAN.toml")]
        plan: Option<PathBuf>,
    },
    /// A plan on many hosts, in stages; what fails on one is taken back on all.
    #[command(subcommand)]
    Rollout(rollout::RolloutCommand),
    /// Lists the transactions of this host.
    Status,
    /// Copies what the other commands read of this host into a tar, without serial numbers, addresses and names.
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
    /// Does what was asked.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        // Whole, since the watchdog has another directory.
        let sysroot = std::path::absolute(self.sysroot)?;
        let place = Place {
            root: Root::new(&sysroot),
            sysroot,
            state: std::path::absolute(self.state)?,
            format: self.format,
        };
        let exit = match self.command {
            Command::Inspect => inspect::run(&place)?,
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
                change::undo(&place, crate::change::Which { to, only, item })?
            }
            Command::Rollout(rollout) => rollout.run(&place)?,
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

/// Where a command works, and how it answers.
#[derive(Debug)]
struct Place {
    root: Root,
    sysroot: PathBuf,
    state: PathBuf,
    format: Format,
}
