//! `forebay plan --verify`: runs the experiment of a plan through the bench, and compares the
//! results.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::plan::answer::{FleetFigures, Plan};
use ::plan::catalogue::Catalogue;
use ::plan::emit::{directory_name, experiment};
use ::plan::load::Scenario;
use ::plan::quantity::{Bytes, Rate, Seconds};
use ::plan::verify::{MeasuredPlan, Side, Verdict, compare, text};
use anyhow::{Context as _, bail};
use bench::outcome::{LoadOutcome, Run};
use bench::{report, runner};

/// What to do about a machine that is too small, with the options of this command.
const ADVICE: &str = "Make the experiment smaller with --scale (below 1 the second tier is a device held to its rate, \
     which needs root), or name another disk with --dir.";

/// How to prove a plan.
pub(super) struct VerifyOptions<'a> {
    /// The part of rates and capacities.
    pub(super) scale: f64,
    /// Where data goes.
    pub(super) dir: Option<&'a Path>,
    /// Where results go.
    pub(super) out: Option<&'a Path>,
    /// The broker.
    pub(super) binary: Option<&'a Path>,
}

/// Runs the experiment; the code is a success when the plan holds.
pub(super) fn run(
    wanted: &VerifyOptions<'_>,
    plan: &Plan,
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> anyhow::Result<ExitCode> {
    if !(0.000_001..=1.0).contains(&wanted.scale) {
        bail!("--scale {}: allowed: 0.000001 to 1", wanted.scale);
    }
    let chosen = plan.chosen.as_ref().context("there is nothing to prove")?;
    let out = wanted.out.map_or_else(
        || PathBuf::from(format!("plan-{}", directory_name(&plan.name))),
        Path::to_owned,
    );
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let results = fresh(&out)?;
    // Beside the results directory, whose contents belong to the bench.
    let file = results.with_extension("toml");
    super::files::write(&file, &experiment::file(plan, chosen, wanted.scale))?;
    let words = words(wanted, &out, &file, &results)?;
    let ended = runner::run(&runner::RunArgs::from_words(words)?.with_advice(ADVICE))?;
    if ended != ExitCode::SUCCESS {
        return Ok(ended);
    }
    let run = report::read(&results)?;
    let measured = measured(&run, chosen);
    let proof = compare(plan, chosen, scenario, catalogue, &measured, wanted.scale)?;
    super::super::print(&text(&proof, chosen.brokers))?;
    let calibration = results.join("calibration.toml");
    super::files::write(&calibration, &proof.calibration.write())?;
    let json = serde_json::to_string_pretty(&proof)? + "\n";
    super::files::write(&results.join("proof.json"), &json)?;
    super::super::print(&format!("calibration: {}\n", calibration.display()))?;
    Ok(match proof.verdict {
        Verdict::Holds => ExitCode::SUCCESS,
        Verdict::HoldsWith(_) | Verdict::DoesNot(_) => ExitCode::from(1),
    })
}

/// Returns a new directory for results, which are never overwritten.
fn fresh(out: &Path) -> anyhow::Result<PathBuf> {
    (1..1000)
        .map(|number| out.join(format!("measured-{number}")))
        .find(|dir| !dir.exists() && !dir.with_extension("toml").exists())
        .context("there are a thousand results already")
}

/// Returns the arguments of `forebay bench run`, as on a command line.
///
/// Data goes to the same directory in every run, not to that of the results: a run removes there
/// what a killed run has left.
fn words(
    wanted: &VerifyOptions<'_>,
    out: &Path,
    file: &Path,
    results: &Path,
) -> anyhow::Result<Vec<OsString>> {
    let mut words = vec![
        "run".into(),
        file.as_os_str().to_owned(),
        "--out".into(),
        results.as_os_str().to_owned(),
    ];
    let dir = wanted.dir.unwrap_or(out);
    words.extend(["--dir".into(), dir.as_os_str().to_owned()]);
    if let Some(binary) = wanted.binary {
        let binary = binary.to_str().context("--binary is not UTF-8")?;
        words.extend([
            "--set".into(),
            format!("target.planned.binary={binary}").into(),
        ]);
    }
    Ok(words)
}

fn measured(run: &Run, chosen: &FleetFigures) -> MeasuredPlan {
    let of = |phase: &str| run.cells.iter().find(|cell| cell.phase == phase);
    let machine = run
        .machine
        .iter()
        .filter(|(name, _)| ["processor", "cores", "memory", "kernel"].contains(&name.as_str()))
        .map(|(_, value)| value.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let batch = chosen
        .topics
        .first()
        .map_or(Bytes(1e6), |topic| topic.batch);
    let bursts = report::bursts_of(run, "burst");
    MeasuredPlan {
        machine: if machine.is_empty() {
            "this machine".to_owned()
        } else {
            machine
        },
        produce: of("produce").and_then(|cell| side(&cell.outcome, true, batch)),
        consume: of("consume").and_then(|cell| side(&cell.outcome, false, batch)),
        bursts: bursts
            .iter()
            .map(|burst| (burst.held.map(Seconds), burst.gap.map(Seconds)))
            .collect(),
        drains: bursts
            .iter()
            .filter_map(|burst| burst.drain.map(Rate))
            .collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a measurement")]
fn side(outcome: &LoadOutcome, produced: bool, batch: Bytes) -> Option<Side> {
    let side = if produced {
        outcome.produce.as_ref()
    } else {
        outcome.consume.as_ref()
    }?;
    let bytes = side.bytes as f64;
    if bytes <= 0.0 || outcome.seconds <= 0.0 {
        return None;
    }
    let cpu = outcome
        .broker
        .as_ref()
        .map(|usage| usage.cpu_seconds / bytes * 1e9);
    let fetched = bytes / (side.requests.max(1) as f64);
    Some(Side {
        rate: Rate(bytes / outcome.seconds),
        cpu,
        batch: if produced { batch } else { Bytes(fetched) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_where_the_next_run_finds_what_is_left_of_it() {
        let [out, file, results] = ["out", "out/measured-2.toml", "out/measured-2"].map(Path::new);
        let mut wanted = VerifyOptions {
            scale: 1.0,
            dir: None,
            out: Some(out),
            binary: None,
        };
        let dir_of = |wanted: &VerifyOptions<'_>| {
            let words = words(wanted, out, file, results).unwrap();
            let at = words.iter().position(|word| word == "--dir").unwrap();
            words[at + 1].clone()
        };
        assert_eq!(dir_of(&wanted), "out");
        wanted.dir = Some(Path::new("/data"));
        assert_eq!(dir_of(&wanted), "/data");
    }
}
