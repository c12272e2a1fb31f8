//! Steps of the wall clock, by hand and with random jumps.

use super::super::Reading;
use super::*;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const WALL: i64 = 1_767_225_600_000;
const SETTINGS: StepSettings = StepSettings::DEFAULT;

/// A small random generator; each seed gives another sequence of jumps.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % bound).unwrap()
    }
}

fn reading(steps: &Steps, mono_ms: i64, wall_ms: i64) -> Reading {
    let steady_ms = steps.line_ms() + mono_ms;
    let agree = (wall_ms - steady_ms).abs() <= SETTINGS.threshold_ms;
    Reading {
        wall_ms,
        steady_ms: if agree { wall_ms } else { steady_ms },
    }
}

#[test]
fn a_step_is_not_believed_before_the_clock_has_run_steadily_for_a_hold() {
    for by in [2 * HOUR, 30 * DAY, -2 * HOUR, -400 * DAY] {
        let mut steps = Steps::trusting(0, WALL);
        assert_eq!(
            steps.observe(HOUR, WALL + HOUR, SETTINGS),
            ClockObservation::Steady
        );
        assert_eq!(
            steps.observe(2 * HOUR, WALL + 2 * HOUR + by, SETTINGS),
            ClockObservation::Stepped(by)
        );
        let late = 2 * HOUR + DAY - 1;
        assert_eq!(
            steps.observe(late, WALL + late + by, SETTINGS),
            ClockObservation::Held
        );
        assert_eq!(steps.left_ms(late, SETTINGS), 1);
        assert_eq!(
            steps.observe(late + 1, WALL + late + 1 + by, SETTINGS),
            ClockObservation::Followed(by)
        );
        assert_eq!(
            steps.observe(late + 2, WALL + late + 2 + by, SETTINGS),
            ClockObservation::Steady
        );
    }
}

#[test]
fn a_clock_that_comes_back_was_never_believed() {
    let mut steps = Steps::trusting(0, WALL);
    assert_eq!(
        steps.observe(10, WALL + 10 - DAY, SETTINGS),
        ClockObservation::Stepped(-DAY)
    );
    assert_eq!(
        steps.observe(20, WALL + 20, SETTINGS),
        ClockObservation::Returned
    );
    assert!(!steps.is_held());
    assert_eq!(
        steps.observe(30, WALL + 30, SETTINGS),
        ClockObservation::Steady
    );
}

#[test]
fn a_step_under_the_threshold_is_none_and_many_of_them_are_one() {
    let mut steps = Steps::trusting(0, WALL);
    assert_eq!(
        steps.observe(10, WALL + 10 + HOUR, SETTINGS),
        ClockObservation::Steady
    );
    assert_eq!(
        steps.observe(20, WALL + 20 + 2 * HOUR, SETTINGS),
        ClockObservation::Stepped(2 * HOUR)
    );
    // The normal drift of a clock over days is trusted.
    let mut steps = Steps::trusting(0, WALL);
    for day in 1..100 {
        let at = day * DAY;
        assert_eq!(
            steps.observe(at, WALL + at + day * HOUR / 2, SETTINGS),
            ClockObservation::Steady
        );
    }
}

#[test]
fn an_operator_has_a_step_followed_at_once() {
    let mut steps = Steps::trusting(0, WALL);
    assert_eq!(
        steps.observe(10, WALL + 30 * DAY, SETTINGS),
        ClockObservation::Stepped(30 * DAY - 10)
    );
    let at_once = StepSettings {
        hold_ms: 0,
        ..SETTINGS
    };
    assert_eq!(
        steps.observe(20, WALL + 30 * DAY, at_once),
        ClockObservation::Followed(30 * DAY - 20)
    );
    assert_eq!(
        steps.observe(30, WALL + 30 * DAY, SETTINGS),
        ClockObservation::Steady
    );
}

