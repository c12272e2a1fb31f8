//! Takes a transaction back, last write first.
//!
//! Three-way: a value as this program left it is replaced by the old one; an old value is left; a
//! value changed by others meanwhile is left and reported. If a process died between a write and
//! its record, this program writes its value again: if the result equals the found value, that
//! value was its own. Invariants: no value of others is replaced; each item is settled by a record,
//! so that undo can be killed anywhere and repeated; a journal that cannot be written (a full disk)
//! does not prevent undo; knobs of a network namespace are not looked up in another one.

pub(crate) mod network;
mod queues;

use std::collections::VecDeque;

use rustix::io::Errno;
use serde::Serialize;

use crate::boot;
use crate::journal::{Event, Log};
use crate::knob::{self, Knob};
use crate::root::Tree;
use crate::transaction::{Entry, ItemState, Transaction};

/// The outcome of taking an item back.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum UndoOutcome {
    /// It has its old value again.
    Restored,
    /// It already had its old value.
    Untouched,
    /// Others changed it; it is left as it is.
    Drifted {
        /// Its value.
        found: String,
    },
    /// The knob no longer exists.
    Gone {
        /// The error on reading it.
        error: String,
    },
    /// The old value could not be restored.
    Refused {
        /// The error.
        error: String,
    },
}

/// An item and its outcome.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct UndoneItem {
    /// The knob.
    pub item: String,
    /// Its value before the transaction.
    pub old: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: UndoOutcome,
}

impl UndoneItem {
    /// Returns the result for a damaged transaction, which cannot be taken back.
    pub(crate) fn damaged(transaction: &Transaction) -> UndoneItem {
        UndoneItem {
            item: transaction.id.clone(),
            old: String::new(),
            outcome: UndoOutcome::Refused {
                error: transaction.damaged.clone().unwrap_or_default(),
            },
        }
    }
}

/// Takes back the unsettled items of a transaction, or one of them.
///
/// Closes the transaction when no item is left.
pub fn undo(
    tree: &dyn Tree,
    log: &mut dyn Log,
    transaction: &Transaction,
    only: Option<&str>,
) -> std::io::Result<Vec<UndoneItem>> {
    let mut undone = Vec::new();
    let mut left = 0_usize;
    let mut unwritten = None;
    let elsewhere = network::elsewhere(tree, transaction);
    let boot = boot::id(tree);
    let mut entries: VecDeque<(&Entry, bool)> = transaction
        .entries
        .iter()
        .rev()
        .map(|entry| (entry, false))
        .collect();
    while let Some((entry, is_second)) = entries.pop_front() {
        if entry.state == ItemState::Undone {
            continue;
        }
        if only.is_some_and(|only| only != entry.item) {
            left += 1;
            continue;
        }
        let (found, wrote, mut outcome) = match &elsewhere {
            Some(there) if network::has(&entry.item) => (None, None, there.outcome()),
            // A reboot has taken it back, and gave it the value of a start.
            _ if !transaction.is_in_effect(entry, &boot) => (None, None, UndoOutcome::Untouched),
            _ => settle(tree, entry),
        };
        // The spread over more queues than there are, until there are as many as before.
        if matches!(outcome, UndoOutcome::Refused { .. }) && !is_second && queues::may_wait(entry) {
            entries.push_back((entry, true));
            continue;
        }
        if outcome == UndoOutcome::Restored
            && only.is_none()
            && let Err(error) = queues::restore_again(tree, transaction, entry, &undone)
        {
            outcome = UndoOutcome::Refused { error };
        }
        if matches!(outcome, UndoOutcome::Refused { .. }) {
            left += 1;
        } else if unwritten.is_none() {
            // Without this record, the next undo finds the item with its old value.
            let item = entry.item.clone();
            unwritten = log.append(Event::Undone { item, found, wrote }).err();
        }
        undone.push(UndoneItem {
            item: entry.item.clone(),
            old: entry.old.clone(),
            outcome,
        });
    }
    if left == 0 && unwritten.is_none() {
        let why = "undone".to_owned();
        unwritten = log.append(Event::Closed { why }).err();
    }
    match unwritten {
        None => Ok(undone),
        Some(error) => {
            let why = format!("what was taken back could not be written to the journal: {error}");
            Err(std::io::Error::new(error.kind(), why))
        }
    }
}

