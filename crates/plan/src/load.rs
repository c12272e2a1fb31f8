//! The input of a plan: loads, goals, the shape of the fleet, and what is given.
//!
//! A [`Scenario`] is the content of a file. Invariant: a scenario that was read is consistent:
//! every peak is at least its base, every share is between 0 and 1, and contradictions were refused
//! with their line.

mod check;
mod fleet;
mod traffic;

use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::document::{Document, Problem};

pub(crate) use check::check_name;
pub use fleet::{CostTerms, Fleet, GivenParts, GivenTier, Goals, Hardware, Survive};
pub use traffic::{Acks, Burst, CatchUp, IndexIn, KeyedLookups, Load, Retention, Tier};

/// A plan file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// A description, one paragraph.
    #[serde(default)]
    pub about: String,
    /// Notes to show beside every answer: contradictions, assumptions.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The loads.
    pub load: Vec<Load>,
    /// The goals.
    #[serde(default)]
    pub goals: Goals,
    /// Sites, racks, clusters.
    #[serde(default)]
    pub fleet: Fleet,
    /// The parts of the catalogue that may be used.
    #[serde(default)]
    pub hardware: Hardware,
    /// What exists already and is not chosen.
    #[serde(default)]
    pub given: GivenParts,
    /// Costs besides parts.
    #[serde(default)]
    pub cost: CostTerms,
    /// Variants with other figures, each with an answer of its own.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// Catalogue entries of this plan only; they override shipped ones of the same id.
    #[serde(default)]
    pub catalogue: Catalogue,
}

/// The same scenario with other figures.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Keys and values, as in `--set`.
    pub set: Vec<String>,
}

/// Maximum number of changes of one plan: more than it has keys.
const SET_MAX: usize = 200;

/// The scenarios shipped in this binary: (name, file).
pub const SHIPPED: &[(&str, &str)] = &[
    ("car-ingest", include_str!("../scenarios/car-ingest.toml")),
    ("burst", include_str!("../scenarios/burst.toml")),
    ("steady", include_str!("../scenarios/steady.toml")),
    ("linkedin", include_str!("../scenarios/linkedin.toml")),
    ("keyed", include_str!("../scenarios/keyed.toml")),
];

/// Returns the text of a shipped scenario.
pub fn shipped(name: &str) -> Option<&'static str> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

impl Scenario {
    /// Reads a scenario and applies changes.
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

    /// Returns the scenario after `year` years of growth.
    #[must_use]
    pub fn in_year(&self, year: u32) -> Self {
        let mut grown = self.clone();
        for load in &mut grown.load {
            let factor = (1.0 + load.growth).powf(f64::from(year));
            *load = load.grown(factor);
        }
        grown
    }

    /// Returns the scenario with `factor` times the load.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let mut grown = self.clone();
        grown.load = self.load.iter().map(|load| load.grown(factor)).collect();
        grown
    }

    /// Returns the scenario and its variants, each with its name.
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
