//! Schedules: the bytes due are the integral of the rate, and times are its inverse.

use std::io::Write as _;

use proptest::prelude::*;

use super::Schedule;
use crate::spec::Rate;

fn schedule(rate: &Rate, warmup: f64) -> Schedule {
    Schedule::new(rate, warmup).unwrap().unwrap()
}

fn rates() -> impl Strategy<Value = Rate> {
    let rate = || 0.0..1e9f64;
    let time = || 0.1..20.0f64;
    prop_oneof![
        rate().prop_map(|rate| Rate::Constant { rate }),
        (prop::collection::vec(rate(), 1..5), time())
            .prop_map(|(rates, every)| Rate::Step { rates, every }),
        (rate(), rate(), time()).prop_map(|(from, to, over)| Rate::Ramp { from, to, over }),
        (
            rate(),
            rate(),
            time(),
            0.05..1.0f64,
            prop::option::of(rate())
        )
            .prop_map(|(base, peak, interval, part, warmup)| Rate::Burst {
                base,
                peak,
                length: interval * part,
                interval,
                warmup,
            }),
        (rate(), 0.0..1.0f64, time()).prop_map(|(mean, part, period)| Rate::Sine {
            mean,
            amplitude: mean * part,
            period,
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_due_is_the_integral_of_the_rate(
        rate in rates(), warmup in 0.0..5.0f64, end in 0.5..40.0f64,
    ) {
        let schedule = schedule(&rate, warmup);
        let steps = 100_000;
        let step = end / f64::from(steps);
        let sum: f64 = (0..steps)
            .map(|index| schedule.rate_at((f64::from(index) + 0.5) * step) * step)
            .sum();
        // A jump within a step causes an error of at most the step times its height.
        let tolerance = 400.0 * step * 1e9 + 1e-6 * sum;
        prop_assert!((sum - schedule.bytes_by(end)).abs() <= tolerance, "{sum}");
    }

    #[test]
    fn times_are_the_inverse(rate in rates(), warmup in 0.0..5.0f64, part in 0.0..1.0f64) {
        let schedule = schedule(&rate, warmup);
        let horizon = 60.0;
        let bytes = schedule.bytes_by(horizon) * part;
        if let Some(time) = schedule.time_of(bytes, horizon) {
            let back = schedule.bytes_by(time);
            prop_assert!((back - bytes).abs() <= 1e-9 * bytes + 1.0, "{back} {bytes}");
        } else {
            prop_assert!(schedule.bytes_by(horizon) == 0.0);
        }
        let beyond = schedule.bytes_by(horizon) * 1.01 + 1.0;
        prop_assert_eq!(schedule.time_of(beyond, horizon), None);
    }
}

#[test]
fn bursts_start_with_their_quiet_part() {
    let rate = Rate::Burst {
        base: 10.0,
        peak: 100.0,
        length: 2.0,
        interval: 10.0,
        warmup: None,
    };
    let schedule = schedule(&rate, 5.0);
    let at = |time: f64| schedule.rate_at(time);
    assert_eq!(
        [at(1.0), at(12.9), at(13.1), at(15.1)],
        [10.0, 10.0, 100.0, 10.0]
    );
    assert!((schedule.bytes_by(15.0) - (50.0 + 80.0 + 200.0)).abs() < 1e-9);
}

#[test]
fn bursts_can_have_a_rate_of_their_own_in_the_warm_up() {
    let rate = Rate::Burst {
        base: 10.0,
        peak: 100.0,
        length: 2.0,
        interval: 10.0,
        warmup: Some(200.0),
    };
    let schedule = schedule(&rate, 5.0);
    let at = |time: f64| schedule.rate_at(time);
    assert_eq!([at(1.0), at(5.1), at(13.1)], [200.0, 10.0, 100.0]);
    assert!((schedule.bytes_by(15.0) - (1000.0 + 80.0 + 200.0)).abs() < 1e-9);
}

#[test]
fn a_recorded_file_is_replayed() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "# seconds,rate\n0,100\n\n2.5, 0\n4,1e3").unwrap();
    let rate = Rate::Replay {
        file: file.path().display().to_string(),
    };
    let carried = super::portable(&rate).unwrap();
    drop(file);
    assert!(Schedule::new(&rate, 0.0).is_err());
    let schedule = schedule(&carried, 0.0);
    assert!((schedule.bytes_by(5.0) - (250.0 + 1000.0)).abs() < 1e-9);
    assert_eq!(schedule.rate_at(3.0), 0.0);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let refused = |rate: Rate| Schedule::new(&rate, 0.0).unwrap_err().to_string();
    assert_eq!(refused(Rate::Constant { rate: -1.0 }), "-1 is no rate");
    let step = Rate::Step {
        rates: vec![],
        every: 1.0,
    };
    assert_eq!(refused(step), "there is no rate");
    let sine = Rate::Sine {
        mean: 1.0,
        amplitude: 2.0,
        period: 1.0,
    };
    assert_eq!(
        refused(sine),
        "a rate cannot fall below 0: amplitude above mean"
    );
    assert!(Schedule::new(&Rate::Unlimited, 0.0).unwrap().is_none());
}
