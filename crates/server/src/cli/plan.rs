//! `forebay plan`: the cheapest hardware for a load (docs/plan.md).
//!
//! It exits with 0 when some hardware carries the load, 1 when none does or when a plan was not
//! proven, 2 when the call was wrong.

mod files;
mod simulate;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::plan::answer::{Depth, Plan, solve};
use ::plan::calibration::Measurements;
use ::plan::catalogue::{Catalogue, Month};
use ::plan::emit;
use ::plan::load::{SHIPPED, Scenario, shipped};
use anyhow::Context as _;
use clap::Args;
use platform::bounded;

use super::format::Format;
use crate::planner;

/// A plan, a catalogue or a calibration is a small file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The cheapest hardware that carries a load, what limits it, and what it costs beside plain Kafka.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(super) struct PlanArgs {
    /// A file, or the name of a shipped scenario: car-ingest, burst, steady, linkedin, keyed.
    #[arg(value_name = "FILE|NAME", required_unless_present_any = ["published", "page"])]
    plan: Option<String>,
    /// Writes plan.json, report.html, server.properties, topics.sh, verify.toml and tune.toml into
    /// this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrites files of these names that already exist with other contents.
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Output format; JSON is the plan of each variant.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Changes the plan: `goals.cpu=0.5`, `load.NAME.peak=2 GB/s`, `given.brokers=6`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A file of catalogue entries; they override shipped ones of the same id.
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// Measurements of processor time, as --verify writes them.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Also uses prices older than 18 months.
    #[arg(long)]
    old_prices: bool,
    /// Shows what the answer rests on: assumptions, prices with their age and source.
    #[arg(long)]
    explain: bool,
    /// Plans for the load after N years of growth.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=20))]
    year: u32,
    /// The month from which the age of prices is counted; by default this one.
    #[arg(long, value_name = "YYYY-MM")]
    today: Option<Month>,
    /// Also simulates the bursts of the answer with the policy of tiers, beside the closed form.
    #[arg(long)]
    simulate: bool,
    /// Proves the plan on this machine: runs its experiment and compares.
    #[arg(long)]
    verify: bool,
    /// The part of the rates and capacities that --verify uses; less than 1 emulates the second
    /// tier's devices.
    #[arg(long, value_name = "SHARE", requires = "verify")]
    scale: Option<f64>,
    /// Where --verify puts its data.
    #[arg(long, value_name = "DIR", requires = "verify")]
    dir: Option<PathBuf>,
    /// The broker that --verify measures; by default this binary.
    #[arg(long, value_name = "PATH", requires = "verify")]
    binary: Option<PathBuf>,
    /// Serves the form and its answers over HTTP.
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9645", conflicts_with_all = ["plan", "out", "set", "year", "verify", "simulate", "published"])]
    page: Option<String>,
    /// Prints published figures beside what the planner computes for them.
    #[arg(long, conflicts_with_all = ["plan", "out", "set", "year", "verify", "simulate"])]
    published: bool,
}

/// A scenario and its answer.
struct ScenarioAnswer {
    scenario: Scenario,
    plan: Plan,
}

impl PlanArgs {
    /// Plans; the exit code distinguishes a wrong call from a load that nothing carries.
    pub(super) fn run(&self) -> ExitCode {
        let done = if self.published {
            super::print(&emit::text::published()).map(|()| ExitCode::SUCCESS)
        } else {
            self.plan()
        };
        done.unwrap_or_else(|error| {
            super::complain(&wire::text::escaped_lines(&super::why::why(&error)));
            ExitCode::from(2)
        })
    }

