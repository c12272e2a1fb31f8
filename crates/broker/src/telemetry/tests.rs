//! The rules of telemetry, by the clock.

use prometheus_client::registry::Registry;

use super::*;

const INTERVAL_MS: i64 = 10_000;
const NOW_MS: i64 = 1_767_225_600_000;

fn telemetry() -> Telemetry {
    let metrics = Metrics::register(&mut Registry::default());
    Telemetry::new(1, Received::new(metrics))
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

fn asked(telemetry: &Telemetry, at: i64) -> Result<i32, ErrorCode> {
    let told = telemetry.ask(id(0), subscription(7, 1), NOW_MS + at);
    told.map(|told| told.id)
}

fn good() -> Push {
    Push {
        subscription: 7,
        terminating: false,
        known_codec: true,
        bytes: 100,
    }
}

fn pushed(telemetry: &Telemetry, push: Push, at: i64) -> Result<(), ErrorCode> {
    telemetry.push(id(0), subscription(7, 1), push, 1000, NOW_MS + at)
}

#[test]
fn pushes_and_questions_keep_to_the_interval() {
    let telemetry = telemetry();
    let early = Err(ErrorCode::ThrottlingQuotaExceeded);
    assert_eq!(asked(&telemetry, 0), Ok(7));
    assert_eq!(asked(&telemetry, 1).map(|_| ()), early);
    assert_eq!(
        pushed(&telemetry, good(), 2),
        Ok(()),
        "the first may come early"
    );
    assert_eq!(pushed(&telemetry, good(), 3), early);
    assert_eq!(pushed(&telemetry, good(), 2 + INTERVAL_MS - 1), early);
    assert_eq!(pushed(&telemetry, good(), 2 + INTERVAL_MS), Ok(()));
    assert_eq!(asked(&telemetry, 2 + 2 * INTERVAL_MS), Ok(7));
}

#[test]
fn who_terminates_may_push_at_once_and_is_not_heard_again() {
    let telemetry = telemetry();
    let last = Push {
        terminating: true,
        ..good()
    };
    assert_eq!(asked(&telemetry, 0), Ok(7));
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
        assert_eq!(asked(&telemetry, 0), Ok(7));
        assert_eq!(pushed(&telemetry, push, 1), Err(expected));
        assert_eq!(asked(&telemetry, 2).is_ok(), may_ask, "{expected:?}");
    }
}

#[test]
fn a_changed_subscription_is_told_at_once() {
    let telemetry = telemetry();
    assert_eq!(asked(&telemetry, 0), Ok(7));
    let told = telemetry
        .ask(id(0), subscription(9, 2), NOW_MS + 1)
        .unwrap();
    assert_eq!(told.id, 9);
    let old = telemetry.push(id(0), subscription(9, 2), good(), 1000, NOW_MS + 2);
    assert_eq!(old, Err(ErrorCode::UnknownSubscriptionId));
}

#[test]
fn clients_are_bounded_and_the_silent_are_forgotten() {
    let mut telemetry = telemetry();
    telemetry.instances_max = 2;
    for number in 0..5 {
        let at = NOW_MS + i64::try_from(number).unwrap();
        telemetry.ask(id(number), subscription(7, 1), at).unwrap();
        assert!(telemetry.instances.borrow().len() <= 2);
    }
    assert!(telemetry.instances.borrow().contains_key(&id(4)));
    telemetry.forget_idle(NOW_MS + 60_000);
    assert_eq!(telemetry.instances.borrow().len(), 2);
    telemetry.forget_idle(NOW_MS + 60_005);
    assert!(telemetry.instances.borrow().is_empty());
}
