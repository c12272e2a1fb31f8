//! `experiment`: a plan against nothing, on this host, in pairs of blocks of time.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::show::{say, table};
use super::{Exit, Place, change};
use crate::apply::Change;
use crate::counter::Counters;
use crate::evidence;
use crate::experiment::decide::{Effect, Verdict};
use crate::experiment::design::Design;
use crate::experiment::host::Host;
use crate::experiment::run::{self, Result};
use crate::facts::Facts;
use crate::knob;
use crate::plan::Allowed;
use crate::render::{self, Changed, Kept};

/// More than a result of the most pairs with many counters.
const RESULT_BYTES_MAX: u64 = 1 << 30;
/// Longer than any design.
const DESIGN_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct ExperimentArgs {
    /// What is compared, and how long.
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,
    /// Keeps everything that was measured, as JSON.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: change::Limits,
}

impl ExperimentArgs {
    pub(super) fn run(self, place: &Place) -> anyhow::Result<Exit> {
        let text = platform::bounded::file(&self.design, DESIGN_BYTES_MAX);
        let text = text.with_context(|| format!("reading {}", self.design.display()))?;
        let design = Design::parse(&String::from_utf8(text)?)
            .with_context(|| self.design.display().to_string())?;
        let beside = self
            .design
            .parent()
            .unwrap_or(&self.design)
            .join(&design.plan);
        let (text, plan) = change::read(&beside)?;
        let facts = Facts::read(&place.root);
        if let Some(refusal) = change::not_here(place, &facts) {
            return change::refused(place, &[refusal]);
        }
        let evidence = evidence::of(&facts, &Counters::read(&place.root));
        let allowed = Allowed {
            // What only an experiment tells may be in an experiment.
            only: plan.items.iter().map(|item| item.id.clone()).collect(),
            ..self.limits.allowed()
        };
        let changes = match plan.changes(&place.root, &facts, &evidence, &allowed) {
            Ok(changes) => changes,
            Err(refusals) => return change::refused(place, &refusals),
        };
        say(&format!(
            "{} pairs after {} without a change, {} s",
            design.pairs,
            design.pairs_of_same(),
            design.ms() / 1_000
        ));
        let changed: Vec<Changed> = changes.iter().map(|change| before(place, change)).collect();
        let mut host = Host {
            tree: &place.root,
            root: &place.sysroot,
            state: &place.state,
            design: &design,
            plan: crate::hex::sha256(&text),
            fingerprint: plan.host.clone(),
            changes: &changes,
            open: None,
        };
        let result = run::run(&design, &mut host)?;
        if let Some(file) = self.output {
            let kept = Kept {
                host: about(&facts),
                changes: changed,
                result: result.clone(),
                design,
            };
            let text = serde_json::to_string_pretty(&kept)? + "\n";
            std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        place.format.show(&result, || shown(&result))?;
        Ok(match result.verdict {
            Verdict::Adopt => Exit::Done,
            Verdict::Harmful => Exit::Harmful,
            Verdict::NoBenefit | Verdict::Inconclusive => Exit::Inconclusive,
        })
    }
}

/// What a knob has now.
fn before(place: &Place, change: &Change) -> Changed {
    let old = knob::find(&place.root, &change.item).and_then(|knob| knob.read(&place.root).ok());
    Changed {
        item: change.item.clone(),
        old: old.unwrap_or_default(),
        want: change.want.clone(),
    }
}

/// What a reader has to know of the host.
fn about(facts: &Facts) -> Vec<(String, String)> {
    let topology = &facts.topology;
    let card = |nic: &crate::facts::net::Nic| {
        let driver = nic.driver.clone().unwrap_or_else(|| "no device".to_owned());
        format!("{} ({driver})", nic.name)
    };
    let cards: Vec<String> = facts.nics.iter().map(card).collect();
    let pair = |name: &str, value: String| (name.to_owned(), value);
    vec![
        pair("kind of host", facts.fingerprint()),
        pair("processor", topology.processor.clone()),
        pair("CPUs", topology.online.to_string()),
        pair("nodes", topology.nodes.len().to_string()),
        pair("kernel", topology.kernel.clone()),
        pair("cards", cards.join(", ")),
    ]
}

/// Draws the report of what was kept.
pub(super) fn report(file: &Path, output: &Path) -> anyhow::Result<Exit> {
    let text = platform::bounded::file(file, RESULT_BYTES_MAX)
        .with_context(|| format!("reading {}", file.display()))?;
    let kept: Kept = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    std::fs::write(output, render::page(&kept))
        .with_context(|| format!("writing {}", output.display()))?;
    Ok(Exit::Done)
}

fn shown(result: &Result) -> String {
    let verdict = match result.verdict {
        Verdict::Adopt => "adopt",
        Verdict::NoBenefit => "no benefit",
        Verdict::Harmful => "harmful",
        Verdict::Inconclusive => "inconclusive",
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let row = |effect: &Effect| {
        let benefit = &effect.benefit;
        let least = effect.least.map_or_else(String::new, |least| {
            format!("least seen {}", percent(least))
        });
        vec![
            effect.name.clone(),
            percent(benefit.estimate),
            format!("{} .. {}", percent(benefit.low), percent(benefit.high)),
            format!("p {:.4}", effect.p),
            least,
        ]
    };
    let rows: Vec<_> = result.effects.iter().map(row).collect();
    format!(
        "{verdict}: {}\n{}the change was taken back\n",
        result.why,
        table(&rows)
    )
}
