//! Turns of large requests, on a clock that moves only while everybody waits.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use platform::clock::Clock;
use platform::runtime::run_simulated;
use platform::task::{spawn, yield_now};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use wire::kafka::Api;

use super::{Bulk, OTHERS, is_large};

const ME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PIECE: Duration = Duration::from_millis(10);

fn bulk() -> Bulk {
    Bulk::new(Histogram::new([1.0]))
}

#[test]
fn a_request_that_waits_holds_nobody_up() {
    run_simulated(async {
        let (bulk, clock) = (Rc::new(bulk()), Clock::system());
        let waiting = {
            let (bulk, clock) = (Rc::clone(&bulk), clock.clone());
            spawn(async move { bulk.paced(&clock, ME, std::future::pending::<()>()).await })
        };
        yield_now().await;
        assert_eq!(bulk.paced(&clock, ME, async { 7 }).await, 7);
        waiting.abort();
    })
    .unwrap();
}

#[test]
fn pieces_of_several_requests_take_turns_and_each_request_keeps_its_order() {
    let said = Rc::new(RefCell::new(Vec::new()));
    run_simulated(async {
        let bulk = Rc::new(bulk());
        let each = (0..3).map(|number| {
            let (bulk, said) = (Rc::clone(&bulk), Rc::clone(&said));
            spawn(async move {
                let work = async {
                    for piece in 0..3 {
                        said.borrow_mut().push((number, piece));
                        yield_now().await;
                    }
                };
                bulk.paced(&Clock::system(), ME, work).await;
            })
        });
        for one in each.collect::<Vec<_>>() {
            one.await.unwrap();
        }
    })
    .unwrap();
    let said = said.borrow();
    assert_eq!(said.len(), 9);
    for number in 0..3 {
        let mine: Vec<_> = said.iter().filter(|one| one.0 == number).collect();
        assert_eq!(mine, [&(number, 0), &(number, 1), &(number, 2)]);
    }
    assert_ne!(said[0].0, said[1].0, "they take turns");
}

/// Returns how long a large request waits after another one worked for a while.
fn waited(has_others: bool, worked: Duration) -> Duration {
    run_simulated(async {
        let (bulk, clock) = (Rc::new(bulk()), Clock::system());
        let since = clock.now();
        bulk.give(0, worked, since);
        let others = {
            let (bulk, clock) = (Rc::clone(&bulk), clock.clone());
            spawn(async move {
                if !has_others {
                    return;
                }
                loop {
                    bulk.note_other();
                    clock.sleep(Duration::from_micros(500)).await;
                }
            })
        };
        bulk.paced(&clock, ME, async {}).await;
        others.abort();
        clock.now() - since
    })
    .unwrap()
}

#[test]
fn after_a_piece_the_others_have_the_thread_if_there_are_others() {
    assert!(waited(true, PIECE) >= PIECE * OTHERS);
    assert_eq!(waited(false, PIECE), Duration::ZERO, "nobody else came");
    assert_eq!(waited(true, Duration::from_micros(100)), Duration::ZERO);
    // A process that was stopped for an hour worked for a moment.
    assert!(waited(true, Duration::from_hours(1)) < Duration::from_secs(1));
}

#[test]
fn pieces_of_others_do_not_prolong_a_wait() {
    run_simulated(async {
        let (bulk, clock) = (Rc::new(bulk()), Clock::system());
        let since = clock.now();
        bulk.give(0, PIECE, since);
        let others = {
            let (bulk, clock) = (Rc::clone(&bulk), clock.clone());
            spawn(async move {
                loop {
                    bulk.note_other();
                    bulk.give(0, PIECE, clock.now());
                    clock.sleep(Duration::from_micros(500)).await;
                }
            })
        };
        bulk.paced(&clock, ME, async {}).await;
        others.abort();
        assert!(clock.now() - since < PIECE * OTHERS * 2);
    })
    .unwrap();
}

#[test]
fn a_produce_is_never_kept_for_its_size() {
    assert!(is_large(Api::JoinGroup, 20_000));
    assert!(!is_large(Api::JoinGroup, 10_000));
    assert!(!is_large(Api::Produce, 1 << 20));
}

#[test]
fn a_commit_keeps_its_place_while_it_is_decoded_where_it_came() {
    for api in [Api::OffsetCommit, Api::Fetch] {
        assert!(!is_large(api, 64 << 10));
        assert!(is_large(api, (64 << 10) + 1));
    }
}

/// What a monitoring system would read of a series.
fn shown(registry: &Registry, series: &str) -> f64 {
    let mut shown = String::new();
    prometheus_client::encoding::text::encode(&mut shown, registry).unwrap();
    let mut lines = shown.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap().parse().unwrap()
}

#[test]
fn what_a_request_waits_is_counted_when_it_ends_or_its_client_goes() {
    let (mut registry, waits) = (Registry::default(), Histogram::new([1.0]));
    registry.register("wait", "", waits.clone());
    run_simulated(async {
        let (bulk, clock) = (Rc::new(Bulk::new(waits)), Clock::system());
        bulk.give(0, PIECE, clock.now());
        let others = {
            let (bulk, clock) = (Rc::clone(&bulk), clock.clone());
            spawn(async move {
                loop {
                    bulk.note_other();
                    clock.sleep(Duration::from_millis(1)).await;
                }
            })
        };
        let each = (0..3).map(|_| {
            let (bulk, clock) = (Rc::clone(&bulk), clock.clone());
            spawn(async move { bulk.paced(&clock, ME, async {}).await })
        });
        let mut each: Vec<_> = each.collect();
        clock.sleep(PIECE).await;
        each.pop().unwrap().abort();
        for one in each {
            one.await.unwrap();
        }
        others.abort();
    })
    .unwrap();
    assert!(shown(&registry, "wait_count") >= 3.0);
    // Two for the share of the others, one for the time until its client went.
    let expected = (PIECE * OTHERS * 2 + PIECE).as_secs_f64();
    let waited = shown(&registry, "wait_sum");
    assert!((waited - expected).abs() < 0.01, "{waited} of {expected}");
}
