//! Reapplies the confirmed changes when the host starts: the service of `tune boot`.
//!
//! The confirmed transactions define the values that the host must have. The host reads none of
//! them from files by itself, so they are rewritten, as a transaction with its own journal and
//! watchdog, all of it or nothing. Invariants: changes made for another kind of host (another
//! kernel, other cards) are refused; a knob that has another owner by now is refused; a change with
//! which two boots in a row did not live five minutes is not tried a third time, until an operator
//! requests it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::apply::Change;
use crate::boot;
use crate::change::{self, Order, Report};
use crate::facts::Facts;
use crate::journal::store::{Store, transactions};
use crate::journal::{Event, Log as _};
use crate::knob;
use crate::plan::Refusal;
use crate::root::Tree;
use crate::transaction::{ItemState, Transaction, TransactionStanding};

/// Age at which a boot counts as lived.
pub const LIVED_MS: u64 = 5 * 60_000;
/// Number of boots in a row that did not live, after which nothing is applied.
const STARTS_MAX: usize = 2;
/// Limit on the remembered boots.
const REMEMBERED_MAX: usize = 16;
/// Limit on the size of the file.
const BYTES_MAX: u64 = 1 << 16;
/// Deadline of the watchdog at a boot.
const WITHIN_MS: u64 = 5 * 60_000;

/// A boot in which something was applied.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
struct Start {
    boot: String,
    lived: bool,
}

/// The outcome of a boot.
#[derive(Debug, Serialize)]
#[serde(tag = "boot", rename_all = "snake_case")]
pub enum BootOutcome {
    /// Nothing is confirmed, or everything is in effect.
    Nothing,
    /// The changes were written.
    Applied {
        /// The result of applying.
        #[serde(flatten)]
        report: Report,
    },
    /// The changes were refused.
    Refused {
        /// The reasons.
        refused: Vec<Refusal>,
    },
}

/// Returns the values that the confirmed transactions define and a boot takes away, the newest for
/// each item, in the order of writing.
pub fn kept(boot: &str, transactions: &[Transaction]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for transaction in transactions.iter().rev().filter(|one| is_kept(one, boot)) {
        for entry in &transaction.entries {
            let is_said = changes.iter().any(|change| change.item == entry.item);
            // What outlives a boot is there, or another program has set it since.
            let is_gone = !knob::outlives_boot(&entry.item);
            if matches!(entry.state, ItemState::Done(_)) && !is_said && is_gone {
                changes.push(Change {
                    item: entry.item.clone(),
                    want: entry.want.clone(),
                });
            }
        }
    }
    crate::apply::order(&mut changes);
    changes
}

fn is_kept(transaction: &Transaction, boot: &str) -> bool {
    transaction.standing(boot) == TransactionStanding::Confirmed && !transaction.until_reboot
}

/// Reapplies the confirmed changes.
pub fn at_start(
    tree: &dyn Tree,
    state: &Path,
    facts: &Facts,
    watch: impl FnOnce(&str) -> anyhow::Result<()>,
) -> anyhow::Result<BootOutcome> {
    let boot = boot::id(tree);
    let all = transactions(state)?;
    let old: Vec<&Transaction> = all
        .iter()
        .filter(|one| is_kept(one, &boot) && one.boot != boot)
        .collect();
    let changes = kept(&boot, &all);
    if old.is_empty() || changes.is_empty() {
        return Ok(BootOutcome::Nothing);
    }
    let mut refused = refusals(tree, facts, &old, &changes);
    let starts = starts(state)?;
    let failed = starts
        .iter()
        .rev()
        .take_while(|start| !start.lived && start.boot != boot)
        .count();
    if failed >= STARTS_MAX {
        refused.push(Refusal::whole(format!(
            "the last {failed} starts with it did not live {} minutes: forebay tune boot --again tries it once more",
            LIVED_MS / 60_000
        )));
    }
    if !refused.is_empty() {
        return Ok(BootOutcome::Refused { refused });
    }
    // Recorded before the first write, so that a boot that does not survive it counts.
    remember(state, &boot, starts)?;
    let last = old.last().context("one is kept")?;
    let order = Order {
        plan: last.plan.clone(),
        host: last.host.clone(),
        changes: &changes,
        confirm_within_ms: Some(WITHIN_MS),
        taken: old.iter().flat_map(|one| one.taken.clone()).collect(),
        ..Order::default()
    };
    let report = match change::begin(tree, state, order, watch)? {
        Ok(report) => report,
        Err(refusal) => {
            let refused = vec![refusal];
            return Ok(BootOutcome::Refused { refused });
        }
    };
    if report.whole {
        let kept = change::confirm(tree, state, &report.transaction, false)?;
        kept.map_err(|refusal| anyhow::anyhow!(refusal.why))?;
        let store = Store::lock(state, &boot)?;
        // One with an item that outlives boots stays, for its undo.
        let is_over = |one: &&&Transaction| {
            let mut entries = one.entries.iter();
            !entries.any(|entry| knob::outlives_boot(&entry.item))
        };
        for one in old.iter().filter(is_over) {
            let why = format!("applied anew as {}", report.transaction);
            store.append_to(&one.id)?.append(Event::Closed { why })?;
        }
    }
    Ok(BootOutcome::Applied { report })
}

