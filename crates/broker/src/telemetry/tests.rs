//! The rules of telemetry over time.

use std::net::Ipv4Addr;

use prometheus_client::registry::Registry;

use super::*;

const INTERVAL_MS: u64 = 10_000;

/// The state of telemetry, and a start time.
struct World {
    telemetry: Telemetry,
    began: Instant,
}

fn telemetry() -> World {
    let metrics = Metrics::register(&mut Registry::default());
    World {
        telemetry: Telemetry::new(1, metrics),
        began: Instant::now(),
    }
}

impl World {
    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }
}

fn client(number: u128, address: u8) -> Client {
    Client {
        id: id(number),
        called: "tester".into(),
        software_name: String::new(),
        software_version: String::new(),
        address: Ipv4Addr::new(10, 0, 0, address).into(),
        port: 1,
    }
}

fn subscription(id: i32, version: u64) -> Subscription {
    Subscription {
        id,
        metrics: vec!["*".into()],
        interval_ms: 10_000,
        version,
    }
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(1000 + number)
}

fn asked(world: &World, at: u64) -> Result<(), ErrorCode> {
    let (client, told) = (client(0, 0), subscription(7, 1));
    world.telemetry.ask(&client, &told, world.at(at))
}

fn good() -> Push {
    Push {
        subscription: 7,
        terminating: false,
        known_codec: true,
        bytes: 100,
    }
}

fn pushed(world: &World, push: Push, at: u64) -> Result<(), ErrorCode> {
    let (client, told) = (client(0, 0), subscription(7, 1));
    let at = world.at(at);
    world.telemetry.push(&client, &told, push, 1000, at)
}

#[test]
fn pushes_and_questions_keep_to_the_interval() {
    let telemetry = telemetry();
    let early = Err(ErrorCode::ThrottlingQuotaExceeded);
    assert_eq!(asked(&telemetry, 0), Ok(()));
    assert_eq!(asked(&telemetry, 1), early);
    assert_eq!(
        pushed(&telemetry, good(), 2),
        Ok(()),
        "the first may come early"
    );
    assert_eq!(pushed(&telemetry, good(), 3), early);
    assert_eq!(pushed(&telemetry, good(), 2 + INTERVAL_MS - 1), early);
    assert_eq!(pushed(&telemetry, good(), 2 + INTERVAL_MS), Ok(()));
    assert_eq!(asked(&telemetry, 2 + 2 * INTERVAL_MS), Ok(()));
}

#[test]
fn who_terminates_may_push_at_once_and_is_not_heard_again() {
    let telemetry = telemetry();
    let last = Push {
        terminating: true,
        ..good()
    };
    assert_eq!(asked(&telemetry, 0), Ok(()));
    assert_eq!(pushed(&telemetry, good(), 1), Ok(()));
    assert_eq!(pushed(&telemetry, last, 2), Ok(()));
    let refused = pushed(&telemetry, good(), 5 * INTERVAL_MS);
    assert_eq!(refused, Err(ErrorCode::InvalidRequest));
}

#[test]
fn a_push_that_does_not_fit_is_refused_by_its_first_fault() {
    let other = Push {
        subscription: 8,
        known_codec: false,
        ..good()
    };
    let codec = Push {
        known_codec: false,
        bytes: 1001,
        ..good()
    };
    let large = Push {
        bytes: 1001,
        ..good()
    };
    for (push, expected, may_ask) in [
        (other, ErrorCode::UnknownSubscriptionId, true),
        (codec, ErrorCode::UnsupportedCompressionType, true),
        (large, ErrorCode::TelemetryTooLarge, false),
    ] {
        let telemetry = telemetry();
        assert_eq!(asked(&telemetry, 0), Ok(()));
        assert_eq!(pushed(&telemetry, push, 1), Err(expected));
        assert_eq!(asked(&telemetry, 2).is_ok(), may_ask, "{expected:?}");
    }
}

#[test]
fn a_changed_subscription_is_told_at_once() {
    let telemetry = telemetry();
    assert_eq!(asked(&telemetry, 0), Ok(()));
    let World {
        telemetry: known, ..
    } = &telemetry;
    let (client, changed) = (client(0, 0), subscription(9, 2));
    assert_eq!(known.ask(&client, &changed, telemetry.at(1)), Ok(()));
    let old = known.push(&client, &changed, good(), 1000, telemetry.at(2));
    assert_eq!(old, Err(ErrorCode::UnknownSubscriptionId));
}

#[test]
fn clients_are_bounded_and_the_silent_are_forgotten() {
    let mut world = telemetry();
    world.telemetry.instances_max = 2;
    let ask = |world: &World, number, address| {
        let at = world.at(u64::try_from(number).unwrap());
        let client = client(number, address);
        let told = world.telemetry.ask(&client, &subscription(7, 1), at);
        assert_eq!(told, Ok(()));
        assert!(world.telemetry.instances.borrow().of.len() <= 2);
    };
    ask(&world, 0, 1);
    for number in 1..5 {
        ask(&world, number, 2);
    }
    let is_known = |number| {
        let instances = world.telemetry.instances.borrow();
        instances.of.contains_key(&id(number))
    };
    assert!(is_known(4) && is_known(0), "each address has one left");
    world.telemetry.forget_idle(world.at(60_000));
    assert!(is_known(4) && is_known(0));
    world.telemetry.forget_idle(world.at(60_001));
    assert!(is_known(4) && !is_known(0));
    world.telemetry.forget_idle(world.at(60_005));
    assert!(!is_known(4));
    assert_eq!(world.telemetry.instances.borrow().ledger.len(), 0);
}
