//! `verify --watch`: checks periodically whether the kept changes are in effect, and rewrites what
//! a reset of a link or of a card's queues took away.
//!
//! Invariants: only knobs that such a reset affects are written, and only over the value that a
//! reset leaves: values set by others are reported and left; what was not written in this boot is
//! not written here, because only the boot service checks whether it still may be; an item that is
//! lost repeatedly is left after a number of rewrites, because something else sets it; each write
//! is in the journal; the checks cost at most a thousandth of a CPU.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::boot;
use crate::facts::topology;
use crate::firmware;
use crate::journal::store::{Store, marks, transactions};
use crate::journal::{Event, Log as _};
use crate::knob::{self, Knob};
use crate::root::Tree;
use crate::transaction::{Entry, ItemState, Transaction, TransactionStanding};
use crate::undo::network;
use crate::watchdog;

/// Shortest time between two checks.
const LOOK_MS: u64 = 1_000;
/// The wait after a check, as a multiple of its CPU time.
const SHARE: u64 = 1_000;
/// Limit on the rewrites of an item per hour.
const AGAIN_MAX: usize = 12;
const HOUR_MS: u64 = 3_600_000;

/// The comparison of an item's value with the one it was left with.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The value it was left with.
    Same,
    /// A reset took it away.
    Lost,
    /// Others set it.
    Drifted,
    /// The knob does not exist at the moment.
    Gone,
    /// It comes into effect when the host starts again.
    Waiting,
    /// It is kept, and this boot has not applied it again.
    Unapplied,
}

/// An item as found by a check.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct WatchedItem {
    /// The transaction.
    pub transaction: String,
    /// The knob.
    pub item: String,
    /// The value it was left with.
    pub left: String,
    /// The current value; none if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The comparison of both.
    pub verdict: Verdict,
}

/// Compares the changes in effect, by the journals, with the host.
///
/// For each item the latest transaction counts; items of another network namespace are skipped.
pub fn look(tree: &dyn Tree, boot: &str, transactions: &[Transaction]) -> Vec<WatchedItem> {
    look_at(tree, boot, transactions, |_| true)
}

/// Compares those of the changes that are wanted.
fn look_at(
    tree: &dyn Tree,
    boot: &str,
    transactions: &[Transaction],
    wanted: impl Fn(&str) -> bool,
) -> Vec<WatchedItem> {
    let mut seen: Vec<WatchedItem> = Vec::new();
    for transaction in transactions.iter().rev() {
        let standing = transaction.standing(boot);
        if !matches!(
            standing,
            TransactionStanding::Open | TransactionStanding::Confirmed
        ) {
            continue;
        }
        let elsewhere = network::elsewhere(tree, transaction).is_some();
        for entry in &transaction.entries {
            let ItemState::Done(left) = &entry.state else {
                continue;
            };
            let is_known = seen.iter().any(|one| one.item == entry.item);
            let is_elsewhere = elsewhere && network::has(&entry.item);
            if is_known
                || is_elsewhere
                || !wanted(&entry.item)
                || !transaction.is_in_effect(entry, boot)
            {
                continue;
            }
            let knob = knob::find(tree, &entry.item);
            let found = knob.as_ref().and_then(|knob| knob.read(tree).ok());
            seen.push(WatchedItem {
                transaction: transaction.id.clone(),
                item: entry.item.clone(),
                left: left.clone(),
                verdict: match verdict(tree, knob.as_ref(), entry, left, found.as_deref()) {
                    Verdict::Lost | Verdict::Drifted if !is_of_boot(transaction, entry, boot) => {
                        Verdict::Unapplied
                    }
                    verdict => verdict,
                },
                found,
            });
        }
    }
    seen
}

/// Returns whether a value was there in this boot.
fn is_of_boot(transaction: &Transaction, entry: &Entry, boot: &str) -> bool {
    transaction.boot == boot || knob::outlives_boot(&entry.item)
}

fn verdict(
    tree: &dyn Tree,
    knob: Option<&Knob>,
    entry: &Entry,
    left: &str,
    found: Option<&str>,
) -> Verdict {
    let (Some(knob), Some(found)) = (knob, found) else {
        return Verdict::Gone;
    };
    if knob.form.is(found, left) || found == left {
        let now = firmware::now_of(&entry.item).and_then(|name| tree.text(&name));
        return match now {
            Some(now) if now != found => Verdict::Waiting,
            _ => Verdict::Same,
        };
    }
    let is_old = knob
        .form
        .is(found, &knob.form.back(&entry.old, &entry.want));
    if is_of_link(&entry.item) && (is_old || is_fresh(tree, &entry.item, found)) {
        return Verdict::Lost;
    }
    Verdict::Drifted
}

/// Returns whether a reset of the link or its queues affects the item.
fn is_of_link(item: &str) -> bool {
    item.starts_with("net.")
}

/// Returns whether the value is that of newly created queues and threads.
fn is_fresh(tree: &dyn Tree, item: &str, found: &str) -> bool {
    match item.rsplit('.').next() {
        Some("rps_cpus" | "xps_cpus") => found.is_empty(),
        Some("rps_flow_cnt") => found == "0",
        Some("irq" | "cpus") => topology::online(tree).is_some_and(|all| all.to_string() == found),
        _ => false,
    }
}