/// Returns the reasons to refuse: the checks of `apply` except the evidence, because counters start
/// at zero.
fn refusals(
    tree: &dyn Tree,
    facts: &Facts,
    old: &[&Transaction],
    changes: &[Change],
) -> Vec<Refusal> {
    let mut refused = Vec::new();
    let here = facts.fingerprint();
    for one in old.iter().filter(|one| one.host != here) {
        let why = format!("{} was kept for {}, this host is {here}", one.id, one.host);
        refused.push(Refusal::whole(why));
    }
    for change in changes {
        let mut of = |why: String| {
            let item = Some(change.item.clone());
            refused.push(Refusal { item, why });
        };
        match knob::find(tree, &change.item) {
            None => of("there is no such knob on this host".to_owned()),
            Some(knob) => {
                if let Err(why) = knob.form.wanted(&change.want) {
                    of(why);
                }
            }
        }
        let owner = facts.owners.iter().find(|owner| owner.has(&change.item));
        let is_taken = old.iter().any(|one| one.taken.contains(&change.item));
        if let Some(owner) = owner.filter(|_| !is_taken) {
            of(format!("{} sets it by now", owner.name));
        }
    }
    refused
}

/// Records that this boot lived, so its changes did not break the host.
pub fn lived(tree: &dyn Tree, state: &Path) -> anyhow::Result<()> {
    let boot = boot::id(tree);
    let mut starts = starts(state)?;
    for start in starts.iter_mut().filter(|start| start.boot == boot) {
        start.lived = true;
    }
    write(state, &starts)
}

/// Forgets the boots that did not live.
pub fn again(state: &Path) -> anyhow::Result<()> {
    write(state, &[])
}

fn path(state: &Path) -> PathBuf {
    state.join("starts.json")
}

/// Returns the remembered boots.
///
/// A damaged file counts as two boots that did not live.
fn starts(state: &Path) -> anyhow::Result<Vec<Start>> {
    let unknown = Start {
        boot: String::new(),
        lived: false,
    };
    match platform::bounded::file(&path(state), BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| path(state).display().to_string()),
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_else(|_| vec![unknown; STARTS_MAX])),
    }
}

fn remember(state: &Path, boot: &str, mut starts: Vec<Start>) -> anyhow::Result<()> {
    starts.retain(|start| start.boot != boot);
    starts.push(Start {
        boot: boot.to_owned(),
        lived: false,
    });
    let from = starts.len().saturating_sub(REMEMBERED_MAX);
    write(state, &starts[from..])
}

fn write(state: &Path, starts: &[Start]) -> anyhow::Result<()> {
    use std::io::Write as _;
    // The lock creates and checks the directory.
    let store = Store::lock(state, "")?;
    let new = state.join("starts.json.new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(&serde_json::to_vec(starts)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path(state))?;
    std::fs::File::open(state)?.sync_all()?;
    drop(store);
    Ok(())
}

#[cfg(test)]
mod tests;
