//! The shards: threads with an executor each, which own partitions and serve connections.
//!
//! States of all shards together, each entered when every shard has finished the one before:
//! starting (logs are recovered, no client is let in) -> serving -> draining (no client is let in,
//! requests that have begun are answered) -> closing (the service writes what it has to) -> exit. A
//! shard whose service is closed keeps its executor until all are closed, since shards call each
//! other until the end. This module does not know the service; an [`Assembly`] makes and closes it.

mod accept;
mod shard;
mod spread;
mod surveys;

use std::collections::BTreeMap;
use std::future::Future;
use std::iter::zip;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use broker::answers::Answers;
use broker::dispatch::Service;
use tokio::sync::{mpsc, oneshot, watch};
use wire::acl::Principal;

use crate::admission::{Admission, Descriptors, NodeConfigWatch, Stranger};
use crate::config::NetworkSettings;
use crate::connection::{Budget, Limits, Secured};
use crate::handshake::{Door, Handshakes};
use crate::health::{self, Reason};
use crate::listener::{Bound, ShardListener};
use crate::metrics::{ConnectionMetrics, RequestMetrics, TlsMetrics};
use crate::notify::Supervisor;
use crate::rights::RightsImage;
use crate::tiers::ask::{Answer, Ask};
use crate::tiers::watch::Watch;
use crate::watchdog::{self, Pulse};
use spread::Spread;
use surveys::Surveys;

/// Requests of one connection that may be in progress together.
const OVERLAPPED_MAX: usize = 64;

/// How long requests of disconnected peers continue.
const ABANDONED_MAX: Duration = Duration::from_secs(30);

/// How long a shard may take to notice that the server stops.
const STUCK_MAX: Duration = Duration::from_secs(10);

/// How long shards may take to end when all services are closed. Operations in progress on a
/// hanging disk are not waited for.
const END_MAX: Duration = Duration::from_secs(5);

/// How long a shard may take to answer the admin endpoint.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Makes what the shards serve. One for the process; its methods run on the shard that they name.
pub trait Assembly: Send + Sync + 'static {
    /// What is served on a shard.
    type Service: 'static;

    /// What answers the requests of its connections.
    type Requests: Service;

    /// Returns what answers the requests.
    fn requests(service: &Self::Service) -> &Self::Requests;

    /// Makes the service of a shard.
    ///
    /// Shards start in parallel; requests come when all have started.
    fn start(&self, shard: usize) -> impl Future<Output = anyhow::Result<Rc<Self::Service>>>;

    /// Closes the service of a shard.
    ///
    /// No further requests come, but other shards may still call it.
    fn close(
        &self,
        shard: usize,
        service: Rc<Self::Service>,
    ) -> impl Future<Output = anyhow::Result<()>>;

    /// Returns the logs opened so far and the logs in total, from any thread.
    fn recovery(&self) -> (u64, u64);

    /// Returns the bytes that producers have sent and that consumers have been sent, from any
    /// thread.
    fn traffic(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Returns the present number of logs, from any thread.
    fn logs(&self) -> usize {
        usize::try_from(self.recovery().1).unwrap_or(usize::MAX)
    }

    /// Answers a request of an operator about tiers.
    fn ask(&self, _shard: usize, _service: &Rc<Self::Service>, _ask: Ask) -> PendingAnswer {
        Box::pin(std::future::ready(None))
    }

    /// Returns what the metadata say of users and rights, as this shard knows them.
    fn rights(&self, _service: &Rc<Self::Service>) -> Option<RightsImage> {
        None
    }

    /// Returns the tiers, if there are any.
    fn tiers(&self) -> Option<Watch> {
        None
    }

    /// Returns the account in which responses are counted until they are sent.
    fn answers(&self) -> Answers;

    /// Returns the bounds on connections that can change while it serves.
    fn changing(&self) -> Option<NodeConfigWatch> {
        None
    }

    /// Returns what is wrong on a shard, for `/readyz`.
    ///
    /// It runs on that shard, often: it reads known state and waits for nothing.
    fn reasons(&self, _shard: usize, _service: &Rc<Self::Service>) -> Vec<Reason> {
        Vec::new()
    }

    /// Updates gauges before a scrape reads them.
    ///
    /// It runs on that shard; what takes long goes into the future, which gives way to others.
    fn before_scrape(&self, _shard: usize, _service: &Rc<Self::Service>) -> GaugeUpdate {
        Box::pin(std::future::ready(()))
    }
}

