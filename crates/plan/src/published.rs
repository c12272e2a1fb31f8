//! Figures that were published about bursts, fleets and indexes, with what they give when they are computed again.
//!
//! Invariant: a figure that contradicts itself is shown with the contradiction. S0 is the car fleet's blog post, S1 the
//! tiered log's, S2 the tuning of edge servers, S3 the keyed experiment, P the README of Pafka 0.1.1.

mod cars;
mod keyed;
mod tiers;

use serde::Serialize;

use crate::quantity::{count, significant};

/// What computing a published figure again says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It follows.
    Sound,
    /// It follows, rounded.
    Rounded,
    /// It can be so.
    Plausible,
    /// A statement without a check: what follows from it.
    Derived,
    /// It contradicts itself, or does not follow.
    Contradiction,
}

impl Verdict {
    /// One word, or a mark that nobody overlooks.
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
    /// Where it stands.
    pub place: &'static str,
    /// What it says.
    pub published: &'static str,
    /// What is computed today.
    pub computed: String,
    /// The figures in it, in order.
    pub figures: Vec<f64>,
    /// Whether it follows.
    pub verdict: Verdict,
}

/// All rows.
pub fn rows() -> Vec<Row> {
    [cars::rows(), tiers::rows(), keyed::rows()].concat()
}

/// A row from its figures; each `{}` of the text takes the next.
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

/// How many digits of a figure are printed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Digits {
    /// Three that mean something.
    Three,
    /// None behind the point.
    Whole,
    /// So many behind the point.
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
