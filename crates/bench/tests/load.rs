//! Loads against a sink in this process: everything due is sent, counted once, and acknowledged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bench::load::{self, Control, HostShare};
use bench::outcome::LoadOutcome;
use bench::sink::{self, SinkMode};
use bench::spec::Load;

/// A sink that lives as long as this process.
fn sink() -> SocketAddr {
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sink::run("127.0.0.1:0", SinkMode::Copies, |address| {
            let _ = said.send(address);
        });
    });
    heard.recv().unwrap()
}

fn load(produce: &str) -> Load {
    let text = format!(
        "seconds = 20\nbytes_max = 3_000_000\n[topics]\ncount = 2\npartitions = 3\n\
         [produce]\nproducers = 4\nbatch_bytes = 16_384\nacks = -1\nin_flight_max = 5\n{produce}"
    );
    toml::from_str(&text).unwrap()
}

fn run(load: &Load) -> LoadOutcome {
    load::run_blocking(&sink().to_string(), load, &Control::default()).unwrap()
}

#[test]
fn whatever_is_sent_is_acknowledged_and_counted() {
    let kinds = [
        "record = 1000",
        "record = 100_000",
        "record = 1000\ncompression = \"lz4\"\nentropy = 2.0",
        "record = { min = 1, max = 3000 }",
        "record = { weights = [[10, 1.0], [5000, 2.0]] }\ncompression = \"zstd\"",
        "record = 1000\nkeys = { cycle = 100 }",
        "record = 1000\nidempotent = true",
    ];
    for kind in kinds {
        let outcome = run(&load(kind));
        let produce = outcome.produce.as_ref().unwrap();
        assert!(outcome.errors.is_empty(), "{kind}: {:?}", outcome.errors);
        assert!(outcome.aborted.is_none());
        // Whole batches: each producer may leave what did not make a batch.
        assert!(produce.bytes <= 3_000_000, "{kind}: {}", produce.bytes);
        assert!(produce.bytes > 2_700_000, "{kind}: {}", produce.bytes);
        let latency = produce.latency.histogram().unwrap();
        assert_eq!(latency.len(), produce.records, "{kind}");
        let curve: u64 = outcome
            .intervals
            .iter()
            .map(|interval| interval.produced)
            .sum();
        assert!(curve <= produce.bytes);
        assert!(outcome.seconds > 0.0 && outcome.seconds < 20.0);
        assert!(outcome.client.unwrap().cpu_seconds > 0.0);
    }
}

#[test]
fn a_request_takes_along_what_there_is_for_other_partitions() {
    for kind in ["keys = { cycle = 100 }", "producers = 1"] {
        let of = |requests: &str| {
            let text = format!(
                "seconds = 20\nbytes_max = 3_000_000\n[topics]\ncount = 2\npartitions = 3\n\
                 [produce]\n{}\nbatch_bytes = 16_384\nacks = -1\nin_flight_max = 5\n\
                 record = 1000\nidempotent = true\n{kind}\nrequests = \"{requests}\"",
                if kind.starts_with("keys") {
                    "producers = 4"
                } else {
                    ""
                }
            );
            let outcome = run(&toml::from_str(&text).unwrap());
            assert!(outcome.errors.is_empty(), "{kind}: {:?}", outcome.errors);
            outcome.produce.unwrap()
        };
        let (alone, packed) = (of("one-per-batch"), of("packed"));
        assert!(alone.requests >= alone.bytes / 16_384, "{kind}");
        assert!(
            3 * packed.requests < 2 * alone.requests && packed.requests > 0,
            "{kind}: {} and {}",
            packed.requests,
            alone.requests
        );
    }
}

#[test]
fn without_acknowledgements_what_was_sent_counts() {
    let mut load = load("record = 1000");
    load.produce.as_mut().unwrap().acks = 0;
    let produce = run(&load).produce.unwrap();
    assert_eq!(produce.records, 3000);
}

#[test]
fn a_rate_is_kept_by_count() {
    let rate = "record = 1000\nrate = { shape = \"ramp\", from = 1e6, to = 3e6, over = 1.0 }";
    let mut load = load(rate);
    load.bytes_max = None;
    load.seconds = 1.0;
    load.interval_seconds = 0.1;
    let outcome = run(&load);
    let produce = outcome.produce.unwrap();
    // The integral, whatever else this machine does: what is late is sent late. Each of the four
    // producers begins a quarter of a record behind the one before.
    assert!(
        (1999..=2001).contains(&produce.records),
        "{}",
        produce.records
    );
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert!(outcome.seconds >= 1.0, "{}", outcome.seconds);
}

