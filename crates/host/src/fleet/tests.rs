//! The decisions of a controller, even when killed, for twelve simulated hosts at three sites.

mod bad_day;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::carry::{Carrier, CommandEnd, came};
use super::design::{Host, Rollout, hosts};
use super::next::{NextStep, next};
use super::run::{Desk, run};
use super::state::{Event, HostAnswer, HostStanding, RolloutState, Step};
use crate::journal::Log;
use crate::statistics::random::Random;

const DESIGN: &str = "version = 1\nplan = \"p\"\ninventory = \"i\"\nstages = [\"1 host\", \"1 per site\", \"50%\", \"100%\"]\nsoak_ms = 1000\n\
                      carrier = [\"x\"]\nseed = 5\nat_once = { total = 4, site = 2, rack = 2, group = 1 }\n";

fn design() -> Rollout {
    Rollout::parse(DESIGN).unwrap()
}

/// Three sites of four hosts, each with two racks and two groups.
fn fleet() -> Vec<Host> {
    let host = |number: usize| Host {
        name: format!("h{number}"),
        site: format!("site {}", number / 4),
        rack: format!("rack {}", number % 2),
        group: format!("group {}", number % 4 / 2),
    };
    (0..12).map(host).collect()
}

/// The simulated hosts: their transactions and their behaviour.
#[derive(Default)]
struct World {
    has: BTreeMap<String, String>,
    confirmed: BTreeMap<String, bool>,
    /// The host that refuses the plan.
    bad: Option<String>,
    /// The hosts that do not answer.
    dead: Vec<String>,
    /// The host that serves no more after a change, as the gate sees.
    broken: Option<String>,
    next: usize,
    /// The executed (step, host) pairs, in order.
    done: Vec<(String, String)>,
    /// Number of steps until the controller is killed.
    life: Option<usize>,
    batches: Vec<Vec<String>>,
    /// The hosts that are out of service.
    away: std::collections::BTreeSet<String>,
    /// The value of the firmware that is in effect, and the one of the next start.
    firmware: BTreeMap<String, bool>,
    /// The host that cannot be drained, and the one that does not come back with the change.
    full: Option<String>,
    lost: Option<String>,
    /// The number of steps after which an operator aborts it, while it runs.
    abort_behind: Option<usize>,
    /// The host whose answer to this command is lost, though it was carried out.
    deaf: Option<(&'static str, String)>,
    /// The host that says nothing of use when it is asked.
    garbled: Option<String>,
}

impl World {
    fn step(&mut self) {
        if let Some(left) = &mut self.life {
            if *left == 0 {
                std::panic::resume_unwind(Box::new("killed"));
            }
            *left -= 1;
        }
    }

    /// Takes a host out of service, restarts it, or looks whether it serves.
    fn service(&mut self, step: Step, host: &str) -> Result<(), String> {
        self.step();
        self.done
            .push((format!("{step:?}").to_lowercase(), host.to_owned()));
        let has = self.has.contains_key(host);
        match step {
            Step::Drain if self.full.as_deref() == Some(host) => {
                return Err("a partition would have too few replicas".to_owned());
            }
            Step::Drain => {
                let group = |host: &str| host[1..].parse::<usize>().unwrap() / 2;
                let mut others = self.away.iter().filter(|other| *other != host);
                assert!(
                    others.all(|other| group(other) != group(host)),
                    "{host} and another one of its group are away: {:?}",
                    self.away
                );
                self.away.insert(host.to_owned());
            }
            Step::Restart => {
                assert!(self.away.contains(host), "{host} is restarted undrained");
                if has && self.lost.as_deref() == Some(host) {
                    return Err("no answer within 900 s".to_owned());
                }
                self.firmware.insert(host.to_owned(), has);
            }
            _ => {
                self.away.remove(host);
            }
        }
        Ok(())
    }

