//! The policy of tiers over time, with a fluid mover: seeded, no disk, no clock.
//!
//! What holds, whatever is produced, read and deleted (checked at every step of every run):
//! * *room*: no tier holds more than its capacity, and no move takes a tier into its reserve;
//! * *order*: a new segment goes down only when the faster tier has no room for its first bytes;
//! * *heat*: a segment that is being read, or was just moved, goes down only from within the
//!   reserve;
//! * *no thrash*: what came up is no more than what was deleted above plus the lower level; what
//!   went down is no more than what was written plus what came up. Moving in circles would break
//!   it: nothing written or deleted pays for it. (For segments of at most half the hysteresis, see
//!   `levels`.)
//!
//! And of single loads: the threshold is reached and held; a load that the lower tier keeps up with
//! never spills; a burst takes reserved / (peak - drain) seconds, the gap after it used / (drain -
//! base).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use storage::tier::fluid::{Fluid, MB, Policy};
use storage::tier::policy::{Decision, Move, MoveReason, PolicySettings, TierPlace, View, decide};

/// Numbers by chance.
struct Rng(u64);

impl Rng {
    /// One below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

const SETTINGS: PolicySettings = PolicySettings {
    bytes_per_second: Some(50 * MB),
    ..PolicySettings::DEFAULTS
};

/// Two tiers, the first of 10 GB; segments of 100 MB.
fn two_tiers() -> Fluid {
    Fluid::new(SETTINGS, &[10_000 * MB, 1_000_000 * MB], decide)
}

fn fill_of(world: &Fluid) -> f64 {
    world.used_mb(0) / 10_000.0
}

#[test]
fn the_threshold_is_reached_and_held() {
    let mut world = two_tiers();
    world.run_for(400.0, 30.0).unwrap();
    for _ in 0..100 {
        world.run_for(5.0, 30.0).unwrap();
        let fill = fill_of(&world);
        assert!((0.45..=0.53).contains(&fill), "{fill}");
    }
    assert!(world.spilled_mb() < 0.1);
}

#[test]
fn a_burst_lasts_as_long_as_the_rule_says_and_so_does_the_gap() {
    for (peak, drain, base) in [
        (300.0, 50.0, 20.0),
        (1000.0, 100.0, 10.0),
        (150.0, 30.0, 5.0),
    ] {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole megabytes"
        )]
        let limit = drain as u64 * MB;
        let settings = PolicySettings {
            bytes_per_second: Some(limit),
            ..SETTINGS
        };
        let mut world = Fluid::new(settings, &[10_000 * MB, 1_000_000 * MB], decide);
        world.fill_with_sealed(5_000);
        world.run_for(100.0, base).unwrap();
        let reserved = 10_000.0 - world.used_mb(0);
        let mut seconds = 0.0;
        while world.spilled_mb() < 0.1 {
            world.run_for(0.1, peak).unwrap();
            seconds += 0.1;
        }
        let rule = reserved / (peak - drain);
        assert!(
            (seconds / rule - 1.0).abs() < 0.1,
            "burst {seconds} s, rule {rule} s"
        );
        let used = world.used_mb(0) - 5_000.0;
        let mut seconds = 0.0;
        while fill_of(&world) > 0.5 {
            world.run_for(0.1, base).unwrap();
            seconds += 0.1;
        }
        let rule = used / (drain - base);
        assert!(
            (seconds / rule - 1.0).abs() < 0.1,
            "gap {seconds} s, rule {rule} s"
        );
    }
}

#[test]
fn a_load_that_the_lower_tier_keeps_up_with_never_spills() {
    let mut world = two_tiers();
    world.fill_with_sealed(9_000);
    world.run_for(600.0, 45.0).unwrap();
    assert!(world.spilled_mb() < 0.1);
}

#[test]
fn the_reserve_is_kept_though_everything_is_being_read() {
    let mut world = two_tiers();
    world.read_everything = true;
    // Reads keep all of it from moving down at the threshold.
    world.run_for(300.0, 30.0).unwrap();
    assert!(fill_of(&world) > 0.85, "{}", fill_of(&world));
    world.run_for(600.0, 30.0).unwrap();
    // One segment may be on its way, one half written.
    assert!(fill_of(&world) < 0.97, "{}", fill_of(&world));
    assert!(world.spilled_mb() < 0.1);
}

