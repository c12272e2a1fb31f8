//! Agents on loopback with a stub instead of a load generator: division, merging, death.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::agent::serve::{Runner, listen};
use crate::latency::histogram;
use crate::load::hook::PartitionPlace;
use crate::outcome::{Latency, Side};

fn load() -> Load {
    let text = r#"{"topics": {"count": 1, "partitions": 4}, "seconds": 2.0}"#;
    serde_json::from_str(text).unwrap()
}

fn side(latency_us: u64, count: u64) -> Side {
    let mut latencies = histogram();
    latencies.saturating_record_n(latency_us, count);
    Side {
        records: count,
        bytes: count * 100,
        latency: Latency::of(&latencies),
        ..Side::default()
    }
}

/// Share 0 is a fast host with nine records, share 1 a slow one with one record. Both write 100 per
/// point.
fn generator() -> Runner {
    Arc::new(|_, _, control| {
        let index = control.host.index;
        if let Some(check) = &control.verification {
            let mut numbering = check.numbering(index);
            let place = PartitionPlace {
                topic: 0,
                partition: index,
            };
            let first = numbering.first_number(place);
            numbering.acknowledged(place, first, 9, -1);
        }
        let mut intervals = Vec::new();
        for second in [1.0, 2.0] {
            let point = Interval {
                at: second,
                produced: 100,
                ..Interval::default()
            };
            (control.progress.as_ref().unwrap())(&point);
            intervals.push(point);
        }
        let start = control.start_at.unwrap();
        Ok(LoadOutcome {
            started_ms: start
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_millis()
                .try_into()
                .unwrap(),
            seconds: 2.0,
            produce: Some(if index == 0 {
                side(10, 9)
            } else {
                side(5_000, 1)
            }),
            intervals,
            ..LoadOutcome::default()
        })
    })
}

/// Runs until it is stopped, and reports that it was.
fn endless() -> Runner {
    Arc::new(|_, _, control| {
        while !control.stop.is_set() {
            std::thread::yield_now();
        }
        Ok(LoadOutcome {
            aborted: Some("stopped".to_owned()),
            ..LoadOutcome::default()
        })
    })
}

/// The same, counting the running instances.
fn counted(running: &Arc<AtomicU32>) -> Runner {
    let running = Arc::clone(running);
    Arc::new(move |bootstrap, load, control| {
        running.fetch_add(1, Ordering::SeqCst);
        let outcome = endless()(bootstrap, load, control);
        running.fetch_sub(1, Ordering::SeqCst);
        outcome
    })
}

async fn agent(runner: Runner) -> (SocketAddr, JoinHandle<()>) {
    let (tell, told) = oneshot::channel();
    let serving = tokio::spawn(async move {
        let listening = |address| tell.send(address).unwrap();
        listen("127.0.0.1:0", runner, listening).await.unwrap();
    });
    (told.await.unwrap(), serving)
}

fn named(addresses: &[SocketAddr]) -> HostsArguments {
    HostsArguments {
        hosts: addresses.iter().map(|at| format!("tcp://{at}")).collect(),
        ssh: "ssh".to_owned(),
        remote_forebay: "forebay".to_owned(),
    }
}

#[tokio::test]
async fn shares_add_up_and_points_are_shown_when_all_have_said_theirs() {
    let (one, _serving) = agent(generator()).await;
    let (two, _serving) = agent(generator()).await;
    let mut hosts = Hosts::reach(&named(&[one, two])).await.unwrap();
    assert_eq!(hosts.clocks().len(), 2);
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let control = Control {
        progress: Some(Arc::new(move |point| {
            seen.lock().unwrap().push((point.at, point.produced));
        })),
        ..Control::default()
    };
    let asked = SystemTime::now();
    for _ in 0..2 {
        let (outcome, acknowledged) = hosts
            .run("127.0.0.1:1", &load(), &control, Some((7, 3)))
            .await
            .unwrap();
        let produce = outcome.produce.unwrap();
        assert_eq!((produce.records, produce.bytes), (10, 1000));
        let latency = produce.latency.percentiles().unwrap();
        assert_eq!((latency.p50, latency.max / 10), (10, 500));
        assert_eq!(outcome.aborted, None);
        assert_eq!(outcome.hosts.len(), 2);
        let begun = UNIX_EPOCH + Duration::from_millis(outcome.started_ms.unsigned_abs());
        assert!(begun > asked, "the common start lies ahead");
        let curve: Vec<_> = outcome
            .intervals
            .iter()
            .map(|point| point.produced)
            .collect();
        assert_eq!(curve.iter().sum::<u64>(), 400);
        let mut pieces: Vec<_> = acknowledged
            .iter()
            .map(|piece| (piece.stream.producer, piece.first, piece.last))
            .collect();
        pieces.sort_unstable();
        assert_eq!(
            pieces,
            [(0, 3 << 40, (3 << 40) + 8), (1, 3 << 40, (3 << 40) + 8)]
        );
    }
    let shown = shown.lock().unwrap();
    assert_eq!(*shown, [(1.0, 200), (2.0, 200), (1.0, 200), (2.0, 200)]);
}