/// An update of gauges in progress; it outlives the call that began it.
pub type GaugeUpdate = Pin<Box<dyn Future<Output = ()>>>;

/// An answer to a request about tiers, in progress; it outlives the call that began it.
pub type PendingAnswer = Pin<Box<dyn Future<Output = Option<Answer>>>>;

/// Options of the shards.
#[derive(Debug)]
pub struct ShardOptions {
    /// Number of shards.
    pub count: usize,
    /// Bind each to a core.
    pub pinned: bool,
    /// Sockets, connections, memory of requests.
    pub network: NetworkSettings,
    /// How long requests that have begun may take when the server stops.
    pub drain_max: Duration,
    /// The process ends when a shard has not moved for this long; `None`: never.
    pub stuck_after: Option<Duration>,
    /// Counts of requests.
    pub requests: RequestMetrics,
    /// Counts of connections.
    pub connections: ConnectionMetrics,
    /// The listeners that speak TLS.
    // Bounded: one for each of `listeners`.
    pub doors: BTreeMap<String, Arc<Door>>,
    /// Threads that do handshakes, if there are such listeners.
    pub handshake_threads: usize,
    /// Counts of TLS.
    pub tls: TlsMetrics,
}

/// The state of all shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Services are made.
    Starting,
    /// Connections are served.
    Serving,
    /// No new requests; those that have begun are answered.
    Draining,
    /// Services are closed.
    Closing,
    /// Threads end.
    Exit,
}

/// The end of a phase on one shard.
type Report = anyhow::Result<()>;

/// A request of the admin endpoint to a shard.
enum Call {
    /// A scrape: update the metrics, then drop the sender.
    Scrape(watch::Sender<()>),
    /// A readiness check: report what is wrong.
    Reasons(oneshot::Sender<Vec<Reason>>),
    /// A request that has to be permitted: send users and rights.
    Rights(oneshot::Sender<Option<RightsImage>>),
    /// A request of an operator about tiers.
    Tiers(Ask, oneshot::Sender<Option<Answer>>),
}

/// What every shard shares with the others.
#[derive(Clone)]
struct ShardContext {
    phase: watch::Receiver<Phase>,
    // Bounded: a report from each of `num.shards` at the end of each phase.
    reports: mpsc::UnboundedSender<Report>,
    admission: Admission,
    budget: Budget,
    answers: Answers,
    limits: Limits,
    spread: Arc<Spread>,
    drain_max: Duration,
    beat_interval: Duration,
    requests: RequestMetrics,
    connections: ConnectionMetrics,
    // Bounded: one for each of `listeners`.
    doors: Arc<BTreeMap<String, Arc<Door>>>,
    /// `None` if no listener speaks TLS.
    handshakes: Option<Arc<Handshakes>>,
    tls: TlsMetrics,
}

/// The running shards, as the control thread sees them.
pub struct Shards {
    count: usize,
    phase: watch::Sender<Phase>,
    reports: mpsc::UnboundedReceiver<Report>,
    // Bounded: sent by requests to the admin port, `admin::CONNECTIONS_MAX`.
    calls: Vec<mpsc::UnboundedSender<Call>>,
    threads: Vec<JoinHandle<()>>,
    pulses: Vec<Arc<Pulse>>,
    stuck_after: Option<Duration>,
    drain_max: Duration,
    budget: Budget,
    answers: Answers,
}

