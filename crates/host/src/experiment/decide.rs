//! The verdict on an experiment: adopt, no benefit, harmful, inconclusive.
//!
//! A benefit is a share: for drops or latency the reduction, for capacity the increase. A change is
//! adopted only if the whole interval of its benefit is beyond the threshold, at p < 0.05 over all
//! questions, and no guarded figure is worse. Everything else that is not certain is inconclusive,
//! with the number of pairs that would decide.

use serde::{Deserialize, Serialize};

use crate::statistics::{Interval, bootstrap, deviation, flip, holm, power};

/// Accepted probability of a false alarm.
const ALPHA: f64 = 0.05;
/// Largest harm to a guarded figure that is accepted, at the unfavourable end of its interval.
const WORSE_MAX: f64 = 0.05;

/// The good direction of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum GoodDirection {
    /// Less is better: drops, latencies.
    Less,
    /// More is better: throughput, capacity.
    More,
}

/// Both arms of a figure, in pairs.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its good direction.
    pub better: GoodDirection,
    /// The smallest benefit that matters, as a share.
    pub threshold: f64,
    /// (control, test) of each pair.
    pub pairs: Vec<(f64, f64)>,
}

/// The effect on one figure.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Effect {
    /// Its name.
    pub name: String,
    /// The benefit as a share: 0.9 is nine tenths fewer, or nine tenths more.
    pub benefit: Interval,
    /// Probability of this much by chance, over all questions.
    #[serde(deserialize_with = "crate::statistics::or_none")]
    pub p: f64,
    /// The smallest benefit that matters.
    pub threshold: f64,
    /// The smallest benefit that this experiment could detect.
    pub least: Option<f64>,
    /// Number of pairs that would decide whether there is a benefit that matters.
    pub pairs_needed: Option<usize>,
}

/// The verdict on a change.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Keep the change.
    Adopt,
    /// No benefit that matters.
    NoBenefit,
    /// The change makes something worse.
    Harmful,
    /// The data does not decide.
    Inconclusive,
}

impl Verdict {
    /// Returns it as people read it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Adopt => "adopt",
            Verdict::NoBenefit => "no benefit",
            Verdict::Harmful => "harmful",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// Returns the effect on a figure, before adjustment for other questions.
///
/// Differences are of the logarithms of value plus one, so that zero drops are a value too, and a
/// ratio counts the same at every scale.
pub fn effect(figure: &Figure, seed: u64) -> Effect {
    let differences = gains(figure);
    let interval = bootstrap::of_pairs(&differences, seed);
    let share = |gain: f64| {
        if figure.better == GoodDirection::Less {
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

/// Returns how many pairs show a benefit of a figure with this variance; none if no number does.
pub fn pairs_for(figure: &Figure, benefit: f64) -> Option<usize> {
    let differences = gains(figure);
    power::pairs(deviation(&differences), gain(figure.better, benefit))
}

/// Returns the logarithms of how much better the test arm was in each pair.
fn gains(figure: &Figure) -> Vec<f64> {
    let sign = if figure.better == GoodDirection::Less {
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

/// Returns the gain (a logarithm) of a share.
fn gain(better: GoodDirection, share: f64) -> f64 {
    match better {
        GoodDirection::Less => -(1.0 - share).ln(),
        GoodDirection::More => (1.0 + share).ln(),
    }
}

/// Returns the verdict, and each figure's effect with its p over all questions.
///
/// `alarm` means that a guard was triggered during the run.
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
    // Uses the unfavourable end of the interval.
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
