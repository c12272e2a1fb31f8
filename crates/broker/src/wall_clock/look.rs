//! How the clocks are compared, at a start and every few seconds, and how the result is published.
//!
//! Invariant: the trusted time is saved before the next start needs it, or that start treats the
//! clock as in doubt. It does not decide what is trusted ([`Steps`] does).

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use platform::clock::steps::{ClockObservation, Mark, StepSettings, Steps};
use platform::{Disk, Platform};
use storage::checkpoint::meta_properties::java_date;
use storage::checkpoint::offsets;
use wire::types::TimestampMs;

use super::{HeldStep, encode, parse};
use crate::Broker;
use crate::checkpoints::room;
use crate::names::CLOCK_FILE;

/// How often the clocks are compared.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum age of the note while a step is held: the hold goes on over a restart.
const HELD_NOTE_MS: i64 = 600_000;
/// Maximum age of the note otherwise, whatever counts as a step.
const NOTE_MAX_MS: i64 = 3_600_000;

/// Watches the clock as long as the shard lives.
pub(crate) async fn watch<P: Platform>(broker: Rc<Broker<P>>) {
    loop {
        broker.look_at_clock().await;
        broker.platform.clock().sleep(LOOK_INTERVAL).await;
    }
}

impl<P: Platform> Broker<P> {
    /// Decides at a start which time to trust, before a log is opened.
    pub(crate) async fn begin_clock(&self) {
        let clock = self.platform.clock();
        let settings = self.step_settings();
        let mark = match self.noted_mark().await {
            Some(mark) => Some(mark),
            None => self.last_sign_of_life().await,
        };
        let (mono_ms, wall_ms) = (clock.up_ms(), clock.wall_ms());
        let steps = match mark {
            Some(mark) => Steps::resuming(mark, mono_ms, wall_ms, settings),
            None => Steps::trusting(mono_ms, wall_ms),
        };
        *self.wall_clock.steps.borrow_mut() = Some(steps);
        self.believe(&steps, settings);
        if let Some(held) = self.held_step() {
            self.metrics.clock_steps.inc();
            tracing::warn!(
                wall = date(wall_ms),
                last_here = date(wall_ms.saturating_sub(held.by_ms)),
                hold_s = held.left_ms / 1000,
                "the wall clock is not where the last run left it: nothing is deleted for its age by it until \
                 it has run steadily for that long (clock.step.hold.ms; 0 has it believed at once)"
            );
        }
    }

    /// Returns a step of the clock that is not trusted yet; only the controller's shard knows it.
    pub fn held_step(&self) -> Option<HeldStep> {
        let steps = (*self.wall_clock.steps.borrow())?;
        let clock = self.platform.clock();
        steps.is_held().then(|| HeldStep {
            by_ms: clock.reading().step_ms(),
            left_ms: steps.left_ms(clock.up_ms(), self.step_settings()),
        })
    }

    /// Compares the clocks.
    async fn look_at_clock(&self) {
        let clock = self.platform.clock();
        let settings = self.step_settings();
        let (mono_ms, wall_ms) = (clock.up_ms(), clock.wall_ms());
        let known = *self.wall_clock.steps.borrow();
        let mut steps = known.unwrap_or_else(|| Steps::trusting(mono_ms, wall_ms));
        let seen = steps.observe(mono_ms, wall_ms, settings);
        *self.wall_clock.steps.borrow_mut() = Some(steps);
        self.believe(&steps, settings);
        match seen {
            ClockObservation::Steady | ClockObservation::Held => {}
            ClockObservation::Stepped(by_ms) => {
                self.metrics.clock_steps.inc();
                tracing::warn!(
                    wall = date(wall_ms),
                    expected = date(wall_ms.saturating_sub(by_ms)),
                    by_s = by_ms / 1000,
                    hold_s = settings.hold_ms / 1000,
                    "the wall clock was set: nothing is deleted for its age by it until it has run steadily for \
                     that long (clock.step.hold.ms; 0 has it believed at once)"
                );
            }
            ClockObservation::Returned => {
                tracing::warn!(wall = date(wall_ms), "the wall clock is back where it was");
            }
            ClockObservation::Followed(by_ms) => {
                tracing::warn!(
                    wall = date(wall_ms),
                    by_s = by_ms / 1000,
                    "the wall clock is believed: what is too old by it is deleted from now on"
                );
            }
        }
        let noted_ms = self.wall_clock.noted_ms.get();
        let longest_ms = note_age_max(settings, steps.is_held());
        let is_old = noted_ms.is_none_or(|at| mono_ms.saturating_sub(at) >= longest_ms);
        if is_old || !matches!(seen, ClockObservation::Steady | ClockObservation::Held) {
            self.note_clock().await;
        }
    }