/// Returns the core of each shard if they are pinned: the CPUs of the process in turn.
fn cores(pinned: bool) -> anyhow::Result<impl Fn(usize) -> Option<usize>> {
    let cores = if pinned {
        platform::cpus::allowed()?
    } else {
        Vec::new()
    };
    Ok(move |index| cores.iter().cycle().nth(index).copied())
}

impl Shards {
    /// Starts the threads and, on each, its service.
    pub fn start<A: Assembly>(
        options: ShardOptions,
        listeners: Vec<Bound>,
        assembly: &Arc<A>,
    ) -> anyhow::Result<Self> {
        let (count, pinned, network) = (options.count, options.pinned, &options.network);
        let (stuck_after, drain_max) = (options.stuck_after, options.drain_max);
        let (phase, seen) = watch::channel(Phase::Starting);
        let (reports, reported) = mpsc::unbounded_channel();
        let (spread, handed) = Spread::new(count);
        let budget = Budget::new(network.queued_bytes_max, network.request_bytes_max);
        let shared = shared(options, assembly, (seen, reports), (&budget, spread))?;
        let sockets = per_shard(listeners, count);
        let (mut calls, mut threads) = (Vec::new(), Vec::new());
        let core_of = cores(pinned)?;
        let pulses: Vec<Arc<Pulse>> = (0..count).map(|_| Arc::default()).collect();
        let each = zip(zip(sockets, handed), &pulses).enumerate();
        for (index, ((sockets, handed), pulse)) in each {
            let (call, called) = mpsc::unbounded_channel();
            let (assembly, shared) = (Arc::clone(assembly), shared.clone());
            let pulse = Arc::clone(pulse);
            let core = core_of(index);
            let run = move || {
                let ends = shard::Ends {
                    sockets,
                    handed,
                    called,
                    pulse,
                };
                let shard = shard::run(index, &*assembly, &shared, ends);
                if let Err(error) = platform::runtime::run_shard(core, shard) {
                    let report = anyhow::Error::new(error).context("starting a shard");
                    // The receiver is gone if the process is ending.
                    let _ = shared.reports.send(Err(report));
                }
            };
            let thread = Builder::new().name(format!("shard-{index}"));
            threads.push(thread.spawn(run).context("starting a thread")?);
            calls.push(call);
        }
        Ok(Self {
            count,
            phase,
            reports: reported,
            calls,
            threads,
            pulses,
            stuck_after,
            drain_max,
            budget,
            answers: assembly.answers(),
        })
    }

    /// Waits until every service has started.
    pub async fn started(&mut self) -> anyhow::Result<()> {
        self.all_report().await
    }

    /// Lets clients in, and starts the watchdog, which also feeds the service manager.
    pub(crate) fn serve(&self, supervisor: Arc<Supervisor>) -> anyhow::Result<()> {
        watchdog::start(self.pulses.clone(), self.stuck_after, supervisor)?;
        self.phase.send_replace(Phase::Serving);
        Ok(())
    }

    /// Waits for a failure while serving.
    pub async fn failed(&mut self) -> anyhow::Error {
        loop {
            match self.reports.recv().await {
                Some(Err(error)) => return error,
                Some(Ok(())) => {}
                None => return anyhow::anyhow!("all shards have ended"),
            }
        }
    }

