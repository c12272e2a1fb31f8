//! Random stories of commits, landings, headers and crashes: what a scan gives is exactly a prefix
//! of what was committed, with all that was acknowledged; and the segments with it are the logs.

use std::collections::BTreeMap;

use super::world::World;
use super::*;

const SEEDS: u64 = 60;
const STEPS: u32 = 700;

/// Until a planted bug is found.
const PLANTED_SEEDS: u64 = 500;

fn run(seed: u64, planted: Option<PlantedBug>) -> Result<World, String> {
    let mut world = World::new(seed, planted);
    for step in 0..STEPS {
        let done = world.step();
        done.map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    Ok(world)
}

#[test]
fn what_is_read_back_is_what_was_committed() {
    let (mut seen, mut laps) = (BTreeMap::new(), 0);
    for seed in 0..SEEDS {
        let world = run(seed, None).unwrap_or_else(|error| panic!("{error}"));
        let bytes = world.end.position.since(world.start.position);
        laps += bytes.unwrap() / small().bytes();
        for (what, count) in world.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    let enough = [
        "bytes",
        "carried on",
        "cut",
        "direct append",
        "end",
        "killed",
        "made again",
        "made again by a cut",
        "other incarnation",
        "power lost",
        "skip",
        "torn",
        "unreserved",
    ];
    assert!(
        laps > 100 && seen.keys().copied().eq(enough),
        "{laps} laps, {seen:?}"
    );
    assert!(seen.values().all(|count: &u32| *count > 5), "{seen:?}");
}

/// Returns without a panic if a story shows the mistake in this way.
#[track_caller]
fn finds(planted: PlantedBug, text: &str) {
    let mut others = BTreeMap::new();
    for seed in 0..PLANTED_SEEDS {
        let Err(error) = run(seed, Some(planted)) else {
            continue;
        };
        if error.contains(text) {
            return;
        }
        others.insert(seed, error);
    }
    panic!("{planted:?} was not found, but {others:?}");
}

#[test]
fn room_that_is_released_before_the_sync_of_landing_is_found() {
    finds(PlantedBug::ReleaseBeforeLandingSync, "is not what it was");
}

#[test]
fn room_that_is_released_before_the_sync_of_its_header_is_found() {
    finds(PlantedBug::ReleaseBeforeHeaderSync, "taken for damage");
}

#[test]
fn room_that_one_header_block_still_needs_is_found() {
    finds(PlantedBug::ReleaseByOneBlock, "taken for damage");
}

#[test]
fn room_that_is_given_before_the_sync_of_the_header_that_reserves_it_is_found() {
    finds(PlantedBug::ReserveBeforeHeaderSync, "taken for damage");
}

#[test]
fn room_that_one_header_block_does_not_reserve_is_found() {
    finds(PlantedBug::ReserveByOneBlock, "taken for damage");
}

#[test]
fn commits_before_both_blocks_have_the_incarnation_are_found() {
    finds(PlantedBug::OpenByOneBlock, "before what was acknowledged");
}

#[test]
fn an_incarnation_that_is_used_twice_is_found() {
    finds(PlantedBug::KeepIncarnation, "taken for damage");
}

#[test]
fn a_start_that_reads_before_it_syncs_is_found() {
    finds(PlantedBug::ReadBeforeSync, "wrong CRC");
    finds(PlantedBug::ReadBeforeSync, "before what was acknowledged");
}

#[test]
fn an_append_past_a_ring_that_has_a_cut_is_found() {
    finds(PlantedBug::AppendAfterCut, "is not what it was");
}

#[test]
fn what_is_taken_for_released_while_a_ring_opens_is_found() {
    finds(PlantedBug::ReleaseWhileOpening, "is not what it was");
}

#[test]
fn a_log_that_is_made_again_over_old_parts_is_found() {
    finds(PlantedBug::MakeAgainAtOnce, "is not what it was");
}

#[test]
fn a_log_that_is_carried_on_without_what_is_in_flight_is_found() {
    finds(PlantedBug::CarryOnDurableOnly, "is not what it was");
}

#[test]
fn a_log_that_is_carried_on_part_by_part_is_found() {
    finds(PlantedBug::CarryOnPartByPart, "is not what it was");
}