    fn plan(&self) -> anyhow::Result<ExitCode> {
        let catalogue = self.catalogue()?;
        let today = self.today.map_or_else(planner::this_month, Ok)?;
        if let Some(address) = &self.page {
            planner::serve(address, catalogue, today)?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.format == Format::Json && (self.simulate || self.verify) {
            anyhow::bail!("--format json shows the plan alone: --simulate and --verify are text");
        }
        if let Some(dir) = &self.out {
            // Fail before the computation if the result cannot be written.
            fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        let name = self.plan.as_deref().unwrap_or_default();
        let depth = if self.out.is_some() {
            Depth::Report
        } else {
            Depth::Whole
        };
        let mut all = Vec::new();
        for (variant, scenario) in self.scenarios(name)? {
            let plan = solve(&scenario, variant, &catalogue, today, depth)?;
            all.push(ScenarioAnswer { scenario, plan });
        }
        self.show(&all)?;
        if let Some(dir) = &self.out {
            files::write_all(dir, &all, self.overwrite)?;
        }
        if all.iter().any(|answered| answered.plan.chosen.is_none()) {
            return Ok(ExitCode::from(1));
        }
        if self.simulate {
            for answered in &all {
                super::print(&simulate::beside(&answered.plan)?)?;
            }
        }
        match all.first() {
            Some(first) if self.verify => {
                let wanted = verify::VerifyOptions {
                    scale: self.scale.unwrap_or(1.0),
                    dir: self.dir.as_deref(),
                    out: self.out.as_deref(),
                    binary: self.binary.as_deref(),
                };
                verify::run(&wanted, &first.plan, &first.scenario, &catalogue)
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn catalogue(&self) -> anyhow::Result<Catalogue> {
        let mut catalogue = Catalogue::shipped()?;
        for file in &self.prices {
            catalogue.overlay(Catalogue::read(&file.display().to_string(), &text(file)?)?);
        }
        if let Some(file) = &self.calibration {
            let read = Measurements::read(&file.display().to_string(), &text(file)?)?;
            read.apply(&mut catalogue);
        }
        Ok(catalogue)
    }

    fn scenarios(&self, name: &str) -> anyhow::Result<Vec<(Option<String>, Scenario)>> {
        let mut set = self.set.clone();
        if self.old_prices {
            set.push("cost.old_prices=true".to_owned());
        }
        let own;
        let text = match shipped(name) {
            Some(text) => text,
            None if !Path::new(name).exists() => {
                let known: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
                anyhow::bail!(
                    "there is no file {name}, and no scenario of that name: {}",
                    known.join(", ")
                );
            }
            None => {
                own = text(Path::new(name))?;
                &own
            }
        };
        let mut all = Scenario::variants(name, text, &set)?;
        for (_, scenario) in &mut all {
            *scenario = scenario.in_year(self.year);
        }
        Ok(all)
    }

    fn show(&self, all: &[ScenarioAnswer]) -> anyhow::Result<()> {
        let shown = match self.format {
            Format::Text => {
                let each = all
                    .iter()
                    .map(|answered| emit::text::plan(&answered.plan, self.explain));
                each.collect::<Vec<_>>().join("\n")
            }
            Format::Json => {
                let plans: Vec<&Plan> = all.iter().map(|answered| &answered.plan).collect();
                let json = serde_json::to_string_pretty(&plans)? + "\n";
                wire::text::escaped_json(&json).into_owned()
            }
        };
        super::print(&shown)
    }
}

/// Reads a small text file.
fn text(file: &Path) -> anyhow::Result<String> {
    let bytes = bounded::file(file, FILE_BYTES_MAX)
        .with_context(|| format!("reading {}", file.display()))?;
    String::from_utf8(bytes).with_context(|| format!("reading {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RawSettings, Settings};
    use crate::machine::Machine;

    pub(super) fn planned(name: &str, set: &[&str]) -> Plan {
        let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
        let scenario = Scenario::read(name, shipped(name).unwrap(), &set).unwrap();
        let today = Month::new(2026, 11).unwrap();
        solve(
            &scenario,
            None,
            &Catalogue::shipped().unwrap(),
            today,
            Depth::Answer,
        )
        .unwrap()
    }

    /// Checks that the readers of a plan's files accept them.
    #[track_caller]
    fn check(plan: &Plan) {
        let dir = tempfile::tempdir().unwrap();
        let files = emit::files(plan);
        let text = |name: &str| &files.iter().find(|(known, _)| *known == name).unwrap().1;
        let file = dir.path().join("server.properties");
        fs::write(&file, text("server.properties")).unwrap();
        let mut raw = RawSettings::default();
        raw.add_file(&file).unwrap();
        if let Err(problems) = Settings::resolve(&raw, &Machine::read()) {
            let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
            panic!("{}: {said:?}\n{}", plan.name, text("server.properties"));
        }
        for scale in [1.0, 0.01] {
            let chosen = plan.chosen.as_ref().unwrap();
            let text = emit::experiment::file(plan, chosen, scale);
            let experiment = bench::experiment::file::parse(&text, "verify.toml")
                .unwrap_or_else(|error| panic!("{}: {error}\n{text}", plan.name));
            let only = bench::experiment::choice::OnlyPatterns::default();
            bench::experiment::plan::plan(&experiment, &only).unwrap();
        }
    }

    #[test]
    fn every_file_of_a_shipped_plan_is_read_by_whom_it_is_for() {
        for (name, _) in SHIPPED {
            check(&planned(name, &[]));
        }
    }

    #[test]
    fn so_are_those_of_plans_with_two_tiers() {
        check(&planned(
            "linkedin",
            &["hardware.tiers=2", "load.retention=1 TB"],
        ));
        check(&planned(
            "car-ingest",
            &["hardware.tiers=2", "goals.threshold=-1"],
        ));
        check(&planned(
            "keyed",
            &["load.tier_min=bulk", "hardware.tiers=2"],
        ));
    }
}
