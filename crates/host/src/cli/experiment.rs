//! `experiment`: compares this host with and without a plan, in pairs of blocks of time.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::show::{say, table};
use super::{CommandPlace, Exit, change};
use crate::apply::Change;
use crate::counter::Counters;
use crate::drop_reason::Tracer;
use crate::evidence;
use crate::experiment::decide::{Effect, Verdict};
use crate::experiment::design::{Design, Mode, PAIRS_MAX};
use crate::experiment::host::Host;
use crate::experiment::modes::{self, Part};
use crate::experiment::run::{self, Result};
use crate::facts::Facts;
use crate::knob;
use crate::plan::{OperatorLimits, Refusal};
use crate::render::{self, ChangedItem, StoredExperiment};
use crate::root::Tree;

/// Limit on the size of a result, above that of the most pairs with many counters.
const RESULT_BYTES_MAX: u64 = 1 << 30;
/// Limit on the size of a design.
const DESIGN_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct ExperimentArgs {
    /// The design: what is compared, and for how long.
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,
    /// Writes all measurements to this file, as JSON.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: change::Limits,
}

impl ExperimentArgs {
    pub(super) fn run(self, place: &CommandPlace) -> anyhow::Result<Exit> {
        let text = platform::bounded::file(&self.design, DESIGN_BYTES_MAX);
        let text = text.with_context(|| format!("reading {}", self.design.display()))?;
        let mut design = Design::parse(&String::from_utf8(text)?)
            .with_context(|| self.design.display().to_string())?;
        let beside = self
            .design
            .parent()
            .unwrap_or(&self.design)
            .join(&design.plan);
        let (text, plan) = change::read(&beside)?;
        design.plan_guard.clone_from(&plan.guard);
        let facts = Facts::read(&place.root);
        if let Some(refusal) = change::not_here(place, &facts) {
            return change::refused(place, &[refusal]);
        }
        let evidence = evidence::of(&facts, &Counters::read(&place.root));
        let allowed = OperatorLimits {
            // Naming all items allows those whose use only an experiment shows.
            only: plan.items.iter().map(|item| item.id.clone()).collect(),
            ..self.limits.allowed()
        };
        let changes = match plan.changes(&place.root, &facts, &evidence, &allowed) {
            Ok(changes) => changes,
            Err(refusals) => return change::refused(place, &refusals),
        };
        if let Some(refusal) = needs_restart(&changes) {
            return change::refused(place, &[refusal]);
        }
        if let Some(refusal) = changes_nothing(&place.root, design.mode, &changes) {
            return change::refused(place, &[refusal]);
        }
        let parts = modes::parts(design.mode, &changes);
        say(&format!(
            "{} pairs after {} without a change, {} s",
            design.pairs,
            design.pairs_of_same(),
            design.ms().saturating_mul(parts.len() as u64) / 1_000
        ));
        let mut output = created(self.output.as_deref())?;
        let asked = ComparisonRequest {
            place,
            design: &design,
            plan: crate::hex::sha256(&text),
            fingerprint: &plan.host,
            about: about(&facts),
            changes: &changes,
        };
        let mut kept: Vec<StoredExperiment> = Vec::new();
        for part in parts {
            let one = asked.compare(part, &kept);
            // A host that has changed, or a load that fails, would fail the next comparison, too.
            let failed = one.result.failed.is_some();
            kept.push(one);
            if let Some(file) = &mut output {
                write(file, &kept)?;
            }
            if failed {
                break;
            }
        }
        let results: Vec<&Result> = kept.iter().map(|kept| &kept.result).collect();
        place.format.show(&results, || {
            kept.iter().map(|one| said(design.mode, one)).collect()
        })?;
        Ok(exit(&results))
    }
}