#[test]
fn with_movement_off_new_segments_spill_and_nothing_moves() {
    let off = PolicySettings {
        threshold: None,
        ..SETTINGS
    };
    let mut world = Fluid::new(off, &[1_000 * MB, 10_000 * MB], decide);
    world.run_for(60.0, 50.0).unwrap();
    assert!(world.used_mb(0) > 999.0);
    assert!((1_999.0..2_001.0).contains(&world.spilled_mb()));
    assert!(world.moved_mb().0 + world.moved_mb().1 < 0.1);
}

#[test]
fn three_tiers_hold_their_thresholds_and_the_last_takes_the_rest() {
    let mut world = Fluid::new(SETTINGS, &[2_000 * MB, 5_000 * MB, 100_000 * MB], decide);
    world.run_for(1_000.0, 20.0).unwrap();
    let (first, second) = (world.used_mb(0) / 2_000.0, world.used_mb(1) / 5_000.0);
    assert!((0.4..=0.6).contains(&first), "{first}");
    assert!((0.4..=0.55).contains(&second), "{second}");
    assert!(world.spilled_mb() < 0.1);
}

#[test]
fn what_is_deleted_above_is_made_up_by_the_newest_of_below() {
    let mut world = two_tiers();
    world.run_for(600.0, 30.0).unwrap();
    let newest_below = world.newest_on(1).unwrap();
    world.delete_on(0, 4_000);
    world.run_for(200.0, 0.0).unwrap();
    let fill = fill_of(&world);
    assert!((0.44..=0.475).contains(&fill), "{fill}");
    assert!(world.newest_on(1).unwrap() < newest_below);
}

const SEEDS: u64 = 12;

/// Loads, reads and deletions by chance.
fn random_run(seed: u64, policy: Policy) -> Result<(), String> {
    let mut world = Fluid::new(SETTINGS, &[10_000 * MB, 30_000 * MB], policy);
    let mut rng = Rng(seed | 1);
    for _ in 0..25 {
        let rate = [0.0, 10.0, 40.0, 80.0, 400.0][rng.below(5)];
        world.retention_mb = [8_000, 15_000, 28_000][rng.below(3)];
        world.read_everything = rng.below(6) == 0;
        if rng.below(4) == 0 {
            world.delete_on(0, [500, 3_000][rng.below(2)]);
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let seconds = (5 + rng.below(20)) as f64;
        world
            .run_for(seconds, rate)
            .map_err(|what| format!("seed {seed}: {what}"))?;
    }
    Ok(())
}

#[test]
fn it_holds_whatever_happens() {
    for seed in 1..=SEEDS {
        random_run(seed, decide).unwrap();
    }
}

/// A policy without hysteresis: whatever goes down comes up again as soon as there is room below
/// the threshold.
fn without_hysteresis(view: &View, settings: &PolicySettings) -> Decision {
    let mut decided = decide(view, settings);
    let fast = &view.tiers[0].paths[0];
    let settled = fast.used_bytes + fast.arriving_bytes - fast.leaving_bytes;
    let below = view
        .segments
        .iter()
        .filter(|s| s.place.tier == 1 && !s.moving);
    let newest = below.max_by_key(|segment| segment.sealed_ms);
    if let Some(segment) = newest
        && decided.moves.len() < view.free_slots
        && settled <= fast.capacity_bytes / 2
    {
        decided.moves.push(Move {
            segment: segment.id,
            from: segment.place,
            to: TierPlace { tier: 0, path: 0 },
            reason: MoveReason::Promoted,
        });
    }
    decided
}

/// A policy that forgets that segments are read.
fn without_heat(view: &View, settings: &PolicySettings) -> Decision {
    let blind = PolicySettings {
        heat_ms: 0,
        ..*settings
    };
    decide(view, &blind)
}

#[test]
fn planted_faults_are_found() {
    let mut world = Fluid::new(SETTINGS, &[10_000 * MB, 30_000 * MB], without_hysteresis);
    world.fill_with_sealed(5_000);
    let thrash = world.run_for(600.0, 5.0).expect_err("moving in circles");
    let thrash = thrash.to_string();
    assert!(thrash.contains("no thrash"), "{thrash}");
    let found = |policy: Policy| (1..=SEEDS).find_map(|seed| random_run(seed, policy).err());
    let heat = found(without_heat).expect("moving what is read");
    assert!(heat.contains("heat"), "{heat}");
}
