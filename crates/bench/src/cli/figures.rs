//! The outcome of a load as numbers with names, for programs that compare loads.
//!
//! Invariant: what was not answered counts as slower than everything that was, so that a target
//! that loses its slow requests does not look faster than one that answers them.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};

use crate::outcome::{LoadOutcome, Side};
use crate::spec::{Load, Rate};

/// Share of the due bytes that a step has to reach.
const DUE_SHARE: f64 = 0.99;
/// Seconds after the end for which a load waits for answers.
const WAITED: f64 = 10.0;

/// The steps of a load, and the latency that each has to keep.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Objective {
    rates: Vec<f64>,
    every: f64,
    warmup: f64,
    interval: f64,
    p99_ms: f64,
}

impl Objective {
    /// Returns the objective of a load; an error if its rate has no steps.
    pub(super) fn of(load: &Load, p99_ms: Option<f64>) -> anyhow::Result<Option<Self>> {
        let Some(p99_ms) = p99_ms else {
            return Ok(None);
        };
        ensure!(
            p99_ms.is_finite() && p99_ms > 0.0,
            "--objective-p99 {p99_ms}: milliseconds above 0"
        );
        let Some(Rate::Step { rates, every }) = load.produce.as_ref().map(|one| &one.rate) else {
            bail!("--objective-p99 needs a rate of steps: --rate step:RATE,RATE,../SECONDS");
        };
        ensure!(
            load.interval_seconds <= *every,
            "--objective-p99: an interval of {} s is longer than a step of {every} s",
            load.interval_seconds
        );
        Ok(Some(Self {
            rates: rates.clone(),
            every: *every,
            warmup: load.warmup_seconds,
            interval: load.interval_seconds,
            p99_ms,
        }))
    }

    /// Returns the rate of the last step before the first one that was not kept up; 0 if that is
    /// the first.
    fn capacity(&self, outcome: &LoadOutcome) -> f64 {
        let mut kept = 0.0;
        for (at, rate) in self.rates.iter().enumerate() {
            // Steps begin with the load, intervals count from the end of the warm-up.
            let begin = at as f64 * self.every - self.warmup;
            let end = begin + self.every;
            let middle = |one: f64| one - self.interval / 2.0;
            let of_step: Vec<_> = outcome
                .intervals
                .iter()
                .filter(|one| (begin..end).contains(&middle(one.at)))
                .collect();
            let produced: u64 = of_step.iter().map(|one| one.produced).sum();
            let seconds = of_step.len() as f64 * self.interval;
            let is_fast = |p99_us: u64| p99_us as f64 / 1e3 <= self.p99_ms;
            let is_kept = !of_step.is_empty()
                && of_step.iter().all(|one| is_fast(one.p99_us))
                && produced as f64 >= rate * seconds * DUE_SHARE;
            if !is_kept {
                break;
            }
            kept = *rate;
        }
        kept
    }
}

/// Returns the figures: rates in MB/s, latencies in milliseconds, costs in CPU seconds per GB.
///
/// A load that ended early has none.
pub(super) fn of(
    outcome: &LoadOutcome,
    objective: Option<&Objective>,
) -> anyhow::Result<BTreeMap<String, f64>> {
    if let Some(why) = &outcome.aborted {
        bail!("ended before its time: {why}");
    }
    let mut figures = BTreeMap::new();
    for (name, side) in [("produce", &outcome.produce), ("consume", &outcome.consume)] {
        if let Some(side) = side {
            of_side(&mut figures, name, side, outcome)?;
        }
    }
    let sides = [&outcome.produce, &outcome.consume];
    let bytes: u64 = sides.into_iter().flatten().map(|side| side.bytes).sum();
    for (name, usage) in [("broker", &outcome.broker), ("client", &outcome.client)] {
        if let Some(usage) = usage
            && bytes > 0
        {
            let cost = usage.cpu_seconds / (bytes as f64 / 1e9);
            figures.insert(format!("{name}_cpu_s_per_gb"), cost);
        }
    }
    if let Some(objective) = objective {
        // One lost record may be of any step.
        let lost = figures.get("produce_lost").copied().unwrap_or(0.0);
        let capacity = if lost > 0.0 {
            0.0
        } else {
            objective.capacity(outcome)
        };
        figures.insert("capacity_mb".to_owned(), capacity / 1e6);
    }
    Ok(figures)
}