/// Creates the file of results, if one is asked for: before the measurements, because it may not be
/// possible.
fn created(output: Option<&Path>) -> anyhow::Result<Option<std::fs::File>> {
    let created = output.map(|file| {
        let made = std::fs::File::create(file);
        made.with_context(|| format!("writing {}", file.display()))
    });
    created.transpose()
}

/// Returns why changes cannot be compared in blocks of one host.
fn needs_restart(changes: &[Change]) -> Option<Refusal> {
    let mut changes = changes.iter();
    let change = changes.find(|change| knob::outlives_boot(&change.item))?;
    let why = "it needs a restart, which no block of an experiment on one host has: fleet assign";
    Some(Refusal {
        item: Some(change.item.clone()),
        why: why.to_owned(),
    })
}

/// Returns why the arms of a comparison would be the same: what it asks about is in effect already.
///
/// Its verdict would be that there is no benefit, which would be read as one on the setting.
fn changes_nothing(tree: &dyn Tree, mode: Mode, changes: &[Change]) -> Option<Refusal> {
    let is_there = |change: &&Change| {
        let knob = knob::find(tree, &change.item);
        knob.is_some_and(|knob| {
            let now = knob.read(tree);
            now.is_ok_and(|now| knob.form.is(&now, &change.want))
        })
    };
    let why = "it is in effect already, so that both arms would be the same: undo it first";
    match mode {
        Mode::Bundle if changes.iter().all(|change| is_there(&change)) => Some(Refusal::whole(
            "nothing of the plan is left to change, so that both arms would be the same",
        )),
        Mode::Bundle => None,
        Mode::Each | Mode::Ablate => changes.iter().find(is_there).map(|change| Refusal {
            item: Some(change.item.clone()),
            why: why.to_owned(),
        }),
    }
}

/// The comparison to make, and its host.
struct ComparisonRequest<'a> {
    place: &'a CommandPlace,
    design: &'a Design,
    plan: String,
    fingerprint: &'a str,
    about: Vec<(String, String)>,
    changes: &'a [Change],
}

impl ComparisonRequest<'_> {
    /// Runs one comparison, on top of the changes that earlier ones adopted.
    fn compare(&self, part: Part, before_it: &[StoredExperiment]) -> StoredExperiment {
        let is_adopted = |change: &&Change| {
            let mut adopted = before_it
                .iter()
                .filter(|kept| kept.result.verdict == Verdict::Adopt);
            adopted.any(|kept| kept.changes.iter().any(|one| one.item == change.item))
        };
        let adopted: Vec<Change> = self.changes.iter().filter(is_adopted).cloned().collect();
        let (control, test) = part.arms(self.changes, &adopted);
        let changed = part.changed(self.changes);
        let changes = changed
            .iter()
            .map(|change| before(self.place, change))
            .collect();
        let mut host = Host {
            tree: &self.place.root,
            root: &self.place.sysroot,
            state: &self.place.state,
            design: self.design,
            plan: self.plan.clone(),
            fingerprint: self.fingerprint.to_owned(),
            control: &control,
            test: &test,
            open: None,
            tracer: None,
        };
        let tracer = self.design.reasons.then(Tracer::start).transpose();
        let result = match tracer {
            Ok(tracer) => {
                host.tracer = tracer;
                run::run(self.design, &mut host)
            }
            Err(error) => run::failed(&error),
        };
        StoredExperiment {
            host: self.about.clone(),
            changes,
            result,
            design: self.design.clone(),
        }
    }
}

/// Returns a comparison as text, with its items in modes with several comparisons.
fn said(mode: Mode, kept: &StoredExperiment) -> String {
    let items: Vec<&str> = kept
        .changes
        .iter()
        .map(|change| change.item.as_str())
        .collect();
    match mode {
        Mode::Bundle => shown(&kept.result),
        Mode::Each | Mode::Ablate => format!("{}: {}", items.join(", "), shown(&kept.result)),
    }
}

