//! A plan: what is to be set on a host, and why. A file that people read and edit before it is applied.
//!
//! Invariants: a plan is for hosts of one fingerprint; an item is within our bounds, its evidence still holds and nobody
//! else owns its knob, or it is refused by name; nothing is left out silently. What is measured is in [`crate::evidence`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::apply::Change;
use crate::facts::Facts;
use crate::knob::{self, Class};
use crate::root::Tree;

/// The form of the file that this version reads.
const VERSION: u32 = 1;

/// The file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its form.
    pub version: u32,
    /// For which hosts.
    pub host: String,
    /// What is to be set.
    #[serde(default, rename = "item")]
    pub items: Vec<Item>,
}

/// One thing to be set.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The knob.
    pub id: String,
    /// What it is to have: a number, a word, or numbers with names.
    pub want: toml::Value,
    /// What it had when the plan was made, for who reads it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub now: String,
    /// What the kernel makes of it, where that is known to be another value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded: Option<String>,
    /// What the change costs.
    pub class: Class,
    /// Why.
    pub why: String,
    /// What has to hold still when it is applied: `NAME OPERATOR NUMBER`. Empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// How sure the rule is.
    pub confidence: Confidence,
}

/// How sure a rule is that it helps.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It removes what was counted.
    High,
    /// It helps most.
    Medium,
    /// Opinions differ: only an experiment tells.
    Experiment,
}

/// Why a plan, or an item of it, is not applied.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Refusal {
    /// The item; none where it is about the whole plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Why.
    pub why: String,
}

impl Refusal {
    /// Of the whole plan.
    pub fn whole(why: impl Into<String>) -> Refusal {
        let why = why.into();
        Refusal { item: None, why }
    }

    fn of(item: &str, why: impl Into<String>) -> Refusal {
        let item = Some(item.to_owned());
        let why = why.into();
        Refusal { item, why }
    }
}

/// What the operator allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Nothing that costs more.
    pub class_max: Class,
    /// Only these items; all where empty.
    pub only: Vec<String>,
    /// Items that may be taken from their owners.
    pub take_over: Vec<String>,
}

impl Plan {
    /// A plan for a host.
    pub fn new(host: String, items: Vec<Item>) -> Plan {
        let version = VERSION;
        Plan {
            version,
            host,
            items,
        }
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> anyhow::Result<Plan> {
        let plan: Plan = toml::from_str(text)?;
        anyhow::ensure!(
            plan.version == VERSION,
            "version {} is unknown to this forebay, which reads {VERSION}",
            plan.version
        );
        Ok(plan)
    }

    /// The text of the file.
    pub fn text(&self) -> anyhow::Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// What is to be written, in order; or everything that speaks against it.
    pub fn changes(
        &self,
        tree: &dyn Tree,
        facts: &Facts,
        evidence: &BTreeMap<String, f64>,
        allowed: &Allowed,
    ) -> Result<Vec<Change>, Vec<Refusal>> {
        let mut refusals = Vec::new();
        if self.host != facts.fingerprint() {
            let why = format!(
                "the plan is for {}, this host is {}",
                self.host,
                facts.fingerprint()
            );
            refusals.push(Refusal::whole(why));
        }
        for id in allowed.only.iter().chain(&allowed.take_over) {
            if !self.items.iter().any(|item| item.id == *id) {
                refusals.push(Refusal::of(id, "the plan has no such item"));
            }
        }
        let mut changes: Vec<Change> = Vec::new();
        for item in &self.items {
            if !allowed.only.is_empty() && !allowed.only.contains(&item.id) {
                continue;
            }
            match item.change(tree, facts, evidence, allowed, self.makes(item)) {
                Ok(change) if changes.iter().any(|other| other.item == change.item) => {
                    refusals.push(Refusal::of(&item.id, "the plan has it twice"));
                }
                Ok(change) => changes.push(change),
                Err(why) => refusals.push(Refusal::of(&item.id, why)),
            }
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        crate::apply::order(&mut changes);
        Ok(changes)
    }
}

impl Plan {
    /// Whether another item makes what this one sets: the threads of a card that is not polled by any yet.
    fn makes(&self, item: &Item) -> bool {
        let card = item
            .id
            .strip_prefix("net.")
            .and_then(|rest| rest.rsplit_once(".napi-"))
            .map(|(card, _)| format!("net.{card}.threaded"));
        let mut others = self.items.iter();
        card.is_some_and(|id| {
            others.any(|other| other.id == id && other.wanted() == Ok("1".to_owned()))
        })
    }
}

impl Item {
    fn change(
        &self,
        tree: &dyn Tree,
        facts: &Facts,
        evidence: &BTreeMap<String, f64>,
        allowed: &Allowed,
        is_made: bool,
    ) -> Result<Change, String> {
        let knob = knob::find(tree, &self.id).ok_or("there is no such knob on this host")?;
        knob.read(tree)
            .map(drop)
            .or_else(|error| if is_made { Ok(()) } else { Err(error) })
            .map_err(|error| format!("it cannot be read: {error}"))?;
        let want = knob.form.wanted(&self.wanted()?)?;
        // What a change costs is ours to say; a file that says less is wrong.
        let class = knob.class.max(self.class);
        if class > allowed.class_max {
            let (class, cost) = (format!("{class:?}"), class.cost());
            return Err(format!(
                "it costs {cost} (class {class}), and --class-max is {:?}",
                allowed.class_max
            ));
        }
        if class == Class::D {
            return Err("it destroys data: advice only".to_owned());
        }
        if self.confidence == Confidence::Experiment && !allowed.only.contains(&self.id) {
            return Err(format!(
                "only an experiment tells whether it helps: --only {} applies it all the same",
                self.id
            ));
        }
        if !self.evidence.is_empty() {
            crate::evidence::holds(&self.evidence, evidence)?;
        }
        let owner = facts.owners.iter().find(|owner| owner.has(&self.id));
        if let Some(owner) = owner.filter(|_| !allowed.take_over.contains(&self.id)) {
            let why = format!(
                "{} sets it: --take-over {} takes it from there until undo",
                owner.name, self.id
            );
            return Err(why);
        }
        Ok(Change {
            item: self.id.clone(),
            want,
        })
    }

    /// The wanted value as text.
    pub fn wanted(&self) -> Result<String, String> {
        match &self.want {
            toml::Value::String(text) => Ok(text.clone()),
            toml::Value::Integer(number) => Ok(number.to_string()),
            toml::Value::Table(fields) => {
                let field = |(name, value): (&String, &toml::Value)| {
                    Some(format!("{name}={}", value.as_integer()?))
                };
                let texts: Option<Vec<String>> = fields.iter().map(field).collect();
                let texts = texts.filter(|texts| !texts.is_empty());
                Ok(texts.ok_or("its fields are not numbers")?.join(" "))
            }
            other => Err(format!("{other} is neither number, word nor fields")),
        }
    }
}

#[cfg(test)]
mod tests;
