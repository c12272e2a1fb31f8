//! A plan: the wanted settings of a host, with reasons. A file that people read and edit before it
//! is applied.
//!
//! Invariants: a plan is for hosts of one fingerprint; an item is applied only if it is within the
//! bounds, its evidence still holds and its knob has no other owner, otherwise it is refused by
//! name; nothing is left out silently. The measured values are in [`crate::evidence`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::apply::Change;
use crate::facts::{Facts, loader};
use crate::guard::Guard;
use crate::knob::{self, Class};
use crate::root::Tree;

/// The version of the file format that this program reads.
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of the file format.
    pub version: u32,
    /// Fingerprint of the hosts that it is for.
    pub host: String,
    /// The wanted settings.
    #[serde(default, rename = "item")]
    pub items: Vec<Item>,
    /// The bounds at which it is taken back before its confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
}

/// One wanted setting.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The knob.
    pub id: String,
    /// The wanted value: a number, a word, or numbers with names.
    pub want: toml::Value,
    /// Its value when the plan was made, for the reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub now: String,
    /// The value that the kernel makes of it, if that is known to differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded: Option<String>,
    /// The cost of the change.
    pub class: Class,
    /// The reason.
    pub why: String,
    /// Condition that must still hold when it is applied: `NAME OPERATOR NUMBER`. Empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The confidence of the rule.
    pub confidence: Confidence,
}

/// How confident a rule is that an item helps.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It removes the counted cause.
    High,
    /// It helps in most cases.
    Medium,
    /// Opinions differ: only an experiment shows it.
    Experiment,
}

/// Why a plan, or an item of it, is not applied.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Refusal {
    /// The item; none if it concerns the whole plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The reason.
    pub why: String,
}

impl Refusal {
    /// Creates a refusal of the whole plan.
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

/// The limits set by the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorLimits {
    /// The most disruptive class allowed.
    pub class_max: Class,
    /// Only these items; all if empty.
    pub only: Vec<String>,
    /// Items that may be taken over from their owners.
    pub take_over: Vec<String>,
}

impl Plan {
    /// Creates a plan for a host.
    pub fn new(host: String, items: Vec<Item>) -> Plan {
        let version = VERSION;
        Plan {
            version,
            host,
            items,
            guard: None,
        }
    }

    /// Parses a file.
    pub fn parse(text: &str) -> anyhow::Result<Plan> {
        let plan: Plan = toml::from_str(text)?;
        anyhow::ensure!(
            plan.version == VERSION,
            "version {} is unknown to this forebay, which reads {VERSION}",
            plan.version
        );
        if let Some(why) = plan.guard.as_ref().and_then(Guard::problem) {
            anyhow::bail!("guard: {why}");
        }
        Ok(plan)
    }

    /// Returns the text of the file.
    pub fn text(&self) -> anyhow::Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// Returns the changes in the order of writing, or all refusals.
    pub fn changes(
        &self,
        tree: &dyn Tree,
        facts: &Facts,
        evidence: &BTreeMap<String, f64>,
        allowed: &OperatorLimits,
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
            // No command writes it: it is in effect, or an operator has to do it.
            if let Some(option) = item.id.strip_prefix(BOOT) {
                if let Err(why) = item.of_boot(option, facts, allowed) {
                    refusals.push(Refusal::of(&item.id, why));
                }
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
        let of_firmware = |change: &&Change| knob::is_of_firmware(&change.item);
        let staged = changes.iter().filter(of_firmware).count();
        if staged > 0 && staged < changes.len() {
            // Half of it would be gone by the restart that brings the other half.
            let why = "settings of the firmware come into effect at a restart, which takes back what else is in \
                       the plan: they are a plan of their own (--only)";
            refusals.push(Refusal::whole(why));
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        crate::apply::order(&mut changes);
        Ok(changes)
    }
}

impl Plan {
    /// Returns whether another item creates this one's knob: the threads of a card that no thread
    /// polls yet.
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

/// Prefix of the items that are options of the kernel's command line.
pub(crate) const BOOT: &str = "boot.";

impl Item {
    /// Checks that a boot option is in effect; the error is how it gets there.
    fn of_boot(&self, option: &str, facts: &Facts, allowed: &OperatorLimits) -> Result<(), String> {
        let boot = &facts.boot;
        loader::check(&boot.options, boot.loader, option, &self.wanted()?)?;
        if allowed.take_over.contains(&self.id) {
            return Err("there is nothing to take over".to_owned());
        }
        Ok(())
    }

    fn change(
        &self,
        tree: &dyn Tree,
        facts: &Facts,
        evidence: &BTreeMap<String, f64>,
        allowed: &OperatorLimits,
        is_made: bool,
    ) -> Result<Change, String> {
        let knob = knob::find(tree, &self.id).ok_or("there is no such knob on this host")?;
        knob.read(tree)
            .map(drop)
            .or_else(|error| if is_made { Ok(()) } else { Err(error) })
            .map_err(|error| format!("it cannot be read: {error}"))?;
        let want = knob.form.wanted(&self.wanted()?)?;
        // A file cannot declare a lower cost than this program's.
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

    /// Returns the wanted value as text.
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