/// Returns the exit code; failure and harm take precedence.
fn exit(results: &[&Result]) -> Exit {
    let any = |verdict: Verdict| results.iter().any(|result| result.verdict == verdict);
    match () {
        () if results.iter().any(|result| result.failed.is_some()) => Exit::Failed,
        () if any(Verdict::Harmful) => Exit::Harmful,
        () if any(Verdict::Adopt) => Exit::Done,
        () => Exit::Inconclusive,
    }
}

/// Replaces the content of the file with all results so far.
fn write(file: &mut std::fs::File, kept: &[StoredExperiment]) -> anyhow::Result<()> {
    use std::io::{Seek as _, Write as _};
    let text = serde_json::to_string_pretty(kept)? + "\n";
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    Ok(file.set_len(text.len() as u64)?)
}

/// Returns a change with the current value of its knob.
fn before(place: &CommandPlace, change: &Change) -> ChangedItem {
    let old = knob::find(&place.root, &change.item).and_then(|knob| knob.read(&place.root).ok());
    ChangedItem {
        item: change.item.clone(),
        old: old.unwrap_or_default(),
        want: change.want.clone(),
    }
}

/// Returns the facts on the host for readers of the report.
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

/// Draws the report of a result or, without one, of the samples.
pub(super) fn report(file: Option<&Path>, output: &Path) -> anyhow::Result<Exit> {
    let page = match file {
        None => render::sample::page(),
        Some(file) => {
            let text = platform::bounded::file(file, RESULT_BYTES_MAX)
                .with_context(|| format!("reading {}", file.display()))?;
            let kept: Vec<StoredExperiment> =
                serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
            anyhow::ensure!(!kept.is_empty(), "{}: nothing was kept", file.display());
            let mut samples = kept.iter().flat_map(|one| &one.result.samples);
            anyhow::ensure!(
                samples.all(|sample| sample.pair < PAIRS_MAX),
                "{}: no experiment has so large a number of pairs",
                file.display()
            );
            render::page(&kept)
        }
    };
    std::fs::write(output, page).with_context(|| format!("writing {}", output.display()))?;
    Ok(Exit::Done)
}

fn shown(result: &Result) -> String {
    let verdict = result.verdict.word();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_host_is_not_compared_with_itself() {
        let fake = Fake::new(&[
            ("proc/sys/vm/swappiness", "1"),
            ("proc/sys/net/core/somaxconn", "128"),
        ]);
        let change = |(item, want): (&str, &str)| Change {
            item: item.to_owned(),
            want: want.to_owned(),
        };
        let there = ("sysctl.vm.swappiness", "1");
        let new = ("sysctl.net.core.somaxconn", "4096");
        let why = |mode, changes: &[(&str, &str)]| {
            let changes: Vec<Change> = changes.iter().copied().map(change).collect();
            changes_nothing(&fake, mode, &changes).map(|refusal| (refusal.item, refusal.why))
        };
        assert_eq!(why(Mode::Bundle, &[there, new]), None);
        assert!(why(Mode::Bundle, &[there]).is_some());
        assert!(why(Mode::Bundle, &[]).is_some(), "boot options alone");
        for mode in [Mode::Each, Mode::Ablate] {
            assert_eq!(why(mode, &[new]), None);
            let (item, why) = why(mode, &[new, there]).unwrap();
            assert_eq!(item.as_deref(), Some("sysctl.vm.swappiness"));
            assert!(why.contains("in effect already"), "{why}");
        }
    }

    #[test]
    fn what_needs_a_restart_is_in_no_block() {
        let refusal = |item: &str| {
            let change = Change {
                item: item.to_owned(),
                want: "0".to_owned(),
            };
            needs_restart(&[change]).map(|refusal| refusal.why)
        };
        assert_eq!(refusal("sysctl.vm.swappiness"), None);
        for item in ["process.cpus", "firmware.cpu.snoop"] {
            assert!(refusal(item).unwrap().contains("fleet assign"), "{item}");
        }
    }
}
