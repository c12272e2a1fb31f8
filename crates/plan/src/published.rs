//! Published figures about bursts, fleets and indexes, beside the values that this crate computes
//! for them.
//!
//! Invariant: a figure that contradicts itself is shown with the contradiction. S0 is the car
//! fleet's blog post, S1 the tiered log's, S2 the tuning of edge servers, S3 the keyed experiment,
//! P the README of Pafka 0.1.1.

mod cars;
mod keyed;
mod tiers;

use serde::Serialize;

use crate::quantity::{count, significant};

/// The result of checking a published figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It follows.
    Sound,
    /// It follows, rounded.
    Rounded,
    /// It is possible.
    Plausible,
    /// A statement that cannot be checked; the row shows its consequences.
    Derived,
    /// It contradicts itself, or does not follow.
    Contradiction,
}

impl Verdict {
    /// Returns one word, or a conspicuous mark.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Sound => "ok",
            Self::Rounded => "rounded",
            Self::Plausible => "plausible",
            Self::Derived => "",
            Self::Contradiction => "!",
        }
    }
}

/// A published figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Its number.
    pub id: &'static str,
    /// Where it was published.
    pub place: &'static str,
    /// The published statement.
    pub published: &'static str,
    /// The computed values, in words.
    pub computed: String,
    /// The computed values, in order.
    pub figures: Vec<f64>,
    /// The result of the check.
    pub verdict: Verdict,
}

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    [cars::rows(), tiers::rows(), keyed::rows()].concat()
}

/// Returns a row from its figures; each `{}` of the text takes the next.
fn row(
    id: &'static str,
    place: &'static str,
    published: &'static str,
    verdict: Verdict,
    text: &str,
    figures: &[(f64, Digits)],
) -> Row {
    let mut computed = String::new();
    let mut rest = figures.iter();
    let mut parts = text.split("{}").peekable();
    while let Some(part) = parts.next() {
        computed.push_str(part);
        if parts.peek().is_some()
            && let Some((value, digits)) = rest.next()
        {
            computed.push_str(&digits.show(*value));
        }
    }
    Row {
        id,
        place,
        published,
        computed,
        figures: figures.iter().map(|(value, _)| *value).collect(),
        verdict,
    }
}

/// The precision of a printed figure.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Digits {
    /// Three significant digits.
    Three,
    /// No decimals.
    Whole,
    /// This many decimals.
    Behind(usize),
}

impl Digits {
    fn show(self, value: f64) -> String {
        match self {
            Self::Three => significant(value),
            Self::Whole => count(value),
            Self::Behind(digits) => format!("{value:.digits$}"),
        }
    }
}

#[cfg(test)]
mod tests;