    fn on(&mut self, host: &str, arguments: &[String]) -> CommandEnd {
        self.done.push((arguments[2].clone(), host.to_owned()));
        let (code, out) = match arguments[2].as_str() {
            "apply" if self.bad.as_deref() == Some(host) => (7, "refused".to_owned()),
            "status" if self.garbled.as_deref() == Some(host) => (127, "no forebay".to_owned()),
            "apply" => {
                self.next += 1;
                let id = format!("{}-1", self.next);
                self.has.insert(host.to_owned(), id.clone());
                (0, format!("{{\"transaction\": {id:?}, \"whole\": true}}"))
            }
            "status" => {
                let open = self
                    .has
                    .get(host)
                    .filter(|_| !self.confirmed.contains_key(host));
                let line = |id: &String| {
                    format!(
                        "{{\"transaction\": {id:?}, \"standing\": \"open\", \"plan\": \"p\", \"whole\": true}}"
                    )
                };
                (0, format!("[{}]", open.map(line).unwrap_or_default()))
            }
            "verify" => (
                if self.has.contains_key(host) { 0 } else { 3 },
                String::new(),
            ),
            "confirm" if self.has.get(host) == Some(&arguments[3]) => {
                self.confirmed.insert(host.to_owned(), true);
                (0, String::new())
            }
            "undo" if self.has.get(host) == Some(&arguments[4]) => {
                self.has.remove(host);
                self.confirmed.remove(host);
                (0, String::new())
            }
            // Undone already: nothing is left to undo.
            "undo" => (0, String::new()),
            other => (1, format!("{other} of what is not there")),
        };
        CommandEnd { code, out }
    }
}

/// The world and the controller's journal outlive the controller.
struct SharedWorld<'a>(&'a std::cell::RefCell<World>);

impl Carrier for SharedWorld<'_> {
    fn carry(
        &mut self,
        hosts: &BTreeMap<String, Vec<String>>,
    ) -> anyhow::Result<BTreeMap<String, CommandEnd>> {
        let mut answers = BTreeMap::new();
        let names: Vec<String> = hosts.keys().cloned().collect();
        self.0.borrow_mut().batches.push(names);
        for (host, arguments) in hosts {
            let mut world = self.0.borrow_mut();
            world.step();
            if !world.dead.contains(host) {
                let ended = world.on(host, arguments);
                let command = arguments[2].as_str();
                if world
                    .deaf
                    .as_ref()
                    .is_some_and(|(what, of)| *what == command && of == host)
                {
                    continue;
                }
                answers.insert(host.clone(), ended);
            }
        }
        Ok(answers)
    }
}

struct KeptJournal<'a> {
    events: Vec<(i64, Event)>,
    world: &'a std::cell::RefCell<World>,
    clock: i64,
}

impl Log<Event> for KeptJournal<'_> {
    fn append(&mut self, event: Event) -> std::io::Result<()> {
        self.world.borrow_mut().step();
        self.clock += 1;
        self.events.push((self.clock, event));
        Ok(())
    }
}

/// The time, the host whose gate does not pass, and the world.
struct Clock<'a>(i64, Option<String>, &'a std::cell::RefCell<World>);

impl Desk for Clock<'_> {
    fn now_ms(&mut self) -> i64 {
        self.0 += 1;
        self.0
    }
    fn wait(&mut self, until_ms: i64) {
        self.0 = self.0.max(until_ms);
    }
    fn is_stopped(&mut self) -> bool {
        false
    }
    fn is_aborted(&mut self) -> bool {
        let world = self.2.borrow();
        world
            .abort_behind
            .is_some_and(|steps| world.done.len() >= steps)
    }
    fn forget_abort(&mut self) {
        self.2.borrow_mut().abort_behind = None;
    }
    fn tell(&mut self, _: &str) {}
    fn gate(&mut self, host: &str) -> Result<(), String> {
        match &self.1 {
            Some(broken) if broken == host => Err("not ready".to_owned()),
            _ => Ok(()),
        }
    }
    fn service(&mut self, step: Step, hosts: &[String]) -> BTreeMap<String, Result<(), String>> {
        let one = |host: &String| (host.clone(), self.2.borrow_mut().service(step, host));
        hosts.iter().map(one).collect()
    }
}

/// Runs to the end, killed after each of these numbers of steps and restarted.
fn roll(world: World, kills: &[usize]) -> (World, RolloutState, Option<String>) {
    roll_by(&design(), world, kills)
}

