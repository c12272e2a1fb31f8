//! Checks of the simulation itself: it is replayable, and it finds bugs.

use sim::world::Planted;

/// Worlds in which a planted bug is looked for.
const SEEDS: u64 = 40;

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..10 {
        let (first, second) = (sim::run(seed, None), sim::run(seed, None));
        assert_eq!(first, second, "seed {seed}");
    }
    assert_ne!(sim::run(0, None), sim::run(1, None));
}

fn finds(planted: Planted) {
    let found = (0..SEEDS).find_map(|seed| sim::run(seed, Some(planted)).err());
    let violation = found.unwrap_or_else(|| panic!("{planted:?} was not found"));
    assert!(violation.what.contains("acknowledged up to"), "{violation}");
}

#[test]
fn a_disk_that_lies_about_syncs_is_found() {
    finds(Planted::SyncsAreLies);
}

#[test]
fn an_acknowledgement_before_its_time_is_found() {
    finds(Planted::EarlyAcknowledgement);
}
