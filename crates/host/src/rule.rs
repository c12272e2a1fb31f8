//! Derives from the measured values of a host what would help it: items of a plan, and advice that
//! no item can execute.
//!
//! Pure. Invariants: a rule fires only on evidence and names it, so that `apply` can check whether
//! it still holds; a value is at most doubled or multiplied by four, never set to its maximum;
//! contested settings are experiments, never recommendations.

mod contested;
mod net;
mod pressure;
mod socket;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::counter::Counters;
use crate::facts::Facts;
use crate::knob::{self, Knob};
use crate::plan::{Confidence, Item, Plan};
use crate::root::Tree;

/// The purpose of the host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum Profile {
    /// Low latency.
    Latency,
    /// High throughput.
    #[default]
    Throughput,
    /// Keyed records: low latency, with an index in memory that is read at random.
    Keyed,
}

/// The input of the rules.
#[derive(Clone, Debug)]
pub struct RuleInput {
    /// Facts on the host.
    pub facts: Facts,
    /// The measured values.
    pub evidence: BTreeMap<String, f64>,
    /// Every knob with its canonical value.
    pub knobs: BTreeMap<String, (Knob, String)>,
    /// The purpose of the host.
    pub profile: Profile,
}

/// Advice that no item can execute.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Advice {
    /// Its subject.
    pub about: String,
    /// What to do, and why.
    pub text: String,
}

/// The output of the rules.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RuleOutput {
    /// Settings that a plan can change.
    pub items: Vec<Item>,
    /// Advice for people.
    pub advice: Vec<Advice>,
}

impl RuleInput {
    /// Reads a host.
    pub fn read(tree: &dyn Tree, profile: Profile) -> RuleInput {
        let facts = Facts::read(tree);
        let evidence = crate::evidence::of(&facts, &Counters::read(tree));
        let with_value = |knob: Knob| {
            let value = knob.read(tree).ok()?;
            Some((knob.id.clone(), (knob, value)))
        };
        RuleInput {
            knobs: knob::all(tree).into_iter().filter_map(with_value).collect(),
            facts,
            evidence,
            profile,
        }
    }

    fn of(&self, name: &str) -> f64 {
        self.evidence.get(name).copied().unwrap_or(0.0)
    }

    /// Returns the value of a knob as a number.
    fn number(&self, id: &str) -> Option<i64> {
        self.knobs.get(id)?.1.parse().ok()
    }

    /// Returns an item; none if the knob is missing, has the value already, or the value is out of
    /// bounds.
    fn item(&self, id: &str, want: impl Into<toml::Value>, said: RuleReasons) -> Option<Item> {
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
        // Shows only the fields that would change.
        item.now = knob.form.back(now, &wanted);
        Some(item)
    }
}

/// A rule's reasons for its item.
struct RuleReasons {
    why: String,
    evidence: String,
    confidence: Confidence,
}

impl RuleReasons {
    fn new(
        confidence: Confidence,
        evidence: impl Into<String>,
        why: impl Into<String>,
    ) -> RuleReasons {
        RuleReasons {
            why: why.into(),
            evidence: evidence.into(),
            confidence,
        }
    }
}

/// Applies all rules.
pub fn propose(seen: &RuleInput) -> RuleOutput {
    let mut found = RuleOutput::default();
    net::propose(seen, &mut found);
    socket::propose(seen, &mut found);
    pressure::propose(seen, &mut found);
    contested::propose(seen, &mut found);
    found
}

/// Returns the plan of the proposed items.
pub fn plan(seen: &RuleInput, found: &RuleOutput) -> Plan {
    Plan::new(seen.facts.fingerprint(), found.items.clone())
}

#[cfg(test)]
mod tests;
