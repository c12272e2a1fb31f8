//! Single decisions; `tests/tier_policy.rs` tests what holds over time.

use super::*;

const MB: u64 = 1_000_000;

fn path(capacity_mb: u64, used_mb: u64) -> PathView {
    PathView {
        capacity_bytes: capacity_mb * MB,
        used_bytes: used_mb * MB,
        arriving_bytes: 0,
        leaving_bytes: 0,
        expected_bytes: 0,
        bytes_per_second: 0,
        state: PathState::Open,
    }
}

fn tier(paths: Vec<PathView>) -> TierView {
    TierView {
        paths,
        sealed_only: false,
        incoming_bytes_per_second: 0,
    }
}

/// A sealed segment of 10 MB that arrived long ago.
fn sealed(id: u64, tier: usize) -> SegmentView {
    SegmentView {
        id: SegmentId(id),
        place: TierPlace { tier, path: 0 },
        bytes: 10 * MB,
        sealed_ms: Some(i64::try_from(id).unwrap()),
        arrived_ms: 0,
        read_ms: None,
        tier_min: 0,
        tier_max: usize::MAX,
        asked: None,
        moving: false,
        quarantined: false,
        passed_over: None,
    }
}

/// Two tiers of 100 and 1000 MB with these segments.
fn view(segments: Vec<SegmentView>) -> View {
    let used = |tier| {
        let here = segments.iter().filter(|segment| segment.place.tier == tier);
        here.map(|segment| segment.bytes / MB).sum()
    };
    View {
        now_ms: 1_000_000,
        tiers: vec![
            tier(vec![path(100, used(0))]),
            tier(vec![path(1000, used(1))]),
        ],
        segments,
        free_slots: 10,
    }
}

const SETTINGS: PolicySettings = PolicySettings {
    hysteresis: 0.2,
    ..PolicySettings::DEFAULTS
};

fn moved(view: &View) -> Vec<(u64, usize, &'static str)> {
    moved_with(view, &SETTINGS)
}

fn moved_with(view: &View, settings: &PolicySettings) -> Vec<(u64, usize, &'static str)> {
    let decided = decide(view, settings).moves.into_iter();
    decided
        .map(|m| (m.segment.0, m.to.tier, m.reason.name()))
        .collect()
}

fn stays(view: &View, id: u64) -> StayReason {
    stays_with(view, &SETTINGS, id)
}

fn stays_with(view: &View, settings: &PolicySettings, id: u64) -> StayReason {
    let at = view.segments.iter().position(|s| s.id.0 == id).unwrap();
    super::stays(view, settings)[at]
}

#[test]
fn above_the_threshold_the_oldest_go_down_until_it_is_reached() {
    let view = view((1..=7).rev().map(|id| sealed(id, 0)).collect());
    assert_eq!(moved(&view), [(1, 1, "threshold"), (2, 1, "threshold")]);
    assert_eq!(stays(&view, 1), StayReason::Next);
    assert_eq!(stays(&view, 3), StayReason::OthersFirst);
}

#[test]
fn what_is_leaving_already_is_not_cleared_twice() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.segments[0].moving = true;
    view.tiers[0].paths[0].leaving_bytes = 10 * MB;
    assert_eq!(moved(&view), [(2, 1, "threshold")]);
    assert_eq!(stays(&view, 1), StayReason::Moving);
}

#[test]
fn no_more_moves_begin_than_there_are_slots() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.free_slots = 1;
    assert_eq!(moved(&view), [(1, 1, "threshold")]);
    // It waits for a slot; no rule keeps it.
    assert_eq!(stays(&view, 2), StayReason::Next);
}

#[test]
fn the_active_segment_the_damaged_and_those_on_failed_paths_are_left_alone() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.segments[0].sealed_ms = None;
    view.segments[1].quarantined = true;
    assert_eq!(moved(&view), [(3, 1, "threshold"), (4, 1, "threshold")]);
    assert_eq!(stays(&view, 1), StayReason::Active);
    assert_eq!(stays(&view, 2), StayReason::Quarantined);
    view.tiers[0].paths[0].state = PathState::Failed;
    assert_eq!(moved(&view), []);
    assert_eq!(stays(&view, 3), StayReason::PathFailed);
}

#[test]
fn below_the_lower_level_the_newest_come_up_as_far_as_the_middle() {
    let mut view = view(vec![sealed(1, 0), sealed(2, 0)]);
    view.segments.extend((3..=8).map(|id| sealed(id, 1)));
    view.tiers[1].paths[0].used_bytes = 60 * MB;
    // The low level is 30 MB, the middle 40: one segment is promoted, then the tier is no longer
    // below the low level.
    assert_eq!(moved(&view), [(8, 0, "promoted")]);
    assert_eq!(stays(&view, 7), StayReason::NoRoomAbove);
}

