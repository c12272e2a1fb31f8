//! The bytes due by a time: the shape of a rate as a pure function of time.
//!
//! Invariants: [`Schedule::bytes_by`] never falls and is the integral of [`Schedule::rate_at`];
//! [`Schedule::time_of`] is its inverse. Time counts in seconds from the start of the load; a shape
//! starts at the end of the warm-up, and the warm-up runs at the first rate of the shape, or at the
//! one that bursts have for it. Not here: which producer sends what is due.

use std::f64::consts::TAU;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use crate::spec::Rate;

/// A rate over time; see the module documentation.
#[derive(Clone, Debug)]
pub struct Schedule {
    shape: Shape,
    warmup: f64,
    /// The rate in the warm-up.
    warm: f64,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Consecutive straight lines; the first starts at 0, the last one has no end.
    Lines(Vec<Line>),
    Burst {
        base: f64,
        peak: f64,
        length: f64,
        interval: f64,
    },
    Sine {
        mean: f64,
        amplitude: f64,
        period: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Line {
    from: f64,
    rate: f64,
    /// Change of the rate per second.
    slope: f64,
    /// Bytes due before it.
    before: f64,
}

impl Schedule {
    /// Creates the schedule of a rate; `None` for an unlimited one.
    pub fn new(rate: &Rate, warmup_seconds: f64) -> anyhow::Result<Option<Self>> {
        let shape = match rate {
            Rate::Unlimited => return Ok(None),
            Rate::Constant { rate } => lines(&[(0.0, *rate, 0.0)])?,
            Rate::Step { rates, every } => {
                ensure!(*every > 0.0, "steps need a length above 0");
                let starts = (0..).map(|step| f64::from(step) * every);
                let steps: Vec<_> = starts
                    .zip(rates)
                    .map(|(at, rate)| (at, *rate, 0.0))
                    .collect();
                lines(&steps)?
            }
            Rate::Ramp { from, to, over } => {
                ensure!(*over > 0.0, "a ramp needs a length above 0");
                lines(&[(0.0, *from, (to - from) / over), (*over, *to, 0.0)])?
            }
            Rate::Replay { file } => level_lines(&recorded(Path::new(file))?)
                .with_context(|| format!("rates recorded in {file}"))?,
            Rate::Recorded { points } => level_lines(points)?,
            &Rate::Burst {
                base,
                peak,
                length,
                interval,
                warmup,
            } => {
                check(base)?;
                check(peak)?;
                warmup.map_or(Ok(()), check)?;
                ensure!(
                    length > 0.0 && length <= interval && interval.is_finite(),
                    "a burst must be longer than 0 and not longer than its interval"
                );
                Shape::Burst {
                    base,
                    peak,
                    length,
                    interval,
                }
            }
            &Rate::Sine {
                mean,
                amplitude,
                period,
            } => {
                check(mean)?;
                check(amplitude)?;
                ensure!(
                    amplitude <= mean,
                    "a rate cannot fall below 0: amplitude above mean"
                );
                ensure!(
                    period > 0.0 && period.is_finite(),
                    "a period must be longer than 0"
                );
                Shape::Sine {
                    mean,
                    amplitude,
                    period,
                }
            }
        };
        Ok(Some(Self {
            warm: own_warmup(rate).unwrap_or_else(|| shape.rate_at(0.0)),
            shape,
            warmup: warmup_seconds.max(0.0),
        }))
    }

    /// Returns the rate at a time, in bytes per second.
    pub fn rate_at(&self, time: f64) -> f64 {
        if time < self.warmup {
            self.warm
        } else {
            self.shape.rate_at(time - self.warmup)
        }
    }

    /// Returns the bytes due by a time.
    pub fn bytes_by(&self, time: f64) -> f64 {
        if time <= self.warmup {
            self.warm * time.max(0.0)
        } else {
            self.warm * self.warmup + self.shape.bytes_by(time - self.warmup)
        }
    }

    /// Returns the first time at which `bytes` are due, or `None` if that is after `horizon`.
    pub fn time_of(&self, bytes: f64, horizon: f64) -> Option<f64> {
        if let Shape::Lines(lines) = &self.shape
            && let [line] = lines.as_slice()
            && line.slope.abs() < f64::MIN_POSITIVE
        {
            let time = bytes / line.rate;
            return (line.rate > 0.0 && time <= horizon).then_some(time);
        }
        if self.bytes_by(horizon) < bytes {
            return None;
        }
        let (mut low, mut high) = (0.0, horizon);
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if self.bytes_by(middle) < bytes {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high)
    }
}

impl Shape {
    fn rate_at(&self, time: f64) -> f64 {
        match self {
            Self::Lines(lines) => {
                let line = at(lines, time);
                line.rate + line.slope * (time - line.from)
            }
            Self::Burst {
                base,
                peak,
                length,
                interval,
            } => {
                if time % interval < interval - length {
                    *base
                } else {
                    *peak
                }
            }
            Self::Sine {
                mean,
                amplitude,
                period,
            } => mean + amplitude * (TAU * time / period).sin(),
        }
    }

    fn bytes_by(&self, time: f64) -> f64 {
        match self {
            Self::Lines(lines) => {
                let line = at(lines, time);
                let within = time - line.from;
                line.before + within * (line.rate + line.slope * within / 2.0)
            }
            Self::Burst {
                base,
                peak,
                length,
                interval,
            } => {
                let quiet = interval - length;
                let whole = (time / interval).floor();
                let within = time - whole * interval;
                whole * (base * quiet + peak * length)
                    + base * within.min(quiet)
                    + peak * (within - quiet).max(0.0)
            }
            Self::Sine {
                mean,
                amplitude,
                period,
            } => mean * time + amplitude * period / TAU * (1.0 - (TAU * time / period).cos()),
        }
    }
}

/// Returns the rate that a shape has for the warm-up.
fn own_warmup(rate: &Rate) -> Option<f64> {
    match rate {
        Rate::Burst { warmup, .. } => *warmup,
        _ => None,
    }
}

fn at(lines: &[Line], time: f64) -> &Line {
    let next = lines.partition_point(|line| line.from <= time);
    &lines[next.saturating_sub(1)]
}

/// Returns the lines of pieces (start, rate at the start, slope).
fn lines(pieces: &[(f64, f64, f64)]) -> anyhow::Result<Shape> {
    let mut lines: Vec<Line> = Vec::with_capacity(pieces.len());
    for &(from, rate, slope) in pieces {
        check(rate)?;
        let before = match lines.last() {
            None => {
                ensure!(
                    from.abs() < f64::MIN_POSITIVE,
                    "rates must start at 0 seconds, not at {from}"
                );
                0.0
            }
            Some(last) => {
                let length = from - last.from;
                ensure!(
                    length > 0.0,
                    "times of rates must ascend: {from} follows {}",
                    last.from
                );
                last.before + length * (last.rate + last.slope * length / 2.0)
            }
        };
        lines.push(Line {
            from,
            rate,
            slope,
            before,
        });
    }
    ensure!(!lines.is_empty(), "there is no rate");
    Ok(Shape::Lines(lines))
}

fn check(rate: f64) -> anyhow::Result<()> {
    ensure!(rate >= 0.0 && rate.is_finite(), "{rate} is no rate");
    Ok(())
}

/// Returns a rate for a host that does not have this host's files.
pub(crate) fn portable(rate: &Rate) -> anyhow::Result<Rate> {
    Ok(match rate {
        Rate::Replay { file } => Rate::Recorded {
            points: recorded(Path::new(file))?,
        },
        other => other.clone(),
    })
}

/// Returns lines of constant rates, each up to the next one.
fn level_lines(points: &[(f64, f64)]) -> anyhow::Result<Shape> {
    let pieces: Vec<_> = points.iter().map(|(at, rate)| (*at, *rate, 0.0)).collect();
    lines(&pieces)
}

/// Reads lines `SECONDS,RATE`; skips empty lines and those that start with #.
fn recorded(file: &Path) -> anyhow::Result<Vec<(f64, f64)>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut pieces = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields = line
            .split_once(',')
            .and_then(|(time, rate)| Some((time.trim().parse().ok()?, rate.trim().parse().ok()?)));
        let Some(piece) = fields else {
            bail!("{}:{number}: not SECONDS,RATE: {line}", file.display());
        };
        pieces.push(piece);
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests;
