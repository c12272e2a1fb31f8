//! Hosts that hang, answers that are lost, clocks that are set back, and an operator who wants an
//! end.

use std::time::Duration;

use super::*;
use crate::fleet::carry::Program;

#[test]
fn an_operator_goes_on_without_hosts_that_are_out_of_reach() {
    let turns = design().turns(fleet()).unwrap();
    let of_third = turns.iter().filter(|turn| turn.stage == Some(3));
    let dead: Vec<String> = of_third
        .map(|turn| turn.host.name.clone())
        .take(3)
        .collect();
    let init = Event::Init {
        plan: "p".to_owned(),
        turns,
        restarts: false,
    };
    let mut state = RolloutState::of([(0, &init)]);
    for of in state.hosts.values_mut() {
        of.stands = if dead.contains(&of.turn.host.name) {
            HostStanding::Quarantined
        } else {
            HostStanding::Confirmed
        };
    }
    assert!(matches!(next(&design(), &state, 0), NextStep::Pause(_)));
    state.replay(1, &Event::Resume);
    assert_eq!(next(&design(), &state, 1), NextStep::End);
}

/// The host kept the plan, the answer was lost; then another host fails.
#[test]
fn a_host_that_was_out_of_reach_is_told_to_take_the_plan_back_too() {
    let turns = design().turns(fleet()).unwrap();
    let of_stage = |stage: usize| {
        let mut found = turns.iter().filter(|turn| turn.stage == Some(stage));
        found.next().unwrap().host.name.clone()
    };
    let world = World {
        deaf: Some(("confirm", of_stage(1))),
        bad: Some(of_stage(2)),
        ..World::default()
    };
    let (world, state, stopped) = roll(world, &[]);
    assert_eq!(stopped, None);
    assert!(world.has.is_empty(), "{:?}", world.has);
    assert_eq!(stands(&state, &HostStanding::Confirmed), 0);
    // One that does not answer to this either gets the command once.
    let world = World {
        deaf: Some(("undo", of_stage(1))),
        bad: Some(of_stage(2)),
        ..World::default()
    };
    let (world, state, stopped) = roll(world, &[]);
    assert_eq!(stopped, None);
    assert_eq!(stands(&state, &HostStanding::Quarantined), 1);
    let told = |(step, host): &&(String, String)| step == "undo" && *host == of_stage(1);
    assert_eq!(world.done.iter().filter(told).count(), 1);
}

/// The controller was killed, and the host has no forebay any more.
#[test]
fn a_host_that_says_nothing_of_use_holds_nobody_for_ever() {
    let turns = design().turns(fleet()).unwrap();
    let first = turns[0].host.name.clone();
    let world = World {
        garbled: Some(first.clone()),
        ..World::default()
    };
    // Init is not counted; `begin` of the first step is, and its command.
    let (_, state, stopped) = roll(world, &[2]);
    assert_eq!(stopped, None);
    assert_eq!(state.hosts[&first].stands, HostStanding::Quarantined);
    assert_eq!(stands(&state, &HostStanding::Confirmed), 11);
}

#[test]
fn a_rollout_that_runs_is_aborted() {
    let world = World {
        abort_behind: Some(9),
        ..World::default()
    };
    let (world, state, stopped) = roll(world, &[]);
    assert_eq!(stopped, None);
    assert!(world.has.is_empty() && state.failed.is_some(), "{state:?}");
}

#[test]
fn a_clock_that_is_set_back_makes_nobody_wait_for_it() {
    let mut design = design();
    design.soak_ms = 86_400_000;
    let turns = design.turns(fleet()).unwrap();
    let init = Event::Init {
        plan: "p".to_owned(),
        turns,
        restarts: false,
    };
    let year = 365 * 86_400_000_i64;
    let mut state = RolloutState::of([(year, &init)]);
    let NextStep::Do(Step::Apply, first) = next(&design, &state, year) else {
        panic!("it begins")
    };
    let host = first[0].clone();
    let done = |step: Step, id: Option<&str>| Event::Answer {
        host: host.clone(),
        step,
        came: HostAnswer::Done {
            transaction: id.map(str::to_owned),
        },
    };
    state.replay(year, &done(Step::Apply, Some("1-1")));
    state.replay(year, &done(Step::Verify, None));
    assert!(matches!(next(&design, &state, year + 1), NextStep::Wait(_)));
    // A year back: it is verified once more, and kept.
    assert_eq!(
        next(&design, &state, 1),
        NextStep::Do(Step::Verify, first.clone())
    );
    state.replay(1, &done(Step::Verify, None));
    assert_eq!(next(&design, &state, 2), NextStep::Do(Step::Confirm, first));
}

/// One host hangs, and the carrier with it.
#[test]
fn a_carrier_that_does_not_end_has_reached_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "sleep 100 & wait"].map(str::to_owned);
    let mut program = Program {
        command: &command,
        plan: dir.path(),
        dir: dir.path(),
        within: Duration::from_millis(200),
    };
    let hosts = BTreeMap::from([("h1".to_owned(), vec!["status".to_owned()])]);
    assert_eq!(program.carry(&hosts).unwrap(), BTreeMap::new());
    let command = [
        "sh",
        "-c",
        "cat > /dev/null; echo '{\"h1\": {\"code\": 0}}'",
    ];
    let command = command.map(str::to_owned);
    program.command = &command;
    program.within = Duration::from_mins(1);
    assert_eq!(program.carry(&hosts).unwrap()["h1"].code, 0);
}

#[test]
fn what_a_host_says_is_no_option_of_a_later_command() {
    let ended = |id: &str| CommandEnd {
        code: 0,
        out: format!("{{\"transaction\": {id:?}, \"whole\": true}}"),
    };
    for id in ["--to=1-1", "1-1 --state /x", "", "01-1"] {
        let came = came(Step::Apply, Some(&ended(id)), "p", 1);
        assert!(matches!(came, HostAnswer::Failed { .. }), "{id}");
    }
    assert!(hosts(br#"{"_meta": {"hostvars": {"-x": {}}}}"#).is_err());
}
