//! Comparisons with scipy 1.17 (`permutation_test`, `bootstrap`, `t.ppf`, `nct`), and simulated
//! experiments. `tests/tune/scipy_figures.py` prints scipy's figures, and a test there finds each
//! in this file.

use super::random::Random;
use super::*;

const DIFFERENCES: [f64; 8] = [1.2, -0.3, 0.8, 2.1, 0.4, -0.1, 1.7, 0.9];
const ONE: [f64; 5] = [12.1, 9.8, 14.2, 11.0, 13.3];
const OTHER: [f64; 6] = [8.4, 9.9, 7.7, 10.2, 9.0, 8.8];

#[track_caller]
fn near(found: f64, expect: f64, within: f64) {
    assert!((found - expect).abs() <= within, "{found} is not {expect}");
}

fn block(test: &[f64], control: &[f64]) -> permute::Block {
    let test = test.iter().map(|value| (*value, true));
    test.chain(control.iter().map(|value| (*value, false)))
        .collect()
}

#[test]
fn counted_probabilities_are_scipys() {
    near(flip::p(&DIFFERENCES, 1), 0.039_062_5, 1e-12);
    let one = [block(&ONE, &OTHER)];
    near(permute::difference(&one).unwrap(), 3.08, 1e-9);
    // Counts both tails; scipy doubles one of them instead, which gives 0.012987.
    near(
        permute::p(&one, 1).unwrap(),
        0.006_493_506_493_506_494,
        1e-12,
    );
    let blocks = [
        block(&[3.0, 2.5], &[1.0, 0.5]),
        block(&[10.0, 11.0], &[9.0, 8.5]),
    ];
    near(permute::difference(&blocks).unwrap(), 1.875, 1e-12);
    near(permute::p(&blocks, 1).unwrap(), 2.0 / 36.0, 1e-12);
}

#[test]
fn drawn_probabilities_are_near_the_counted_ones() {
    // Twenty pairs have a million flips, so the flips are drawn.
    let mut random = Random::new(3);
    let many: Vec<f64> = (0..20).map(|_| random.normal() + 0.5).collect();
    let exact = |values: &[f64]| {
        let seen = values.iter().sum::<f64>().abs();
        let sum = |flips: u32| -> f64 {
            values
                .iter()
                .enumerate()
                .map(|(at, value)| {
                    if flips & (1 << at) == 0 {
                        *value
                    } else {
                        -value
                    }
                })
                .sum()
        };
        let all = 1_u32 << values.len();
        (0..all)
            .filter(|flips| sum(*flips).abs() >= seen - 1e-9)
            .count() as f64
            / f64::from(all)
    };
    near(flip::p(&many, 9), exact(&many), 0.005);
}

#[test]
fn what_cannot_be_compared_has_no_probability() {
    assert_eq!(permute::p(&[block(&[1.0, 2.0], &[])], 1), None);
    assert_eq!(permute::p(&[], 1), None);
    near(flip::p(&[0.0; 6], 1), 1.0, 0.0);
    near(flip::p_min(6), 0.031_25, 0.0);
    near(flip::p_min(8), 0.007_812_5, 0.0);
}

#[test]
fn medians_and_shifts_are_scipys() {
    near(deviation(&DIFFERENCES), 0.831_414_457_415_794_6, 1e-12);
    near(median(&DIFFERENCES), 0.85, 1e-12);
    near(bootstrap::shift(&DIFFERENCES), 0.825, 1e-12);
    assert!(median(&[]).is_nan());
}

#[test]
fn intervals_are_scipys_made_wider_for_few_values() {
    let wider = 2.364_624_251_592_784 / 1.959_963_984_540_054 * (8.0_f64 / 7.0).sqrt();
    let found = bootstrap::of_pairs(&DIFFERENCES, 5);
    near(found.estimate, 0.8375, 1e-12);
    near(found.low, 0.8375 - (0.8375 - 0.30) * wider, 0.06);
    near(found.high, 0.8375 + (1.375 - 0.8375) * wider, 0.06);
    let found = bootstrap::of_arms(&ONE, &OTHER, 5);
    let wider = 2.776_445_105_197_793 / 1.959_963_984_540_054 * (5.0_f64 / 4.0).sqrt();
    near(found.low, 3.08 - (3.08 - 1.5566) * wider, 0.15);
    near(found.high, 3.08 + (4.5733 - 3.08) * wider, 0.15);
    assert!(
        bootstrap::of_pairs(&[1.0], 1).low.is_infinite(),
        "one pair says nothing"
    );
}

