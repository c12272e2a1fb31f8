//! `fleet`: an experiment on many hosts. It divides the hosts of each site into two arms, and
//! judges by the days of all hosts. Not here: the change itself, which `rollout` carries, or other
//! means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use super::show::{say, table};
use super::{CommandPlace, Exit};
use crate::experiment::assign::{self, Arm};
use crate::experiment::decide::Verdict;
use crate::experiment::fleet::{Days, FleetVerdict, judge};
use crate::fleet::design::blocks;
use crate::statistics::permute;

/// Limit on the size of a list of hosts, or of their days.
const BYTES_MAX: u64 = 256 << 20;
/// Fewer assignments than this cannot give p < 0.05, whatever is measured.
const ASSIGNMENTS_MIN: f64 = 40.0;
/// Limit on the drops of a day.
const DROPS_MAX: f64 = 1e18;

#[derive(Debug, Subcommand)]
pub(super) enum FleetCommand {
    /// Divides hosts into those with the change and those without, by a seed, within their sites.
    Assign {
        /// The hosts as JSON: the output of `ansible-inventory --list --export`.
        #[arg(value_name = "HOSTS.json")]
        inventory: PathBuf,
        /// Variables of hosts; only hosts that are equal in all of them are compared.
        #[arg(
            long,
            value_name = "NAME,..",
            value_delimiter = ',',
            default_value = "site"
        )]
        block_by: Vec<String>,
        /// Decides who has which arm.
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        seed: u64,
        /// Writes the arms to this file.
        #[arg(short, long, value_name = "ARMS.json")]
        output: PathBuf,
    },
    /// Judges the change by the days of all hosts, before and after.
    Compare {
        /// The file that `assign` wrote.
        #[arg(value_name = "ARMS.json")]
        arms: PathBuf,
        /// The days as JSON: `{"HOST": {"before": [DROPS..], "after": [DROPS..]}}`.
        #[arg(value_name = "DAYS.json")]
        days: PathBuf,
        /// The smallest decrease that matters, as a share.
        #[arg(long, value_name = "SHARE", default_value_t = 0.10)]
        threshold: f64,
    },
}

/// The arms of a fleet, as a file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Arms {
    seed: u64,
    hosts: BTreeMap<String, ArmOfHost>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ArmOfHost {
    block: String,
    /// None for a host with none to be compared with.
    arm: Option<Arm>,
}

/// The days of a host, as a file.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct DaysOfHost {
    before: Vec<f64>,
    after: Vec<f64>,
}

impl FleetCommand {
    pub(super) fn run(self, place: &CommandPlace) -> anyhow::Result<Exit> {
        match self {
            FleetCommand::Assign {
                inventory,
                block_by,
                seed,
                output,
            } => assign(place, &inventory, &block_by, seed, &output),
            FleetCommand::Compare {
                arms,
                days,
                threshold,
            } => compare(place, &arms, &days, threshold),
        }
    }
}

fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    platform::bounded::file(file, BYTES_MAX).with_context(|| format!("reading {}", file.display()))
}

