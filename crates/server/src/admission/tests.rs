//! Seats, and when they are given; each test sets the clock.

use std::collections::BTreeMap;

use broker::node_config::ListenerLimits;
use broker::quota::Windows;
use proptest::prelude::*;

use super::*;

const WINDOWS: Windows = Windows {
    samples: 11,
    window: Duration::from_secs(1),
};

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        all_max: usize::MAX,
        per_address_max: usize::MAX,
        overrides: BTreeMap::new(),
        rate: None,
        rate_per_address: None,
        address_rates: BTreeMap::new(),
        windows: WINDOWS,
        listeners: BTreeMap::new(),
    }
}

fn admission(all: usize, per_ip: usize, overrides: &[(&str, usize)]) -> Admission {
    let overrides = overrides.iter();
    let limits = ConnectionLimits {
        all_max: all,
        per_address_max: per_ip,
        overrides: overrides
            .map(|(ip, max)| (ip.parse().unwrap(), *max))
            .collect(),
        ..limits()
    };
    Admission::new(limits, None, Descriptors::default())
}

fn from(admission: &Admission, address: &str) -> Result<Seat, AdmissionRefusal> {
    admission.admit(&"A".into(), address.parse().unwrap(), 10, Instant::now())
}

#[test]
fn a_freed_seat_is_given_again() {
    let admission = admission(2, 10, &[]);
    let first = from(&admission, "10.0.0.1").unwrap();
    let _second = from(&admission, "10.0.0.2").unwrap();
    assert_eq!(
        from(&admission, "10.0.0.3").unwrap_err(),
        AdmissionRefusal::All
    );
    drop(first);
    assert!(from(&admission, "10.0.0.3").is_ok());
    assert_eq!(
        admission.lock().per_address.len(),
        1,
        "addresses without a seat are forgotten"
    );
}

#[test]
fn the_machine_itself_gets_in_whatever_the_bounds_are() {
    let shut = ConnectionLimits {
        all_max: 0,
        rate_per_address: Some(5e-324),
        ..limits()
    };
    let admission = Admission::new(shut, None, Descriptors::default());
    assert!(from(&admission, "10.0.0.1").is_err());
    for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let seats: Vec<_> = (0..OWN_SEATS)
            .map(|_| from(&admission, here).unwrap())
            .collect();
        assert!(
            from(&admission, here).is_err(),
            "the seats are bounded themselves"
        );
        assert!(
            from(&admission, "127.0.0.2").is_err(),
            "not every address of the loopback"
        );
        drop(seats);
    }
    assert_eq!(admission.lock().own, 0);
}

#[test]
fn connections_leave_descriptors_to_the_logs() {
    let logs = Arc::new(std::sync::atomic::AtomicUsize::new(30));
    let counted = Arc::clone(&logs);
    let descriptors = Descriptors {
        limit: Some(300),
        logs: Some(Arc::new(move || {
            counted.load(std::sync::atomic::Ordering::Relaxed)
        })),
    };
    let admission = Admission::new(limits(), None, descriptors);
    let admit = |descriptor| {
        admission.admit(
            &"A".into(),
            [10, 0, 0, 1].into(),
            descriptor,
            Instant::now(),
        )
    };
    assert!(admit(300 - 30 - SPARE_DESCRIPTORS - 1).is_ok());
    assert_eq!(
        admit(300 - 30 - SPARE_DESCRIPTORS).unwrap_err(),
        AdmissionRefusal::Descriptors
    );
    logs.store(10_000, std::sync::atomic::Ordering::Relaxed);
    assert!(
        admit(149).is_ok(),
        "half are for connections, however many logs there are"
    );
    assert_eq!(admit(150).unwrap_err(), AdmissionRefusal::Descriptors);
}

#[test]
fn addresses_that_come_and_go_are_not_kept_for_ever() {
    let quota = ConnectionLimits {
        rate_per_address: Some(1e9),
        ..limits()
    };
    let admission = Admission::new(quota, None, Descriptors::default());
    let now = Instant::now();
    for address in 0..200_000_u32 {
        let _ = admission.admit(&"A".into(), Ipv4Addr::from(address).into(), 10, now);
        assert!(admission.lock().rates.len() <= RATES_MAX);
    }
}

