//! Takes a transaction back, the last write first.
//!
//! Three-way: what is as we left it gets its old value; what has its old value is left; what somebody else changed
//! meanwhile is left and named. Where a process died between a write and its record, the kernel is asked what it makes of
//! our value: if that is what is there now, it is ours. Invariants: nobody else's value is replaced; each item is settled
//! by a record, so that undoing can itself be killed anywhere and begun again; a journal that takes no more records (a full
//! disk) keeps nothing from being taken back; what belongs to a network namespace is not looked for in another.

pub(crate) mod network;

use serde::Serialize;

use crate::journal::{Event, Log};
use crate::knob::{self, Knob};
use crate::root::Tree;
use crate::transaction::{Entry, State, Transaction};

/// What came of taking an item back.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum Outcome {
    /// It has its old value again.
    Restored,
    /// It had its old value.
    Untouched,
    /// Somebody else changed it: left as it is.
    Drifted {
        /// What it has.
        found: String,
    },
    /// There is no such knob any more.
    Gone {
        /// Why it cannot be read.
        error: String,
    },
    /// The old value was refused.
    Refused {
        /// Why.
        error: String,
    },
}

/// An item and what came of it.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Undone {
    /// The knob.
    pub item: String,
    /// What it had before the transaction.
    pub old: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Undone {
    /// Nothing could be taken back, since nobody knows what there is.
    pub(crate) fn damaged(transaction: &Transaction) -> Undone {
        Undone {
            item: transaction.id.clone(),
            old: String::new(),
            outcome: Outcome::Refused {
                error: transaction.damaged.clone().unwrap_or_default(),
            },
        }
    }
}

/// Takes back the items of a transaction that are not settled, or one of them. The whole is closed when nothing is left
/// that was refused.
pub fn undo(
    tree: &dyn Tree,
    log: &mut dyn Log,
    transaction: &Transaction,
    only: Option<&str>,
) -> std::io::Result<Vec<Undone>> {
    let mut undone = Vec::new();
    let mut left = 0_usize;
    let mut unwritten = None;
    let elsewhere = network::elsewhere(tree, transaction);
    for entry in transaction.entries.iter().rev() {
        if entry.state == State::Undone {
            continue;
        }
        if only.is_some_and(|only| only != entry.item) {
            left += 1;
            continue;
        }
        let (found, wrote, outcome) = match &elsewhere {
            Some(there) if network::has(&entry.item) => (None, None, there.outcome()),
            _ => settle(tree, entry),
        };
        if matches!(outcome, Outcome::Refused { .. }) {
            left += 1;
        } else if unwritten.is_none() {
            // Without its record it is found with its old value by the next undo.
            let item = entry.item.clone();
            unwritten = log.append(Event::Undone { item, found, wrote }).err();
        }
        undone.push(Undone {
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

type Settled = (Option<String>, Option<String>, Outcome);

fn settle(tree: &dyn Tree, entry: &Entry) -> Settled {
    let gone = |error: String| (None, None, Outcome::Gone { error });
    let Some(knob) = knob::find(tree, &entry.item) else {
        return gone("there is no such knob".to_owned());
    };
    let found = match knob.read(tree) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return gone(error.to_string());
        }
        // It is there: the next undo may be able to.
        Err(error) => {
            return (
                None,
                None,
                Outcome::Refused {
                    error: error.to_string(),
                },
            );
        }
    };
    if is_old(&knob, &found, entry) {
        return (Some(found), None, Outcome::Untouched);
    }
    let is_ours = match &entry.state {
        State::Done(got) => Ok(knob.form.is(&found, got) || found == *got),
        State::Intended | State::Failed(_) if knob.form.is(&found, &entry.want) => Ok(true),
        State::Intended | State::Failed(_) => becomes(tree, &knob, &found, &entry.want),
        State::Undone => Ok(false),
    };
    let is_ours = match is_ours {
        Ok(is_ours) => is_ours,
        // Whose it is is not known as long as nothing can be written: the next undo may find out.
        Err(error) => return (Some(found), None, Outcome::Refused { error }),
    };
    if !is_ours {
        let outcome = Outcome::Drifted {
            found: found.clone(),
        };
        return (Some(found), None, outcome);
    }
    match restore(tree, &knob, entry) {
        Ok(()) => (Some(found), Some(entry.old.clone()), Outcome::Restored),
        Err(error) => (Some(found), None, Outcome::Refused { error }),
    }
}

/// Whether only what was wanted counts, and has its old value.
fn is_old(knob: &Knob, found: &str, entry: &Entry) -> bool {
    let old = knob.form.back(&entry.old, &entry.want);
    knob.form.is(found, &old)
}

/// Whether the kernel makes of our value what is there: then it was us. If not, what was there is put back.
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
        // It was taken a moment ago; where it is not any more, the next look says so: it is drift.
        let put_back = knob.write(tree, found);
        drop(put_back);
    }
    Ok(is)
}

fn restore(tree: &dyn Tree, knob: &Knob, entry: &Entry) -> Result<(), String> {
    let (knob, old) = match &entry.pair {
        // Of two that exclude each other, the one that was in use.
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
