//! From what was measured on a host to what would help it: items of a plan, and advice that no item can carry out.
//!
//! Pure. Invariants: a rule fires on evidence only, and names it, so that `apply` can look whether it still holds; a value
//! is at most doubled or multiplied by four, never set to its maximum; what people disagree about is an experiment, never
//! a recommendation.

mod contested;
mod net;
mod socket;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::counter::Counters;
use crate::facts::Facts;
use crate::knob::{self, Knob};
use crate::plan::{Confidence, Item, Plan};
use crate::root::Tree;

/// What the host is for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum Profile {
    /// Answers that come soon.
    Latency,
    /// Much at once.
    #[default]
    Throughput,
}

/// What rules look at.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the host is.
    pub facts: Facts,
    /// What was measured.
    pub evidence: BTreeMap<String, f64>,
    /// Every knob with its canonical value.
    pub knobs: BTreeMap<String, (Knob, String)>,
    /// What the host is for.
    pub profile: Profile,
}

/// Something that no item can carry out.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Advice {
    /// What it is about.
    pub about: String,
    /// What to do, and why.
    pub text: String,
}

/// What rules find.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Found {
    /// What may be set.
    pub items: Vec<Item>,
    /// What a person may do.
    pub advice: Vec<Advice>,
}

impl Seen {
    /// Looks at a host.
    pub fn read(tree: &dyn Tree, profile: Profile) -> Seen {
        let facts = Facts::read(tree);
        let evidence = crate::evidence::of(&facts, &Counters::read(tree));
        let with_value = |knob: Knob| {
            let value = knob.read(tree).ok()?;
            Some((knob.id.clone(), (knob, value)))
        };
        Seen {
            knobs: knob::all(tree).into_iter().filter_map(with_value).collect(),
            facts,
            evidence,
            profile,
        }
    }

    fn of(&self, name: &str) -> f64 {
        self.evidence.get(name).copied().unwrap_or(0.0)
    }

    /// The number a knob has.
    fn number(&self, id: &str) -> Option<i64> {
        self.knobs.get(id)?.1.parse().ok()
    }

    /// An item; none where the knob is not there, has the value, or the value is out of bounds.
    fn item(&self, id: &str, want: impl Into<toml::Value>, said: Said) -> Option<Item> {
        let (knob, now) = self.knobs.get(id)?;
        let mut item = Item {
            id: id.to_owned(),
            want: want.into(),
            now: now.clone(),
            rounded: None,
            class: knob.class,
            why: said.why,
            evidence: said.evidence,
            confidence: said.confidence,
        };
        let wanted = knob.form.wanted(&item.wanted().ok()?).ok()?;
        if knob.form.is(now, &wanted) {
            return None;
        }
        item.rounded = Some(knob.form.rounded(&wanted)).filter(|rounded| *rounded != wanted);
        // What is shown is what would be changed.
        item.now = knob.form.back(now, &wanted);
        Some(item)
    }
}

/// What a rule says of its item.
struct Said {
    why: String,
    evidence: String,
    confidence: Confidence,
}

impl Said {
    fn new(confidence: Confidence, evidence: impl Into<String>, why: impl Into<String>) -> Said {
        Said {
            why: why.into(),
            evidence: evidence.into(),
            confidence,
        }
    }
}

/// Asks all rules.
pub fn propose(seen: &Seen) -> Found {
    let mut found = Found::default();
    net::propose(seen, &mut found);
    socket::propose(seen, &mut found);
    contested::propose(seen, &mut found);
    found
}

/// The plan of what was found.
pub fn plan(seen: &Seen, found: &Found) -> Plan {
    Plan::new(seen.facts.fingerprint(), found.items.clone())
}

#[cfg(test)]
mod tests;
