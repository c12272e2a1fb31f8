//! The story of a change: refused or begun, watched, written, and then kept or taken back.
//!
//! Invariants: one transaction is open at a time; nothing is written before the watchdog runs; what did not work whole is
//! taken back whole; nothing but `confirm` keeps anything; an open transaction of another boot is closed without a write.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::apply::{Applied, Change, apply};
use crate::boot;
use crate::journal::store::Store;
use crate::journal::{Event, Log as _};
use crate::plan::Refusal;
use crate::root::Tree;
use crate::transaction::{Standing, State, Transaction};
use crate::undo::{self, Undone};

/// What came of applying.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The transaction.
    pub transaction: String,
    /// Each item up to the first that did not work.
    pub applied: Vec<Applied>,
    /// What was taken back since one did not work.
    pub undone: Vec<Undone>,
    /// Whether all of it is in effect.
    pub whole: bool,
}

/// What is applied, and for whom.
#[derive(Debug)]
pub struct Order<'a> {
    /// Digest of the plan's text.
    pub plan: String,
    /// Fingerprint of the host.
    pub host: String,
    /// What is written, in order.
    pub changes: &'a [Change],
    /// Taken back after so long; none: it is for this boot, without a watchdog.
    pub confirm_within_ms: Option<u64>,
}

/// Applies, or says why not. `watch` starts the watchdog of a transaction and returns when it runs.
pub fn begin(
    tree: &dyn Tree,
    state: &Path,
    order: Order,
    watch: impl FnOnce(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Result<Report, Refusal>> {
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    for transaction in store.transactions()? {
        match transaction.standing(&boot) {
            Standing::Open => {
                let why = format!(
                    "transaction {} is open: confirm it or undo it first",
                    transaction.id
                );
                return Ok(Err(Refusal::whole(why)));
            }
            Standing::Expired => close(&store, &transaction, "expired")?,
            Standing::Confirmed | Standing::Closed => {}
        }
    }
    let mut log = store.begin()?;
    let id = log.id.clone();
    let deadline = order
        .confirm_within_ms
        .map(|within| boot::now_ms().saturating_add(within));
    log.append(Event::Begin {
        plan: order.plan,
        host: order.host,
        deadline_ms: deadline,
    })?;
    if deadline.is_some()
        && let Err(error) = watch(&id)
    {
        let why = "not begun: no watchdog".to_owned();
        log.append(Event::Closed { why })?;
        return Err(error);
    }
    let applied = apply(tree, &mut log, order.changes)?;
    let whole = applied.iter().all(|one| one.outcome.is_well());
    let mut undone = Vec::new();
    if !whole {
        let transaction = of(&store, &id)?;
        undone = undo::undo(tree, &mut log, &transaction, None)?;
    }
    Ok(Ok(Report {
        transaction: id,
        applied,
        undone,
        whole,
    }))
}

/// Keeps an open transaction.
pub fn confirm(tree: &dyn Tree, state: &Path, id: &str) -> anyhow::Result<Result<(), Refusal>> {
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    let transaction = of(&store, id)?;
    let refused = |why: String| Ok(Err(Refusal::whole(why)));
    match transaction.standing(&boot) {
        Standing::Open => {}
        Standing::Confirmed => return Ok(Ok(())),
        Standing::Expired => {
            return refused(format!(
                "{id} is of another boot: nothing of it is in effect"
            ));
        }
        Standing::Closed => {
            return refused(format!(
                "{id} has ended ({})",
                transaction.closed.unwrap_or_default()
            ));
        }
    }
    if transaction
        .deadline_ms
        .is_some_and(|deadline| boot::now_ms() >= deadline)
    {
        return refused(format!("{id} is past its deadline, and is taken back"));
    }
    store.append_to(id)?.append(Event::Confirmed)?;
    Ok(Ok(()))
}

/// Takes back the newest transaction, or all down to one, or one item of the newest. What was begun in another boot and
/// never kept is closed without a write.
pub fn undo(
    tree: &dyn Tree,
    state: &Path,
    to: Option<&str>,
    item: Option<&str>,
) -> anyhow::Result<Vec<(String, Vec<Undone>)>> {
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    let transactions = store.transactions()?;
    if let Some(to) = to {
        anyhow::ensure!(
            transactions.iter().any(|one| one.id == to),
            "there is no transaction {to}"
        );
    }
    let mut done = Vec::new();
    for transaction in transactions.iter().rev() {
        match transaction.standing(&boot) {
            Standing::Closed => {}
            Standing::Expired => close(&store, transaction, "expired")?,
            Standing::Open | Standing::Confirmed => {
                let mut log = store.append_to(&transaction.id)?;
                let undone = undo::undo(tree, &mut log, transaction, item)?;
                done.push((transaction.id.clone(), undone));
            }
        }
        let reached = to.map_or(!done.is_empty(), |to| to == transaction.id);
        if reached {
            break;
        }
    }
    Ok(done)
}

/// What an item of a transaction has now, beside what it was left with.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The transaction.
    pub transaction: String,
    /// The knob.
    pub item: String,
    /// What it was left with.
    pub left: String,
    /// What it has; nothing where it cannot be read.
    pub found: Option<String>,
    /// Whether that is the same.
    pub same: bool,
}

/// Compares what is in effect, by the journals, with the host.
pub fn verify(tree: &dyn Tree, transactions: &[Transaction]) -> Vec<Verified> {
    let boot = boot::id(tree);
    let mut verified: Vec<Verified> = Vec::new();
    for transaction in transactions.iter().rev() {
        let standing = transaction.standing(&boot);
        if !matches!(standing, Standing::Open | Standing::Confirmed) {
            continue;
        }
        for entry in &transaction.entries {
            let State::Done(left) = &entry.state else {
                continue;
            };
            // A later transaction's word counts.
            if verified.iter().any(|one| one.item == entry.item) {
                continue;
            }
            let knob = crate::knob::find(tree, &entry.item);
            let found = knob.as_ref().and_then(|knob| knob.read(tree).ok());
            let is = |found: &String| knob.as_ref().is_some_and(|knob| knob.form.is(found, left));
            verified.push(Verified {
                transaction: transaction.id.clone(),
                item: entry.item.clone(),
                left: left.clone(),
                same: found.as_ref().is_some_and(is),
                found,
            });
        }
    }
    verified
}

fn close(store: &Store, transaction: &Transaction, why: &str) -> anyhow::Result<()> {
    let why = why.to_owned();
    Ok(store
        .append_to(&transaction.id)?
        .append(Event::Closed { why })?)
}

fn of(store: &Store, id: &str) -> anyhow::Result<Transaction> {
    let found = store.transactions()?.into_iter().find(|one| one.id == id);
    found.with_context(|| format!("there is no transaction {id}"))
}

#[cfg(test)]
mod tests;
