//! The life of a change: refused or begun, watched, written, and then kept or taken back.
//!
//! Invariants: only one transaction is open at a time (besides one of another boot that waits for
//! its confirmation, because its items outlive a boot); nothing is written before the watchdog
//! runs; a transaction that was not applied whole is taken back whole, even if its journal cannot
//! be written, and cannot be confirmed; only `confirm` keeps a change; an open transaction of
//! another boot is closed without a write.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::apply::{AppliedItem, Change, apply};
use crate::boot;
use crate::guard::Guard;
use crate::journal::store::Store;
use crate::journal::{Event, Log, Record};
use crate::plan::Refusal;
use crate::root::Tree;
use crate::transaction::{ItemState, Transaction, TransactionStanding};
use crate::undo::{self, UndoneItem};

/// The result of applying.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The transaction.
    pub transaction: String,
    /// The items up to the first failure.
    pub applied: Vec<AppliedItem>,
    /// The items taken back after a failure.
    pub undone: Vec<UndoneItem>,
    /// Whether every change is in effect.
    pub whole: bool,
}

/// The changes to apply, with their origin.
#[derive(Default, Debug)]
pub struct Order<'a> {
    /// Digest of the plan's text.
    pub plan: String,
    /// Fingerprint of the host.
    pub host: String,
    /// The changes, in the order of writing.
    pub changes: &'a [Change],
    /// Milliseconds after which they are taken back; none keeps them for this boot, without a
    /// watchdog.
    pub confirm_within_ms: Option<u64>,
    /// Items that are taken over from other owners.
    pub taken: Vec<String>,
    /// The bounds at which they are taken back before.
    pub guard: Option<Guard>,
}

/// Applies changes, or returns why not.
///
/// `watch` starts the watchdog of a transaction and returns when it runs.
pub fn begin(
    tree: &dyn Tree,
    state: &Path,
    order: Order,
    watch: impl FnOnce(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Result<Report, Refusal>> {
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    if let Some(why) = in_the_way(&store, &boot, order.changes)? {
        return Ok(Err(Refusal::whole(why)));
    }
    store.forget()?;
    let mut file = store.begin()?;
    let id = file.id.clone();
    let mut log = RememberedLog {
        log: &mut file,
        boot: &boot,
        records: Vec::new(),
    };
    let deadline = order
        .confirm_within_ms
        .map(|within| boot::now_ms().saturating_add(within));
    log.append(Event::Begin {
        plan: order.plan,
        host: order.host,
        deadline_ms: deadline,
        network: undo::network::name(tree),
        taken: order.taken,
        within_ms: order.confirm_within_ms,
        guard: order.guard,
    })?;
    if deadline.is_some()
        && let Err(error) = watch(&id)
    {
        let why = "not begun: no watchdog".to_owned();
        log.append(Event::Closed { why })?;
        return Err(error);
    }
    let applied = apply(tree, &mut log, order.changes);
    let whole = applied
        .as_ref()
        .is_ok_and(|applied| applied.iter().all(|one| one.outcome.is_well()));
    let kept = if whole {
        log.append(Event::Applied)
    } else {
        Ok(())
    };
    let mut undone = Vec::new();
    if !whole || kept.is_err() {
        // Not from the file: a disk that fails to write may fail to read, too.
        let transaction = Transaction::of(id.clone(), &log.records);
        undone = undo::undo(tree, &mut log, &transaction, None)
            .with_context(|| format!("taking {id} back, which could not be applied whole"))?;
    }
    // If the journal could not be written, everything was taken back before this error is returned.
    kept.with_context(|| format!("the journal of {id}, which is taken back"))?;
    Ok(Ok(Report {
        transaction: id.clone(),
        applied: applied.with_context(|| format!("the journal of {id}, which is taken back"))?,
        undone,
        whole,
    }))
}

/// A log that keeps what it has written.
struct RememberedLog<'a> {
    log: &'a mut dyn Log,
    boot: &'a str,
    records: Vec<Record>,
}

impl Log for RememberedLog<'_> {
    fn append(&mut self, event: Event) -> std::io::Result<()> {
        // What could not be written is not remembered: a knob is written after its intent alone.
        self.log.append(event.clone())?;
        self.records.push(Record {
            number: self.records.len() as u64,
            at_ms: 0,
            boot: self.boot.to_owned(),
            event,
        });
        Ok(())
    }
}

/// Returns why no transaction can begin; closes open transactions of earlier boots.
fn in_the_way(store: &Store, boot: &str, changes: &[Change]) -> anyhow::Result<Option<String>> {
    for transaction in store.transactions()? {
        match transaction.standing(boot) {
            TransactionStanding::Damaged => {
                let why = format!(
                    "{}; what of it is in effect is not known: look at it, and move it away",
                    transaction.damaged.unwrap_or_default()
                );
                return Ok(Some(why));
            }
            // What waits since another boot does not keep the others from being applied again.
            TransactionStanding::Open
                if transaction.boot != boot && !has_one_of(&transaction, changes) => {}
            TransactionStanding::Open => {
                let why = format!(
                    "transaction {} is open: confirm it or undo it first",
                    transaction.id
                );
                return Ok(Some(why));
            }
            TransactionStanding::Expired => close(store, &transaction, "expired")?,
            TransactionStanding::Confirmed | TransactionStanding::Closed => {}
        }
    }
    Ok(None)
}

fn has_one_of(transaction: &Transaction, changes: &[Change]) -> bool {
    let mut entries = transaction.entries.iter();
    entries.any(|entry| changes.iter().any(|change| change.item == entry.item))
}