    /// Finishes the requests that have begun, closes the services and ends the threads.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.phase.send_replace(Phase::Draining);
        let patience = self.drain_max.saturating_add(STUCK_MAX);
        let Ok(drained) = tokio::time::timeout(patience, self.all_report()).await else {
            // A request in progress cannot be ended, so the logs of that shard cannot be closed.
            anyhow::bail!(
                "a shard does not answer: the logs are not closed; the next start recovers them"
            );
        };
        self.phase.send_replace(Phase::Closing);
        let closed = self.all_report().await;
        self.abandon();
        let threads = std::mem::take(&mut self.threads);
        let join = || threads.into_iter().all(|thread| thread.join().is_ok());
        match tokio::time::timeout(END_MAX, tokio::task::spawn_blocking(join)).await {
            Ok(Ok(true)) => drained.and(closed),
            Ok(_) => Err(anyhow::anyhow!("a shard has panicked")),
            // Buffers that the kernel may still use are freed with the process.
            Err(_) => drained.and(closed).and(Err(anyhow::anyhow!(
                "a disk does not answer: the process ends without what it was asked for last"
            ))),
        }
    }

    /// Ends the threads without closing the services, after a failure.
    pub fn abandon(&self) {
        self.phase.send_replace(Phase::Exit);
    }

    /// Returns what the admin endpoint needs.
    pub fn view(&self) -> ShardsView {
        ShardsView {
            phase: self.phase.subscribe(),
            calls: self.calls.clone(),
            surveys: Surveys::new(self.count),
            budget: self.budget.clone(),
            answers: self.answers.clone(),
        }
    }

    async fn all_report(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.count {
            self.reports.recv().await.context("a shard ended early")??;
        }
        Ok(())
    }
}

/// The shards as the admin endpoint sees them.
#[derive(Clone)]
pub struct ShardsView {
    phase: watch::Receiver<Phase>,
    // Bounded: sent by requests to the admin port, `admin::CONNECTIONS_MAX`.
    calls: Vec<mpsc::UnboundedSender<Call>>,
    surveys: Surveys,
    budget: Budget,
    answers: Answers,
}

impl ShardsView {
    /// Returns the state of the shards.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns the bytes of memory that requests hold, and the bound.
    pub fn request_memory(&self) -> (usize, usize) {
        (self.budget.used_bytes(), self.budget.bytes_max())
    }

    /// Returns the bytes of memory that responses hold, and the bound.
    pub fn response_memory(&self) -> (usize, usize) {
        (self.answers.used_bytes(), self.answers.bytes_max())
    }

    /// Returns the approximate bytes of memory that waiting fetches hold, and the bound.
    pub fn waiting_memory(&self) -> (usize, usize) {
        (self.answers.waiting_bytes(), self.answers.waiting_max())
    }

    /// Makes every shard update its metrics; scrapes at the same time share the updates.
    pub async fn before_scrape(&self) {
        let send = |shard: usize, done| {
            let call = self.calls.get(shard);
            // A shard that is ending has nothing to add.
            drop(call.map(|call| call.send(Call::Scrape(done))));
        };
        // A shard that does not answer in time keeps its last values.
        let _ = tokio::time::timeout(ANSWER_MAX, self.surveys.all(send)).await;
    }

    /// Returns what is wrong on any shard; a shard that does not answer is a reason itself.
    pub async fn reasons(&self) -> Vec<Reason> {
        let ask = |shard: &mpsc::UnboundedSender<Call>| {
            let (reasons, answer) = oneshot::channel();
            shard.send(Call::Reasons(reasons)).ok().map(|()| answer)
        };
        let asked: Vec<_> = self.calls.iter().map(ask).collect();
        let deadline = tokio::time::Instant::now() + ANSWER_MAX;
        let (mut told, mut silent) = (Vec::new(), Vec::new());
        for (shard, answer) in asked.into_iter().enumerate() {
            match tokio::time::timeout_at(deadline, async { answer?.await.ok() }).await {
                Ok(reasons) => told.extend(reasons.unwrap_or_default()),
                Err(_) => silent.push(format!("shard {shard}")),
            }
        }
        let (count, silent) = (silent.len(), silent.join(", "));
        told.extend(Reason::not_ready("shards_not_answering", count, silent));
        health::merged(told)
    }

    /// Returns users and rights as the first shard knows them; `None` while it does not serve, or
    /// if it does not answer in time.
    pub async fn rights(&self) -> Option<RightsImage> {
        if self.phase() != Phase::Serving {
            return None;
        }
        let (rights, answer) = oneshot::channel();
        self.calls.first()?.send(Call::Rights(rights)).ok()?;
        let answered = tokio::time::timeout(ANSWER_MAX, answer).await;
        answered.ok()?.ok()?
    }

