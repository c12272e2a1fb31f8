//! Detects that the wall clock was set: it moved against the monotonic clock by more than normal
//! drift.
//!
//! [`Steps`] observes both clocks periodically and keeps the trusted difference between them. After
//! a step it keeps the old difference until the clock has run steadily for the configured hold, has
//! returned, or an operator accepts the step. Differences up to the threshold are not steps,
//! because time servers slew clocks; each hold accepts at most that much drift. Pure: times in,
//! values out. Every hold ends, whatever the clock does, except that a clock that is set repeatedly
//! is not followed in between.

/// Settings: which difference is a step, and how long it is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepSettings {
    /// Maximum drift between the clocks that is not a step, in milliseconds.
    pub threshold_ms: i64,
    /// How long the wall clock must run steadily after a step until it is trusted; 0: at once.
    pub hold_ms: i64,
}

impl StepSettings {
    /// The defaults: an hour, a day.
    pub const DEFAULT: Self = Self {
        threshold_ms: 3_600_000,
        hold_ms: 86_400_000,
    };
}

/// The result of an observation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockObservation {
    /// The clocks agree.
    Steady,
    /// The wall clock was set by this many milliseconds.
    Stepped(i64),
    /// The wall clock was set, and is not trusted yet.
    Held,
    /// The wall clock returned to the trusted difference.
    Returned,
    /// The wall clock is trusted from now on, after a step of this many milliseconds.
    Followed(i64),
}

/// The state that outlives the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The wall clock.
    pub wall_ms: i64,
    /// The wall clock without the step.
    pub steady_ms: i64,
    /// How long it had run steadily since the step.
    pub held_ms: i64,
}

/// A step of the wall clock that is not trusted yet.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    line_ms: i64,
    since_ms: i64,
}

/// The trusted state of the clock.
///
/// A line is the wall clock minus the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    line_ms: i64,
    anchored_ms: i64,
    candidate: Option<Candidate>,
}

impl Steps {
    /// Creates a state that trusts the wall clock.
    pub fn trusting(mono_ms: i64, wall_ms: i64) -> Self {
        Self {
            line_ms: wall_ms.saturating_sub(mono_ms),
            anchored_ms: mono_ms,
            candidate: None,
        }
    }

    /// Creates the state after a start, when the monotonic clock does not cover the time since the
    /// mark.
    ///
    /// A clock that is ahead of the last mark by no more than a hold is trusted, because a step of
    /// that length looks like a broker that was not running. A clock that is farther ahead, or
    /// behind by more than the threshold, has stepped since the mark; a hold in progress continues.
    pub fn resuming(mark: Mark, mono_ms: i64, wall_ms: i64, settings: StepSettings) -> Self {
        let trusting = Self::trusting(mono_ms, wall_ms);
        if settings.hold_ms <= 0 {
            return trusting;
        }
        let longest = settings.hold_ms.max(settings.threshold_ms);
        let is_plausible = |gap_ms: i64| (-settings.threshold_ms..=longest).contains(&gap_ms);
        if is_plausible(wall_ms.saturating_sub(mark.steady_ms)) {
            return trusting;
        }
        let since_mark = wall_ms.saturating_sub(mark.wall_ms);
        let goes_on = mark.wall_ms != mark.steady_ms && is_plausible(since_mark);
        let (away_ms, held_ms) = if goes_on {
            (since_mark.max(0), mark.held_ms.clamp(0, settings.hold_ms))
        } else {
            (0, 0)
        };
        let steady_ms = mark.steady_ms.saturating_add(away_ms);
        Self {
            line_ms: steady_ms.saturating_sub(mono_ms),
            anchored_ms: mono_ms,
            candidate: Some(Candidate {
                line_ms: trusting.line_ms,
                since_ms: mono_ms.saturating_sub(held_ms),
            }),
        }
    }

    /// Returns the trusted difference of the clocks.
    pub fn line_ms(&self) -> i64 {
        self.line_ms
    }

    /// Returns true while a step is not trusted.
    pub fn is_held(&self) -> bool {
        self.candidate.is_some()
    }

    /// Returns the rest of the hold, if the clock runs steadily.
    pub fn left_ms(&self, mono_ms: i64, settings: StepSettings) -> i64 {
        let held = |candidate: Candidate| mono_ms.saturating_sub(candidate.since_ms);
        let left = |candidate| settings.hold_ms.saturating_sub(held(candidate)).max(0);
        self.candidate.map_or(0, left)
    }

    /// Returns the state that the next start needs.
    pub fn mark(&self, mono_ms: i64, wall_ms: i64) -> Mark {
        let Some(candidate) = self.candidate else {
            return Mark {
                wall_ms,
                steady_ms: wall_ms,
                held_ms: 0,
            };
        };
        Mark {
            wall_ms,
            steady_ms: self.line_ms.saturating_add(mono_ms),
            held_ms: mono_ms.saturating_sub(candidate.since_ms).max(0),
        }
    }

    /// Updates the state with both clocks.
    pub fn observe(
        &mut self,
        mono_ms: i64,
        wall_ms: i64,
        settings: StepSettings,
    ) -> ClockObservation {
        let line_ms = wall_ms.saturating_sub(mono_ms);
        let by_ms = line_ms.saturating_sub(self.line_ms);
        let within = |by_ms: i64| by_ms.unsigned_abs() <= settings.threshold_ms.unsigned_abs();
        if within(by_ms) {
            let seen = match self.candidate.take() {
                Some(_) => ClockObservation::Returned,
                None => ClockObservation::Steady,
            };
            if mono_ms.saturating_sub(self.anchored_ms) >= settings.hold_ms {
                *self = Self::trusting(mono_ms, wall_ms);
            }
            return seen;
        }
        let known = self.candidate;
        let known = known.filter(|known| within(line_ms.saturating_sub(known.line_ms)));
        let candidate = known.unwrap_or(Candidate {
            line_ms,
            since_ms: mono_ms,
        });
        if mono_ms.saturating_sub(candidate.since_ms) >= settings.hold_ms {
            *self = Self::trusting(mono_ms, wall_ms);
            return ClockObservation::Followed(by_ms);
        }
        self.candidate = Some(candidate);
        if known.is_some() {
            ClockObservation::Held
        } else {
            ClockObservation::Stepped(by_ms)
        }
    }
}

#[cfg(test)]
mod tests;
