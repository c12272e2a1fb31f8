//! `forebay bench run`: an experiment from beginning to end, unattended.
//!
//! The plan determines the order; this module executes it. After every measurement `run.json` is
//! complete and on disk, so that results survive any failure.
//!
//! Invariant: however the run ends (done, ^C, SIGTERM, an error), brokers are stopped, devices and
//! data are removed, and the report is written from the results so far. Only a second signal ends
//! it at once; the next run removes what is left then.

mod hosts;
mod progress;
mod record;
mod signals;
mod steps;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::agent::HostsArguments;
use crate::experiment::choice::{self, OnlyPatterns};
use crate::experiment::need::{self, AvailableSpace};
use crate::experiment::plan::{self, Action};
use crate::experiment::{self, DeviceKind, Experiment};
use crate::{device, target};
use hosts::Generators;
use progress::Progress;
use record::Record;
use signals::Signals;
use steps::Steps;

/// Arguments of `forebay bench run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// A file, or the name of a shipped experiment, as listed by `forebay bench list`.
    #[arg(value_name = "FILE|NAME")]
    experiment: String,
    /// Directory for run.json and the report; by default bench-NAME in the working directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Directory for the data of devices on disk; by default the directory of --out.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Changes the experiment: repetitions, limits, device.NAME.FIELD, target.NAME.settings.KEY,
    /// the name of a sweep, or a field of the loads such as `produce.batch_bytes`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Measures only what matches: PHASE, PHASE/name=value,name=value or /name=value (device is a
    /// name, too).
    #[arg(long, value_name = "FILTER")]
    only: Vec<String>,
    /// How often each measurement is repeated.
    #[arg(long, value_name = "N")]
    repetitions: Option<u32>,
    /// Duration of each measurement.
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Prints what would be measured, what it needs and how long it takes, without doing it.
    #[arg(long)]
    dry_run: bool,
    /// Address of this machine for brokers to listen on; with --hosts one that those can reach. By
    /// default 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    broker_host: Option<String>,
    #[command(flatten, next_help_heading = "Many hosts")]
    hosts: HostsArguments,
    /// What the caller can do about a machine that is too small, instead of the options above.
    #[arg(skip)]
    advice: Option<String>,
}

impl RunArgs {
    /// Parses arguments as typed, with the name of the command first.
    pub fn from_words(words: Vec<std::ffi::OsString>) -> anyhow::Result<RunArgs> {
        let command = RunArgs::augment_args(clap::Command::new("run").no_binary_name(false));
        let matches = command.try_get_matches_from(words)?;
        Ok(<RunArgs as clap::FromArgMatches>::from_arg_matches(
            &matches,
        )?)
    }

    /// Replaces the advice of errors about a machine that is too small, for a caller whose users
    /// cannot pass the options of this command.
    #[must_use]
    pub fn with_advice(self, advice: &str) -> Self {
        Self {
            advice: Some(advice.to_owned()),
            ..self
        }
    }
}

/// An experiment with the changes of the command line.
struct ChosenExperiment {
    experiment: Experiment,
    actions: Vec<Action>,
}

/// Runs an experiment; the exit code shows whether everything was measured.
pub fn run(arguments: &RunArgs) -> anyhow::Result<ExitCode> {
    let chosen = choose(arguments)?;
    let name = &chosen.experiment.name;
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("bench-{name}")));
    let disk = arguments.dir.clone().unwrap_or_else(|| out.clone());
    for left in device::registry::sweep()? {
        eprintln!("removed device {left}, left by a run that is gone");
    }
    for left in work::sweep(&disk)? {
        eprintln!("removed {}, left by a run that is gone", left.display());
    }
    fits(&chosen, &disk, arguments.advice.as_deref())?;
    let broker_host = arguments.broker_host.as_deref();
    hosts::reachable(&chosen.experiment, &arguments.hosts.hosts, broker_host)?;
    let broker_host = hosts::checked(broker_host.unwrap_or("127.0.0.1"))?;
    if arguments.dry_run {
        describe(&chosen);
        return Ok(ExitCode::SUCCESS);
    }
    if out.join("run.json").exists() {
        bail!(
            "{} holds the results of another run: take another --out",
            out.display()
        );
    }
    for name in &chosen.experiment.targets {
        if let Some(wanted) = chosen.experiment.target.get(name) {
            target::prepare(name, wanted).with_context(|| format!("target {name}"))?;
        }
    }
    let generators = Generators::reach(&arguments.hosts)?;
    std::fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let whereabouts = RunLocation {
        out: &out,
        disk: &disk,
        broker_host,
    };
    carry_out(&chosen, &whereabouts, generators)
}

/// The directories and the address of a run.
struct RunLocation<'a> {
    /// Directory for results.
    out: &'a Path,
    /// Directory for devices on disk.
    disk: &'a Path,
    /// Address for brokers to listen on.
    broker_host: String,
}