#[tokio::test]
async fn a_host_that_dies_is_an_error_and_no_hang() {
    let (one, _serving) = agent(generator()).await;
    let runs = Arc::new(AtomicU32::new(0));
    let started = Arc::clone(&runs);
    let (two, dying) = agent(Arc::new(move |bootstrap, load, control| {
        started.fetch_add(1, Ordering::SeqCst);
        endless()(bootstrap, load, control)
    }))
    .await;
    let mut hosts = Hosts::reach(&named(&[one, two])).await.unwrap();
    let seen = Arc::clone(&runs);
    tokio::spawn(async move {
        while seen.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        dying.abort();
    });
    let control = Control::default();
    let (outcome, _) = hosts
        .run("127.0.0.1:1", &load(), &control, None)
        .await
        .unwrap();
    let lost = format!("host tcp://{two} was lost: the agent is gone");
    let said = outcome.aborted.unwrap();
    assert!(said.starts_with(&lost), "{said}");
    assert_eq!(outcome.errors[&said], 1);
    assert_eq!(outcome.produce.unwrap().records, 9);
    // The remaining host runs the next load.
    let (outcome, _) = hosts
        .run("127.0.0.1:1", &load(), &control, None)
        .await
        .unwrap();
    assert_eq!((outcome.aborted, outcome.hosts.len()), (None, 1));
}

#[tokio::test]
async fn a_wish_to_end_reaches_every_host_and_a_caller_that_is_gone_ends_the_load() {
    let running = Arc::new(AtomicU32::new(0));
    let (one, _serving) = agent(counted(&running)).await;
    let (two, _serving) = agent(counted(&running)).await;
    let mut hosts = Hosts::reach(&named(&[one, two])).await.unwrap();
    let control = Control::default();
    control.stop.now();
    let (outcome, _) = hosts
        .run("127.0.0.1:1", &load(), &control, None)
        .await
        .unwrap();
    assert_eq!(
        outcome.aborted.unwrap(),
        format!("host tcp://{one}: stopped; host tcp://{two}: stopped")
    );
    // An agent serves one caller at a time: when it greets the next caller, it has already ended
    // the load of a caller that disconnected.
    let endless_load = load();
    let endless_run = Control::default();
    let both = async {
        while running.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = hosts.run("127.0.0.1:1", &endless_load, &endless_run, None) => panic!("it has no end"),
        () = both => {}
    }
    drop(hosts);
    Hosts::reach(&named(&[one, two])).await.unwrap();
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_no_agent_is_refused_in_words() {
    let said = |arguments: HostsArguments| async move {
        let reached = Hosts::reach(&arguments).await;
        format!("{:#}", reached.err().unwrap())
    };
    let mut arguments = named(&[]);
    assert_eq!(said(arguments.clone()).await, "no hosts");
    arguments.hosts = vec!["far".to_owned()];
    arguments.ssh = "echo hello".to_owned();
    let error = said(arguments.clone()).await;
    let expected = "host far: started by `echo hello far forebay bench agent --stdio`: no agent that says \
                    \"forebay-bench-agent 1\"; it said \"hello far forebay bench agent --stdio\"";
    assert_eq!(error, expected);
    arguments.ssh = "/nowhere/ssh".to_owned();
    let error = said(arguments.clone()).await;
    assert!(
        error.contains("starting `/nowhere/ssh far forebay"),
        "{error}"
    );
    arguments.hosts = vec!["-oProxyCommand=evil".to_owned()];
    assert!(said(arguments).await.contains("is no name of a host"));
}

#[tokio::test]
async fn a_generator_that_fails_or_panics_says_so() {
    let (one, _serving) = agent(Arc::new(|_, _, _| anyhow::bail!("no such topic"))).await;
    let (two, _serving) = agent(Arc::new(|_, _, _| panic!("a defect"))).await;
    let mut hosts = Hosts::reach(&named(&[one, two])).await.unwrap();
    let control = Control::default();
    let run = hosts.run("127.0.0.1:1", &load(), &control, None).await;
    let error = format!("{:#}", run.unwrap_err());
    assert!(
        error.contains(&format!("host tcp://{one} was lost: no such topic")),
        "{error}"
    );
    assert!(
        error.contains(&format!(
            "host tcp://{two} was lost: the load generator panicked"
        )),
        "{error}"
    );
}
