//! The file that defines an experiment: what is compared, and for how long (`DESIGN.toml`).
//!
//! Invariant: a design that cannot answer its question is refused before anything is changed.

use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::assign::PAIRS_MIN;
use super::decide::GoodDirection;
use crate::guard::Guard;

/// The version of the file format that this program reads.
const VERSION: u32 = 1;
/// Largest accepted number of pairs.
pub(crate) const PAIRS_MAX: usize = 10_000;

/// The content of the file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// Version of the file format.
    pub version: u32,
    /// The plan, relative to this file.
    pub plan: PathBuf,
    /// Which items of the plan are the change.
    #[serde(default)]
    pub mode: Mode,
    /// Determines the order of the arms.
    pub seed: u64,
    /// Pairs of blocks, each with and without the change.
    pub pairs: usize,
    /// Pairs without any change, run first; they show how much figures vary by themselves. By
    /// default as many as `pairs`.
    #[serde(default)]
    pub pairs_of_same: Option<usize>,
    /// Duration of a block.
    pub block_ms: u64,
    /// Wait between making or taking back a change and the next block.
    #[serde(default)]
    pub washout_ms: u64,
    /// Program with arguments that runs in each block and prints JSON, a number per name.
    ///
    /// If empty, the host's own traffic is measured.
    #[serde(default)]
    pub load: Vec<String>,
    /// The figures that decide.
    pub primary: Vec<Question>,
    /// The figures that must not become worse.
    #[serde(default)]
    pub guard: Vec<Question>,
    /// Which pairs are peaks, for questions about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
    /// Whether the reasons of lost packets are figures, too (`reason.SOCKET_RCVBUFF`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasons: bool,
    /// The guard of the plan.
    #[serde(skip)]
    pub plan_guard: Option<Guard>,
}

/// Which items of a plan are the change.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All items together.
    #[default]
    Bundle,
    /// One item after the other, on top of those already adopted.
    Each,
    /// One item after the other, on top of all others: shows which items of a bundle are needed.
    Ablate,
}

/// Which pairs are peaks: declared before the first block, and chosen by the load of the arm
/// without the change, which the change cannot alter.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// The share of the pairs with the most received packets.
    pub top_share: f64,
}

impl Peak {
    /// Returns how many of the pairs are peaks.
    pub fn of(self, pairs: usize) -> usize {
        let wanted = self.top_share * pairs as f64;
        let mut counts = 1..=pairs;
        counts
            .find(|count| *count as f64 >= wanted)
            .unwrap_or(pairs)
    }
}

/// One figure and its criteria.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// A counter of the host (`listen.overflows`, per second), `drops`, or a number that the load
    /// prints.
    pub name: String,
    /// The good direction.
    #[serde(default = "less")]
    pub better: GoodDirection,
    /// The smallest benefit that matters, as a share.
    #[serde(default = "tenth")]
    pub threshold: f64,
    /// The expected benefit; a design that could not detect it stops after the pairs without a
    /// change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// Whether only the pairs that are peaks count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peak: bool,
}

impl Question {
    /// Returns its name in results.
    pub fn shown(&self) -> String {
        let peaks = if self.peak { " in peaks" } else { "" };
        format!("{}{peaks}", self.name)
    }
}

fn less() -> GoodDirection {
    GoodDirection::Less
}

fn tenth() -> f64 {
    0.10
}

impl Design {
    /// Parses a file; an error states what the design cannot answer.
    pub fn parse(text: &str) -> anyhow::Result<Design> {
        let design: Design = toml::from_str(text)?;
        anyhow::ensure!(
            design.version == VERSION,
            "version {} is unknown to this forebay",
            design.version
        );
        let pairs = design.pairs;
        anyhow::ensure!(
            (PAIRS_MIN..=PAIRS_MAX).contains(&pairs),
            "pairs: {pairs} pairs cannot decide anything at p < 0.05: at least {PAIRS_MIN}, at most {PAIRS_MAX}"
        );
        let of_same = design.pairs_of_same();
        anyhow::ensure!(
            (2..=PAIRS_MAX).contains(&of_same),
            "pairs_of_same: {of_same} show no variance: at least 2"
        );
        anyhow::ensure!(design.block_ms > 0, "block_ms: a block takes time");
        anyhow::ensure!(!design.primary.is_empty(), "primary: nothing is asked");
        let questions: Vec<&Question> = design.primary.iter().chain(&design.guard).collect();
        for (at, question) in questions.iter().enumerate() {
            let name = question.shown();
            anyhow::ensure!(
                questions[..at].iter().all(|other| other.shown() != name),
                "{name} is asked twice"
            );
            if question.peak {
                let peak = design.peak;
                let peak =
                    peak.context("peak: which pairs are peaks? peak = { top_share = 0.5 }")?;
                let many = peak.of(pairs);
                anyhow::ensure!(
                    peak.top_share > 0.0 && peak.top_share <= 1.0,
                    "peak: top_share: {} is no share",
                    peak.top_share
                );
                anyhow::ensure!(
                    many >= PAIRS_MIN,
                    "peak: {many} of {pairs} pairs are peaks, and fewer than {PAIRS_MIN} cannot decide anything"
                );
            }
            let is_share = |share: f64| {
                share.is_finite()
                    && share > 0.0
                    && (share < 1.0 || question.better == GoodDirection::More)
            };
            anyhow::ensure!(
                is_share(question.threshold),
                "{name}: threshold: {} is no share",
                question.threshold
            );
            let goal = question.goal.is_none_or(is_share);
            anyhow::ensure!(goal, "{name}: goal is no share");
        }
        Ok(design)
    }

    /// Returns the number of pairs without any change.
    pub fn pairs_of_same(&self) -> usize {
        self.pairs_of_same.unwrap_or(self.pairs)
    }

    /// Returns the total duration in milliseconds.
    pub fn ms(&self) -> u64 {
        let blocks = 2 * (self.pairs + self.pairs_of_same()) as u64;
        blocks.saturating_mul(self.block_ms.saturating_add(self.washout_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version = 1\nplan = \"p.toml\"\nseed = 1\npairs = 8\nblock_ms = 500\n[[primary]]\nname = \"listen.overflows\"\n";

    #[test]
    fn a_design_that_can_answer_is_taken() {
        let design = Design::parse(GOOD).unwrap();
        assert!((design.primary[0].threshold - 0.10).abs() < 1e-12);
        assert_eq!(design.ms(), 16_000);
    }

    #[test]
    fn one_that_cannot_is_refused() {
        for (from, to, why) in [
            ("pairs = 8", "pairs = 5", "cannot decide"),
            ("version = 1", "version = 2", "unknown"),
            ("block_ms = 500", "block_ms = 0", "takes time"),
            ("pairs = 8", "pairs = 8\npairs_of_same = 1", "no variance"),
            (
                "name = \"listen.overflows\"",
                "name = \"a\"\nthreshold = 1.5",
                "no share",
            ),
            (
                "name = \"listen.overflows\"",
                "name = \"a\"\n[[guard]]\nname = \"a\"",
                "twice",
            ),
            (
                "name = \"listen.overflows\"",
                "name = \"a\"\npeak = true",
                "which pairs are peaks",
            ),
            (
                "block_ms = 500",
                "block_ms = 500\npeak = { top_share = 0.5 }\n[[guard]]\nname = \"b\"\npeak = true",
                "4 of 8 pairs",
            ),
            ("seed = 1", "sed = 1", "unknown field"),
            ("seed = 1", "seed = 1\nmode = \"all\"", "unknown variant"),
        ] {
            let error = format!("{:#}", Design::parse(&GOOD.replace(from, to)).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