#[test]
fn one_address_has_its_own_bound() {
    let admission = admission(100, 1, &[("10.0.0.9", 2), ("10.0.0.8", 0)]);
    let _seat = from(&admission, "10.0.0.1").unwrap();
    assert_eq!(
        from(&admission, "10.0.0.1").unwrap_err(),
        AdmissionRefusal::Address
    );
    let mapped = from(&admission, "::ffff:10.0.0.1");
    assert_eq!(
        mapped.unwrap_err(),
        AdmissionRefusal::Address,
        "an address has one bound in both notations"
    );
    let _more = (
        from(&admission, "10.0.0.9").unwrap(),
        from(&admission, "10.0.0.9").unwrap(),
    );
    assert_eq!(
        from(&admission, "10.0.0.9").unwrap_err(),
        AdmissionRefusal::Address
    );
    assert_eq!(
        from(&admission, "10.0.0.8").unwrap_err(),
        AdmissionRefusal::Address
    );
}

#[test]
fn bounds_that_change_hold_for_the_next_connection() {
    let config = |all_max| {
        let connections = ConnectionLimits {
            all_max,
            ..limits()
        };
        let config = NodeConfig {
            connections,
            cordoned: broker::node_config::CordonedDirs::Only(Vec::new()),
            move_bytes_per_second: None,
            clock: platform::clock::steps::StepSettings::DEFAULT,
            stores: BTreeMap::new(),
        };
        Some(Arc::new(config))
    };
    let (say, said) = watch::channel(None);
    let admission = Admission::new(
        ConnectionLimits {
            all_max: 1,
            ..limits()
        },
        Some(said),
        Descriptors::default(),
    );
    let _first = from(&admission, "10.0.0.1").unwrap();
    assert_eq!(
        from(&admission, "10.0.0.1").unwrap_err(),
        AdmissionRefusal::All
    );
    say.send_replace(config(2));
    let _second = from(&admission, "10.0.0.1").unwrap();
    say.send_replace(config(1));
    assert_eq!(
        from(&admission, "10.0.0.2").unwrap_err(),
        AdmissionRefusal::All
    );
    drop(say);
    assert_eq!(
        from(&admission, "10.0.0.2").unwrap_err(),
        AdmissionRefusal::All,
        "the last word holds"
    );
}

#[test]
fn a_listener_may_have_bounds_of_its_own() {
    let own = ListenerLimits {
        max: 1,
        rate: Some(1.0),
    };
    let limits = ConnectionLimits {
        listeners: [("one".to_owned(), own)].into(),
        ..limits()
    };
    let admission = Admission::new(limits, None, Descriptors::default());
    let (one, other): (Arc<str>, Arc<str>) = ("ONE".into(), "OTHER".into());
    let now = Instant::now();
    let from = |listener| admission.admit(listener, [10, 0, 0, 1].into(), 10, now);
    let first = from(&one).unwrap();
    assert_eq!(from(&one).unwrap_err(), AdmissionRefusal::Listener);
    let _others = [from(&other).unwrap(), from(&other).unwrap()];
    drop(first);
    assert!(from(&one).is_ok());
    for _ in 0..10 {
        assert_eq!(admission.turn(&one, now), Turn::Now);
    }
    let second = Duration::from_secs(1);
    assert_eq!(admission.turn(&one, now), Turn::After(second));
    for _ in 0..100 {
        assert_eq!(admission.turn(&other, now), Turn::Now);
    }
}

#[test]
fn a_listener_takes_no_more_while_one_waits() {
    let rate = Some(1.0);
    let admission = Admission::new(
        ConnectionLimits { rate, ..limits() },
        None,
        Descriptors::default(),
    );
    let (one, other): (Arc<str>, Arc<str>) = ("ONE".into(), "OTHER".into());
    let now = Instant::now();
    for _ in 0..10 {
        assert_eq!(
            admission.turn(&one, now),
            Turn::Now,
            "a first burst is not held back"
        );
    }
    let second = Duration::from_secs(1);
    assert_eq!(admission.turn(&one, now), Turn::After(second));
    assert_eq!(admission.turn(&one, now), Turn::Again(second));
    assert_eq!(
        admission.turn(&other, now),
        Turn::After(second),
        "one sample at most"
    );
    assert_ne!(admission.turn(&one, now + second), Turn::Again(second));
}

