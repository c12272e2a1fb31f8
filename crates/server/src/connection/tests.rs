//! Connections over real sockets, without and with TLS, with a service that the request controls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;

use broker::dispatch::{ParsedRequest, Reply};
use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::Instant;
use wire::kafka::Response;
use wire::sasl::{Mechanism, Refusal};

use super::harness::{Between, Client, pair};
use super::*;
use crate::metrics::{ConnectionMetrics, Metrics, RequestMetrics};

mod bounded;
mod secured;

/// Answers a frame with itself.
///
/// The first byte says how: `p` overlaps and waits to be released, `o` waits alone, `R` waits alone
/// and only reads, `n` has no answer, `c` closes, `b` answers with many parts, `q` pauses the
/// connection for 300 ms, `Q` for an hour and without an answer; anything else is answered at once.
#[derive(Default)]
struct Echo {
    begun: RefCell<Vec<Bytes>>,
    finished: Cell<usize>,
    gates: RefCell<VecDeque<oneshot::Sender<()>>>,
}

impl Service for Echo {
    fn call(&self, _: Context, frame: Bytes) -> ParsedRequest<impl Future<Output = Reply>> {
        let how = frame.first().copied().unwrap_or(0);
        let reply = async move {
            self.begun.borrow_mut().push(frame.clone());
            if matches!(how, b'p' | b'o' | b'R') {
                let (open, gate) = oneshot::channel();
                self.gates.borrow_mut().push_back(open);
                let _ = gate.await;
            }
            self.finished.set(self.finished.get() + 1);
            match how {
                b'n' => Reply::Nothing,
                b'c' => Reply::Close(CloseReason::Stopping.into()),
                b'q' => Reply::Pause(
                    Some(Response::new(vec![prefixed(&frame)])),
                    Duration::from_millis(300),
                ),
                b'Q' => Reply::Pause(None, Duration::from_hours(1)),
                b'b' => Reply::Send(Response::new(split(&prefixed(&frame), 7))),
                _ => Reply::Send(Response::new(vec![prefixed(&frame)])),
            }
        };
        ParsedRequest {
            overlaps: how == b'p',
            api: None,
            only_reads: how == b'R',
            reply,
        }
    }
}

impl Echo {
    fn begun(&self) -> usize {
        self.begun.borrow().len()
    }

    fn release(&self) {
        self.gates
            .borrow_mut()
            .pop_front()
            .unwrap()
            .send(())
            .unwrap();
    }

    /// Waits until `done`, by yielding to the other tasks.
    async fn until(&self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            tokio::task::yield_now().await;
        }
    }
}

fn prefixed(frame: &[u8]) -> Bytes {
    let length = i32::try_from(frame.len()).unwrap().to_be_bytes();
    Bytes::from([&length, frame].concat())
}

fn split(bytes: &Bytes, len: usize) -> Vec<Bytes> {
    (0..bytes.len())
        .step_by(len)
        .map(|at| bytes.slice(at..bytes.len().min(at + len)))
        .collect()
}

fn limits() -> Limits {
    Limits {
        frame_bytes_max: 1 << 20,
        idle_max: None,
        stall_max: Duration::from_mins(1),
        overlapped_max: 3,
        overlapped_bytes_max: 1 << 20,
        abandoned_max: Duration::from_mins(1),
    }
}

const ANSWERS_BYTES: usize = 64 << 20;

/// One served connection.
struct World {
    between: Between,
    service: Rc<Echo>,
    client: Client,
    /// Bytes of records that connections hold.
    record_bytes: Gauge,
    budget: Budget,
    stop: watch::Sender<bool>,
    metrics: Metrics,
    served: tokio::task::JoinHandle<End>,
    environment: Rc<Environment>,
}

async fn world(between: Between, limits: Limits, budget_bytes: usize) -> World {
    let (stop, stopped) = watch::channel(false);
    let record_bytes = Gauge::default();
    let (service, budget, metrics) = (
        Rc::new(Echo::default()),
        Budget::new(budget_bytes, limits.frame_bytes_max),
        Metrics::new(),
    );
    let environment = Rc::new(Environment {
        limits,
        budget: budget.clone(),
        answers: Answers::new(ANSWERS_BYTES),
        buffers: Buffers::new(1 << 20),
        write_turns: WriteTurns::default(),
        scratch: Scratch::new(record_bytes.clone()),
        fault_lines: ClientFaultLines::default(),
        meter: RequestMeter::new(
            metrics.register(RequestMetrics::register),
            metrics.register(ConnectionMetrics::register),
        ),
        stop: stopped,
    });
    let (client, served) = connect(between, &service, &environment).await;
    World {
        between,
        service,
        client,
        record_bytes,
        budget,
        stop,
        metrics,
        served,
        environment,
    }
}