fn of_side(
    figures: &mut BTreeMap<String, f64>,
    name: &str,
    side: &Side,
    outcome: &LoadOutcome,
) -> anyhow::Result<()> {
    let seconds = outcome.seconds.max(1e-9);
    let errors = outcome.errors.iter();
    let of_it = errors.filter(|(what, _)| what.starts_with(name));
    let lost = of_it.fold(0_u64, |all, (_, count)| all.saturating_add(*count));
    let mut add = |what: &str, value: f64| figures.insert(format!("{name}_{what}"), value);
    add("mb", side.bytes as f64 / 1e6 / seconds);
    add("records", side.records as f64 / seconds);
    add("lost", lost as f64);
    let histogram = side.latency.histogram()?;
    let all = histogram.len().saturating_add(lost);
    if all == 0 {
        return Ok(());
    }
    for (what, share) in [("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)] {
        // The rank among all; the lost ones are the slowest.
        let rank = (share * all as f64).ceil();
        let answered = histogram.len() as f64;
        let ms = if rank > answered {
            (outcome.seconds + WAITED) * 1e3
        } else {
            let quantile = histogram.value_at_quantile(rank / answered);
            quantile.min(histogram.max()) as f64 / 1e3
        };
        add(what, ms);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency;
    use crate::outcome::{Interval, Latency, Usage};

    fn outcome(answered: &[(u64, u64)], lost: u64) -> LoadOutcome {
        let mut histogram = latency::histogram();
        for (micros, count) in answered {
            histogram.saturating_record_n(*micros, *count);
        }
        LoadOutcome {
            seconds: 2.0,
            produce: Some(Side {
                records: histogram.len(),
                bytes: 20_000_000,
                latency: Latency::of(&histogram),
                ..Side::default()
            }),
            broker: Some(Usage {
                cpu_seconds: 0.1,
                ..Usage::default()
            }),
            errors: [("produce: records due and not sent".to_owned(), lost)].into(),
            ..LoadOutcome::default()
        }
    }

    fn near(figures: &BTreeMap<String, f64>, name: &str, expect: f64) {
        let value = figures[name];
        assert!((value / expect - 1.0).abs() < 0.01, "{name}: {value}");
    }

    #[test]
    fn figures_are_numbers_with_names() {
        let figures = of(&outcome(&[(1_500, 98), (9_000, 2)], 0), None).unwrap();
        near(&figures, "produce_mb", 10.0);
        near(&figures, "produce_records", 50.0);
        near(&figures, "produce_p50_ms", 1.5);
        near(&figures, "produce_p99_ms", 9.0);
        near(&figures, "broker_cpu_s_per_gb", 5.0);
        assert!(!figures.contains_key("capacity_mb") && !figures.contains_key("consume_mb"));
    }

    #[test]
    fn lost_records_are_the_slowest() {
        // Of a hundred, four are lost: the 95th percentile is answered, the 99th is not.
        let figures = of(&outcome(&[(1_000, 90), (2_000, 6)], 4), None).unwrap();
        near(&figures, "produce_p95_ms", 2.0);
        near(&figures, "produce_p99_ms", 12_000.0);
        near(&figures, "produce_lost", 4.0);
        let mut ended = outcome(&[(1_000, 1)], 0);
        ended.aborted = Some("stopped".to_owned());
        assert!(of(&ended, None).is_err());
    }

    #[test]
    fn capacity_is_the_last_step_that_is_kept_up() {
        let mut load = Load {
            warmup_seconds: 0.0,
            interval_seconds: 0.5,
            ..toml::from_str("seconds = 4\ntopics = { count = 1, partitions = 1 }\nproduce = { producers = 1, record = 1000, batch_bytes = 1000, acks = -1, in_flight_max = 5 }").unwrap()
        };
        assert!(Objective::of(&load, Some(10.0)).is_err(), "it has no steps");
        let rates = vec![1e6, 2e6, 3e6, 4e6];
        load.produce.as_mut().unwrap().rate = Rate::Step { rates, every: 1.0 };
        let objective = Objective::of(&load, Some(10.0)).unwrap().unwrap();
        let capacity = |p99_us: [u64; 8], produced: [u64; 8], lost: u64| {
            let mut outcome = outcome(&[(1_000, 100)], lost);
            outcome.intervals = (0_u32..8)
                .zip(p99_us.into_iter().zip(produced))
                .map(|(at, (p99_us, produced))| Interval {
                    at: f64::from(at + 1) * 0.5,
                    produced,
                    p99_us,
                    ..Interval::default()
                })
                .collect();
            of(&outcome, Some(&objective)).unwrap()["capacity_mb"]
        };
        let due = [5, 5, 10, 10, 15, 15, 20, 20].map(|bytes| bytes * 100_000);
        let fast = [2_000; 8];
        let is = |found: f64, expect: f64| assert!((found - expect).abs() < 1e-9, "{found}");
        is(capacity(fast, due, 0), 4.0);
        is(capacity(fast, due, 1), 0.0);
        let mut slow = fast;
        slow[5] = 11_000;
        is(capacity(slow, due, 0), 2.0);
        let mut behind = due;
        behind[2] -= 100_000;
        is(capacity(fast, behind, 0), 1.0);
        slow[0] = 11_000;
        is(capacity(slow, due, 0), 0.0);
    }
}
