//! Runs a design on one host: pairs of blocks without any change, then pairs with and without it,
//! then the verdict.
//!
//! [`World`] abstracts the host, so that tests use a simulated one. Invariants: the change is in
//! effect only in blocks of the test arm; it is taken back directly after the last block, an alarm
//! or an error; measurements are kept in every case.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::assign::{Arm, switchback};
use super::decide::{Effect, Figure, GoodDirection, Verdict, decide, effect, pairs_for};
use super::design::{Design, Peak, Question};
use crate::statistics::martingale::{Bettor, worse};

/// If identical pairs differ with a smaller p than this, the experiment stops: something else
/// affects the host.
const SAME_P_MIN: f64 = 0.01;
/// Amount by which a guarded figure may be worse before the bettor bets on harm.
const MARGIN: f64 = 0.05;
/// A figure that is e times as bad counts as fully worse.
const SPAN: f64 = 1.0;

/// Figure of a block for the guard of a plan: packets that were lost.
pub const DROPPED: &str = "packets.lost";
/// The other one: packets that cards received.
pub const RECEIVED: &str = "packets.received";

/// Figures of a block, by name.
pub type BlockFigures = BTreeMap<String, f64>;

/// The result of a block.
#[derive(Clone, PartialEq, Debug)]
pub enum Block {
    /// Its figures.
    Figures(BlockFigures),
    /// An event that must not happen, such as lost records or errors, with its description.
    Alarm(String),
}

/// The subject of an experiment.
pub trait World {
    /// Puts the host into an arm.
    fn enter(&mut self, arm: Arm) -> anyhow::Result<()>;
    /// Takes back everything that is in effect.
    fn leave(&mut self) -> anyhow::Result<()>;
    /// Runs a block and measures it.
    fn block(&mut self) -> anyhow::Result<Block>;
}

/// A block and its measurements.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Sample {
    /// Its pair, from 0.
    pub pair: usize,
    /// Its arm.
    pub arm: Arm,
    /// Whether it belongs to the pairs without any change.
    pub same: bool,
    /// Its figures.
    pub figures: BlockFigures,
}

/// The result of an experiment.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Result {
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, in one sentence.
    pub why: String,
    /// The effects on the primary and the guarded figures.
    pub effects: Vec<Effect>,
    /// The effects on the primary figures in the pairs without any change.
    pub same: Vec<Effect>,
    /// All measurements.
    pub samples: Vec<Sample>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Runs the experiment.
///
/// A failure is part of the result instead of an error, so that the measurements until then are
/// kept.
pub fn run(design: &Design, world: &mut dyn World) -> Result {
    let mut samples = Vec::new();
    let ended = phases(design, world, &mut samples);
    // Restores the host in every case.
    let left = world.leave();
    let (failed, (verdict, why, effects)) = match (ended, left) {
        (Ok(ended), Ok(())) => (None, ended),
        (Ok((.., effects)), Err(error)) => {
            (Some(error), (Verdict::Inconclusive, String::new(), effects))
        }
        (Err(error), Ok(())) => (
            Some(error),
            (Verdict::Inconclusive, String::new(), Vec::new()),
        ),
        (Err(error), Err(left)) => {
            let both = anyhow::anyhow!("{error:#}; and then {left:#}");
            (
                Some(both),
                (Verdict::Inconclusive, String::new(), Vec::new()),
            )
        }
    };
    let failed = failed.map(|error| format!("{error:#}"));
    let same = figures(design, &design.primary, &samples, true);
    let same = same
        .iter()
        .filter(|figure| !figure.pairs.is_empty())
        .map(|figure| effect(figure, design.seed))
        .collect();
    Result {
        verdict,
        why: failed
            .as_ref()
            .map_or(why, |failed| format!("it came to no end: {failed}")),
        effects,
        same,
        samples,
        failed,
    }
}

/// Returns the result of an experiment that could not begin.
pub fn failed(error: &anyhow::Error) -> Result {
    let failed = format!("{error:#}");
    Result {
        verdict: Verdict::Inconclusive,
        why: format!("it came to no end: {failed}"),
        effects: Vec::new(),
        same: Vec::new(),
        samples: Vec::new(),
        failed: Some(failed),
    }
}