#[test]
fn hosts_share_a_load_and_its_topics() {
    let address = sink().to_string();
    let load = load("record = 1000");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(load::topics::create(
            &address,
            &load::Security::default(),
            &load.topics,
        ))
        .unwrap();
    let mut records = 0;
    for index in 0..3 {
        let control = Control {
            host: HostShare { index, of: 3 },
            ..Control::default()
        };
        let outcome = load::run_blocking(&address, &load, &control).unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        records += outcome.produce.unwrap().records;
    }
    assert_eq!(records, 3000);
    runtime
        .block_on(load::topics::delete(
            &address,
            &load::Security::default(),
            &load.topics,
        ))
        .unwrap();
}

#[test]
fn topics_that_are_there_are_an_error_unless_they_are_meant() {
    let address = sink().to_string();
    let mut load = load("record = 1000");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(load::topics::create(
            &address,
            &load::Security::default(),
            &load.topics,
        ))
        .unwrap();
    let refused = load::run_blocking(&address, &load, &Control::default()).unwrap_err();
    assert!(
        refused.to_string().contains("exists already"),
        "{refused:#}"
    );
    load.topics.existing = true;
    let outcome = load::run_blocking(&address, &load, &Control::default()).unwrap();
    assert_eq!(outcome.produce.unwrap().records, 3000);
}

#[test]
fn a_stop_ends_it_with_what_there_is() {
    let mut load = load("record = 1000\nrate = { shape = \"constant\", rate = 1e6 }");
    load.bytes_max = None;
    load.seconds = 600.0;
    load.interval_seconds = 0.05;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut control = Control::default();
    let (stop, telling) = (control.stop.clone(), Arc::clone(&seen));
    control.progress = Some(Arc::new(move |interval| {
        telling.lock().unwrap().push(interval.at);
        stop.now();
    }));
    let outcome = load::run_blocking(&sink().to_string(), &load, &control).unwrap();
    assert!(outcome.aborted.is_some());
    assert!(outcome.produce.unwrap().records > 0);
    assert!(!seen.lock().unwrap().is_empty());
}

#[test]
fn nobody_there_is_an_error_and_not_an_outcome() {
    let load = load("record = 1000");
    let refused = load::run_blocking("127.0.0.1:1", &load, &Control::default()).unwrap_err();
    assert!(
        format!("{refused:#}").contains("connecting to 127.0.0.1:1"),
        "{refused:#}"
    );
}

#[cfg(feature = "librdkafka")]
#[test]
fn an_ordinary_client_puts_on_the_same_load() {
    let kinds = [
        "record = 1000",
        "record = { min = 1, max = 3000 }\nidempotent = true",
        "record = 1000\nkeys = { cycle = 100 }\ncompression = \"lz4\"",
        "record = 1000\nrate = { shape = \"constant\", rate = 3e6 }\nlinger_ms = 5",
    ];
    for kind in kinds {
        let mut load = load(kind);
        load.driver = bench::spec::Driver::Librdkafka;
        let outcome = run(&load);
        let produce = outcome.produce.as_ref().unwrap();
        assert!(outcome.errors.is_empty(), "{kind}: {:?}", outcome.errors);
        assert!(outcome.aborted.is_none());
        assert!(produce.bytes <= 3_000_000, "{kind}: {}", produce.bytes);
        assert!(produce.bytes > 2_700_000, "{kind}: {}", produce.bytes);
        let latency = produce.latency.histogram().unwrap();
        assert_eq!(latency.len(), produce.records, "{kind}");
        assert!(outcome.seconds > 0.0 && outcome.seconds < 20.0);
        assert!(outcome.client.unwrap().cpu_seconds > 0.0);
    }
}

#[cfg(feature = "librdkafka")]
#[test]
fn an_ordinary_client_that_reaches_nobody_says_so() {
    let mut load = load("record = 1000");
    load.driver = bench::spec::Driver::Librdkafka;
    let error = load::run_blocking("127.0.0.1:1", &load, &Control::default()).unwrap_err();
    assert!(format!("{error:#}").contains("127.0.0.1:1"), "{error:#}");
}

#[cfg(not(feature = "librdkafka"))]
#[test]
fn a_build_without_the_ordinary_client_says_how_to_get_it() {
    let mut load = load("record = 1000");
    load.driver = bench::spec::Driver::Librdkafka;
    let error = load::run_blocking("127.0.0.1:1", &load, &Control::default()).unwrap_err();
    assert!(
        format!("{error:#}").contains("--features librdkafka"),
        "{error:#}"
    );
}
