//! A load of connections alone: connect, shake hands, log in if the file of properties says so,
//! close, and again. It measures what a broker spends on connections, whose cost under TLS is that
//! of many records.
//!
//! Every connection is a full handshake unless resumption is asked for. It is a closed loop of a
//! fixed number of connections at a time; a failure is counted with its reason and followed by a
//! pause, so that a broker that is down is not called as fast as a processor can.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::client::Client;
use super::control::Stop;
use super::cost::ThreadTime;
use super::security::Security;
use crate::latency::{Percentiles, histogram};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(100);
/// Most connections at a time: more have no port to an address, and each takes memory before that.
const CONNECTIONS_MAX: u32 = 65_535;
/// Different reasons for failures that are kept.
const REASONS_MAX: usize = 20;
/// How long connections that are being made may take at the end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How many connections, and for how long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Handshakes {
    /// Connections that are being made at any time.
    pub connections: u32,
    /// Threads of the generator.
    pub threads: usize,
    /// How long it goes on.
    pub seconds: f64,
    /// Whether sessions of TLS are resumed, which spares most of the work.
    pub resumes: bool,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct HandshakesOutcome {
    /// Connections that were made.
    pub handshakes: u64,
    /// The time from the beginning to the last of them.
    pub seconds: f64,
    /// Their number by time.
    pub per_second: f64,
    /// From the call of connect to the end of the login, in microseconds.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The 99.9th percentile.
    pub p99_9_us: u64,
    /// The longest.
    pub max_us: u64,
    /// Processor time of the generator.
    pub client_cpu_seconds: f64,
    /// Connections that were not made, by reason.
    pub errors: BTreeMap<String, u64>,
}

/// What one thread counted.
struct CountedHandshakes {
    latency: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    last: Instant,
    cpu_seconds: f64,
}

/// Makes connections to a broker (`host:port`) until the time is over or it is stopped.
pub fn run(
    address: &str,
    security: &Security,
    handshakes: Handshakes,
    stop: &Stop,
) -> anyhow::Result<HandshakesOutcome> {
    ensure!(
        (1..=CONNECTIONS_MAX).contains(&handshakes.connections),
        "--connections is from 1 to {CONNECTIONS_MAX}"
    );
    ensure!(
        handshakes.seconds > 0.0 && handshakes.seconds.is_finite(),
        "--seconds must be above 0"
    );
    let security = match (&security.tls, handshakes.resumes) {
        (Some(tls), false) => Security {
            tls: Some(tls.without_resumption()),
            login: security.login.clone(),
        },
        _ => security.clone(),
    };
    let began = Instant::now();
    let ends = Duration::try_from_secs_f64(handshakes.seconds).ok();
    let ends = ends.and_then(|seconds| began.checked_add(seconds));
    // Each connection may take until a little later.
    let ends = ends.filter(|ends| ends.checked_add(END_WITHIN).is_some());
    let ends = ends.context("--seconds is longer than a clock runs")?;
    let threads = handshakes.threads.clamp(1, handshakes.connections as usize);
    let share = |thread: usize| {
        (thread..handshakes.connections as usize)
            .step_by(threads)
            .count()
    };
    let each = (0..threads).map(|thread| {
        let (address, security, stop) = (address.to_owned(), security.clone(), stop.clone());
        let connections = share(thread);
        let thread = std::thread::Builder::new().name("bench".to_owned());
        thread.spawn(move || count(&address, &security, connections, ends, &stop))
    });
    let each = each
        .collect::<Result<Vec<_>, _>>()
        .context("starting a thread")?;
    let mut whole = CountedHandshakes::new(began);
    for thread in each {
        let joined = thread.join();
        whole.add(&joined.map_err(|_| anyhow::anyhow!("a thread of the generator panicked"))??);
    }
    Ok(whole.outcome(began))
}

fn count(
    address: &str,
    security: &Security,
    connections: usize,
    ends: Instant,
    stop: &Stop,
) -> anyhow::Result<CountedHandshakes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = ThreadTime::now();
    let counted = Rc::new(RefCell::new(CountedHandshakes::new(Instant::now())));
    let tasks = LocalSet::new();
    let (address, security): (Arc<str>, _) = (address.into(), security.clone());
    for _ in 0..connections {
        let (address, security) = (Arc::clone(&address), security.clone());
        let counted = Rc::clone(&counted);
        let stop = stop.clone();
        tasks.spawn_local(async move {
            tokio::select! {
                () = again_and_again(&address, &security, ends, &counted) => {}
                () = stop.wait() => {}
            }
        });
    }
    runtime.block_on(tasks);
    let counted = Rc::into_inner(counted).context("a task of the generator outlived it")?;
    let mut counted = counted.into_inner();
    counted.cpu_seconds = ThreadTime::now().since(before).all();
    Ok(counted)
}