    /// Asks every shard about its tiers; shards that are ending do not answer.
    pub async fn ask(&self, ask: &Ask) -> Vec<Answer> {
        let send = |shard: &mpsc::UnboundedSender<Call>| {
            let (answer, answered) = oneshot::channel();
            let call = Call::Tiers(ask.clone(), answer);
            shard.send(call).ok().map(|()| answered)
        };
        let asked: Vec<_> = self.calls.iter().filter_map(send).collect();
        let mut answers = Vec::new();
        for answered in asked {
            answers.extend(answered.await.ok().flatten());
        }
        answers
    }
}

/// Makes what every shard shares with the others, and starts the threads of handshakes.
fn shared<A: Assembly>(
    options: ShardOptions,
    assembly: &Arc<A>,
    (phase, reports): (watch::Receiver<Phase>, mpsc::UnboundedSender<Report>),
    (budget, spread): (&Budget, Spread),
) -> anyhow::Result<ShardContext> {
    let handshakes = handshakes(&options, &phase)?;
    let network = &options.network;
    let admission = Admission::new(
        network.connections.clone(),
        assembly.changing(),
        descriptors(assembly),
    );
    Ok(ShardContext {
        phase,
        reports,
        admission: admission.with_strangers_max(network.strangers_max),
        budget: budget.clone(),
        answers: assembly.answers(),
        limits: limits(network),
        spread: Arc::new(spread),
        drain_max: options.drain_max,
        beat_interval: watchdog::beat_interval(options.stuck_after.unwrap_or_default()),
        requests: options.requests,
        connections: options.connections,
        doors: Arc::new(options.doors),
        handshakes,
        tls: options.tls,
    })
}

/// Starts the threads of handshakes, if a listener speaks TLS. They end when the shards accept no
/// more connections.
fn handshakes(
    options: &ShardOptions,
    phase: &watch::Receiver<Phase>,
) -> anyhow::Result<Option<Arc<Handshakes>>> {
    if options.doors.is_empty() {
        return Ok(None);
    }
    let stopped = || {
        let mut phase = phase.clone();
        async move {
            // The sender is gone only if the process is ending.
            let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
        }
    };
    let handshakes = Handshakes::start(options.handshake_threads, &options.tls, stopped)?;
    Ok(Some(Arc::new(handshakes)))
}

fn descriptors<A: Assembly>(assembly: &Arc<A>) -> Descriptors {
    let assembly = Arc::clone(assembly);
    Descriptors {
        limit: platform::process::open_files_max(),
        logs: Some(Arc::new(move || assembly.logs())),
    }
}

fn limits(network: &NetworkSettings) -> Limits {
    Limits {
        frame_bytes_max: network.request_bytes_max,
        idle_max: network.idle_max,
        stall_max: network.stall_max,
        overlapped_max: OVERLAPPED_MAX,
        overlapped_bytes_max: network.request_bytes_max,
        abandoned_max: ABANDONED_MAX,
    }
}

/// Returns the sockets of each shard, in the order of the shards.
///
/// The first socket of each listener goes to the last shard.
fn per_shard(listeners: Vec<Bound>, count: usize) -> Vec<Vec<ShardListener>> {
    let mut shards: Vec<Vec<ShardListener>> = (0..count).map(|_| Vec::new()).collect();
    for listener in listeners {
        for (shard, socket) in shards.iter_mut().zip(listener.into_sockets()) {
            shard.push(socket);
        }
    }
    assert_eq!(shards.len(), count, "each shard has sockets of its own");
    shards.reverse();
    shards
}

/// An accepted connection, on its way to the shard that serves it.
struct AcceptedConnection {
    socket: std::net::TcpStream,
    /// The state of TLS, and who the client is if its certificate says so; `None` without TLS.
    secured: Option<(Secured, Option<Principal>)>,
    peer: SocketAddr,
    listener: Arc<str>,
    since: tokio::time::Instant,
    /// Counts it as one whose client is not known, if that has begun.
    stranger: Option<Stranger>,
    counts: accept::Counts,
}
