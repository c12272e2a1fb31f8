//! Verdicts of simulated experiments.

use super::*;
use crate::statistics::random::Random;

fn figure(pairs: Vec<(f64, f64)>) -> Figure {
    Figure {
        name: "drops".to_owned(),
        better: GoodDirection::Less,
        threshold: 0.10,
        pairs,
    }
}

/// Pairs with `noise`, in which the test arm drops `times` as many as the control arm.
fn pairs(random: &mut Random, count: usize, noise: f64, times: f64) -> Vec<(f64, f64)> {
    let mut draw = |mean: f64| mean * (random.normal() * noise).exp();
    (0..count)
        .map(|_| (draw(1_000.0), draw(1_000.0 * times)))
        .collect()
}

#[test]
fn what_does_nothing_is_hardly_ever_said_to_do_something() {
    let runs = 2_000;
    let mut random = Random::new(1);
    let mut wrong = 0;
    for seed in 0..runs {
        let pairs = pairs(&mut random, 8, 0.3, 1.0);
        let (verdict, _) = decide(&[figure(pairs)], &[], false, seed);
        wrong += u64::from(matches!(verdict, Verdict::Adopt | Verdict::Harmful));
    }
    let share = wrong as f64 / runs as f64;
    assert!(share <= 0.05, "{share} of experiments without an effect");
}

#[test]
fn verdicts() {
    let mut random = Random::new(2);
    let mut verdict = |count: usize, noise: f64, times: f64| {
        let pairs = pairs(&mut random, count, noise, times);
        decide(&[figure(pairs)], &[], false, 1).0
    };
    assert_eq!(verdict(8, 0.2, 0.05), Verdict::Adopt);
    assert_eq!(verdict(8, 0.2, 5.0), Verdict::Harmful);
    assert_eq!(verdict(14, 0.02, 1.0), Verdict::NoBenefit);
    assert_eq!(verdict(8, 0.8, 0.9), Verdict::Inconclusive);
    assert_eq!(decide(&[], &[], false, 1).0, Verdict::Inconclusive);
}

#[test]
fn a_benefit_that_costs_something_else_is_not_adopted() {
    let helps = figure((0..8).map(|at| (1_000.0 + f64::from(at), 10.0)).collect());
    let mut costs = figure((0..8).map(|at| (100.0, 130.0 + f64::from(at))).collect());
    costs.name = "p99".to_owned();
    assert_eq!(
        decide(std::slice::from_ref(&helps), &[], false, 1).0,
        Verdict::Adopt
    );
    assert_eq!(
        decide(std::slice::from_ref(&helps), &[costs], false, 1).0,
        Verdict::Inconclusive
    );
    assert_eq!(
        decide(&[helps], &[], true, 1).0,
        Verdict::Harmful,
        "a guard was set off"
    );
}

#[test]
fn nothing_dropped_is_a_figure_too() {
    let effect = effect(&figure(vec![(3_528.0, 0.0); 6]), 1);
    assert!(
        effect.benefit.estimate > 0.999 && effect.benefit.estimate <= 1.0,
        "{effect:?}"
    );
    assert!(effect.p < 0.05);
}

#[test]
fn an_open_question_says_how_many_pairs_would_decide() {
    let mut random = Random::new(4);
    let pairs = pairs(&mut random, 8, 0.4, 0.9);
    let (verdict, effects) = decide(&[figure(pairs)], &[], false, 1);
    assert_eq!(verdict, Verdict::Inconclusive);
    let needed = effects[0].pairs_needed.unwrap();
    assert!(needed > 8, "{needed}");
    assert!(effects[0].least.unwrap() > 0.10);
}

#[test]
fn capacity_is_better_when_there_is_more() {
    let mut figure = figure(
        (0..6)
            .map(|at| (1_000.0, 1_300.0 + f64::from(at)))
            .collect(),
    );
    figure.better = GoodDirection::More;
    let effect = effect(&figure, 1);
    assert!((effect.benefit.estimate - 0.30).abs() < 0.01, "{effect:?}");
}