type RunVerdict = (Verdict, String, Vec<Effect>);

fn phases(
    design: &Design,
    world: &mut dyn World,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<RunVerdict> {
    world.enter(Arm::Control)?;
    for (at, arm) in switchback(design.pairs_of_same(), design.seed)
        .into_iter()
        .enumerate()
    {
        // The arms are only labels here: nothing is changed.
        match world.block()? {
            Block::Figures(figures) => samples.push(Sample {
                pair: at / 2,
                arm,
                same: true,
                figures,
            }),
            Block::Alarm(what) => anyhow::bail!("without any change: {what}"),
        }
    }
    if let Some(stop) = stops(design, samples)? {
        return Ok((Verdict::Inconclusive, stop, Vec::new()));
    }
    let mut guards = vec![Bettor::default(); design.guard.len() + design.primary.len()];
    // Uses another order than the pairs before.
    for (at, arm) in switchback(design.pairs, design.seed ^ u64::MAX)
        .into_iter()
        .enumerate()
    {
        world.enter(arm)?;
        let figures = match world.block()? {
            Block::Figures(figures) => figures,
            Block::Alarm(what) if arm == Arm::Test => {
                return Ok((Verdict::Harmful, what, Vec::new()));
            }
            Block::Alarm(what) => anyhow::bail!("without the change: {what}"),
        };
        samples.push(Sample {
            pair: at / 2,
            arm,
            same: false,
            figures,
        });
        if let Some(why) = violated(design, samples) {
            let effects = if at % 2 == 1 {
                judge(design, samples, true)?.1
            } else {
                Vec::new()
            };
            return Ok((
                Verdict::Harmful,
                format!("the guard of the plan: {why}"),
                effects,
            ));
        }
        if at % 2 == 1
            && let Some(name) = alarm(design, samples, &mut guards)
        {
            let effects = judge(design, samples, true)?.1;
            return Ok((
                Verdict::Harmful,
                format!("{name} became worse, beyond chance"),
                effects,
            ));
        }
    }
    let (verdict, effects) = judge(design, samples, false)?;
    Ok((verdict, sentence(verdict, &effects), effects))
}

/// Returns why the experiment stops after the pairs without any change: they differ, or vary too
/// much to detect the goal.
fn stops(design: &Design, samples: &[Sample]) -> anyhow::Result<Option<String>> {
    for (figure, question) in figures(design, &design.primary, samples, true)
        .iter()
        .zip(&design.primary)
    {
        anyhow::ensure!(
            !figure.pairs.is_empty(),
            "{} was not measured",
            question.name
        );
        let same = effect(figure, design.seed);
        if same.p < SAME_P_MIN {
            let why = format!(
                "{} differs between blocks that are the same (p = {:.4})",
                question.name, same.p
            );
            return Ok(Some(why));
        }
        let needed = question.goal.and_then(|goal| pairs_for(figure, goal));
        if let (Some(goal), Some(needed)) = (question.goal, needed)
            && needed > counted(design, question)
        {
            let percent = goal * 100.0;
            let why = format!(
                "to see {percent:.0} % of {} takes {needed} pairs, and it has {}",
                question.shown(),
                counted(design, question)
            );
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Returns how many pairs of a whole experiment count for a question.
fn counted(design: &Design, question: &Question) -> usize {
    let peaks = design.peak.filter(|_| question.peak);
    peaks.map_or(design.pairs, |peak| peak.of(design.pairs))
}

/// Returns the pairs that are peaks: those in which the arm without the change received the most
/// packets.
fn in_peaks(peak: Peak, samples: &[Sample], same: bool) -> BTreeSet<usize> {
    let control = samples
        .iter()
        .filter(|sample| sample.same == same && sample.arm == Arm::Control);
    let mut loads: Vec<(f64, usize)> = control
        .map(|sample| {
            let received = sample.figures.get(RECEIVED).copied();
            (received.unwrap_or(0.0), sample.pair)
        })
        .collect();
    loads.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let many = peak.of(loads.len());
    loads.into_iter().take(many).map(|(_, pair)| pair).collect()
}

/// Returns the figures of all complete pairs that count.
fn figures(design: &Design, questions: &[Question], samples: &[Sample], same: bool) -> Vec<Figure> {
    let peaks = design.peak.map(|peak| in_peaks(peak, samples, same));
    let counts = |question: &Question, pair: usize| {
        let of_peaks = peaks.as_ref().filter(|_| question.peak);
        of_peaks.is_none_or(|peaks| peaks.contains(&pair))
    };
    let pairs = samples
        .iter()
        .filter(|sample| sample.same == same)
        .map(|sample| sample.pair + 1)
        .max()
        .unwrap_or(0);
    let of = |pair: usize, arm: Arm, name: &str| {
        let found = samples
            .iter()
            .find(|one| one.same == same && one.pair == pair && one.arm == arm)?;
        found.figures.get(name).copied()
    };
    let figure = |question: &Question| Figure {
        name: question.shown(),
        better: question.better,
        threshold: question.threshold,
        pairs: (0..pairs)
            .filter(|pair| counts(question, *pair))
            .filter_map(|pair| {
                Some((
                    of(pair, Arm::Control, &question.name)?,
                    of(pair, Arm::Test, &question.name)?,
                ))
            })
            .collect(),
    };
    questions.iter().map(figure).collect()
}

/// Returns why the last block, if the change was in effect in it, violates the guard of the plan.
fn violated(design: &Design, samples: &[Sample]) -> Option<String> {
    let guard = design.plan_guard.as_ref()?;
    let last = samples.last().filter(|sample| sample.arm == Arm::Test)?;
    let figure = |name: &str| last.figures.get(name).copied().unwrap_or(0.0);
    if let Some(why) = guard.drops(figure(DROPPED), figure(RECEIVED)) {
        return Some(why);
    }
    // Against the block without the change that was closest before it.
    let is_control = |sample: &&Sample| sample.same || sample.arm == Arm::Control;
    let control = samples.iter().rev().find(is_control)?;
    let times = last
        .figures
        .iter()
        .filter(|(name, _)| name.ends_with("p99_ms"));
    let mut violations = times.filter_map(|(name, now)| {
        let why = guard.p99(*control.figures.get(name)?, *now)?;
        Some(format!("{name}: {why}"))
    });
    violations.next()
}

/// Returns the name of a figure whose guard the last pair triggered.
fn alarm(design: &Design, samples: &[Sample], guards: &mut [Bettor]) -> Option<String> {
    // Whether a pair is a peak is known at the end alone: harm counts in all.
    let all = |question: &Question| Question {
        peak: false,
        ..question.clone()
    };
    let questions: Vec<Question> = design
        .guard
        .iter()
        .chain(&design.primary)
        .map(all)
        .collect();
    for ((figure, bettor), question) in figures(design, &questions, samples, false)
        .iter()
        .zip(guards)
        .zip(&questions)
    {
        let Some((control, test)) = figure.pairs.last() else {
            continue;
        };
        let worse = match question.better {
            GoodDirection::Less => worse(*test, *control, MARGIN, SPAN),
            GoodDirection::More => worse(*control, *test, MARGIN, SPAN),
        };
        if bettor.sees(worse) {
            return Some(question.name.clone());
        }
    }
    None
}

fn judge(
    design: &Design,
    samples: &[Sample],
    alarm: bool,
) -> anyhow::Result<(Verdict, Vec<Effect>)> {
    let primary = figures(design, &design.primary, samples, false);
    let guarded = figures(design, &design.guard, samples, false);
    for figure in primary.iter().chain(&guarded) {
        anyhow::ensure!(!figure.pairs.is_empty(), "{} was not measured", figure.name);
    }
    Ok(decide(&primary, &guarded, alarm, design.seed))
}

fn sentence(verdict: Verdict, effects: &[Effect]) -> String {
    let Some(first) = effects.first() else {
        return String::new();
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let benefit = &first.benefit;
    let figures = format!(
        "{}: benefit {} ({} to {}), p = {:.4}",
        first.name,
        percent(benefit.estimate),
        percent(benefit.low),
        percent(benefit.high),
        first.p
    );
    match (verdict, first.pairs_needed) {
        (Verdict::Inconclusive, Some(needed)) => format!("{figures}; {needed} pairs would decide"),
        _ => figures,
    }
}

#[cfg(test)]
mod tests;
