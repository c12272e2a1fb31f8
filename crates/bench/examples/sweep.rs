//! The sweep: every API and version that is served, at the limit of what is decoded, with many
//! distinct items, one item many times, texts as long as they get, and numbers at their extremes;
//! as the first request of a stranger and in the middle of sessions, groups and transactions.
//!
//!     sweep --broker BINARY [--minutes N] [--seed N] [--share N] [--answer-ms N] [--others-ms N]
//!         [--answer-work-ms N] [--others-work-ms N] [--only API] [--keep DIR]
//!     sweep --broker BINARY --case NAME        one case again, alone
//!     sweep --broker BINARY --frame FILE       the bytes of one, as they were sent
//!
//! What must hold: a request is answered or refused in time (one that may wait, waits without
//! work), other connections get their metadata in time meanwhile, memory and descriptors are back
//! afterwards, the process lives, and it starts again on what it left. A case fails when it does so
//! three times in a row: a busy machine is not a slow broker. Time is counted by the wall, and by
//! the work of the shards, which a busy machine does not lengthen. `work.txt` says what each kind
//! of request took, the worst first; `--only` sweeps one API. `--share 16` goes to a sixteenth of
//! the limit, for builds without optimisation. The requests come from the table of APIs and the
//! shapes that guard its decoders: a new one is swept without being named.

#![allow(clippy::print_stdout, reason = "what a command has to say")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "of numbers that were made small"
)]

#[path = "sweep/cases.rs"]
mod cases;
#[path = "sweep/judge.rs"]
mod judge;
#[path = "sweep/make.rs"]
mod make;
#[path = "sweep/probe.rs"]
mod probe;
#[path = "sweep/process.rs"]
mod process;
#[path = "sweep/scene.rs"]
mod scene;
#[path = "sweep/wire_up.rs"]
mod wire_up;
#[path = "sweep/words.rs"]
mod words;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use cases::{Case, Dice};
use judge::{Judge, Limits};

struct Options {
    broker: PathBuf,
    minutes: f64,
    seed: u64,
    share: usize,
    limits: Limits,
    keep: PathBuf,
    only: Option<String>,
    case: Option<String>,
    frame: Option<PathBuf>,
}

impl Options {
    fn parse() -> anyhow::Result<Self> {
        let mut options = Self {
            broker: PathBuf::new(),
            minutes: 1.0,
            seed: 1,
            share: 1,
            limits: Limits {
                answer: Duration::from_secs(1),
                others: Duration::from_millis(100),
                answer_work: Duration::from_secs(1),
                others_work: Duration::from_millis(100),
            },
            only: None,
            keep: std::env::temp_dir().join("sweep"),
            case: None,
            frame: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--broker" => options.broker = value.into(),
                "--minutes" => options.minutes = value.parse()?,
                "--seed" => options.seed = value.parse()?,
                "--share" => options.share = value.parse()?,
                "--answer-ms" => options.limits.answer = Duration::from_millis(value.parse()?),
                "--others-ms" => options.limits.others = Duration::from_millis(value.parse()?),
                "--answer-work-ms" => {
                    options.limits.answer_work = Duration::from_millis(value.parse()?);
                }
                "--others-work-ms" => {
                    options.limits.others_work = Duration::from_millis(value.parse()?);
                }
                "--only" => options.only = Some(value),
                "--keep" => options.keep = value.into(),
                "--case" => options.case = Some(value),
                "--frame" => options.frame = Some(value.into()),
                _ => bail!("{name} is no option"),
            }
        }
        Ok(options)
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse()?;
    fs::create_dir_all(&options.keep)?;
    let again = format!("--broker {}", options.broker.display());
    let mut judge = Judge::new(
        options.broker.clone(),
        &options.keep,
        options.limits,
        options.seed,
    )?;
    if let Some(file) = &options.frame {
        judge.raw(&fs::read(file)?)?;
    } else if let Some(case) = &options.case {
        judge.judge(&Case::parse(case)?)?;
    } else {
        sweep(&mut judge, &options)?;
    }
    judge.finish()?;
    fs::write(options.keep.join("work.txt"), judge.table())?;
    println!("{}", judge.summary());
    for failure in judge.failures() {
        println!(
            "FAILED {failure}\n  again: sweep {again} --case {}",
            failure.case
        );
    }
    Ok(ExitCode::from(u8::from(!judge.failures().is_empty())))
}

/// First some of everything, whatever the time; then all of it while there is time.
fn sweep(judge: &mut Judge, options: &Options) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let (mut dice, share) = (Dice::new(options.seed), options.share);
    let wanted = |case: &Case| {
        let only = options.only.as_deref();
        only.is_none_or(|api| api == case.api.name())
    };
    for case in cases::some(&mut dice, share)
        .iter()
        .filter(|case| wanted(case))
    {
        judge.judge(case)?;
    }
    println!("some of everything: {}", judge.summary());
    let mut rest = Vec::new();
    while Instant::now() < end {
        let Some(case) = rest.pop() else {
            rest = cases::all(&mut dice, share);
            rest.retain(wanted);
            println!("{} cases in all: {}", rest.len(), judge.summary());
            continue;
        };
        judge.judge(&case)?;
    }
    println!("{} cases of this round are left", rest.len());
    Ok(())
}