#[test]
fn an_address_above_its_quota_is_sent_away_and_not_counted() {
    let own = [("10.0.0.9".parse().unwrap(), 100.0)].into();
    let limits = ConnectionLimits {
        rate_per_address: Some(1.0),
        address_rates: own,
        ..limits()
    };
    let admission = Admission::new(limits, None, Descriptors::default());
    let now = Instant::now();
    let come = |address: &str, at: Instant| {
        admission
            .admit(&"A".into(), address.parse().unwrap(), 10, at)
            .map(drop)
    };
    for _ in 0..10 {
        assert_eq!(come("10.0.0.1", now), Ok(()));
    }
    for _ in 0..100 {
        assert_eq!(
            come("10.0.0.1", now),
            Err(AdmissionRefusal::TooFast(Duration::from_secs(1)))
        );
        assert_eq!(come("10.0.0.9", now), Ok(()), "its own quota");
    }
    assert_eq!(
        come("10.0.0.2", now),
        Ok(()),
        "each address has its own count"
    );
    let later = now + WINDOWS.span();
    assert_eq!(
        come("10.0.0.1", later),
        Ok(()),
        "who was sent away was not counted"
    );
    for address in 0..3000_u32 {
        let at = later + Duration::from_secs(u64::from(address));
        let _ = admission.admit(&"A".into(), Ipv4Addr::from(address).into(), 10, at);
        assert!(admission.lock().rates.len() <= SWEEP_MIN + 1);
    }
}

proptest! {
    /// For any arrivals, a listener takes within any time at most the burst of the windows and the
    /// rate.
    #[test]
    fn a_listener_takes_connections_no_faster_than_the_rate(
        gaps in proptest::collection::vec(0_u64..400, 1..400),
        rate in 1_u32..50,
    ) {
        let admission = Admission::new(ConnectionLimits { rate: Some(f64::from(rate)), ..limits() }, None, Descriptors::default());
        let listener: Arc<str> = "L".into();
        let start = Instant::now();
        let mut free = start;
        let mut arrives = start;
        let mut taken = 0_u32;
        for gap in gaps {
            arrives += Duration::from_millis(gap);
            // A listener holds one connection at a time; the rest wait in its backlog.
            let mut at = arrives.max(free);
            loop {
                match admission.turn(&listener, at) {
                    Turn::Now => break,
                    Turn::After(pause) => {
                        at += pause;
                        break;
                    }
                    Turn::Again(pause) => at += pause,
                }
            }
            free = at;
            taken += 1;
            let seconds = (at - start).as_secs_f64();
            // Samples that expire all at once may let one more burst through.
            let bursts = 10.0 * (1.0 + (seconds / 11.0).floor());
            prop_assert!(f64::from(taken) <= f64::from(rate) * (bursts + seconds) + 1.0);
        }
    }
}

#[test]
fn half_of_the_seats_are_for_those_who_are_logged_in() {
    let own = ListenerLimits { max: 6, rate: None };
    let limits = ConnectionLimits {
        all_max: 20,
        listeners: [("a".to_owned(), own)].into(),
        ..limits()
    };
    let admission = Admission::new(limits, None, Descriptors::default());
    let come = |listener: &str, last: u8| {
        admission.stranger(&listener.into(), Ipv4Addr::new(10, 0, 0, last).into())
    };
    let left = |all: &mut Vec<Stranger>| {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        all.retain_mut(|one| one.poll_end(&mut cx).is_pending());
        all.len()
    };
    let mut all: Vec<_> = (0..5).map(|_| come("A", 1)).collect();
    assert_eq!(left(&mut all), 3);
    all.extend((0..20).map(|_| come("B", 2)));
    assert_eq!(left(&mut all), 10);
    all.clear();
    assert_eq!(left(&mut all), 0);
    all.extend((0..3).map(|_| come("A", 1)));
    assert_eq!(left(&mut all), 3, "who is logged in counts no more");
}

#[test]
fn who_is_not_logged_in_is_bounded_by_the_setting() {
    let admission = admission(usize::MAX, 10, &[]).with_strangers_max(2);
    let come = || admission.stranger(&"A".into(), Ipv4Addr::LOCALHOST.into());
    let mut all: Vec<_> = (0..5).map(|_| come()).collect();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    all.retain_mut(|one| one.poll_end(&mut cx).is_pending());
    assert_eq!(all.len(), 2);
}