type SettledItem = (Option<String>, Option<String>, UndoOutcome);

fn settle(tree: &dyn Tree, entry: &Entry) -> SettledItem {
    let gone = |error: String| (None, None, UndoOutcome::Gone { error });
    let Some(knob) = knob::find(tree, &entry.item) else {
        return gone("there is no such knob".to_owned());
    };
    let found = match knob.read(tree) {
        Ok(found) => found,
        // A controller that is named no more has the setting still.
        Err(error) if is_gone(&error) && !knob::is_of_firmware(&entry.item) => {
            return gone(error.to_string());
        }
        // The knob exists, so the next undo may be able to read it.
        Err(error) => {
            return (
                None,
                None,
                UndoOutcome::Refused {
                    error: error.to_string(),
                },
            );
        }
    };
    if is_old(&knob, &found, entry) {
        return (Some(found), None, UndoOutcome::Untouched);
    }
    let is_ours = match &entry.state {
        ItemState::Done(got) => Ok(knob.form.is(&found, got) || found == *got),
        ItemState::Intended | ItemState::Failed(_)
            if knob.form.is(&found, &entry.want)
                || knob.form.is_half(&found, &entry.old, &entry.want) =>
        {
            Ok(true)
        }
        ItemState::Intended | ItemState::Failed(_) => becomes(tree, &knob, &found, &entry.want),
        ItemState::Undone => Ok(false),
    };
    let is_ours = match is_ours {
        Ok(is_ours) => is_ours,
        // The origin of the value is unknown while nothing can be written; the next undo may find
        // out.
        Err(error) => return (Some(found), None, UndoOutcome::Refused { error }),
    };
    if !is_ours {
        let outcome = UndoOutcome::Drifted {
            found: found.clone(),
        };
        return (Some(found), None, outcome);
    }
    match restore(tree, &knob, entry) {
        Ok(()) => (Some(found), Some(entry.old.clone()), UndoOutcome::Restored),
        Err(error) => (Some(found), None, UndoOutcome::Refused { error }),
    }
}

/// Returns whether what a knob belongs to is gone: a file, a card that was taken out, a thread that
/// has ended.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
        || matches!(
            Errno::from_io_error(error),
            Some(Errno::NODEV | Errno::NXIO | Errno::SRCH)
        )
}

/// Returns whether the wanted fields have their old values.
fn is_old(knob: &Knob, found: &str, entry: &Entry) -> bool {
    let old = knob.form.back(&entry.old, &entry.want);
    knob.form.is(found, &old)
}

/// Returns whether writing the wanted value gives the found one, which is then this program's.
///
/// Otherwise the found value is restored.
fn becomes(tree: &dyn Tree, knob: &Knob, found: &str, want: &str) -> Result<bool, String> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    match knob.write(tree, want) {
        Ok(()) => {}
        Err(error)
            if [PermissionDenied, ReadOnlyFilesystem, ResourceBusy].contains(&error.kind()) =>
        {
            return Err(error.to_string());
        }
        Err(_) => return Ok(false),
    }
    let is = knob.read(tree).is_ok_and(|now| now == found);
    if !is {
        // The kernel accepted this value a moment ago; if it no longer does, the next look reports
        // drift.
        let put_back = knob.write(tree, found);
        drop(put_back);
    }
    Ok(is)
}

fn restore(tree: &dyn Tree, knob: &Knob, entry: &Entry) -> Result<(), String> {
    let (knob, old) = match &entry.pair {
        // Of two knobs that exclude each other, restores the one that was in use.
        Some((other, value)) if entry.old == "0" => {
            let other = knob::find(tree, other).ok_or("the other one of the pair is gone")?;
            (other, value.clone())
        }
        _ => (knob.clone(), knob.form.back(&entry.old, &entry.want)),
    };
    knob.write(tree, &old).map_err(|error| error.to_string())?;
    let now = knob.read(tree).map_err(|error| error.to_string())?;
    if knob.form.is(&now, &old) {
        return Ok(());
    }
    Err(format!("{old} was written, and it is {now}"))
}

#[cfg(test)]
mod tests;