async fn again_and_again(
    address: &str,
    security: &Security,
    ends: Instant,
    counted: &RefCell<CountedHandshakes>,
) {
    while Instant::now() < ends {
        let began = Instant::now();
        let Ok(made) = timeout_at(ends + END_WITHIN, Client::connect_once(address, security)).await
        else {
            return;
        };
        let now = Instant::now();
        let is_counted = now < ends;
        match made {
            Ok(client) => {
                if is_counted {
                    counted.borrow_mut().made(now - began, now);
                }
                client.close();
            }
            Err(error) => {
                counted.borrow_mut().failed(&format!("{error:#}"));
                sleep(PAUSE).await;
            }
        }
    }
}

impl CountedHandshakes {
    fn new(now: Instant) -> Self {
        Self {
            latency: histogram(),
            errors: BTreeMap::new(),
            last: now,
            cpu_seconds: 0.0,
        }
    }

    fn made(&mut self, took: Duration, now: Instant) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(micros.max(1));
        self.last = self.last.max(now);
    }

    fn failed(&mut self, reason: &str) {
        let known = self.errors.contains_key(reason) || self.errors.len() < REASONS_MAX;
        let reason = if known { reason } else { "other reasons" };
        *self.errors.entry(reason.to_owned()).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        for value in other.latency.iter_recorded() {
            let (value, count) = (value.value_iterated_to(), value.count_at_value());
            self.latency.saturating_record_n(value, count);
        }
        for (reason, count) in &other.errors {
            *self.errors.entry(reason.clone()).or_default() += count;
        }
        self.last = self.last.max(other.last);
        self.cpu_seconds += other.cpu_seconds;
    }

    fn outcome(self, began: Instant) -> HandshakesOutcome {
        let all = Percentiles::of(&self.latency);
        let seconds = self.last.saturating_duration_since(began).as_secs_f64();
        HandshakesOutcome {
            handshakes: all.count,
            seconds,
            per_second: if seconds > 0.0 {
                all.count as f64 / seconds
            } else {
                0.0
            },
            p50_us: all.p50,
            p90_us: all.p90,
            p99_us: all.p99,
            p99_9_us: all.p99_9,
            max_us: all.max,
            client_cpu_seconds: self.cpu_seconds,
            errors: self.errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshakes(connections: u32, seconds: f64) -> Handshakes {
        Handshakes {
            connections,
            threads: 2,
            seconds,
            resumes: false,
        }
    }

    #[test]
    fn what_cannot_be_reached_is_counted_and_not_called_all_the_time() {
        let plain = Security::default();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = gone.local_addr().unwrap().to_string();
        drop(gone);
        let outcome = run(&address, &plain, handshakes(3, 0.25), &Stop::default()).unwrap();
        assert_eq!(outcome.handshakes, 0);
        let failures: u64 = outcome.errors.values().sum();
        assert!((3..=12).contains(&failures), "{outcome:?}");
        let stopped = Stop::default();
        stopped.now();
        let outcome = run(&address, &plain, handshakes(1, 60.0), &stopped).unwrap();
        assert_eq!(outcome.handshakes, 0);
        for connections in [0, CONNECTIONS_MAX + 1, u32::MAX] {
            let outcome = run(&address, &plain, handshakes(connections, 1.0), &stopped);
            assert!(outcome.is_err(), "{connections}");
        }
        for seconds in [0.0, 1e19, 1e300, f64::NAN, f64::INFINITY] {
            let outcome = run(&address, &plain, handshakes(1, seconds), &Stop::default());
            assert!(outcome.is_err(), "{seconds}");
        }
    }

    #[test]
    fn threads_add_up() {
        let began = Instant::now();
        let mut one = CountedHandshakes::new(began);
        one.made(Duration::from_micros(100), began + Duration::from_secs(1));
        one.failed("x");
        let mut two = CountedHandshakes::new(began);
        two.made(Duration::from_micros(300), began + Duration::from_secs(2));
        two.failed("x");
        for other in 0..50 {
            two.failed(&format!("reason {other}"));
        }
        one.add(&two);
        let outcome = one.outcome(began);
        assert_eq!((outcome.handshakes, outcome.errors["x"]), (2, 2));
        assert!((outcome.per_second - 1.0).abs() < 0.01);
        assert!(outcome.errors.len() <= REASONS_MAX + 1);
        assert!((100..102).contains(&outcome.p50_us) && outcome.max_us >= 300);
    }
}
