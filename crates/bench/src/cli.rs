//! `forebay bench`: the subcommands, as types that the `forebay` binary adds to its command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::agent::AgentArguments;
use crate::device::command_line::{self as device, DeviceArgs};
use crate::runner::{self, RunArgs};
use crate::sink::{self, SinkMode};
use crate::target::process::{self, HoldArgs};
use crate::{conduct, experiment, report};

mod figures;
mod handshakes;
mod load;
mod quantity;
mod shape;
mod summary;

/// Runs loads against brokers, Forebay or any Kafka, and reports the results.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one load against a broker and prints its outcome.
    Load(Box<load::LoadArgs>),
    /// Makes connections and closes them: how many handshakes and logins a broker does.
    Handshakes(handshakes::HandshakesArgs),
    /// Reads everything that a ledger of `load --ledger` lists as acknowledged, and checks it.
    Check {
        /// The broker, or several, comma-separated.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
        bootstrap: String,
        /// File of properties as Kafka's tools take it, for TLS and logins.
        #[arg(long, value_name = "FILE")]
        command_config: Option<PathBuf>,
        /// The ledger file.
        ledger: PathBuf,
    },
    /// Runs an experiment: brokers, devices, loads and the report, unattended.
    Run(RunArgs),
    /// Lists the experiments that can be run by name.
    List,
    /// Redraws the report of a run: report.html and cells.csv, from the run.json in its directory.
    Report {
        /// The directory of the run.
        dir: PathBuf,
    },
    /// Listens as a broker that discards all records: shows the most that this machine and a client
    /// can do.
    Sink {
        /// Address to listen on.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9192")]
        listen: String,
        /// Discards records in the kernel instead of copying them to memory as any broker must:
        /// shows what the client alone can do.
        #[arg(long)]
        discard: bool,
    },
    /// Makes and removes disks of a given speed.
    Device(DeviceArgs),
    /// Becomes a program that ends when its parent does.
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Runs shares of loads for another host.
    Agent(AgentArguments),
}

impl BenchArgs {
    /// Runs the subcommand; the exit code is a failure if part of the request could not be
    /// measured.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Load(args) => args.run()?,
            Command::Handshakes(args) => args.run()?,
            Command::Check {
                bootstrap,
                command_config,
                ledger,
            } => check(&bootstrap, command_config.as_deref(), &ledger)?,
            Command::Run(args) => return runner::run(&args),
            Command::List => say(&list()?)?,
            Command::Report { dir } => {
                report::write(&report::read(&dir)?, &dir)?;
                say(&format!("{}\n", dir.join("report.html").display()))?;
            }
            Command::Sink { listen, discard } => {
                let takes = if discard {
                    SinkMode::Nothing
                } else {
                    SinkMode::Copies
                };
                sink::run(&listen, takes, |address| {
                    // The line is for a parent that waits for it; a closed pipe is no error.
                    let _ = say(&format!("listening on {address}\n"));
                })?;
            }
            Command::Device(args) => say(&device::run(&args)?)?,
            Command::Hold(args) => return Err(process::hold(&args)),
            Command::Agent(args) => args.run(Arc::new(crate::load::run_blocking))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn check(bootstrap: &str, security: Option<&Path>, ledger: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let control = crate::load::Control::default();
    let outcome = runtime.block_on(conduct::check(bootstrap, security, ledger, &control))?;
    say(&summary::outcome(&outcome)?)?;
    conduct::must_be_sound(&outcome)
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for (name, _) in experiment::SHIPPED {
        let about = experiment::find(name)?.about;
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        text.extend([name, "\n    ", &about, "\n"]);
    }
    Ok(text)
}

/// Writes to standard output.
fn say(text: &str) -> anyhow::Result<()> {
    use std::io::{self, Write as _};
    let mut out = io::stdout().lock();
    let text = wire::text::escaped_lines(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader closed the pipe because it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to standard output"),
    }
}
