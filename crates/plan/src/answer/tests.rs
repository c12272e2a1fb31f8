//! The shipped scenarios, from file to answer.

use super::*;
use crate::catalogue::Month;

#[track_caller]
fn plan(name: &str, set: &[&str], depth: Depth) -> Plan {
    let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
    let text = crate::load::shipped(name).unwrap();
    let scenario = Scenario::read(name, text, &set).unwrap_or_else(|problem| panic!("{problem}"));
    let today = Month::new(2026, 11).unwrap();
    solve(
        &scenario,
        None,
        &Catalogue::shipped().unwrap(),
        today,
        depth,
    )
    .unwrap()
}

#[test]
fn the_car_fleet_has_an_answer_beside_kafka_and_says_what_contradicts() {
    let plan = plan("car-ingest", &[], Depth::Whole);
    let chosen = plan.chosen.as_ref().unwrap();
    assert!((100..2000).contains(&chosen.brokers), "{}", chosen.brokers);
    assert!(!chosen.binding.is_empty());
    assert!(
        plan.notes
            .iter()
            .any(|note| note.contains("384 GB/s, not 800"))
    );
    assert_eq!(plan.kafka.len(), 2);
    for beside in &plan.kafka {
        assert!(
            beside.chosen.is_some() && beside.ratio.unwrap() >= 1.0,
            "{:?}",
            beside.ratio
        );
    }
    assert!(!plan.alternatives.is_empty() && !plan.prices.is_empty());
    let text = crate::emit::text::plan(&plan, true);
    assert!(text.contains("beside: kafka (not synced)"), "{text}");
    assert!(
        text.lines().take(6).any(|line| line.starts_with("binds: ")),
        "{text}"
    );
}

#[test]
fn the_published_burst_is_not_carried_at_its_threshold_and_is_at_a_lower_one() {
    let plan = plan("burst", &[], Depth::Answer);
    let chosen = plan.chosen.as_ref().unwrap();
    assert_eq!(chosen.brokers, 1);
    let burst = chosen.burst.as_ref().unwrap();
    // 450 GB of 670 free: a third full.
    assert!(
        (chosen.threshold.unwrap() - (1.0 - 450.0 / 670.0)).abs() < 1e-6,
        "{:?}",
        chosen.threshold
    );
    assert!((burst.lasts.0 - 60.0).abs() < 1e-6);
    assert!((burst.gap.0 - 450.0 / 0.4).abs() < 1e-6);
}

#[test]
fn the_published_burst_at_the_published_threshold_is_refused_with_the_nearest_change() {
    let plan = plan(
        "burst",
        &["goals.threshold=0.5", "given.brokers=1"],
        Depth::Answer,
    );
    assert!(plan.chosen.is_none());
    let why = plan.infeasible.unwrap();
    assert_eq!(why.constraint.as_deref(), Some("burst"));
    assert!(
        why.why.contains("60 s where 44.7 s is allowed"),
        "{}",
        why.why
    );
    let change = why.change.unwrap();
    assert!((0.7..0.95).contains(&change.factor), "{change:?}");
}

#[test]
fn a_base_that_never_lets_the_tier_drain_is_named() {
    let plan = plan(
        "burst",
        &["load.base=600 MB/s", "given.brokers=1"],
        Depth::Answer,
    );
    let why = plan.infeasible.unwrap();
    assert!(
        why.why.contains("is never gone") || why.why.contains("gap"),
        "{}",
        why.why
    );
}

#[test]
fn the_most_that_given_brokers_carry_is_found() {
    let plan = plan("steady", &["given.brokers=1"], Depth::Answer);
    // k / (k - 1) of 0.5 GB/s, with 1.5 times the first tier kept.
    let reverse = plan.reverse.unwrap();
    assert!((reverse.peak.0 / 1.5e9 - 1.0).abs() < 1e-3, "{reverse:?}");
    assert_eq!(reverse.binding, "steady rate");
}

#[test]
fn growth_is_bought_at_once_or_year_by_year() {
    let plan = plan("linkedin", &["load.growth=0.5"], Depth::Whole);
    let growth = plan.growth.unwrap();
    assert_eq!(growth.years.len(), 3);
    assert!(
        growth
            .years
            .windows(2)
            .all(|pair| pair[0].brokers <= pair[1].brokers)
    );
    assert!(growth.yearly <= growth.at_once);
    let sum: f64 = growth.years.iter().map(|year| year.spent.0).sum();
    assert!((sum - growth.yearly.0).abs() < 1.0);
}

#[test]
fn a_catalogue_without_prices_is_answered_by_brokers_and_says_so() {
    let text = crate::load::shipped("linkedin").unwrap();
    let scenario = Scenario::read("linkedin", text, &[]).unwrap();
    let mut bare = Catalogue::shipped().unwrap();
    bare.device.iter_mut().for_each(|entry| entry.price = None);
    bare.server.iter_mut().for_each(|entry| entry.price = None);
    let today = Month::new(2026, 11).unwrap();
    let plan = solve(&scenario, None, &bare, today, Depth::Whole).unwrap();
    assert!(
        plan.chosen
            .unwrap()
            .cost
            .not_counted
            .iter()
            .any(|what| what.contains("no price"))
    );
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("fewest brokers"))
    );
}

#[test]
fn a_name_that_the_catalogue_does_not_have_is_named() {
    let text = crate::load::shipped("linkedin").unwrap();
    let set = ["hardware.servers=[\"nothing\"]".to_owned()];
    let scenario = Scenario::read("linkedin", text, &set).unwrap();
    let today = Month::new(2026, 11).unwrap();
    let refused = solve(
        &scenario,
        None,
        &Catalogue::shipped().unwrap(),
        today,
        Depth::Answer,
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("no \"nothing\"; there are 2u-64c")
    );
}

#[test]
fn a_price_of_a_month_that_has_not_come_is_a_warning() {
    let scenario = Scenario::read("steady", crate::load::shipped("steady").unwrap(), &[]).unwrap();
    let catalogue = Catalogue::shipped().unwrap();
    let today = Month::new(2021, 1).unwrap();
    let plan = solve(&scenario, None, &catalogue, today, Depth::Answer).unwrap();
    let said = plan.warnings.join("\n");
    assert!(
        said.contains("pmem-pool: its price is of 2021-06, after 2021-01"),
        "{said}"
    );
}