fn roll_by(
    design: &Rollout,
    world: World,
    kills: &[usize],
) -> (World, RolloutState, Option<String>) {
    let world = std::cell::RefCell::new(world);
    let mut log = KeptJournal {
        events: Vec::new(),
        world: &world,
        clock: 0,
    };
    let turns = design.turns(fleet()).unwrap();
    log.append(Event::Init {
        plan: "p".to_owned(),
        turns,
        restarts: design.restart.is_some(),
    })
    .unwrap();
    let mut kills = kills.iter();
    let mut clock = Clock(0, world.borrow().broken.clone(), &world);
    loop {
        world.borrow_mut().life = kills.next().copied();
        let mut state = RolloutState::of(log.events.iter().map(|(at, event)| (*at, event)));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            run(
                design,
                &mut state,
                &mut log,
                &mut SharedWorld(&world),
                &mut clock,
            )
            .unwrap()
        }));
        if let Ok(stopped) = ended {
            world.borrow_mut().life = None;
            drop(log);
            drop(clock);
            return (world.into_inner(), state, stopped);
        }
    }
}

fn stands(state: &RolloutState, is: &HostStanding) -> usize {
    state.hosts.values().filter(|of| of.stands == *is).count()
}

#[test]
fn all_hosts_have_it_at_the_end_one_then_one_per_site_then_half() {
    let (world, state, stopped) = roll(World::default(), &[]);
    assert_eq!(stopped, None);
    assert_eq!(stands(&state, &HostStanding::Confirmed), 12);
    assert_eq!(world.confirmed.len(), 12);
    let order: Vec<&str> = world
        .done
        .iter()
        .filter(|(what, _)| what == "apply")
        .map(|(_, host)| host.as_str())
        .collect();
    let site = |host: &str| host[1..].parse::<usize>().unwrap() / 4;
    let mut first: Vec<usize> = order[..3].iter().map(|host| site(host)).collect();
    first.sort_unstable();
    assert_eq!(
        first,
        [0, 1, 2],
        "one of each site before the second of any"
    );
    // The first host is confirmed before the second is touched.
    let place = |what: &str, host: &str| {
        world
            .done
            .iter()
            .position(|(step, on)| step == what && on == host)
            .unwrap()
    };
    assert!(place("confirm", order[0]) < place("apply", order[1]));
}

#[test]
fn a_host_whose_gate_does_not_pass_takes_the_plan_back_on_all() {
    let turns = design().turns(fleet()).unwrap();
    let of_third_stage = turns.iter().find(|turn| turn.stage == Some(2)).unwrap();
    let world = World {
        broken: Some(of_third_stage.host.name.clone()),
        ..World::default()
    };
    let (world, state, stopped) = roll(world, &[]);
    assert_eq!(stopped, None);
    assert!(
        state
            .failed
            .as_ref()
            .is_some_and(|why| why.contains("not ready")),
        "{state:?}"
    );
    assert!(world.has.is_empty(), "{:?}", world.has);
    assert_eq!(stands(&state, &HostStanding::Confirmed), 0);
}

#[test]
fn no_more_of_a_site_a_rack_or_a_group_are_changed_at_once_than_allowed() {
    let (world, ..) = roll(World::default(), &[]);
    let all = fleet();
    let mut applying: Vec<Vec<String>> = Vec::new();
    let mut at = 0;
    for batch in &world.batches {
        if world.done[at].0 == "apply" {
            applying.push(batch.clone());
        }
        at += batch.len();
    }
    assert_eq!(applying.iter().map(Vec::len).sum::<usize>(), 12);
    for batch in applying {
        let hosts: Vec<&Host> = all
            .iter()
            .filter(|host| batch.contains(&host.name))
            .collect();
        assert!(hosts.len() <= 4);
        for one in &hosts {
            let of = |is: &dyn Fn(&Host) -> bool| {
                hosts
                    .iter()
                    .filter(|host| host.site == one.site && is(host))
                    .count()
            };
            assert!(of(&|_| true) <= 2, "{batch:?}");
            assert!(of(&|host| host.group == one.group) <= 1, "{batch:?}");
        }
    }
}

