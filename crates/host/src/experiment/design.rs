//! The file that says what is compared, and how long: `DESIGN.toml`.
//!
//! Invariant: a design that cannot answer its question is refused before anything is changed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::assign::PAIRS_MIN;
use super::decide::Better;

/// The form of the file that this version reads.
const VERSION: u32 = 1;
/// No experiment has more pairs.
const PAIRS_MAX: usize = 10_000;

/// The file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// Its form.
    pub version: u32,
    /// The plan, beside this file.
    pub plan: PathBuf,
    /// What of the plan is the change.
    #[serde(default)]
    pub mode: Mode,
    /// Says the order of the arms.
    pub seed: u64,
    /// Pairs of blocks, each with and without the change.
    pub pairs: usize,
    /// Pairs without any change before, which show how much figures vary by themselves. As many as `pairs` by default.
    #[serde(default)]
    pub pairs_of_same: Option<usize>,
    /// How long a block is.
    pub block_ms: u64,
    /// After the change is made or taken back, before a block.
    #[serde(default)]
    pub washout_ms: u64,
    /// A program that is run for each block, with its arguments; what it prints is JSON, a number per name. None: the host's
    /// own traffic is measured.
    #[serde(default)]
    pub load: Vec<String>,
    /// What decides.
    pub primary: Vec<Question>,
    /// What must not become worse.
    #[serde(default)]
    pub guard: Vec<Question>,
}

/// What of a plan is the change.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All of its items together.
    #[default]
    Bundle,
    /// One item after the other, beside those that were adopted before.
    Each,
    /// One item after the other, beside all the others: what of a bundle is needed.
    Ablate,
}

/// A figure that is looked at.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// A counter of the host (`listen.overflows`, counted per second), `drops`, or a number that the load prints.
    pub name: String,
    /// Which way is good.
    #[serde(default = "less")]
    pub better: Better,
    /// The smallest benefit that matters, as a share.
    #[serde(default = "tenth")]
    pub threshold: f64,
    /// The benefit that is hoped for: a design that could not see it is refused after the pairs without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
}

fn less() -> Better {
    Better::Less
}

fn tenth() -> f64 {
    0.10
}

impl Design {
    /// Reads the text of a file; an error says what it cannot answer.
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
            let name = &question.name;
            anyhow::ensure!(
                questions[..at].iter().all(|other| other.name != *name),
                "{name} is asked twice"
            );
            let is_share = |share: f64| {
                share.is_finite() && share > 0.0 && (share < 1.0 || question.better == Better::More)
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

    /// Pairs without any change.
    pub fn pairs_of_same(&self) -> usize {
        self.pairs_of_same.unwrap_or(self.pairs)
    }

    /// How long all of it takes, in milliseconds.
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
            ("seed = 1", "sed = 1", "unknown field"),
            ("seed = 1", "seed = 1\nmode = \"all\"", "unknown variant"),
        ] {
            let error = format!("{:#}", Design::parse(&GOOD.replace(from, to)).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