    fn believe(&self, steps: &Steps, settings: StepSettings) {
        let clock = self.platform.clock();
        let threshold_ms = if settings.hold_ms > 0 {
            settings.threshold_ms
        } else {
            i64::MAX
        };
        clock.believe(steps.line_ms(), threshold_ms);
        self.metrics.clock_step.set(clock.reading().step_ms());
    }

    /// Writes the note for the next start.
    pub(crate) async fn note_clock(&self) {
        let Some(steps) = *self.wall_clock.steps.borrow() else {
            return;
        };
        let clock = self.platform.clock();
        let (mono_ms, wall_ms) = (clock.up_ms(), clock.wall_ms());
        self.wall_clock.noted_ms.set(Some(mono_ms));
        let bytes = encode(steps.mark(mono_ms, wall_ms));
        let path = self.clock_note();
        let written = room::replace(self.platform.disk(), &path, bytes.as_bytes()).await;
        if let Err(error) = written {
            tracing::debug!(path = %path.display(), %error, "the clock is not noted");
        }
    }

    async fn noted_mark(&self) -> Option<Mark> {
        let path = self.clock_note();
        let bytes = self.platform.disk().read_file(&path).await.ok()?;
        let mark = parse(&path, &bytes);
        if mark.is_none() {
            tracing::warn!(file = %path.display(), "damaged, and not used");
        }
        mark
    }

    /// Returns the time when the newest checkpoint file of any directory was written.
    async fn last_sign_of_life(&self) -> Option<Mark> {
        let files = [
            offsets::RECOVERY_POINTS,
            offsets::LOG_STARTS,
            offsets::HIGH_WATERMARKS,
        ];
        let mut newest_ms = None;
        for dir in &self.log_dirs.dirs {
            let Ok(entries) = self.platform.disk().list(&dir.path).await else {
                continue;
            };
            let there = entries.iter();
            let there =
                there.filter(|entry| files.contains(&entry.name.as_str()) && entry.modified_ms > 0);
            newest_ms = newest_ms.max(there.map(|entry| entry.modified_ms).max());
        }
        newest_ms.map(|wall_ms| Mark {
            wall_ms,
            steady_ms: wall_ms,
            held_ms: 0,
        })
    }

    fn clock_note(&self) -> PathBuf {
        self.metadata_home().dir.join(CLOCK_FILE)
    }

    fn step_settings(&self) -> StepSettings {
        self.node.clock().unwrap_or(self.options.clock)
    }
}

/// Returns how old the note may be: no older than a difference that is not a step, so that the note
/// is the only thing that an idle broker writes, and rarely.
fn note_age_max(settings: StepSettings, is_held: bool) -> i64 {
    if is_held {
        HELD_NOTE_MS
    } else {
        settings.threshold_ms.clamp(HELD_NOTE_MS, NOTE_MAX_MS)
    }
}

fn date(ms: i64) -> String {
    java_date(TimestampMs(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_as_old_as_what_counts_as_no_step_and_fresh_while_a_step_is_held() {
        let of = |threshold_ms| StepSettings {
            threshold_ms,
            ..StepSettings::DEFAULT
        };
        for (threshold_ms, is_held, expected_ms) in [
            (3_600_000, false, 3_600_000),
            (3_600_000, true, 600_000),
            (1_000, false, 600_000),
            (1_800_000, false, 1_800_000),
            (i64::MAX, false, 3_600_000),
            (i64::MAX, true, 600_000),
        ] {
            assert_eq!(note_age_max(of(threshold_ms), is_held), expected_ms);
        }
    }
}