async fn connect(
    between: Between,
    service: &Rc<Echo>,
    environment: &Rc<Environment>,
) -> (Client, tokio::task::JoinHandle<End>) {
    let (client, transport, peer) = pair(between, environment.scratch.clone()).await;
    let (answering, environment) = (Rc::clone(service), Rc::clone(environment));
    let newcomer = Newcomer {
        transport,
        context: context(peer),
        since: Instant::now(),
        stranger: None,
    };
    let served =
        tokio::task::spawn_local(async move { serve(newcomer, &*answering, &environment).await });
    (client, served)
}

fn context(peer: SocketAddr) -> Context {
    Context {
        listener: "TEST".into(),
        peer,
        software: Rc::default(),
        session: Rc::default(),
        client_id: wire::StrBytes::default(),
        frame_bytes: 0,
    }
}

impl World {
    /// Opens another connection to the same service.
    async fn another(&self) -> (Client, tokio::task::JoinHandle<End>) {
        connect(self.between, &self.service, &self.environment).await
    }

    async fn send(&mut self, frame: &[u8]) {
        send(&mut self.client, &prefixed(frame)).await;
    }

    async fn receive(&mut self) -> Vec<u8> {
        let len = self.client.read_i32().await.unwrap();
        let mut frame = vec![0; usize::try_from(len).unwrap()];
        self.client.read_exact(&mut frame).await.unwrap();
        frame
    }

    /// Returns the bytes until the server closes, and why it closed.
    async fn end(mut self) -> (Vec<u8>, End) {
        let mut rest = Vec::new();
        // A reset is an end, too: the server may close while bytes of the client are unread.
        let _ = self.client.read_to_end(&mut rest).await;
        (rest, self.served.await.unwrap())
    }
}

async fn send(client: &mut Client, bytes: &[u8]) {
    client.write_all(bytes).await.unwrap();
    client.flush().await.unwrap();
}

/// Runs a scenario on the executor of a shard, on a clock that runs, without and with TLS.
fn run<F: Future>(limits: Limits, scenario: impl Fn(World) -> F) {
    run_with_budget(limits, 1 << 20, scenario);
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "as the scenarios are written"
)]
fn run_with_budget<F: Future>(limits: Limits, bytes: usize, scenario: impl Fn(World) -> F) {
    for between in Between::ALL {
        run_between(between, limits.clone(), bytes, &scenario);
    }
}

fn run_between<F: Future>(
    between: Between,
    limits: Limits,
    bytes: usize,
    scenario: impl Fn(World) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let scenario = async { scenario(world(between, limits, bytes).await).await };
        let done = tokio::time::timeout(Duration::from_secs(20), scenario).await;
        assert!(done.is_ok(), "it hangs: {between:?}");
    });
}

#[test]
fn a_client_that_leaves_with_its_failure_unconfirmed_has_failed() {
    let failure = || LoginFailure::Refused(Mechanism::Oauthbearer, Refusal::Token);
    let broken = || End::Broken(io::ErrorKind::ConnectionReset.into());
    for end in [End::Closed, broken(), End::Idle, End::NotLoggedIn] {
        let end = end.or_unconfirmed(Some(failure()));
        assert_eq!(end.label(), "login");
        assert_eq!(end.to_string(), failure().to_string());
    }
    assert_eq!(End::Closed.or_unconfirmed(None).label(), "closed");
    let stopping = End::Stopping.or_unconfirmed(Some(failure()));
    assert_eq!(stopping.label(), "stopping");
}

#[test]
fn a_pause_holds_back_what_was_sent_already() {
    run(limits(), |mut world| async move {
        let sent = Instant::now();
        world.send(b"q").await;
        world.send(b"after").await;
        assert_eq!(world.receive().await, b"q");
        assert_eq!(world.receive().await, b"after");
        assert!(sent.elapsed() >= Duration::from_millis(300));
        world.send(b"p").await;
        world.send(b"Q").await;
        world.service.until(|echo| echo.begun() == 3).await;
        world.service.release();
        assert_eq!(world.receive().await, b"p");
        world.service.until(|echo| echo.begun() == 4).await;
        world.send(b"unread").await;
        world.stop.send(true).unwrap();
        let service = Rc::clone(&world.service);
        let (rest, end) = world.end().await;
        assert!(rest.is_empty() && matches!(end, End::Stopping), "{end:?}");
        assert_eq!(
            service.begun(),
            4,
            "nobody waits for the end of a pause to stop"
        );
    });
}

