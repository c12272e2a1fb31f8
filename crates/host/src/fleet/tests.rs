//! The decisions of a controller, even when killed, for twelve simulated hosts at three sites.

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

    fn on(&mut self, host: &str, arguments: &[String]) -> CommandEnd {
        self.done.push((arguments[2].clone(), host.to_owned()));
        let (code, out) = match arguments[2].as_str() {
            "apply" if self.bad.as_deref() == Some(host) => (7, "refused".to_owned()),
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

/// The time, and the host whose gate does not pass.
struct Clock(i64, Option<String>);

impl Desk for Clock {
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
    fn tell(&mut self, _: &str) {}
    fn gate(&mut self, host: &str) -> Result<(), String> {
        match &self.1 {
            Some(broken) if broken == host => Err("not ready".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Runs to the end, killed after each of these numbers of steps and restarted.
fn roll(world: World, kills: &[usize]) -> (World, RolloutState, Option<String>) {
    let design = design();
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
    })
    .unwrap();
    let mut kills = kills.iter();
    let mut clock = Clock(0, world.borrow().broken.clone());
    loop {
        world.borrow_mut().life = kills.next().copied();
        let mut state = RolloutState::of(log.events.iter().map(|(at, event)| (*at, event)));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            run(
                &design,
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