#[test]
fn nothing_comes_up_while_the_tier_is_about_to_be_full() {
    let mut view = view(vec![sealed(1, 1)]);
    view.tiers[0].incoming_bytes_per_second = 50 * MB;
    assert_eq!(moved(&view), []);
}

#[test]
fn a_segment_that_is_read_or_has_just_come_stays_unless_the_reserve_is_touched() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.segments[0].read_ms = Some(view.now_ms - 1000);
    view.segments[1].arrived_ms = view.now_ms - 1000;
    assert_eq!(moved(&view), [(3, 1, "threshold"), (4, 1, "threshold")]);
    assert_eq!(stays(&view, 1), StayReason::Hot(view.now_ms + 59_000));
    assert_eq!(stays(&view, 2), StayReason::Resident(view.now_ms + 59_000));
    // Calm segments go first; here there are none.
    view.tiers[0].paths[0].used_bytes = 96 * MB;
    for segment in &mut view.segments {
        segment.read_ms = Some(view.now_ms);
    }
    assert_eq!(moved(&view), [(1, 1, "reserve")]);
}

#[test]
fn a_tier_that_is_soon_full_begins_earlier_and_faster() {
    let mut view = view((1..=5).map(|id| sealed(id, 0)).collect());
    assert_eq!(moved(&view), []);
    let limited = PolicySettings {
        bytes_per_second: Some(1000),
        ..SETTINGS
    };
    // Full in 10 seconds, within the horizon of 30.
    view.tiers[0].incoming_bytes_per_second = 5 * MB;
    assert_eq!(moved(&view), [(1, 1, "early")]);
    assert_eq!(decide(&view, &limited).bytes_per_second, Some(666));
    // Early moves never begin below the middle of the band.
    view.tiers[0].incoming_bytes_per_second = 5000 * MB;
    view.tiers[0].paths[0].used_bytes = 40 * MB;
    assert_eq!(moved(&view), []);
}

#[test]
fn with_movement_off_only_what_is_asked_for_moves() {
    let off = PolicySettings {
        threshold: None,
        ..SETTINGS
    };
    let mut view = view((1..=9).map(|id| sealed(id, 0)).collect());
    view.tiers[0].paths[0].used_bytes = 100 * MB;
    view.segments[8].tier_min = 1;
    assert_eq!(moved_with(&view, &off), []);
    assert_eq!(stays_with(&view, &off, 1), StayReason::MovementOff);
    view.segments[4].asked = Some(1);
    assert_eq!(moved_with(&view, &off), [(5, 1, "asked")]);
    view.free_slots = 2;
    view.tiers[0].paths[0].state = PathState::Draining;
    assert_eq!(
        moved_with(&view, &off),
        [(1, 1, "drained"), (2, 1, "drained")]
    );
}

#[test]
fn a_drained_path_is_emptied_to_its_own_tier_first() {
    let mut view = view(vec![sealed(1, 0), sealed(2, 0), sealed(3, 0)]);
    view.segments[2].sealed_ms = None;
    view.tiers[0].paths[0].state = PathState::Draining;
    view.tiers[0].paths.push(path(15, 0));
    let decided = decide(&view, &SETTINGS);
    let to: Vec<_> = decided.moves.iter().map(|m| m.to).collect();
    let (beside, below) = (
        TierPlace { tier: 0, path: 1 },
        TierPlace { tier: 1, path: 0 },
    );
    assert_eq!(to, [beside, below]);
    // The active segment continues elsewhere after a roll.
    assert_eq!(decided.rolls, [SegmentId(3)]);
}

#[test]
fn a_cordoned_path_keeps_what_it_has_and_gets_nothing() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.tiers[1].paths[0].state = PathState::Cordoned;
    assert_eq!(moved(&view), []);
    assert_eq!(stays(&view, 1), StayReason::NoRoomBelow);
    view.tiers[1].paths[0].state = PathState::Open;
    view.tiers[0].paths[0].state = PathState::Cordoned;
    assert_eq!(moved(&view), []);
}

#[test]
fn pinned_segments_stay_on_their_tiers_and_return_to_them() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.segments[0].tier_max = 0;
    assert_eq!(moved(&view), [(2, 1, "threshold"), (3, 1, "threshold")]);
    assert_eq!(stays(&view, 1), StayReason::Pinned);
    view.segments[6].tier_min = 1;
    assert_eq!(moved(&view), [(7, 1, "pinned"), (2, 1, "threshold")]);
}

#[test]
fn a_move_down_leaves_the_lower_tier_its_reserve() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.tiers[1] = tier(vec![path(100, 90)]);
    assert_eq!(moved(&view), []);
    assert_eq!(stays(&view, 1), StayReason::NoRoomBelow);
    view.tiers.push(tier(vec![path(1000, 0)]));
    assert_eq!(moved(&view), [(1, 2, "threshold"), (2, 2, "threshold")]);
}