#[test]
fn one_bad_host_in_a_later_stage_leaves_all_untouched() {
    // The third host belongs to the second stage.
    let turns = design().turns(fleet()).unwrap();
    let bad = turns[2].host.name.clone();
    let world = World {
        bad: Some(bad),
        ..World::default()
    };
    let (world, state, stopped) = roll(world, &[]);
    assert_eq!(stopped, None);
    assert!(state.failed.is_some());
    assert!(world.has.is_empty(), "{:?}", world.has);
    assert!(
        stands(&state, &HostStanding::Confirmed) == 0
            && stands(&state, &HostStanding::Applied) == 0
    );
}

#[test]
fn a_controller_that_is_killed_at_any_moment_goes_on_to_the_same_end() {
    let mut random = Random::new(11);
    for bad in [false, true] {
        let turns = design().turns(fleet()).unwrap();
        for _ in 0..60 {
            let world = World {
                bad: bad.then(|| turns[7].host.name.clone()),
                ..World::default()
            };
            let kills: Vec<usize> = (0..random.below(6)).map(|_| 1 + random.below(40)).collect();
            let (world, state, stopped) = roll(world, &kills);
            assert_eq!(stopped, None, "{kills:?}");
            assert_eq!(world.has.len(), if bad { 0 } else { 12 }, "{kills:?}");
            assert_eq!(state.failed.is_some(), bad);
            if !bad {
                assert_eq!(world.confirmed.len(), 12);
            }
        }
    }
}

#[test]
fn who_is_out_of_reach_is_left_and_too_many_are_for_an_operator() {
    let turns = design().turns(fleet()).unwrap();
    let of_third: Vec<String> = turns
        .iter()
        .filter(|turn| turn.stage == Some(3))
        .map(|turn| turn.host.name.clone())
        .collect();
    let (_, state, stopped) = roll(
        World {
            dead: of_third[..2].to_vec(),
            ..World::default()
        },
        &[],
    );
    assert_eq!(stopped, None);
    assert_eq!(
        (
            stands(&state, &HostStanding::Quarantined),
            stands(&state, &HostStanding::Confirmed)
        ),
        (2, 10)
    );
    let (_, state, stopped) = roll(
        World {
            dead: of_third[..3].to_vec(),
            ..World::default()
        },
        &[],
    );
    assert!(stopped.unwrap().contains("out of reach"));
    assert_eq!(state.failed, None, "what the others have is kept");
}

#[test]
fn a_held_out_host_is_never_touched() {
    let design = Rollout::parse(&DESIGN.replace("seed = 5", "seed = 5\nholdout = 0.25")).unwrap();
    let turns = design.turns(fleet()).unwrap();
    assert_eq!(turns.iter().filter(|turn| turn.stage.is_none()).count(), 3);
    let goals: Vec<usize> = (0..4)
        .map(|stage| {
            turns
                .iter()
                .filter(|turn| turn.stage == Some(stage))
                .count()
        })
        .collect();
    assert_eq!(goals, [1, 2, 2, 4]);
}

#[test]
fn nothing_is_begun_while_it_is_frozen() {
    let design =
        Rollout::parse(&DESIGN.replace("seed = 5", "freeze = [\"Fri 12:00..Mon 06:00\"]")).unwrap();
    // 2026-11-22 was a Sunday; 1970-01-01 a Thursday.
    let sunday = 1_795_305_600;
    for (seconds, frozen) in [
        (sunday, true),
        (sunday + 86_400 + 6 * 3_600, false),
        (sunday + 86_400 + 6 * 3_600 - 1, true),
        (sunday - 2 * 86_400 + 12 * 3_600, true),
        (sunday - 2 * 86_400 + 12 * 3_600 - 1, false),
        (0, false),
    ] {
        assert_eq!(design.is_frozen(seconds), frozen, "{seconds}");
    }
    let turns = design.turns(fleet()).unwrap();
    let init = Event::Init {
        plan: String::new(),
        turns,
        restarts: false,
    };
    let state = RolloutState::of([(0, &init)]);
    assert!(matches!(
        next(&design, &state, sunday * 1_000),
        NextStep::Wait(_)
    ));
    assert!(
        matches!(next(&design, &state, 0), NextStep::Do(Step::Apply, hosts) if hosts.len() == 1)
    );
}

