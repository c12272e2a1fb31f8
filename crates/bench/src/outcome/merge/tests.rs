//! Merging: sums, histograms instead of averages, the curve on one grid.

use proptest::prelude::*;

use super::*;
use crate::latency::histogram;

fn latency(values: &[u64]) -> Latency {
    let mut filled = histogram();
    for value in values {
        filled.saturating_record(*value);
    }
    Latency::of(&filled)
}

fn point(at: f64, produced: u64, values: &[u64]) -> Interval {
    let percentiles = latency(values).percentiles().unwrap();
    Interval {
        at,
        produced,
        consumed: produced / 2,
        p50_us: percentiles.p50,
        p99_us: percentiles.p99,
        latency: latency(values),
        tier_bytes: Vec::new(),
    }
}

fn host(started_ms: i64, points: Vec<Interval>) -> LoadOutcome {
    LoadOutcome {
        started_ms,
        seconds: points.last().map_or(0.0, |last| last.at),
        produce: Some(Side {
            records: 10,
            bytes: points.iter().map(|one| one.produced).sum(),
            wire_bytes: 7,
            requests: 3,
            latency: Latency::merge(points.iter().map(|one| &one.latency)).unwrap(),
        }),
        intervals: points,
        ..LoadOutcome::default()
    }
}

#[test]
fn what_hosts_did_adds_up_and_the_broker_is_counted_once() {
    let mut near = host(1_000, vec![point(1.0, 100, &[5; 99])]);
    near.broker = Some(Usage {
        cpu_seconds: 2.0,
        ..Usage::default()
    });
    near.client = near.broker.clone();
    near.errors.insert("timed out".to_owned(), 2);
    let mut far = near.clone();
    far.produce.as_mut().unwrap().latency = latency(&[9_000]);
    far.aborted = Some("far: lost".to_owned());
    let whole = LoadOutcome::merge(&[near, far]).unwrap();
    let produce = whole.produce.unwrap();
    assert_eq!((produce.records, produce.bytes), (20, 200));
    assert_eq!(produce.latency.percentiles().unwrap().p50, 5);
    assert_eq!(whole.broker.unwrap().cpu_seconds, 2.0);
    assert_eq!(whole.client.unwrap().cpu_seconds, 4.0);
    assert_eq!(whole.errors["timed out"], 4);
    assert_eq!(whole.aborted.as_deref(), Some("far: lost"));
    assert_eq!(whole.consume, None);
}

#[test]
fn points_of_one_time_are_one_point_with_the_latencies_of_all() {
    let near = host(0, vec![point(1.0, 100, &[10; 9]), point(2.001, 50, &[10])]);
    let far = host(
        20,
        vec![point(1.0, 30, &[1_000]), point(2.0, 30, &[1_000; 9])],
    );
    let whole = LoadOutcome::merge(&[near, far]).unwrap();
    let curve: Vec<_> = whole
        .intervals
        .iter()
        .map(|one| (one.at, one.produced, one.p50_us))
        .collect();
    assert_eq!(curve, [(1.0, 130, 10), (2.0, 80, 1_000)]);
}

#[test]
fn a_host_that_began_half_an_interval_later_is_spread_over_both() {
    let near = host(0, vec![point(1.0, 100, &[]), point(2.0, 100, &[])]);
    let far = host(500, vec![point(1.0, 40, &[]), point(2.0, 60, &[])]);
    let whole = LoadOutcome::merge(&[near, far]).unwrap();
    let curve: Vec<_> = whole
        .intervals
        .iter()
        .map(|one| (one.at, one.produced))
        .collect();
    assert_eq!(curve, [(1.0, 120), (2.0, 150), (2.5, 30)]);
    assert_eq!(whole.seconds, 2.5);
}

#[test]
fn warm_up_stays_below_zero() {
    let hosts = [
        host(
            0,
            vec![point(-1.0, 5, &[]), point(0.0, 5, &[]), point(1.0, 5, &[])],
        ),
        host(
            0,
            vec![point(-1.0, 5, &[]), point(0.0, 5, &[]), point(1.0, 5, &[])],
        ),
    ];
    let whole = LoadOutcome::merge(&hosts).unwrap();
    let ends: Vec<_> = whole.intervals.iter().map(|one| one.at).collect();
    assert_eq!(ends, [-1.0, 0.0, 1.0]);
}

#[test]
fn none_is_nothing_and_one_is_itself() {
    assert_eq!(LoadOutcome::merge(&[]).unwrap(), LoadOutcome::default());
    let one = host(77, vec![point(1.0, 5, &[3]), point(2.0, 6, &[4])]);
    assert_eq!(LoadOutcome::merge(std::slice::from_ref(&one)).unwrap(), one);
}

#[test]
fn an_interval_shorter_than_the_grid_can_tell_is_no_point_of_its_own() {
    let lengths = [1.161, 1.681, 1.386, 1.294, 0.2];
    let mut at = 0.0;
    let points = lengths.map(|length| {
        at += length;
        point(at, 10, &[])
    });
    let whole = LoadOutcome::merge(&[host(0, points.to_vec())]).unwrap();
    let ends: Vec<f64> = whole.intervals.iter().map(|one| one.at).collect();
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
    let produced = whole.intervals.iter().map(|one| one.produced);
    assert_eq!(produced.sum::<u64>(), 50);
}

proptest! {
    #[test]
    fn the_curve_holds_every_byte_once(
        hosts in prop::collection::vec((0_i64..3_000, prop::collection::vec((0.2_f64..1.8, 0_u64..1 << 40), 0..20)), 0..4),
    ) {
        let hosts: Vec<_> = hosts.into_iter().map(|(started, lengths)| {
            let mut at = 0.0;
            host(started, lengths.into_iter().map(|(length, bytes)| {
                at += length;
                point(at, bytes, &[])
            }).collect())
        }).collect();
        let sum = |part: &LoadOutcome| part.intervals.iter().map(|one| one.produced).sum::<u64>();
        let whole = LoadOutcome::merge(&hosts).unwrap();
        prop_assert_eq!(sum(&whole), hosts.iter().map(sum).sum::<u64>());
        prop_assert!(whole.intervals.windows(2).all(|pair| pair[0].at < pair[1].at));
    }
}
