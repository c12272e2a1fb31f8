//! Ratios of pairs: the first target's figure to a rival's, measured directly after each other, and
//! their summary.
//!
//! Invariant: a ratio is of two cells that differ only in the target; medians are of ratios, never
//! ratios of medians.

use super::study::{CellPercentiles, Figure, MeasuredDevice, Phase};

/// A pair of cells with the ratio of a figure.
#[derive(Debug)]
pub(super) struct Pair<'a, 'b> {
    pub(super) ours: &'b CellPercentiles<'a>,
    pub(super) rival: &'b CellPercentiles<'a>,
    pub(super) ratio: f64,
}

/// Ratios within this distance of 1 are even.
const EVEN: f64 = 0.02;

/// The better target of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Won,
    Even,
    Lost,
}

impl Verdict {
    /// Returns the verdict of a ratio of a figure that is better when larger.
    pub(super) fn of(ratio: f64) -> Verdict {
        match ratio {
            more if more > 1.0 + EVEN => Verdict::Won,
            less if less < 1.0 - EVEN => Verdict::Lost,
            _ => Verdict::Even,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Verdict::Won => "won",
            Verdict::Even => "even",
            Verdict::Lost => "lost",
        }
    }
}

/// The median and range of ratios, and the count of each verdict.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) won: usize,
    pub(super) even: usize,
    pub(super) lost: usize,
}

impl Summary {
    pub(super) fn of(ratios: &[f64]) -> Option<Summary> {
        let count = |verdict| {
            ratios
                .iter()
                .filter(|ratio| Verdict::of(**ratio) == verdict)
                .count()
        };
        Some(Summary {
            median: median(ratios)?,
            low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            high: ratios.iter().copied().fold(0.0, f64::max),
            won: count(Verdict::Won),
            even: count(Verdict::Even),
            lost: count(Verdict::Lost),
        })
    }

    /// Returns the lowest and highest ratio in brackets, if there are several.
    pub(super) fn brackets(&self) -> String {
        if self.pairs() < 2 {
            return String::new();
        }
        let ends = [self.low, self.high].map(page::number::ratio);
        format!(
            " <small>({}..{})</small>",
            ends[0].trim_end_matches('x'),
            ends[1]
        )
    }

    pub(super) fn pairs(&self) -> usize {
        self.won + self.even + self.lost
    }
}

/// Returns the median; for an even count, the midpoint of the two middle values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len().is_multiple_of(2) {
        Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
    } else {
        Some(upper)
    }
}

/// Returns the pairs of a phase at a place.
pub(super) fn pairs<'a, 'b>(
    phase: &'b Phase<'a>,
    place: &MeasuredDevice,
    (ours, rival): (&str, &str),
    figure: Figure,
) -> Vec<Pair<'a, 'b>> {
    let here = |measured: &&'b CellPercentiles<'a>| {
        measured.cell.device == place.device && measured.cell.cold == place.cold
    };
    let of = |target: &str| -> Vec<&'b CellPercentiles<'a>> {
        let mine = phase.cells.iter().filter(here);
        mine.filter(|measured| measured.cell.target == target)
            .collect()
    };
    let rivals = of(rival);
    let mut found = Vec::new();
    for ours in of(ours) {
        let same = |other: &&&CellPercentiles| {
            other.cell.parameters == ours.cell.parameters
                && other.cell.repetition == ours.cell.repetition
        };
        let Some(rival) = rivals.iter().find(same) else {
            continue;
        };
        if let (Some(mine), Some(theirs)) = (figure.of(ours), figure.of(rival)) {
            found.push(Pair {
                ours,
                rival,
                ratio: mine / theirs,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_ratios() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        let summary = Summary::of(&[0.5, 1.01, 3.0, 4.0]).unwrap();
        assert_eq!((summary.won, summary.even, summary.lost), (2, 1, 1));
        assert_eq!((summary.low, summary.high), (0.5, 4.0));
    }
}