#[test]
fn a_connection_that_is_paused_for_long_is_idle() {
    let limits = Limits {
        idle_max: Some(Duration::from_millis(100)),
        ..limits()
    };
    run(limits, |mut world| async move {
        world.send(b"Q").await;
        world.service.until(|echo| echo.begun() == 1).await;
        world.send(b"unread").await;
        let (rest, end) = world.end().await;
        assert!(rest.is_empty() && matches!(end, End::Idle), "{end:?}");
    });
}

#[test]
fn frames_of_all_sizes_are_answered_in_order() {
    run(limits(), |world| async move {
        let sizes = [
            1,
            2,
            100,
            16 << 10,
            (16 << 10) + 1,
            300_000,
            5,
            1 << 20,
            70_000,
            3,
        ];
        let World {
            client,
            served,
            budget,
            stop: _stop,
            ..
        } = world;
        let (mut reader, mut writer) = tokio::io::split(client);
        let frame = |(at, size): (usize, &usize)| vec![b'A' + u8::try_from(at).unwrap(); *size];
        let frames: Vec<_> = sizes.iter().enumerate().map(frame).collect();
        let sent = frames.clone();
        tokio::task::spawn_local(async move {
            for frame in sent {
                writer.write_all(&prefixed(&frame)).await.unwrap();
            }
            writer.shutdown().await.unwrap();
        });
        let mut answers = Vec::new();
        reader.read_to_end(&mut answers).await.unwrap();
        let expected: Vec<u8> = frames.iter().flat_map(|frame| prefixed(frame)).collect();
        assert!(answers == expected);
        assert!(matches!(served.await.unwrap(), End::Closed));
        assert_eq!(budget.used_bytes(), 0);
    });
}

#[test]
fn a_reply_of_more_parts_than_one_call_takes_arrives_whole() {
    run(limits(), |mut world| async move {
        let frame = [b"b".as_slice(), &vec![9; 100_000]].concat();
        world.send(&frame).await;
        assert!(world.receive().await == frame);
    });
}

#[test]
fn a_frame_that_arrives_byte_by_byte_is_understood() {
    run(limits(), |mut world| async move {
        world.client.socket().set_nodelay(true).unwrap();
        for byte in prefixed(b"slowly") {
            send(&mut world.client, &[byte]).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(world.receive().await, b"slowly");
    });
}

#[test]
fn overlapping_requests_begin_in_order_and_are_answered_in_order() {
    run(limits(), |mut world| async move {
        for frame in [b"p1", b"p2", b"p3", b"p4"] {
            world.send(frame).await;
        }
        world.service.until(|s| s.begun() == 3).await;
        let begun = world.service.begun.borrow().clone();
        assert_eq!(begun, [&b"p1"[..], b"p2", b"p3"]);
        // The second is done first; its answer waits for the first.
        let second = world.service.gates.borrow_mut().remove(1).unwrap();
        second.send(()).unwrap();
        world.service.until(|s| s.finished.get() == 1).await;
        assert_eq!(
            world.service.begun(),
            3,
            "no more than overlapped_max are under way"
        );
        world.service.release();
        assert_eq!(world.receive().await, b"p1");
        assert_eq!(world.receive().await, b"p2");
        world.service.until(|s| s.begun() == 4).await;
        world.service.release();
        world.service.release();
        assert_eq!(world.receive().await, b"p3");
        assert_eq!(world.receive().await, b"p4");
    });
}

#[test]
fn a_request_that_does_not_overlap_begins_when_those_before_it_are_answered() {
    run(limits(), |mut world| async move {
        for frame in [b"p1", b"x2", b"p3"] {
            world.send(frame).await;
        }
        world.service.until(|s| s.begun() == 1).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.service.begun(), 1);
        world.service.release();
        assert_eq!(world.receive().await, b"p1");
        assert_eq!(world.receive().await, b"x2");
        world.service.until(|s| s.begun() == 3).await;
        world.service.release();
        assert_eq!(world.receive().await, b"p3");
    });
}

#[test]
fn bytes_of_overlapping_requests_are_bounded() {
    let few = Limits {
        overlapped_bytes_max: 100,
        ..limits()
    };
    run(few, |mut world| async move {
        world.send(&[b'p'; 60]).await;
        world.send(&[b'p'; 60]).await;
        world.service.until(|s| s.begun() == 1).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.service.begun(), 1);
        world.service.release();
        world.service.until(|s| s.begun() == 2).await;
    });
}