fn carry_out(
    chosen: &ChosenExperiment,
    whereabouts: &RunLocation<'_>,
    generators: Generators,
) -> anyhow::Result<ExitCode> {
    let out = whereabouts.out;
    let experiment = &chosen.experiment;
    let signals = Signals::listen()?;
    let mut record = Record::begin(experiment, out)?;
    if let Some(fact) = generators.fact() {
        record.fact("hosts", &fact);
    }
    let mut progress = Progress::begin(&chosen.actions, experiment);
    let sockets = plan::without_broker(&chosen.actions);
    let mut steps = Steps::begin(experiment, whereabouts, generators, signals.stop(), sockets)?;
    let mut failed = None;
    for action in &chosen.actions {
        if signals.name().is_some() {
            break;
        }
        progress.beginning(action);
        if let Err(error) = steps.take(action, &mut record, &progress) {
            failed = Some(error);
            break;
        }
        progress.done(action, record.run());
    }
    progress.finish();
    let ended = steps.end();
    let measured = record.run().cells.len();
    let all = plan::measurements(&chosen.actions).count();
    let why = match (&failed, signals.name()) {
        (Some(error), _) => Some(format!("{error:#}")),
        (None, Some(signal)) => Some(format!("ended by {signal}")),
        (None, None) => None,
    };
    let why = why.map(|why| format!("{why}; {measured} of {all} measurements were made"));
    record.end(why.clone())?;
    crate::report::write(record.run(), out).context("writing the report")?;
    ended?;
    match (failed, signals.code()) {
        (Some(error), _) => {
            Err(error.context(format!("what was measured is in {}", out.display())))
        }
        (None, Some(code)) => {
            eprintln!("{}; they are in {}", why.unwrap_or_default(), out.display());
            Ok(ExitCode::from(code))
        }
        (None, None) => {
            eprintln!("{all} measurements; the report is in {}", out.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn choose(arguments: &RunArgs) -> anyhow::Result<ChosenExperiment> {
    let mut experiment = experiment::find(&arguments.experiment)?;
    for pair in &arguments.set {
        choice::set(&mut experiment, pair)?;
    }
    if let Some(repetitions) = arguments.repetitions {
        choice::set(&mut experiment, &format!("repetitions={repetitions}"))?;
    }
    if let Some(seconds) = arguments.seconds {
        choice::set(&mut experiment, &format!("seconds={seconds:?}"))?;
    }
    let only = OnlyPatterns::parse(&arguments.only, &experiment)?;
    let actions = plan::plan(&experiment, &only)?;
    Ok(ChosenExperiment {
        experiment,
        actions,
    })
}

/// Refuses an experiment that does not fit this machine.
fn fits(chosen: &ChosenExperiment, disk: &Path, advice: Option<&str>) -> anyhow::Result<()> {
    let ChosenExperiment {
        experiment,
        actions,
    } = chosen;
    let mut available = AvailableSpace {
        memory: host::facts::machine::memory_available(&host::root::Root::new("/"))
            .unwrap_or(u64::MAX),
        ..AvailableSpace::default()
    };
    for action in actions {
        let Action::Attach(wanted) = action else {
            continue;
        };
        if let Some(why) = device::obstacle(wanted) {
            let advice = advice.unwrap_or("Leave it away with --only /device=NAME of the others.");
            bail!(
                "device {} cannot be made here: {why}. {advice}",
                wanted.name
            );
        }
        let dir = wanted.path.as_deref().unwrap_or(disk);
        available
            .disk
            .insert(wanted.name.clone(), device::free_bytes(dir)?);
    }
    for name in &experiment.targets {
        let target = experiment.target.get(name);
        if let Some(first) = target.and_then(|target| target.first_tier.as_ref()) {
            let wanted = first.device(name);
            if let Some(why) = device::obstacle(&wanted) {
                bail!("the first tier of {name} cannot be made here: {why}");
            }
            if wanted.kind == DeviceKind::Disk {
                let dir = wanted.path.as_deref().unwrap_or(disk);
                available.disk.insert(wanted.name, device::free_bytes(dir)?);
            }
        }
    }
    let refusal = match advice {
        None => need::refusal(experiment, actions, &available),
        Some(advice) => need::refusal_with(experiment, actions, &available, advice),
    };
    refusal.map_or(Ok(()), |why| bail!("{why}"))
}

fn describe(chosen: &ChosenExperiment) {
    let ChosenExperiment {
        experiment,
        actions,
    } = chosen;
    for planned in plan::measurements(actions) {
        eprintln!("{}", progress::name_of(planned));
    }
    for (device, bytes) in need::bytes_by_device(actions) {
        eprintln!("device {device}: up to {} at once", need::shown(bytes));
    }
    let seconds: f64 = actions
        .iter()
        .map(|action| plan::estimate(action, experiment))
        .sum();
    let count = plan::measurements(actions).count();
    eprintln!(
        "{count} measurements, about {}",
        progress::duration(seconds)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gives_its_own_advice_about_a_disk_that_is_too_small() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("large.toml");
        let text = "name = \"large\"\nabout = \"\"\nlimits = false\ntargets = [\"forebay\"]\n\
             [[device]]\nname = \"d\"\nkind = \"disk\"\n[[phase]]\nname = \"produce\"\n[phase.load]\nseconds = 1e9\n\
             topics = { count = 1, partitions = 1 }\n\
             produce = { producers = 1, record = 1, batch_bytes = 1, acks = 1, in_flight_max = 1 }\n";
        std::fs::write(&file, text).unwrap();
        let out = dir.path().join("out");
        let words = vec!["run".into(), file.into(), "--out".into(), out.into()];
        let arguments = RunArgs::from_words(words).unwrap();
        let said = run(&arguments).unwrap_err().to_string();
        assert!(
            said.contains("does not fit") && said.contains("--only"),
            "{said}"
        );
        let said = run(&arguments.with_advice("Take --scale."));
        let said = said.unwrap_err().to_string();
        assert!(said.ends_with("\nTake --scale."), "{said}");
        assert!(!said.contains("--only"), "{said}");
    }
}
