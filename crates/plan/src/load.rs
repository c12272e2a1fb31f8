//! What is planned for: loads, goals, the shape of the fleet, and what of it is given.
//!
//! A [`Scenario`] is what a file says. Invariant: one that was read is whole: every rate is above its base, every share
//! between nothing and one, and what contradicts itself was refused with its line.

mod check;
mod fleet;
mod traffic;

use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::document::{Document, Problem};

pub(crate) use check::check_name;
pub use fleet::{CostTerms, Fleet, Given, GivenTier, Goals, Hardware, Survive};
pub use traffic::{Acks, Burst, CatchUp, IndexIn, Keyed, Load, Retention, Tier};

/// A plan file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is about, one paragraph.
    #[serde(default)]
    pub about: String,
    /// What must be said beside every answer: contradictions, assumptions.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What comes in and goes out.
    pub load: Vec<Load>,
    /// What must hold.
    #[serde(default)]
    pub goals: Goals,
    /// Sites, racks, clusters.
    #[serde(default)]
    pub fleet: Fleet,
    /// What of the catalogue may be used.
    #[serde(default)]
    pub hardware: Hardware,
    /// What is not to be chosen, because it is there.
    #[serde(default)]
    pub given: Given,
    /// What costs besides parts.
    #[serde(default)]
    pub cost: CostTerms,
    /// The same with other figures, each answered as well.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// Entries of the catalogue that only this plan has; they win over shipped ones of the same id.
    #[serde(default)]
    pub catalogue: Catalogue,
}

/// The same scenario with other figures.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Keys and values as `--set` takes them.
    pub set: Vec<String>,
}

/// Changes of one plan: more than it has keys.
const SET_MAX: usize = 200;

/// The scenarios in this binary: (name, file).
pub const SHIPPED: &[(&str, &str)] = &[
    ("car-ingest", include_str!("../scenarios/car-ingest.toml")),
    ("burst", include_str!("../scenarios/burst.toml")),
    ("steady", include_str!("../scenarios/steady.toml")),
    ("linkedin", include_str!("../scenarios/linkedin.toml")),
    ("keyed", include_str!("../scenarios/keyed.toml")),
];

/// The text of a shipped scenario.
pub fn shipped(name: &str) -> Option<&'static str> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

impl Scenario {
    /// Reads a scenario, with changes.
    pub fn read(origin: &str, text: &str, set: &[String]) -> Result<Self, Problem> {
        let mut document = Document::parse(origin, text)?;
        if set.len() > SET_MAX {
            return Err(document.problem("", format!("allowed: at most {SET_MAX} changes")));
        }
        for pair in set {
            document.set(pair)?;
        }
        let scenario: Self = document.read()?;
        check::check(&scenario).map_err(|(key, text)| document.problem(&key, text))?;
        Ok(scenario)
    }

    /// The scenario as it has grown after so many years.
    #[must_use]
    pub fn in_year(&self, year: u32) -> Self {
        let mut grown = self.clone();
        for load in &mut grown.load {
            let factor = (1.0 + load.growth).powf(f64::from(year));
            *load = load.grown(factor);
        }
        grown
    }

    /// The scenario with so many times the load.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let mut grown = self.clone();
        grown.load = self.load.iter().map(|load| load.grown(factor)).collect();
        grown
    }

    /// The scenario itself and its variants, each by its name.
    pub fn variants(
        origin: &str,
        text: &str,
        set: &[String],
    ) -> Result<Vec<(Option<String>, Self)>, Problem> {
        let first = Self::read(origin, text, set)?;
        let mut all = vec![(None, first.clone())];
        for variant in &first.variant {
            let changed = [set, &variant.set].concat();
            let scenario = Self::read(origin, text, &changed)?;
            all.push((Some(variant.name.clone()), scenario));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
