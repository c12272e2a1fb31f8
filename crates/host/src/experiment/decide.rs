//! What the figures say: adopt, no benefit, harmful, inconclusive.
//!
//! A benefit is a share: of drops or latency, how much fewer; of capacity, how much more. Adopted is only what is beyond the
//! threshold that matters with its whole interval, at p < 0.05 over all questions, and worse in nothing that is guarded.
//! Everything that is not known is inconclusive, and says how many pairs would decide.

use serde::{Deserialize, Serialize};

use crate::statistics::{Interval, bootstrap, deviation, flip, holm, power};

/// Chances of a false alarm that are taken.
const ALPHA: f64 = 0.05;
/// What a guardrail may be worse by, with the upper end of its interval.
const WORSE_MAX: f64 = 0.05;

/// Which way is good.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Drops, latencies.
    Less,
    /// Throughput, capacity.
    More,
}

/// Both arms of a figure, in pairs.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Which way is good.
    pub better: Better,
    /// The smallest benefit that matters, as a share.
    pub threshold: f64,
    /// (control, test) of each pair.
    pub pairs: Vec<(f64, f64)>,
}

/// What one figure says.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Effect {
    /// Its name.
    pub name: String,
    /// The benefit, as a share: 0.9 is nine tenths fewer, or nine tenths more.
    pub benefit: Interval,
    /// How likely as much would be by chance, over all questions.
    #[serde(deserialize_with = "crate::statistics::or_none")]
    pub p: f64,
    /// The smallest benefit that matters.
    pub threshold: f64,
    /// The smallest benefit that this experiment could see.
    pub least: Option<f64>,
    /// So many pairs would decide whether there is a benefit that matters.
    pub pairs_needed: Option<usize>,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Keep it.
    Adopt,
    /// There is none that matters.
    NoBenefit,
    /// It makes something worse.
    Harmful,
    /// Nobody knows.
    Inconclusive,
}

/// The effect of a figure before others are asked as well. Differences are of logarithms of one more than the value, so that
/// nothing dropped is a value too, and a ratio is the same at every scale.
pub fn effect(figure: &Figure, seed: u64) -> Effect {
    let differences = gains(figure);
    let interval = bootstrap::of_pairs(&differences, seed);
    let share = |gain: f64| {
        if figure.better == Better::Less {
            1.0 - (-gain).exp()
        } else {
            gain.exp() - 1.0
        }
    };
    let deviation = deviation(&differences);
    let wanted = gain(figure.better, figure.threshold);
    Effect {
        name: figure.name.clone(),
        benefit: Interval {
            estimate: share(interval.estimate),
            low: share(interval.low),
            high: share(interval.high),
        },
        p: flip::p(&differences, seed),
        threshold: figure.threshold,
        least: power::effect(deviation, differences.len()).map(share),
        pairs_needed: power::pairs(deviation, wanted),
    }
}

/// How many pairs show a benefit of a figure that varies so; none where no number does.
pub fn pairs_for(figure: &Figure, benefit: f64) -> Option<usize> {
    let differences = gains(figure);
    power::pairs(deviation(&differences), gain(figure.better, benefit))
}

/// The logarithms of how much better the test arm was in each pair.
fn gains(figure: &Figure) -> Vec<f64> {
    let sign = if figure.better == Better::Less {
        -1.0
    } else {
        1.0
    };
    let logarithm = |value: f64| (value.max(0.0) + 1.0).ln();
    let pairs = figure.pairs.iter();
    pairs
        .map(|(control, test)| sign * (logarithm(*test) - logarithm(*control)))
        .collect()
}

/// The gain whose share this is.
fn gain(better: Better, share: f64) -> f64 {
    match better {
        Better::Less => -(1.0 - share).ln(),
        Better::More => (1.0 + share).ln(),
    }
}

/// The verdict, and each figure's effect with its p over all questions. `alarm`: a guard was set off while it ran.
pub fn decide(
    primary: &[Figure],
    guarded: &[Figure],
    alarm: bool,
    seed: u64,
) -> (Verdict, Vec<Effect>) {
    let mut effects: Vec<Effect> = primary.iter().map(|figure| effect(figure, seed)).collect();
    let ps: Vec<f64> = effects.iter().map(|effect| effect.p).collect();
    for (effect, p) in effects.iter_mut().zip(holm::adjusted(&ps)) {
        effect.p = p;
    }
    let guards: Vec<Effect> = guarded.iter().map(|figure| effect(figure, seed)).collect();
    let harms = |effect: &Effect| effect.benefit.high < 0.0 && effect.p < ALPHA;
    let helps = |effect: &Effect| effect.benefit.low > effect.threshold && effect.p < ALPHA;
    // Worse by less than so much, surely: the far end of the interval.
    let is_safe = |effect: &Effect| effect.benefit.low >= -WORSE_MAX;
    let verdict = match () {
        () if alarm || effects.iter().any(harms) => Verdict::Harmful,
        () if effects.iter().any(helps) && guards.iter().all(is_safe) => Verdict::Adopt,
        () if !effects.is_empty()
            && effects
                .iter()
                .all(|effect| effect.benefit.high < effect.threshold) =>
        {
            Verdict::NoBenefit
        }
        () => Verdict::Inconclusive,
    };
    effects.extend(guards);
    (verdict, effects)
}

#[cfg(test)]
mod tests;