#[test]
fn of_several_questions_each_has_to_pass_for_all() {
    let adjusted = holm::adjusted(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expect) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        near(*found, expect, 1e-12);
    }
}

#[test]
fn sizes_are_those_of_the_noncentral_t() {
    for (pairs, times) in [(6, 3.5139), (12, 3.0784), (24, 2.9256), (60, 2.8482)] {
        let found = power::effect(1.0, pairs).unwrap() * (pairs as f64).sqrt();
        // Two quantiles in place of the noncentral distribution: 79.5 % instead of 80 % for six.
        near(found, times, 0.025);
    }
    assert_eq!(power::effect(1.0, 1), None);
    // The smallest number of pairs whose effect does not exceed the wanted one.
    let needed = power::pairs(1.0, 0.6).unwrap();
    assert!(power::effect(1.0, needed).unwrap() <= 0.6);
    assert!(power::effect(1.0, needed - 1).unwrap() > 0.6);
    assert_eq!(power::pairs(1.0, 0.0), None);
}

#[test]
fn power_is_that_of_theory() {
    let runs = 2_000;
    for pairs in [8, 12] {
        let effect = power::effect(1.0, pairs).unwrap();
        let mut random = Random::new(11);
        let found = (0..runs).filter(|_| {
            let differences: Vec<f64> = (0..pairs).map(|_| random.normal() + effect).collect();
            flip::p(&differences, 0) < 0.05
        });
        near(found.count() as f64 / f64::from(runs), 0.80, 0.03);
    }
}

#[test]
fn lost_requests_are_the_slowest() {
    use quantile::{Quantile, quantile};
    let mut answers: Vec<f64> = (1..=10).map(f64::from).collect();
    assert_eq!(quantile(&mut answers, 0, 0.95), Quantile::Micros(10.0));
    assert_eq!(quantile(&mut answers, 0, 0.5), Quantile::Micros(5.0));
    assert_eq!(quantile(&mut answers, 10, 0.5), Quantile::Micros(10.0));
    assert_eq!(quantile(&mut answers, 10, 0.95), Quantile::OverTheTimeout);
    assert_eq!(quantile(&mut [], 3, 0.5), Quantile::OverTheTimeout);
    assert_eq!(quantile(&mut [], 0, 0.5), Quantile::None);
}

#[test]
fn a_guard_that_is_looked_at_all_the_time_seldom_alarms_for_nothing() {
    let runs = 2_000;
    let mut random = Random::new(7);
    let alarms = (0..runs).filter(|_| {
        let mut bettor = martingale::Bettor::default();
        (0..200).any(|_| bettor.sees(if random.coin() { 1.0 } else { -1.0 }))
    });
    let share = alarms.count() as f64 / f64::from(runs);
    assert!(share <= 0.015, "{share}: 1 in 100 is allowed");
}

#[test]
fn a_guard_sees_harm_soon() {
    let mut bettor = martingale::Bettor::default();
    let harm = martingale::worse(200.0, 3.0, 0.05, 1.0);
    near(harm, (201.0_f64 / 4.0).ln() - 1.05_f64.ln(), 1e-12);
    let blocks = (1..100).find(|_| bettor.sees(harm)).unwrap();
    assert!(blocks <= 10, "{blocks}");
    let mut bettor = martingale::Bettor::default();
    assert!(!bettor.sees(f64::NAN));
    near(bettor.fortune(), 1.0, 1e-12);
}

#[test]
fn the_same_seed_is_the_same_experiment() {
    let draw = || {
        let mut values: Vec<usize> = (0..20).collect();
        Random::new(42).shuffle(&mut values);
        values
    };
    assert_eq!(draw(), draw());
    let mut sorted = draw();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>());
}