fn assign(
    place: &CommandPlace,
    inventory: &Path,
    block_by: &[String],
    seed: u64,
    output: &Path,
) -> anyhow::Result<Exit> {
    let of =
        blocks(&bytes(inventory)?, block_by).with_context(|| inventory.display().to_string())?;
    let (names, of): (Vec<String>, Vec<String>) = of.into_iter().unzip();
    let arms = assign::hosts(&of, seed);
    let host = |(block, arm): (String, Option<Arm>)| ArmOfHost { block, arm };
    let hosts = names
        .into_iter()
        .zip(of.into_iter().zip(arms).map(host))
        .collect();
    let arms = Arms { seed, hosts };
    let possible = assignments(&arms);
    anyhow::ensure!(
        possible >= ASSIGNMENTS_MIN,
        "{possible:.0} ways to divide these hosts within their blocks: fewer than {ASSIGNMENTS_MIN} cannot give p < 0.05"
    );
    let mut text = serde_json::to_string_pretty(&arms)?;
    text.push('\n');
    std::fs::write(output, text).with_context(|| format!("writing {}", output.display()))?;
    let alone = arms.hosts.values().filter(|of| of.arm.is_none()).count();
    if alone > 0 {
        say(&format!(
            "{alone} hosts have none to be compared with, and are in no arm"
        ));
    }
    place.format.show(&arms, || {
        let row = |(name, of): (&String, &ArmOfHost)| {
            let arm = match of.arm {
                Some(Arm::Control) => "control",
                Some(Arm::Test) => "test",
                None => "none",
            };
            vec![name.clone(), of.block.clone(), arm.to_owned()]
        };
        table(&arms.hosts.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(Exit::Done)
}

/// Returns in how many ways the hosts of the arms could have been divided.
fn assignments(arms: &Arms) -> f64 {
    let mut of: BTreeMap<&str, permute::Block> = BTreeMap::new();
    for host in arms.hosts.values() {
        if let Some(arm) = host.arm {
            let block = of.entry(&host.block).or_default();
            block.push((0.0, arm == Arm::Test));
        }
    }
    let blocks: Vec<permute::Block> = of.into_values().collect();
    permute::assignments(&blocks).unwrap_or(0.0)
}

/// Returns whether a number can be the drops of a day: sums of larger ones would be infinite.
fn is_count(drops: f64) -> bool {
    (0.0..=DROPS_MAX).contains(&drops)
}

fn compare(place: &CommandPlace, arms: &Path, days: &Path, threshold: f64) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        threshold > 0.0 && threshold < 1.0,
        "--threshold {threshold} is no share"
    );
    let arms: Arms =
        serde_json::from_slice(&bytes(arms)?).with_context(|| arms.display().to_string())?;
    let mut of: BTreeMap<String, DaysOfHost> =
        serde_json::from_slice(&bytes(days)?).with_context(|| days.display().to_string())?;
    let mut hosts = Vec::new();
    for (name, host) in arms.hosts {
        let Some(arm) = host.arm else { continue };
        // A host that is left out because it fared badly would make its arm look better.
        let days = of
            .remove(&name)
            .with_context(|| format!("{name} has an arm, and no days"))?;
        anyhow::ensure!(
            [&days.before, &days.after]
                .iter()
                .all(|days| !days.is_empty() && days.iter().all(|drops| is_count(*drops))),
            "{name}: its days before and after are numbers from 0 to {DROPS_MAX:e}, at least one of each"
        );
        hosts.push(Days {
            block: host.block,
            arm,
            before: days.before,
            after: days.after,
        });
    }
    let found = judge(&hosts, threshold, arms.seed)
        .context("each block needs hosts with the change and hosts without")?;
    place.format.show(&found, || text(&found))?;
    Ok(match found.verdict {
        Verdict::Adopt => Exit::Done,
        Verdict::Harmful => Exit::Harmful,
        Verdict::NoBenefit | Verdict::Inconclusive => Exit::Inconclusive,
    })
}

fn text(found: &FleetVerdict) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let row = |name: &str, of: &crate::experiment::fleet::OfArm| {
        vec![
            name.to_owned(),
            format!("{:.2} -> {:.2} a host and day", of.before, of.after),
            format!("{:.2}x", of.factor()),
        ]
    };
    let compared = &found.compared;
    let benefit = &compared.benefit;
    let least = found.least.map_or_else(String::new, |least| {
        format!("; the least that these hosts show is {}", percent(least))
    });
    table(&[
        row("control", &compared.control),
        row("test", &compared.test),
    ]) + &format!(
        "{}: {}\n{} fewer ({} to {}), {:.2} a host and day, p = {:.4}{least}\n",
        found.verdict.word(),
        found.why,
        percent(benefit.estimate),
        percent(benefit.low),
        percent(benefit.high),
        compared.saved,
        compared.p,
    )
}
