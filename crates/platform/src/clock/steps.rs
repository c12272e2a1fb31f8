//! Notices that the wall clock was set: it moved against the monotonic clock by more than a machine's clock does.
//!
//! [`Steps`] is told both clocks now and then, and keeps the difference between them that is believed. After a step the old
//! difference stays believed until the clock has run steadily for as long as the settings say, or has come back, or an
//! operator lets it be followed at once. Within that time differences up to the threshold are no step: time servers slew
//! clocks, and so much of it is believed in each hold. Pure: times in, values out; nothing waits for ever, whatever
//! the clock does, save that a clock which is set again and again is not followed in between.

/// When a step is one, and how long it is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepSettings {
    /// Most that the clocks may part without a step, in milliseconds.
    pub threshold_ms: i64,
    /// How long the wall clock has to run steadily after a step before it is believed; 0: at once.
    pub hold_ms: i64,
}

impl StepSettings {
    /// The defaults: an hour, a day.
    pub const DEFAULT: Self = Self {
        threshold_ms: 3_600_000,
        hold_ms: 86_400_000,
    };
}

/// What an observation came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The clocks agree.
    Steady,
    /// The wall clock was set by so much.
    Stepped(i64),
    /// It was, and is not believed yet.
    Held,
    /// It came back.
    Returned,
    /// It is believed from now on.
    Followed(i64),
}

/// What outlives the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The wall clock.
    pub wall_ms: i64,
    /// What it would have shown without the step.
    pub steady_ms: i64,
    /// For how long it had run steadily since the step.
    pub held_ms: i64,
}

/// A wall clock that was set, and is watched.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    line_ms: i64,
    since_ms: i64,
}

/// The clock as it is believed. A line is the wall clock less the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    line_ms: i64,
    anchored_ms: i64,
    candidate: Option<Candidate>,
}

impl Steps {
    /// Believes what the wall clock shows.
    pub fn trusting(mono_ms: i64, wall_ms: i64) -> Self {
        Self {
            line_ms: wall_ms.saturating_sub(mono_ms),
            anchored_ms: mono_ms,
            candidate: None,
        }
    }

    /// A start: the monotonic clock does not know how long nobody was there. A clock that is ahead of the last mark by no
    /// more than a hold is believed, for nothing tells a step of that length from a broker that was not running. One that
    /// is farther ahead, or behind, is a step from the mark on; a hold that was under way goes on.
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

    /// The difference of the clocks that is believed.
    pub fn line_ms(&self) -> i64 {
        self.line_ms
    }

    /// True while a step is not believed.
    pub fn is_held(&self) -> bool {
        self.candidate.is_some()
    }

    /// For how much longer, if the clock runs steadily.
    pub fn left_ms(&self, mono_ms: i64, settings: StepSettings) -> i64 {
        let held = |candidate: Candidate| mono_ms.saturating_sub(candidate.since_ms);
        let left = |candidate| settings.hold_ms.saturating_sub(held(candidate)).max(0);
        self.candidate.map_or(0, left)
    }

    /// What the next start has to know.
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

    /// Takes in what both clocks show.
    pub fn observe(&mut self, mono_ms: i64, wall_ms: i64, settings: StepSettings) -> Seen {
        let line_ms = wall_ms.saturating_sub(mono_ms);
        let by_ms = line_ms.saturating_sub(self.line_ms);
        let within = |by_ms: i64| by_ms.unsigned_abs() <= settings.threshold_ms.unsigned_abs();
        if within(by_ms) {
            let seen = match self.candidate.take() {
                Some(_) => Seen::Returned,
                None => Seen::Steady,
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
            return Seen::Followed(by_ms);
        }
        self.candidate = Some(candidate);
        if known.is_some() {
            Seen::Held
        } else {
            Seen::Stepped(by_ms)
        }
    }
}

#[cfg(test)]
mod tests;