#[test]
fn a_start_far_ahead_of_the_last_mark_is_a_step_and_one_after_a_short_stop_is_none() {
    let mark = Steps::trusting(5, WALL).mark(5, WALL);
    let start = |wall_ms| Steps::resuming(mark, 0, wall_ms, SETTINGS);
    for gap in [0, HOUR, DAY, -HOUR] {
        assert!(!start(WALL + gap).is_held(), "{gap}");
    }
    for gap in [DAY + 1, 3650 * DAY, -HOUR - 1, -3650 * DAY] {
        let mut steps = start(WALL + gap);
        assert_eq!(steps.line_ms(), WALL, "{gap}");
        assert_eq!(
            steps.observe(1, WALL + gap + 1, SETTINGS),
            ClockObservation::Held
        );
        assert_eq!(
            steps.observe(DAY, WALL + gap + DAY, SETTINGS),
            ClockObservation::Followed(gap)
        );
    }
}

#[test]
fn a_restart_neither_ends_a_hold_nor_begins_it_anew() {
    let mut steps = Steps::trusting(0, WALL);
    steps.observe(0, WALL + 30 * DAY, SETTINGS);
    let mark = steps.mark(20 * HOUR, WALL + 30 * DAY + 20 * HOUR);
    assert_eq!(mark.held_ms, 20 * HOUR);
    let mut steps = Steps::resuming(mark, 7, mark.wall_ms + HOUR, SETTINGS);
    assert!(steps.is_held());
    assert_eq!(steps.line_ms() + 7, WALL + 21 * HOUR);
    let end = 7 + 4 * HOUR;
    let seen = steps.observe(end - 1, mark.wall_ms + 5 * HOUR - 1, SETTINGS);
    assert_eq!(seen, ClockObservation::Held);
    let seen = steps.observe(end, mark.wall_ms + 5 * HOUR, SETTINGS);
    assert_eq!(seen, ClockObservation::Followed(30 * DAY));
    // The clock was set right while the broker was not running.
    assert!(!Steps::resuming(mark, 0, WALL + 22 * HOUR, SETTINGS).is_held());
}

#[test]
fn nothing_is_older_than_the_time_that_has_passed_while_a_step_is_held() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let (mut mono, mut jumped) = (0, 0);
        let mut steps = Steps::trusting(0, WALL);
        // Dates of a clock that was never set.
        let mut dated = Vec::new();
        let mut last_step = 0;
        for _ in 0..200 {
            mono += 60_000 * (1 + numbers.below(120));
            if numbers.below(20) == 0 {
                jumped += (2 * HOUR + numbers.below(5000) * HOUR) * (1 - 2 * numbers.below(2));
                last_step = mono;
            }
            let wall = WALL + mono + jumped;
            let before = reading(&steps, mono, wall);
            steps.observe(mono, wall, SETTINGS);
            let held = steps.is_held();
            assert!(
                !held || mono - last_step < DAY,
                "seed {seed}: held for ever"
            );
            let after = reading(&steps, mono, wall);
            if held && steps.line_ms() == WALL {
                // Also between the step and the observation that detects it.
                for now in [before, after] {
                    for at in &dated {
                        let age = now.age_ms(WALL + at);
                        assert!(age <= mono - at, "seed {seed}: {age} of {}", mono - at);
                    }
                }
            }
            dated.push(mono);
        }
    }
}

#[test]
fn no_number_is_too_large() {
    let extremes = [i64::MIN, -1, 0, 1, i64::MAX];
    for a in extremes {
        for b in extremes {
            for c in extremes {
                let mut steps = Steps::trusting(a, b);
                steps.observe(c, a, SETTINGS);
                steps.observe(b, c, SETTINGS);
                let _ = (steps.left_ms(a, SETTINGS), steps.mark(b, c));
                let mark = Mark {
                    wall_ms: a,
                    steady_ms: b,
                    held_ms: c,
                };
                let mut steps = Steps::resuming(mark, c, a, SETTINGS);
                steps.observe(a, b, SETTINGS);
                let reading = Reading {
                    wall_ms: a,
                    steady_ms: b,
                };
                let _ = (reading.age_ms(c), reading.step_ms(), reading.earliest_ms());
            }
        }
    }
}
