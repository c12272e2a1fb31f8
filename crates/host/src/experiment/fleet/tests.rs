//! Sample data from a seeded model reproduces the figures that an operator of 20,000 servers
//! published.

use super::*;
use crate::statistics::random::Random;

/// Seven days around a mean, with the noise of a host.
fn days(random: &mut Random, mean: f64, noise: f64) -> Vec<f64> {
    (0..7)
        .map(|_| mean * (random.normal() * noise).exp())
        .collect()
}

fn fleet(seed: u64, noise: f64, control: (f64, f64), test: (f64, f64)) -> Vec<Days> {
    let mut random = Random::new(seed);
    let mut hosts = Vec::new();
    for site in 0..6 {
        for host in 0..8 {
            let arm = if host % 2 == 0 {
                Arm::Control
            } else {
                Arm::Test
            };
            let (before, after) = if arm == Arm::Test { test } else { control };
            // Sites differ by much, hosts by little.
            let size = 1.0 + f64::from(site) * if noise > 0.0 { 0.5 } else { 0.0 };
            hosts.push(Days {
                block: format!("site {site}"),
                arm,
                before: days(&mut random, before * size, noise),
                after: days(&mut random, after * size, noise),
            });
        }
    }
    hosts
}

#[test]
fn failover() {
    let compared = compare(&fleet(1, 0.0, (4.0, 55.0), (4.0, 27.0)), 1).unwrap();
    assert!((compared.control.factor() - 13.75).abs() < 1e-9);
    assert!((compared.test.factor() - 6.75).abs() < 1e-9);
    assert!((compared.saved - 28.0).abs() < 1e-9);
    assert!((compared.share - 0.509).abs() < 0.001, "{compared:?}");
}

#[test]
fn week() {
    let compared = compare(&fleet(2, 0.3, (400.0, 400.0), (400.0, 20.0)), 1).unwrap();
    assert!(
        (compared.benefit.estimate - 0.95).abs() < 0.02,
        "{compared:?}"
    );
    assert!(
        compared.benefit.low > 0.90 && compared.benefit.high < 0.99,
        "{compared:?}"
    );
    assert!(compared.p < 0.001, "{compared:?}");
}

/// Half the drops of a failover, then a twentieth of the rest: 97.5 % by these two steps alone.
#[test]
fn the_steps_multiply() {
    let left = (27.0 / 55.0) * 0.05;
    assert!((1.0_f64 - left - 0.975).abs() < 0.001);
    let compared = compare(
        &fleet(3, 0.2, (1_000.0, 1_000.0), (1_000.0, 1_000.0 * left * 0.75)),
        1,
    )
    .unwrap();
    assert!(
        compared.benefit.low > 0.975 && compared.benefit.estimate > 0.98,
        "{compared:?}"
    );
}

#[test]
fn what_happened_to_all_is_not_the_change() {
    let compared = compare(&fleet(4, 0.3, (10.0, 300.0), (10.0, 300.0)), 1).unwrap();
    assert!(
        compared.benefit.low < 0.0 && compared.benefit.high > 0.0,
        "{compared:?}"
    );
    assert!(compared.p > 0.05, "{compared:?}");
}

#[test]
fn a_site_with_one_arm_says_nothing() {
    let mut hosts = fleet(5, 0.1, (1.0, 1.0), (1.0, 1.0));
    hosts.retain(|host| host.arm == Arm::Test || host.block != "site 0");
    assert_eq!(compare(&hosts, 1), None);
    assert_eq!(compare(&[], 1), None);
}

#[test]
fn a_fleet_is_judged_as_a_host_is() {
    let judged = |seed, noise, control, test| {
        let found = judge(&fleet(seed, noise, control, test), 0.10, seed).unwrap();
        assert!(found.least.is_some_and(|least| (0.0..1.0).contains(&least)));
        found.verdict
    };
    let same = (400.0, 400.0);
    assert_eq!(judged(2, 0.3, same, (400.0, 20.0)), Verdict::Adopt);
    assert_eq!(judged(2, 0.3, same, (400.0, 900.0)), Verdict::Harmful);
    assert_eq!(judged(4, 0.05, same, same), Verdict::NoBenefit);
    assert_eq!(judged(6, 0.3, same, (400.0, 360.0)), Verdict::Inconclusive);
}

#[test]
fn arms_that_differ_before_the_change_decide_nothing() {
    let mut hosts = fleet(2, 0.1, (400.0, 400.0), (400.0, 20.0));
    for host in hosts.iter_mut().filter(|host| host.arm == Arm::Test) {
        for day in &mut host.before[4..] {
            *day *= 3.0;
        }
    }
    let found = judge(&hosts, 0.10, 1).unwrap();
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert!(found.why.contains("before the change"));
}

/// Four hundred fleets without a change: hardly ever is one said to help or to harm.
#[test]
fn a_fleet_without_a_change_is_hardly_ever_said_to_have_one() {
    let runs = 400;
    let wrong = (0..runs)
        .filter(|seed| {
            let all = fleet(1_000 + seed, 0.3, (50.0, 50.0), (50.0, 50.0));
            // Three sites of four: all their assignments are tried.
            let sites = all.chunks(8).take(3);
            let hosts: Vec<Days> = sites.flat_map(|site| site[..4].to_vec()).collect();
            let found = judge(&hosts, 0.10, *seed).unwrap();
            matches!(found.verdict, Verdict::Adopt | Verdict::Harmful)
        })
        .count();
    assert!(wrong as f64 <= 0.05 * runs as f64, "{wrong} of {runs}");
}