/// Takes up open transactions that have outlived a reboot: their watchdogs wait once more, as long
/// as at first.
pub fn resume(
    tree: &dyn Tree,
    state: &Path,
    watch: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    let mut resumed = Vec::new();
    for transaction in store.transactions()? {
        let is_open = transaction.standing(&boot) == TransactionStanding::Open;
        let Some(within) = transaction.within_ms.filter(|_| is_open) else {
            continue;
        };
        if transaction.deadline(&boot).is_none() {
            let deadline_ms = boot::now_ms().saturating_add(within);
            store
                .append_to(&transaction.id)?
                .append(Event::Resumed { deadline_ms })?;
            resumed.push(transaction.id);
        }
    }
    drop(store);
    for id in &resumed {
        watch(id)?;
    }
    Ok(resumed)
}

/// Keeps an open transaction, permanently or until the next boot.
pub fn confirm(
    tree: &dyn Tree,
    state: &Path,
    id: &str,
    until_reboot: bool,
) -> anyhow::Result<Result<(), Refusal>> {
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    let transaction = of(&store, id)?;
    let refused = |why: String| Ok(Err(Refusal::whole(why)));
    match transaction.standing(&boot) {
        TransactionStanding::Damaged => return refused(transaction.damaged.unwrap_or_default()),
        TransactionStanding::Open if !transaction.whole => {
            return refused(format!(
                "{id} was not applied whole, and is to be taken back: forebay tune undo"
            ));
        }
        TransactionStanding::Open => {}
        TransactionStanding::Confirmed => return Ok(Ok(())),
        TransactionStanding::Expired => {
            return refused(format!(
                "{id} is of another boot: nothing of it is in effect"
            ));
        }
        TransactionStanding::Closed => {
            return refused(format!(
                "{id} has ended ({})",
                transaction.closed.unwrap_or_default()
            ));
        }
    }
    if transaction
        .deadline(&boot)
        .is_some_and(|deadline| boot::now_ms() >= deadline)
    {
        return refused(format!("{id} is past its deadline, and is taken back"));
    }
    store
        .append_to(id)?
        .append(Event::Confirmed { until_reboot })?;
    Ok(Ok(()))
}

/// Selects what is taken back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UndoSelection<'a> {
    /// All transactions from the newest down to this one.
    pub to: Option<&'a str>,
    /// Only this transaction.
    pub only: Option<&'a str>,
    /// One item, of the newest transaction that has it.
    pub item: Option<&'a str>,
}

/// Takes back the newest transaction, or the selected ones.
///
/// Transactions begun in another boot and never confirmed are closed without a write.
pub fn undo(
    tree: &dyn Tree,
    state: &Path,
    which: UndoSelection,
) -> anyhow::Result<Vec<(String, Vec<UndoneItem>)>> {
    let UndoSelection { to, only, item } = which;
    let boot = boot::id(tree);
    let store = Store::lock(state, &boot)?;
    let transactions = store.transactions()?;
    check(&transactions, &boot, which)?;
    let mut done = Vec::new();
    // A full disk keeps records from being written, and nothing from being taken back.
    let mut unwritten = None;
    for transaction in transactions.iter().rev() {
        if only.is_some_and(|only| only != transaction.id) {
            continue;
        }
        match transaction.standing(&boot) {
            TransactionStanding::Closed => {}
            TransactionStanding::Expired => {
                if let Err(error) = close(&store, transaction, "expired") {
                    unwritten.get_or_insert(error);
                }
            }
            // The report contains the damaged transaction, although the others are taken back.
            TransactionStanding::Damaged => {
                done.push((
                    transaction.id.clone(),
                    vec![UndoneItem::damaged(transaction)],
                ));
            }
            TransactionStanding::Open | TransactionStanding::Confirmed => {
                // A selected item is taken back from the newest transaction that has it.
                if item.is_some_and(|item| !has(transaction, item, &boot)) {
                    continue;
                }
                let mut log = store.to_take_back(&transaction.id);
                match undo::undo(tree, &mut *log, transaction, item) {
                    Ok(undone) => done.push((transaction.id.clone(), undone)),
                    Err(error) => {
                        let error = anyhow::Error::new(error).context(transaction.id.clone());
                        unwritten.get_or_insert(error);
                    }
                }
                if to.is_none() {
                    break;
                }
            }
        }
        if to.is_some_and(|to| to == transaction.id) {
            break;
        }
    }
    match unwritten {
        None => Ok(done),
        Some(error) => Err(error),
    }
}

/// Checks that what is selected is there.
fn check(transactions: &[Transaction], boot: &str, which: UndoSelection) -> anyhow::Result<()> {
    for named in [which.to, which.only].into_iter().flatten() {
        anyhow::ensure!(
            transactions.iter().any(|one| one.id == named),
            "there is no transaction {named}"
        );
    }
    if let Some(item) = which.item {
        anyhow::ensure!(
            transactions.iter().any(|one| has(one, item, boot)),
            "no transaction that is in effect has {item}"
        );
    }
    Ok(())
}

/// Returns whether a transaction in effect has an item that is not settled.
fn has(one: &Transaction, item: &str, boot: &str) -> bool {
    let live = matches!(
        one.standing(boot),
        TransactionStanding::Open | TransactionStanding::Confirmed
    );
    let mut entries = one.entries.iter();
    live && entries.any(|entry| entry.item == item && entry.state != ItemState::Undone)
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
