//! The search on the shipped catalogue.

use super::*;

fn at(name: &str, set: &[&str]) -> (Scenario, Catalogue) {
    let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
    let text = crate::load::shipped(name).unwrap();
    let scenario = Scenario::read(name, text, &set).unwrap();
    let mut catalogue = Catalogue::shipped().unwrap();
    catalogue.overlay(scenario.catalogue.clone());
    (scenario, catalogue)
}

fn today() -> Month {
    Month::new(2026, 11).unwrap()
}

#[test]
fn the_least_number_is_the_least() {
    for least in 1..=70 {
        assert_eq!(least_of(70, |number| number >= least), Some(least));
    }
    assert_eq!(least_of(70, |_| false), None);
    assert_eq!(least_of(1, |_| true), Some(1));
}

#[test]
fn looking_closer_only_where_it_pays_finds_the_same() {
    for name in ["car-ingest", "linkedin", "keyed", "burst", "steady"] {
        let (scenario, catalogue) = at(name, &[]);
        for software in &catalogue.software {
            let problem = Problem::new(&scenario, &catalogue, software, today());
            let all = problem.all().unwrap();
            assert_eq!(
                problem.best().unwrap(),
                problem.cheapest(&all),
                "{name} on {}",
                software.id
            );
            let mut kinds: Vec<PricedFleet> = Vec::new();
            for priced in all.iter().filter_map(|found| problem.price(found)) {
                let kind = |priced: &PricedFleet| {
                    let choice = priced.found.choice;
                    (choice.server, choice.fast.map(|fast| fast.0), choice.bulk.0)
                };
                match kinds.iter_mut().find(|known| kind(known) == kind(&priced)) {
                    Some(known) if priced.precedes(known) => *known = priced,
                    Some(_) => {}
                    None => kinds.push(priced),
                }
            }
            kinds.sort_by(PricedFleet::order);
            kinds.truncate(5);
            assert_eq!(
                problem.kinds(5).unwrap(),
                kinds,
                "{name} on {}",
                software.id
            );
            // The answer of another problem as the seed changes nothing.
            for found in all.iter().take(20) {
                assert_eq!(problem.near(found).best().unwrap(), kinds.first().copied());
            }
        }
    }
}

#[test]
fn mixes_are_counted_as_they_are_enumerated() {
    for set in [&[][..], &["hardware.tiers=2"], &["hardware.devices_max=3"]] {
        let (scenario, catalogue) = at("car-ingest", set);
        for software in &catalogue.software {
            let problem = Problem::new(&scenario, &catalogue, software, today());
            let all = all_choices(&problem);
            assert_eq!(problem.mixes(), all.len());
            assert!(all.iter().all(|choice| problem.mix(choice).is_some()));
        }
    }
}

#[test]
fn a_fleet_is_clusters_that_are_not_too_large() {
    let (scenario, catalogue) = at("car-ingest", &[]);
    let software = catalogue.software("forebay").unwrap();
    let problem = Problem::new(&scenario, &catalogue, software, today());
    let best = problem.best().unwrap().unwrap();
    assert!(
        best.found.brokers <= 60 && best.found.clusters > 1,
        "{best:?}"
    );
    // Fewer clusters do not carry the load.
    let mix = problem.mix(&best.found.choice).unwrap();
    let flows = problem.flows(best.found.clusters - 1);
    assert!(!problem.fit(&flows, &mix, 60).holds());
    let flows = problem.flows(best.found.clusters);
    assert!(!problem.fit(&flows, &mix, best.found.brokers - 1).holds());
    assert!(problem.fit(&flows, &mix, best.found.brokers).holds());
}

#[test]
fn old_prices_are_left_out_unless_they_are_asked_for() {
    let (scenario, catalogue) = at("burst", &["cost.old_prices=false"]);
    let software = catalogue.software("forebay").unwrap();
    assert_eq!(
        Problem::new(&scenario, &catalogue, software, today()).mixes(),
        0
    );
    let (scenario, catalogue) = at("burst", &[]);
    let software = catalogue.software("forebay").unwrap();
    assert_eq!(
        Problem::new(&scenario, &catalogue, software, today()).mixes(),
        1
    );
}
