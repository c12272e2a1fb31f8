//! `plan` and `record`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::show::{say, table};
use super::{CommandPlace, Exit, change};
use crate::apply::Change;
use crate::export::{self, ExportFormat};
use crate::facts::loader;
use crate::journal::store::transactions;
use crate::knob::{self, Class};
use crate::plan::{BOOT, Confidence, Item, OperatorLimits, Plan};
use crate::record;
use crate::rule::{self, Advice, Profile, RuleInput, RuleOutput};
use crate::{boot, persist};

/// The answer of `plan`.
#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a Plan,
    advice: &'a [Advice],
}

/// The answer of `record`.
#[derive(Serialize)]
struct RecordedFiles {
    files: usize,
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// What the host is used for.
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// File for the plan; without it, the plan is only shown.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Checks whether an older plan can still be applied, and proposes nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    check: Option<PathBuf>,
}

impl PlanArgs {
    pub(super) fn run(self, place: &CommandPlace) -> anyhow::Result<Exit> {
        let seen = RuleInput::read(&place.root, self.profile);
        if let Some(file) = self.check {
            return check(place, &seen, &file);
        }
        let found = rule::propose(&seen);
        let plan = rule::plan(&seen, &found);
        if let Some(file) = self.output {
            std::fs::write(&file, plan.text()?)
                .with_context(|| format!("writing {}", file.display()))?;
        }
        let advice = &found.advice;
        place.format.show(
            &Answer {
                plan: &plan,
                advice,
            },
            || text(&found),
        )?;
        Ok(Exit::Done)
    }
}

fn text(found: &RuleOutput) -> String {
    let mut text = String::new();
    for item in &found.items {
        text.push_str(&diff(item));
        let sure = match item.confidence {
            Confidence::High => "it removes what was counted",
            Confidence::Medium => "it helps most",
            Confidence::Experiment => "only an experiment tells",
        };
        let _ = writeln!(text, "    {}; {sure}", item.why);
    }
    for advice in &found.advice {
        let _ = writeln!(text, "{}: {}", advice.about, advice.text);
    }
    if text.is_empty() {
        text.push_str("nothing is dropped that a setting would help\n");
    }
    text
}

/// Returns the change of an item, with its class.
fn diff(item: &Item) -> String {
    let wanted = item.wanted().unwrap_or_default();
    let rounded = item.rounded.as_ref().map_or_else(String::new, |rounded| {
        format!(" (the kernel makes it {rounded})")
    });
    format!(
        "{}: {} -> {wanted}{rounded}, class {:?}\n",
        item.id, item.now, item.class
    )
}

fn check(place: &CommandPlace, seen: &RuleInput, file: &Path) -> anyhow::Result<Exit> {
    let (_, plan) = change::read(file)?;
    let allowed = OperatorLimits {
        class_max: Class::B,
        // Naming all items skips the question of whether they help.
        only: plan.items.iter().map(|item| item.id.clone()).collect(),
        take_over: Vec::new(),
    };
    match plan.changes(&place.root, &seen.facts, &seen.evidence, &allowed) {
        Ok(changes) => {
            let row = |change: &Change| vec![change.item.clone(), change.want.clone()];
            place.format.show(&plan, || {
                table(&changes.iter().map(row).collect::<Vec<_>>())
            })?;
            Ok(Exit::Done)
        }
        Err(refusals) => change::refused(place, &refusals),
    }
}

/// Writes the `tar`.
pub(super) fn record(place: &CommandPlace, file: &Path) -> anyhow::Result<Exit> {
    let entries = record::record(&place.root);
    let mut tar = Vec::new();
    let left_out = record::write(&entries, &mut tar)?;
    std::fs::write(file, tar).with_context(|| format!("writing {}", file.display()))?;
    for name in left_out {
        say(&format!("left out, its name is too long: {name}"));
    }
    let files = entries.len();
    place
        .format
        .show(&RecordedFiles { files }, || format!("{files} files\n"))?;
    Ok(Exit::Done)
}

/// Writes the confirmed changes, or a plan, in the format of another program.
pub(super) fn export(
    place: &CommandPlace,
    form: ExportFormat,
    plan: Option<&Path>,
) -> anyhow::Result<Exit> {
    let mut changes = match plan {
        None => persist::kept(&boot::id(&place.root), &transactions(&place.state)?),
        Some(file) => {
            let mut changes = Vec::new();
            for item in change::read(file)?.1.items {
                if let Some(option) = item.id.strip_prefix(BOOT) {
                    let want = item.wanted();
                    let want = want.and_then(|want| loader::allowed(option, &want).map(|()| want));
                    let want = want.map_err(|why| anyhow::anyhow!("{}: {why}", item.id))?;
                    changes.push(Change {
                        item: item.id,
                        want,
                    });
                    continue;
                }
                let knob = knob::find(&place.root, &item.id);
                let knob = knob.with_context(|| format!("{}: there is no such knob", item.id))?;
                let want = item.wanted().and_then(|want| knob.form.wanted(&want));
                let want = want.map_err(|why| anyhow::anyhow!("{}: {why}", item.id))?;
                changes.push(Change {
                    item: item.id,
                    want,
                });
            }
            changes
        }
    };
    crate::apply::order(&mut changes);
    let exported = export::export(&place.root, &changes, form);
    for item in &exported.left_out {
        say(&format!("left out, since this form cannot say it: {item}"));
    }
    place.format.show(&exported, || exported.text.clone())?;
    Ok(Exit::Done)
}
