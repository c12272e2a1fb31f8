//! Writes changes one after the other, each as intent, write, read back, outcome; stops at the
//! first failure.
//!
//! Invariants: nothing is written before its intent is on disk; every value is read back, so that a
//! value changed by the kernel is never silent; a knob that already has the value is neither
//! written nor journalled. [`crate::plan`] decides whether a plan may be applied; [`crate::undo`]
//! takes changes back.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::journal::{Event, Log};
use crate::knob::{self, Undo};
use crate::root::Tree;

/// One change to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The knob.
    pub item: String,
    /// Its canonical value.
    pub want: String,
}

/// The outcome of a change.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum ApplyOutcome {
    /// The knob already had the value.
    Already,
    /// The knob has the value.
    Same,
    /// The kernel changed it to another value.
    Coerced {
        /// The resulting value.
        got: String,
    },
    /// The kernel accepted the write, and nothing changed.
    Ignored {
        /// The unchanged value.
        got: String,
    },
    /// The kernel refused the write.
    Denied {
        /// The error.
        error: String,
    },
}

impl ApplyOutcome {
    /// Returns whether the transaction can continue.
    pub fn is_well(&self) -> bool {
        !matches!(
            self,
            ApplyOutcome::Ignored { .. } | ApplyOutcome::Denied { .. }
        )
    }
}

/// An item and its outcome.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct AppliedItem {
    /// The knob.
    pub item: String,
    /// The old value.
    pub old: String,
    /// The wanted value.
    pub want: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: ApplyOutcome,
}

/// Sorts changes into the order in which they must be written.
pub fn order(changes: &mut [Change]) {
    changes.sort_by_key(|change| knob::turn(&change.item));
}

/// Writes changes in this order, up to the first failure.
pub fn apply(
    tree: &dyn Tree,
    log: &mut dyn Log,
    changes: &[Change],
) -> std::io::Result<Vec<AppliedItem>> {
    let before = before(tree, changes);
    let mut applied = Vec::new();
    for change in changes {
        // Looked up for each change: an earlier write may have renumbered queues and interrupts.
        let one = write(tree, log, change, before.get(&change.item))?;
        let is_well = one.outcome.is_well();
        applied.push(one);
        if !is_well {
            break;
        }
    }
    Ok(applied)
}

/// Returns the values of the cards' settings before anything is written.
///
/// A change of channels or rings replaces queues, so that a value read after it is the kernel's
/// default.
fn before(tree: &dyn Tree, changes: &[Change]) -> BTreeMap<String, String> {
    let of_cards = changes
        .iter()
        .filter(|change| change.item.starts_with("net."));
    let value = |change: &Change| {
        let knob = knob::find(tree, &change.item)?;
        Some((change.item.clone(), knob.read(tree).ok()?))
    };
    of_cards.filter_map(value).collect()
}

/// Writes a change; `before` is its value before the first change, if it had one.
fn write(
    tree: &dyn Tree,
    log: &mut dyn Log,
    change: &Change,
    before: Option<&String>,
) -> std::io::Result<AppliedItem> {
    let Change { item, want } = change;
    let told = |old: &str, outcome| AppliedItem {
        item: item.clone(),
        old: old.to_owned(),
        want: want.clone(),
        outcome,
    };
    let denied = |error: String| ApplyOutcome::Denied { error };
    let Some(knob) = knob::find(tree, item) else {
        return Ok(told(
            "",
            denied("there is no such knob on this host".to_owned()),
        ));
    };
    let now = match knob.read(tree) {
        Ok(now) => now,
        Err(error) => return Ok(told("", denied(error.to_string()))),
    };
    let old = before.unwrap_or(&now).clone();
    if knob.form.is(&old, want) && knob.form.is(&now, want) {
        return Ok(told(&old, ApplyOutcome::Already));
    }
    log.append(Event::Intent {
        item: item.clone(),
        old: old.clone(),
        pair: pair_of(tree, &knob.undo),
        want: want.clone(),
    })?;
    let outcome = match knob.write(tree, want).and_then(|()| knob.read(tree)) {
        Err(error) => denied(error.to_string()),
        Ok(got) if knob.form.is(&got, want) => ApplyOutcome::Same,
        Ok(got) if got == now => ApplyOutcome::Ignored { got },
        Ok(got) => ApplyOutcome::Coerced { got },
    };
    let item = item.clone();
    log.append(match &outcome {
        ApplyOutcome::Denied { error } => Event::Failed {
            item,
            error: error.clone(),
        },
        ApplyOutcome::Ignored { got } => Event::Failed {
            item,
            error: format!("ignored: it is {got} still"),
        },
        ApplyOutcome::Coerced { got } => Event::Done {
            item,
            got: got.clone(),
        },
        ApplyOutcome::Same | ApplyOutcome::Already => Event::Done {
            item,
            // For a knob with fields, records all of them as they are now.
            got: knob.read(tree).unwrap_or_else(|_| want.clone()),
        },
    })?;
    Ok(told(&old, outcome))
}

/// Returns the other knob of a pair, with its value.
fn pair_of(tree: &dyn Tree, undo: &Undo) -> Option<(String, String)> {
    let Undo::Pair(other) = undo else { return None };
    let value = knob::find(tree, other)?.read(tree).ok()?;
    Some((other.clone(), value))
}
