//! The envelope of a price equals that of all mixes, at every price.

use super::*;
use crate::catalogue::Month;

#[test]
fn break_evens_are_exact() {
    let set = [
        "load.messages=40 K/s".to_owned(),
        "load.retention=7 d".to_owned(),
    ];
    let text = crate::load::shipped("car-ingest").unwrap();
    let scenario = Scenario::read("car-ingest", text, &set).unwrap();
    let catalogue = Catalogue::shipped().unwrap();
    let software = catalogue.software("forebay").unwrap();
    let today = Month::new(2026, 11).unwrap();
    let problem = Problem::new(&scenario, &catalogue, software, today);
    let found = problem.all().unwrap();
    let best = problem.cheapest(&found).unwrap();
    let sweeps = prices(&problem, &best).unwrap();
    assert!(
        sweeps.iter().any(|sweep| sweep.pieces.len() > 1),
        "nothing breaks even"
    );
    for sweep in &sweeps {
        for piece in &sweep.pieces {
            for share in [0.01, 0.5, 0.99] {
                let times = piece.from + (piece.to - piece.from) * share;
                let changed = catalogue.with_price_times(&sweep.id, times);
                let cheapest = problem.priced_by(&changed).cheapest(&found).unwrap();
                let line = piece.cost.0.0 + (piece.cost.1.0 - piece.cost.0.0) * share;
                assert!(
                    (line / cheapest.cost.0 - 1.0).abs() < 1e-6,
                    "{}: {piece:?} {cheapest:?}",
                    sweep.id
                );
            }
        }
        let first = sweep.pieces.first().unwrap();
        let last = sweep.pieces.last().unwrap();
        assert_eq!(
            (first.from, last.to),
            (PRICE_LOW, PRICE_HIGH),
            "{}",
            sweep.id
        );
    }
}