#[test]
fn a_design_that_makes_no_sense_is_refused() {
    for (from, to) in [
        ("total = 4", "total = 0"),
        ("\"50%\"", "\"half\""),
        ("\"50%\"", "\"0%\""),
        ("\"50%\"", "\"0 hosts\""),
        ("carrier = [\"x\"]", "carrier = []"),
        ("seed = 5", "holdout = 1.0"),
        ("seed = 5", "freeze = [\"Friday\"]"),
        ("seed = 5", "sed = 5"),
    ] {
        assert!(Rollout::parse(&DESIGN.replace(from, to)).is_err(), "{to}");
    }
    assert!(design().turns(Vec::new()).is_err());
    assert!(hosts(b"{}").is_err());
    assert!(hosts(br#"{"_meta": {"hostvars": {"a b": {}}}}"#).is_err());
    let found = hosts(br#"{"_meta": {"hostvars": {"a": {"site": "s"}}}}"#).unwrap();
    assert_eq!(
        (found[0].site.as_str(), found[0].rack.as_str()),
        ("s", "rack of a")
    );
}

#[test]
fn a_host_that_is_applying_still_is_asked_again() {
    let ended = |whole: bool, left: u64| CommandEnd {
        code: 0,
        out: format!(
            "[{{\"transaction\": \"1-1\", \"standing\": \"open\", \"plan\": \"p\", \"whole\": {whole}, \"seconds_left\": {left}}}]"
        ),
    };
    let transaction = Some("1-1".to_owned());
    for (whole, left, expect) in [
        (false, 590, HostAnswer::Later),
        (
            true,
            590,
            HostAnswer::Done {
                transaction: transaction.clone(),
            },
        ),
        // An `apply` killed in the middle: it cannot be confirmed, so the rollout takes it back.
        (false, 100, HostAnswer::Done { transaction }),
    ] {
        assert_eq!(
            came(Step::Settle, Some(&ended(whole, left)), "p", 600_000),
            expect
        );
    }
}

#[test]
fn an_answer_that_says_nothing_is_a_failure() {
    let ended = |code: i32, out: &str| {
        let out = out.to_owned();
        CommandEnd { code, out }
    };
    assert_eq!(came(Step::Apply, None, "p", 1), HostAnswer::Unreachable);
    for (step, ended) in [
        (Step::Apply, ended(0, "")),
        (
            Step::Apply,
            ended(0, "{\"transaction\": \"1-1\", \"whole\": false}"),
        ),
        (
            Step::Apply,
            ended(1, "{\"transaction\": \"1-1\", \"whole\": true}"),
        ),
        (Step::Verify, ended(3, "")),
        (Step::Settle, ended(0, "{}")),
    ] {
        assert!(
            matches!(came(step, Some(&ended), "p", 1), HostAnswer::Failed { .. }),
            "{step:?} {ended:?}"
        );
    }
}

fn restarting() -> Rollout {
    let restart =
        "restart = { drain = [\"d\"], restart = [\"r\"], ready = [\"y\"] }\nclass_max = \"B\"\n";
    Rollout::parse(&format!("{restart}{DESIGN}")).unwrap()
}

/// The firmware that is in effect is that of what the host has.
fn is_in_effect(world: &World) -> bool {
    let mut firmware = world.firmware.iter();
    firmware.all(|(host, has)| *has == world.has.contains_key(host))
}

#[test]
fn a_host_is_drained_restarted_and_ready_before_the_next_of_its_group() {
    let (world, state, stopped) = roll_by(&restarting(), World::default(), &[]);
    assert_eq!(stopped, None);
    assert_eq!(stands(&state, &HostStanding::Confirmed), 12);
    assert!(world.away.is_empty() && is_in_effect(&world));
    for number in 0..12 {
        let host = format!("h{number}");
        let steps: Vec<&str> = world
            .done
            .iter()
            .filter(|(_, on)| *on == host)
            .map(|(step, _)| step.as_str())
            .collect();
        assert_eq!(
            steps[..5],
            ["drain", "apply", "restart", "ready", "verify"],
            "{host}"
        );
    }
}

#[test]
fn a_failure_takes_restarts_back_too_one_of_a_group_at_a_time() {
    let turns = restarting().turns(fleet()).unwrap();
    let late = turns.iter().find(|turn| turn.stage == Some(2)).unwrap();
    for world in [
        World {
            broken: Some(late.host.name.clone()),
            ..World::default()
        },
        World {
            bad: Some(late.host.name.clone()),
            ..World::default()
        },
    ] {
        let (world, state, stopped) = roll_by(&restarting(), world, &[]);
        assert_eq!(stopped, None);
        assert!(state.failed.is_some());
        assert!(world.has.is_empty() && world.away.is_empty() && is_in_effect(&world));
        assert_eq!(stands(&state, &HostStanding::Confirmed), 0);
    }
}

#[test]
fn a_host_that_does_not_come_back_is_quarantined_and_its_group_stays_up() {
    let turns = restarting().turns(fleet()).unwrap();
    let lost = turns
        .iter()
        .find(|turn| turn.stage == Some(2))
        .unwrap()
        .host
        .clone();
    let world = World {
        lost: Some(lost.name.clone()),
        ..World::default()
    };
    let (world, state, stopped) = roll_by(&restarting(), world, &[]);
    assert!(
        state
            .failed
            .as_ref()
            .is_some_and(|why| why.contains(&lost.name)),
        "{state:?}"
    );
    assert_eq!(state.hosts[&lost.name].stands, HostStanding::Quarantined);
    // The only one that still has it, besides others of its group that must not go down now.
    for host in world.has.keys().filter(|host| **host != lost.name) {
        let other = &state.hosts[host].turn.host;
        assert_eq!(
            (&other.site, &other.group),
            (&lost.site, &lost.group),
            "{stopped:?}"
        );
        assert!(
            stopped
                .as_ref()
                .is_some_and(|why| why.contains("quarantined"))
        );
    }
    assert_eq!(world.away.iter().collect::<Vec<_>>(), [&lost.name]);
}

#[test]
fn a_host_that_cannot_be_drained_is_not_forced() {
    let turns = restarting().turns(fleet()).unwrap();
    let full = turns[0].host.name.clone();
    let world = World {
        full: Some(full.clone()),
        ..World::default()
    };
    let (world, state, _) = roll_by(&restarting(), world, &[]);
    assert_eq!(state.hosts[&full].stands, HostStanding::Quarantined);
    let of_it: Vec<&str> = world
        .done
        .iter()
        .filter(|(_, on)| *on == full)
        .map(|(step, _)| step.as_str())
        .collect();
    assert_eq!(of_it, ["drain"]);
    let turn = |name: &str| state.hosts[name].turn.host.clone();
    for (step, host) in &world.done {
        let (one, other) = (turn(host), turn(&full));
        let is_of_group = one.name != full && (one.site, one.group) == (other.site, other.group);
        assert!(
            !is_of_group || step != "restart",
            "the other one of its group serves alone"
        );
    }
}

#[test]
fn a_controller_that_is_killed_while_hosts_restart_goes_on() {
    let mut random = Random::new(11);
    for round in 0..40 {
        let kills: Vec<usize> = (0..20).map(|_| random.below(25)).collect();
        let bad = (round % 2 == 1).then(|| format!("h{}", random.below(12)));
        let world = World {
            bad: bad.clone(),
            ..World::default()
        };
        let (world, state, stopped) = roll_by(&restarting(), world, &kills);
        assert_eq!(stopped, None, "{kills:?}");
        assert!(world.away.is_empty() && is_in_effect(&world), "{kills:?}");
        let expect = if bad.is_some() { 0 } else { 12 };
        assert_eq!(world.has.len(), expect, "{kills:?} {state:?}");
    }
}

#[test]
fn a_design_that_would_take_two_of_a_group_down_is_refused() {
    for (from, to, why) in [
        ("group = 1", "group = 2", "down at once"),
        ("drain = [\"d\"]", "drain = []", "are programs"),
        ("class_max = \"B\"", "class_max = \"X\"", "none of O, F"),
    ] {
        let text = format!(
            "restart = {{ drain = [\"d\"], restart = [\"r\"], ready = [\"y\"] }}\nclass_max = \"B\"\n{DESIGN}"
        );
        let error = Rollout::parse(&text.replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(
        design()
            .refuses(true)
            .is_some_and(|why| why.contains("out of service"))
    );
    assert!(restarting().refuses(true).is_none() && design().refuses(false).is_none());
}