/// A change to report.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct ItemReport {
    /// The item.
    #[serde(flatten)]
    pub seen: WatchedItem,
    /// The action: `restored`, or why not.
    pub done: String,
}

/// The state of the watch: the last check, and the times of its rewrites.
#[derive(Default, Debug)]
pub struct Watch {
    marks: Option<Vec<(String, u64, i64)>>,
    transactions: Vec<Transaction>,
    last: BTreeMap<String, Verdict>,
    written: BTreeMap<String, Vec<u64>>,
    /// Transactions whose watchdog did not run at the last look.
    alone: Vec<String>,
}

impl Watch {
    /// Checks once and rewrites what was lost; returns the changes since the last check.
    pub fn look(
        &mut self,
        tree: &dyn Tree,
        state: &Path,
        now_ms: u64,
    ) -> anyhow::Result<Vec<ItemReport>> {
        let now = marks(state)?;
        if self.marks.as_ref() != Some(&now) {
            self.transactions = transactions(state)?;
            self.marks = Some(now);
        }
        let boot = boot::id(tree);
        let mut told = Vec::new();
        let mut last = BTreeMap::new();
        // No reset of a link takes a setting of the firmware away, and its controller is slow.
        let looked = look_at(tree, &boot, &self.transactions, |item| {
            !knob::is_of_firmware(item)
        });
        for seen in looked {
            let before = self.last.get(&seen.item).copied();
            last.insert(seen.item.clone(), seen.verdict);
            if seen.verdict == Verdict::Lost {
                let done = self.again(tree, state, &boot, &seen, now_ms);
                let is_done = done.is_ok();
                let done = done.map_or_else(|error| error, |()| "restored".to_owned());
                if is_done {
                    last.insert(seen.item.clone(), Verdict::Same);
                }
                if is_done || before != Some(Verdict::Lost) {
                    told.push(ItemReport { seen, done });
                }
            } else if before.unwrap_or(Verdict::Same) != seen.verdict {
                let done = match seen.verdict {
                    Verdict::Same => "is back",
                    Verdict::Waiting => "waits for the next start",
                    Verdict::Gone => "there is no such knob now",
                    Verdict::Unapplied => "left: kept, and not applied since the start",
                    Verdict::Lost | Verdict::Drifted => "left: somebody else set it",
                };
                let done = done.to_owned();
                told.push(ItemReport { seen, done });
            }
        }
        self.last = last;
        Ok(told)
    }

    /// Returns the open transactions that had no watchdog at two looks: it was killed, and another
    /// one is needed. At the first look `apply` may be about to start it.
    pub fn orphans(&mut self, tree: &dyn Tree, state: &Path) -> Vec<String> {
        let now = watchdog::orphans(state, &boot::id(tree), &self.transactions);
        let before = std::mem::replace(&mut self.alone, now.clone());
        now.into_iter().filter(|id| before.contains(id)).collect()
    }

    /// Rewrites an item, under the lock, if its transaction is still in effect.
    fn again(
        &mut self,
        tree: &dyn Tree,
        state: &Path,
        boot: &str,
        seen: &WatchedItem,
        now_ms: u64,
    ) -> Result<(), String> {
        let written = self.written.entry(seen.item.clone()).or_default();
        written.retain(|at| now_ms.saturating_sub(*at) < HOUR_MS);
        if written.len() >= AGAIN_MAX {
            return Err(format!(
                "left: it was taken away {AGAIN_MAX} times within an hour"
            ));
        }
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let store = Store::lock(state, boot).map_err(|error| text(&error))?;
        let now = store.transactions().map_err(|error| text(&error))?;
        // An item undone a moment ago must not be rewritten. Only this one is read: the others'
        // turn comes, and the lock is held.
        let still = look_at(tree, boot, &now, |item| item == seen.item);
        if !still.iter().any(|one| one == seen) {
            return Err("left: it has changed meanwhile".to_owned());
        }
        let knob = knob::find(tree, &seen.item).ok_or("there is no such knob now")?;
        let mut log = store
            .append_to(&seen.transaction)
            .map_err(|error| text(&error))?;
        written.push(now_ms);
        let want = knob.form.writable(&seen.left);
        knob.write(tree, &want).map_err(|error| text(&error))?;
        let got = knob.read(tree).map_err(|error| text(&error))?;
        let (item, found) = (seen.item.clone(), seen.found.clone());
        log.append(Event::Again {
            item,
            found,
            got: got.clone(),
        })
        .map_err(|error| text(&error))?;
        if knob.form.is(&got, &want) || got == seen.left {
            return Ok(());
        }
        Err(format!("{want} was written, and it is {got}"))
    }

    /// Returns the wait after a check that took this much CPU time.
    pub fn wait_ms(took_us: u64) -> u64 {
        LOOK_MS.max(took_us.saturating_mul(SHARE) / 1_000)
    }
}

#[cfg(test)]
mod tests;
