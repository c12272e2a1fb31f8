//! Progress on standard error: on a terminal a bar with the time left, otherwise a line per
//! measurement.
//!
//! The time left is the plan's estimate of the remaining actions, times the ratio of actual to
//! estimated time so far.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Instant;

use crate::experiment::Experiment;
use crate::experiment::plan::{Action, PlannedMeasurement, estimate, measurements};
use crate::outcome::{Cell, Run};

const BAR: usize = 24;

/// The progress of a run.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    /// Estimated seconds of each action, in the order of the plan.
    estimates: Vec<f64>,
    taken: usize,
    measured: usize,
    count: usize,
    terminal: bool,
}

impl Progress {
    pub(super) fn begin(actions: &[Action], experiment: &Experiment) -> Self {
        let progress = Self {
            begun: Instant::now(),
            estimates: actions
                .iter()
                .map(|action| estimate(action, experiment))
                .collect(),
            taken: 0,
            measured: 0,
            count: measurements(actions).count(),
            terminal: stderr().is_terminal(),
        };
        let all = duration(progress.estimates.iter().sum());
        eprintln!(
            "{}: {} measurements, about {all}",
            experiment.name, progress.count
        );
        progress
    }

    /// Draws the bar with the action that begins.
    pub(super) fn beginning(&self, action: &Action) {
        if !self.terminal {
            return;
        }
        let doing = match action {
            Action::Attach(device) => format!("making device {}", device.name),
            Action::Limits { device } => format!("limits of {device}"),
            Action::Start { target, .. } => format!("starting {target}"),
            Action::Warm { target, .. } => format!("warming {target} up"),
            Action::Measure(planned) => name_of(planned),
            Action::Create { .. } | Action::Delete { .. } => return,
            Action::Stop { target } => format!("ending {target}"),
            Action::Detach => "removing the device".to_owned(),
        };
        self.bar(&doing);
    }

    /// Returns a display of rates during a measurement.
    pub(super) fn live(&self) -> LiveRate {
        LiveRate {
            bar: self.terminal.then(|| self.prefix()),
        }
    }

    /// Counts a finished action.
    pub(super) fn done(&mut self, action: &Action, run: &Run) {
        self.taken += 1;
        if !matches!(action, Action::Measure(_)) {
            return;
        }
        self.measured += 1;
        let Some(cell) = run.cells.last() else {
            return;
        };
        self.clear();
        eprintln!(
            "[{}/{}, {} left] {}",
            self.measured,
            self.count,
            duration(self.left()),
            summary(cell)
        );
    }

    /// Prints a line.
    pub(super) fn say(&self, words: &str) {
        self.clear();
        eprintln!("{words}");
    }

    pub(super) fn finish(&self) {
        self.clear();
    }

    fn left(&self) -> f64 {
        let elapsed = self.begun.elapsed().as_secs_f64();
        left(&self.estimates, self.taken, elapsed)
    }

    fn bar(&self, doing: &str) {
        draw(&format!("{}  {doing}", self.prefix()));
    }

    fn prefix(&self) -> String {
        let all: f64 = self.estimates.iter().sum();
        let taken: f64 = self.estimates.iter().take(self.taken).sum();
        let full = ((taken / all.max(0.001)) * BAR as f64) as usize;
        let bar = "#".repeat(full.min(BAR));
        let (measured, count) = (self.measured, self.count);
        format!(
            "[{bar:.<BAR$}] {measured}/{count} {} left",
            duration(self.left())
        )
    }

    fn clear(&self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

/// Shows the rate of a running measurement on a terminal.
#[derive(Clone, Debug)]
pub(super) struct LiveRate {
    bar: Option<String>,
}

impl LiveRate {
    pub(super) fn rate(&self, name: &str, bytes_per_second: f64) {
        if let Some(bar) = &self.bar {
            draw(&format!("{bar}  {name}: {}", rate_of(bytes_per_second)));
        }
    }
}

fn draw(line: &str) {
    // A terminal that is gone is no reason to end the run.
    let _ = write!(stderr(), "\r\x1b[2K{line:.120}");
}

/// Returns the seconds left, from the estimates and the actual time of the actions taken.
fn left(estimates: &[f64], taken: usize, elapsed: f64) -> f64 {
    let done: f64 = estimates.iter().take(taken).sum();
    let coming: f64 = estimates.iter().skip(taken).sum();
    // The first few actions prove little; the ratio stays within bounds because no run is much
    // faster or slower than planned.
    let pace = if done > 5.0 {
        (elapsed / done).clamp(0.3, 4.0)
    } else {
        1.0
    };
    coming * pace
}

/// Returns a measurement as text.
pub(super) fn name_of(planned: &PlannedMeasurement) -> String {
    words(
        &planned.device,
        &planned.phase,
        &planned.parameters,
        planned.repetition,
        &planned.target,
    )
}

fn words(
    device: &str,
    phase: &str,
    parameters: &BTreeMap<String, String>,
    repetition: u32,
    target: &str,
) -> String {
    let mut words = vec![device.to_owned(), phase.to_owned()];
    words.extend(
        parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    if repetition > 0 {
        words.push(format!("again({repetition})"));
    }
    words.push(target.to_owned());
    words.join(" ")
}

fn summary(cell: &Cell) -> String {
    let outcome = &cell.outcome;
    let name = words(
        &cell.device,
        &cell.phase,
        &cell.parameters,
        cell.repetition,
        &cell.target,
    );
    let mut parts = vec![name];
    let mut bytes = 0;
    for (verb, side) in [("wrote", &outcome.produce), ("read", &outcome.consume)] {
        if let Some(side) = side {
            bytes += side.bytes;
            let rate = side.bytes as f64 / outcome.seconds.max(0.001);
            parts.push(format!("{verb} {}", rate_of(rate)));
        }
    }
    if let Some(usage) = &outcome.broker
        && bytes > 0
    {
        let per_gb = usage.cpu_seconds / (bytes as f64 / 1e9);
        parts.push(format!("{per_gb:.2} CPU-s/GB"));
    }
    let errors = outcome.errors.iter();
    parts.extend(errors.map(|(error, count)| format!("{count} x {error}")));
    parts.extend(
        outcome
            .aborted
            .iter()
            .map(|why| format!("cut short: {why}")),
    );
    parts.join(", ")
}

fn rate_of(bytes_per_second: f64) -> String {
    format!("{:.3} GB/s", bytes_per_second / 1e9)
}

/// Returns seconds as readable text.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_pace() {
        let estimates = [10.0, 10.0, 10.0, 10.0];
        assert_eq!(left(&estimates, 0, 0.0), 40.0);
        assert_eq!(left(&estimates, 2, 40.0), 40.0);
        assert_eq!(left(&estimates, 2, 10.0), 10.0);
        assert_eq!(left(&estimates, 4, 40.0), 0.0);
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(7.4), "7 s");
        assert_eq!(duration(75.0), "1 min 15 s");
        assert_eq!(duration(7500.0), "2 h 05 min");
    }
}