#[test]
fn a_request_may_have_no_answer() {
    run(limits(), |mut world| async move {
        world.send(b"n1").await;
        world.send(b"x2").await;
        assert_eq!(world.receive().await, b"x2");
    });
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let check = |bytes: Vec<u8>, reason: &'static str| {
        let bytes = &bytes;
        run(limits(), |mut world| async move {
            world.send(b"first").await;
            send(&mut world.client, bytes).await;
            world.client.shutdown().await.unwrap();
            let (answers, end) = world.end().await;
            assert!(
                answers == prefixed(b"first") || answers.is_empty(),
                "{reason}"
            );
            assert_eq!(end.to_string(), reason);
        });
    };
    check((-1_i32).to_be_bytes().into(), "frame length -1 is negative");
    check(
        vec![0, 16, 0, 1],
        "frame of 1048577 bytes is larger than the maximum of 1048576",
    );
    check(
        vec![0, 0],
        "connection ended within a frame, 2 bytes missing",
    );
    check(
        vec![0, 0, 0, 9, 1, 2],
        "connection ended within a frame, 7 bytes missing",
    );
    check(
        vec![0, 1, 0, 0, 1, 2],
        "connection ended within a frame, 65534 bytes missing",
    );
}

#[test]
fn the_service_may_close_after_what_was_answered_before() {
    run(limits(), |mut world| async move {
        world.send(b"first").await;
        world.send(b"close").await;
        world.send(b"unread").await;
        let service = Rc::clone(&world.service);
        let (answers, end) = world.end().await;
        assert_eq!(answers, prefixed(b"first"));
        assert!(matches!(end, End::Service(CloseReason::Stopping)));
        assert_eq!(service.begun(), 2);
    });
}

#[test]
fn requests_of_a_peer_that_has_gone_are_finished() {
    run(limits(), |mut world| async move {
        world.send(b"p1").await;
        world.service.until(|s| s.begun() == 1).await;
        world.client.socket().set_zero_linger().unwrap();
        drop(world.client);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        world.service.release();
        assert!(matches!(world.served.await.unwrap(), End::Broken(_)));
        assert_eq!(world.service.finished.get(), 1);
    });
}

#[test]
fn a_waiting_fetch_does_not_outlive_its_client() {
    // Also with a request behind it that blocks further reading.
    for sent in [&[&b"R1"[..]][..], &[b"R1", b"x2"]] {
        run(limits(), |mut world| async move {
            for frame in sent {
                world.send(frame).await;
            }
            world.service.until(|s| s.begun() == 1).await;
            drop(world.client);
            assert!(matches!(world.served.await.unwrap(), End::Closed));
            let gates = &world.service.gates;
            assert!(gates.borrow()[0].is_closed(), "it still waits");
        });
    }
}

#[test]
fn a_client_that_only_ends_its_half_gets_its_answer() {
    run(limits(), |mut world| async move {
        world.send(b"R1").await;
        world.send(b"o2").await;
        world.client.shutdown().await.unwrap();
        world.service.until(|s| s.begun() == 1).await;
        world.service.release();
        assert_eq!(world.receive().await, b"R1");
        world.service.until(|s| s.begun() == 2).await;
        world.service.release();
        assert_eq!(world.receive().await, b"o2");
        assert!(matches!(world.end().await, (_, End::Closed)));
    });
}

#[test]
fn a_request_that_waits_is_given_up_after_the_idle_time() {
    let short = Limits {
        idle_max: Some(Duration::from_millis(40)),
        ..limits()
    };
    run(short, |mut world| async move {
        world.send(b"R").await;
        assert!(matches!(world.end().await, (rest, End::Idle) if rest.is_empty()));
    });
}

#[test]
fn a_stop_answers_what_was_begun_and_takes_nothing_more() {
    run(limits(), |mut world| async move {
        world.send(b"p1").await;
        world.service.until(|s| s.begun() == 1).await;
        world.stop.send(true).unwrap();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        world.send(b"p2").await;
        world.service.release();
        let (service, answers) = (Rc::clone(&world.service), world.end().await);
        assert!(matches!(answers, (_, End::Stopping)));
        assert_eq!(service.begun(), 1);
    });
}

#[test]
fn requests_and_bytes_are_counted_by_name_and_version() {
    run(limits(), |mut world| async move {
        let api_versions_3 = [0, 18, 0, 3, 0, 0, 0, 0];
        for frame in [
            &api_versions_3[..],
            &api_versions_3,
            &[0, 18, 127, 0],
            b"junk",
        ] {
            world.send(frame).await;
            world.receive().await;
        }
        let text = world.metrics.text();
        for line in [
            "kafka_network_requestmetrics_requests_total{request=\"ApiVersions\",version=\"3\"} 2",
            "kafka_network_requestmetrics_requests_total{request=\"Unknown\",version=\"-1\"} 2",
            "kafka_network_requestmetrics_totaltimems_count{request=\"ApiVersions\"} 2",
            "kafka_server_socketservermetrics_incoming_byte_total 40",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    });
}