#[test]
fn the_lowest_tier_may_be_an_object_store() {
    let mut view = view((1..=7).map(|id| sealed(id, 0)).collect());
    view.tiers[1] = TierView {
        sealed_only: true,
        ..tier(vec![path(0, 0)])
    };
    view.tiers[1].paths[0].capacity_bytes = u64::MAX;
    assert_eq!(moved(&view), [(1, 1, "threshold"), (2, 1, "threshold")]);
    // No active segment is placed there.
    view.tiers[0].paths[0].used_bytes = 100 * MB;
    assert_eq!(place(&view.tiers, &fresh(0, 1)), None);
}

fn fresh(tier_min: usize, tier_max: usize) -> NewSegment {
    NewSegment {
        home: None,
        first_bytes: MB,
        tier_min,
        tier_max,
    }
}

fn placed(tiers: &[TierView], segment: &NewSegment) -> Option<(usize, usize, PlaceReason)> {
    let Placement { place, reason } = place(tiers, segment)?;
    Some((place.tier, place.path, reason))
}

#[test]
fn a_new_segment_goes_to_the_fastest_tier_that_has_room() {
    let mut tiers = view(vec![]).tiers;
    let any = fresh(0, usize::MAX);
    assert_eq!(placed(&tiers, &any), Some((0, 0, PlaceReason::Fastest)));
    // Placed up to the last byte, because the reserve is for it.
    tiers[0].paths[0].used_bytes = 99 * MB;
    assert_eq!(placed(&tiers, &any), Some((0, 0, PlaceReason::Fastest)));
    tiers[0].paths[0].arriving_bytes = MB;
    assert_eq!(placed(&tiers, &any), Some((1, 0, PlaceReason::Spilled)));
    tiers[1].paths[0].used_bytes = 1000 * MB;
    assert_eq!(placed(&tiers, &any), None);
}

#[test]
fn a_pin_bounds_where_a_new_segment_goes_above_always_below_while_there_is_room() {
    let mut tiers = view(vec![]).tiers;
    assert_eq!(
        placed(&tiers, &fresh(1, 1)),
        Some((1, 0, PlaceReason::Fastest))
    );
    tiers[0].paths[0].used_bytes = 100 * MB;
    assert_eq!(
        placed(&tiers, &fresh(0, 0)),
        Some((1, 0, PlaceReason::SpilledPastPin))
    );
    tiers[0].paths[0].used_bytes = 0;
    tiers[1].paths[0].used_bytes = 1000 * MB;
    assert_eq!(placed(&tiers, &fresh(1, 1)), None);
}

#[test]
fn home_is_taken_first_then_the_path_with_most_room_for_its_speed() {
    let mut tiers = vec![tier(vec![path(100, 50), path(100, 20), path(100, 30)])];
    let mut segment = fresh(0, 0);
    segment.home = Some(TierPlace { tier: 0, path: 0 });
    let path_of = |tiers: &[TierView], segment| place(tiers, segment).map(|p| p.place.path);
    assert_eq!(path_of(&tiers, &segment), Some(0));
    tiers[0].paths[0].state = PathState::Cordoned;
    assert_eq!(path_of(&tiers, &segment), Some(1));
    // Its active segments will use that room.
    tiers[0].paths[1].expected_bytes = 30 * MB;
    assert_eq!(path_of(&tiers, &segment), Some(2));
    tiers[0].paths[1].bytes_per_second = 200 * MB;
    tiers[0].paths[2].bytes_per_second = 100 * MB;
    assert_eq!(path_of(&tiers, &segment), Some(1));
}

#[test]
fn a_spilled_active_segment_is_rolled_when_the_faster_tier_has_room_for_its_like() {
    let mut view = view(vec![sealed(1, 1)]);
    view.segments[0].sealed_ms = None;
    view.tiers[0].paths[0].used_bytes = 99 * MB;
    assert_eq!(decide(&view, &SETTINGS).rolls, []);
    view.tiers[0].paths[0].used_bytes = 60 * MB;
    assert_eq!(decide(&view, &SETTINGS).rolls, [SegmentId(1)]);
    view.segments[0].tier_min = 1;
    assert_eq!(decide(&view, &SETTINGS).rolls, []);
}

#[test]
fn a_slope_rises_at_once_and_falls_slowly() {
    let mut slope = Slope::default();
    assert_eq!(slope.observe(0, 500), 0);
    assert_eq!(slope.observe(1000, 1500), 1000);
    assert_eq!(slope.observe(2000, 4500), 3000);
    let calm = slope.observe(3000, 4500);
    assert!((2000..3000).contains(&calm), "{calm}");
    assert_eq!(slope.observe(3999, 9000), calm, "too short a time");
    assert!(slope.observe(60_000, 4500) < 10);
}
