//! Writes changes one after the other: intent, write, read back, outcome. And ends at the first that does not work.
//!
//! Invariants: nothing is written whose intent is not on disk; every value is read back, so that nothing the kernel made
//! of it is silent; what has the value already is neither written nor journalled. Whether a plan may be applied is decided
//! before ([`crate::plan`]); taking back is [`crate::undo`]'s.

use serde::Serialize;

use crate::journal::{Event, Log};
use crate::knob::{self, Undo};
use crate::root::Tree;

/// One thing to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The knob.
    pub item: String,
    /// Its canonical value.
    pub want: String,
}

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum Outcome {
    /// It had the value before.
    Already,
    /// It has the value.
    Same,
    /// The kernel made another of it.
    Coerced {
        /// What it has.
        got: String,
    },
    /// The write was taken, and nothing changed.
    Ignored {
        /// What it has.
        got: String,
    },
    /// The write was refused.
    Denied {
        /// Why.
        error: String,
    },
}

impl Outcome {
    /// Whether the transaction can go on.
    pub fn is_well(&self) -> bool {
        !matches!(self, Outcome::Ignored { .. } | Outcome::Denied { .. })
    }
}

/// An item and what came of it.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Applied {
    /// The knob.
    pub item: String,
    /// What it had.
    pub old: String,
    /// What was to be written.
    pub want: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Puts changes into the order in which they are to be written.
pub fn order(changes: &mut [Change]) {
    changes.sort_by_key(|change| knob::turn(&change.item));
}

/// Writes them in this order, up to the first that does not work.
pub fn apply(
    tree: &dyn Tree,
    log: &mut dyn Log,
    changes: &[Change],
) -> std::io::Result<Vec<Applied>> {
    let mut applied = Vec::new();
    for change in changes {
        // Found anew for each: what was written before may have given queues and interrupts other numbers.
        let one = write(tree, log, change)?;
        let is_well = one.outcome.is_well();
        applied.push(one);
        if !is_well {
            break;
        }
    }
    Ok(applied)
}

fn write(tree: &dyn Tree, log: &mut dyn Log, change: &Change) -> std::io::Result<Applied> {
    let Change { item, want } = change;
    let told = |old: &str, outcome| Applied {
        item: item.clone(),
        old: old.to_owned(),
        want: want.clone(),
        outcome,
    };
    let denied = |error: String| Outcome::Denied { error };
    let Some(knob) = knob::find(tree, item) else {
        return Ok(told(
            "",
            denied("there is no such knob on this host".to_owned()),
        ));
    };
    let old = match knob.read(tree) {
        Ok(old) => old,
        Err(error) => return Ok(told("", denied(error.to_string()))),
    };
    if knob.form.is(&old, want) {
        return Ok(told(&old, Outcome::Already));
    }
    log.append(Event::Intent {
        item: item.clone(),
        old: old.clone(),
        pair: pair_of(tree, &knob.undo),
        want: want.clone(),
    })?;
    let outcome = match knob.write(tree, want).and_then(|()| knob.read(tree)) {
        Err(error) => denied(error.to_string()),
        Ok(got) if knob.form.is(&got, want) => Outcome::Same,
        Ok(got) if got == old => Outcome::Ignored { got },
        Ok(got) => Outcome::Coerced { got },
    };
    let item = item.clone();
    log.append(match &outcome {
        Outcome::Denied { error } => Event::Failed {
            item,
            error: error.clone(),
        },
        Outcome::Ignored { got } => Event::Failed {
            item,
            error: format!("ignored: it is {got} still"),
        },
        Outcome::Coerced { got } => Event::Done {
            item,
            got: got.clone(),
        },
        Outcome::Same | Outcome::Already => Event::Done {
            item,
            // Of fields, all of them as they are now.
            got: knob.read(tree).unwrap_or_else(|_| want.clone()),
        },
    })?;
    Ok(told(&old, outcome))
}

/// The other one of a pair, with what it has.
fn pair_of(tree: &dyn Tree, undo: &Undo) -> Option<(String, String)> {
    let Undo::Pair(other) = undo else { return None };
    let value = knob::find(tree, other)?.read(tree).ok()?;
    Some((other.clone(), value))
}
