//! The native client: threads with producers and consumers, and the phases of a load from start to
//! end.
//!
//! Each thread runs its share of producers and consumers and has its own counters; this module
//! decides when the load starts and ends. Phases: all connect; the load begins for all at the same
//! time; producers end by themselves (time or bytes) and wait for their last responses; consumers
//! end with them or, if everything is to be read, when they have reached the log end offsets of
//! that time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::cluster::{Cluster, End};
use super::control::Control;
use super::cost::{self, ThreadTime};
use super::hook::{PartitionPlace, Verification};
use super::plan::{self, ConsumerPlan, ProducerPlan};
use super::security::Security;
use super::tally::{Tally, Totals, Window};
use super::worker::{Clock, Event, Phase, SharedBudgets, Worker};
use super::{consume, curve, produce};
use crate::outcome::{LoadOutcome, Usage};
use crate::spec::{ConsumeStart, Driver, Load};

/// Time between the last connection and the start.
const BEFORE_START: Duration = Duration::from_millis(20);
/// Time within which a record that only the leader has acknowledged becomes readable.
const LIGHT_WITHIN: Duration = Duration::from_millis(200);
/// How long consumers may make no progress before they count as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How long a stopped load waits for the last responses.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// The result of a thread.
pub(super) struct ThreadResult {
    pub(super) totals: Totals,
    pub(super) time: ThreadTime,
}

/// A thread's part of the load.
pub(super) struct Part {
    pub(super) producers: Vec<ProducerPlan>,
    pub(super) consumers: Vec<ConsumerPlan>,
    pub(super) load: Arc<Load>,
    pub(super) bootstrap: String,
    pub(super) cluster: Cluster,
    pub(super) shared: Arc<SharedBudgets>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) windows: mpsc::UnboundedSender<Window>,
    pub(super) verification: Option<Arc<dyn Verification>>,
}

/// The plans of all producers and consumers.
struct Plans {
    producers: Vec<ProducerPlan>,
    consumers: Vec<ConsumerPlan>,
    /// Where consumers end, if that is known from the start.
    read_to: Option<BTreeMap<PartitionPlace, i64>>,
}

/// Runs the load; its topics exist already.
pub(super) async fn run(
    bootstrap: &str,
    security: &Security,
    load: &Load,
    control: &Control,
    topics: &[String],
) -> anyhow::Result<LoadOutcome> {
    let cluster = Cluster::look(bootstrap, security, topics).await?;
    let plans = plans(load, control, &cluster).await?;
    let (producing, consuming) = (plans.producers.len(), plans.consumers.len());
    let (phase, phases) = watch::channel(Phase {
        read_to: plans.read_to.map(Arc::new),
        ..Phase::default()
    });
    let (events, heard) = mpsc::unbounded_channel();
    let (windows, seen) = mpsc::unbounded_channel();
    let shared = Arc::new(shared(load, producing, consuming));
    let tasks = producing + consuming;
    // librdkafka clients have their own threads.
    let (count, counting) = match load.driver {
        Driver::Native => {
            let count = threads(control, tasks);
            (count, count)
        }
        Driver::Librdkafka => (1, tasks),
    };
    let part = |_| Part {
        producers: Vec::new(),
        consumers: Vec::new(),
        load: Arc::new(load.clone()),
        bootstrap: bootstrap.to_owned(),
        cluster: cluster.clone(),
        shared: Arc::clone(&shared),
        phase: phases.clone(),
        events: events.clone(),
        windows: windows.clone(),
        verification: control.verification.clone().filter(|_| load.verify),
    };
    let parts = dealt(
        (0..count).map(part).collect(),
        plans.producers,
        plans.consumers,
    );
    let threads: Vec<_> = parts
        .into_iter()
        .map(|part| part.start(load.driver))
        .collect::<Result<_, _>>()?;
    // The curve ends when the last thread has dropped its sender.
    drop(windows);
    let (interval, progress) = (load.interval_seconds, control.progress.clone());
    let curve = tokio::spawn(curve::collect(seen, counting, interval, progress));
    let mut conductor = Conductor {
        load,
        control,
        cluster: &cluster,
        phase,
        heard,
        shared,
        producing,
        consuming,
        aborted: None,
        errors: BTreeMap::new(),
    };
    let conducted = conductor.conduct().await;
    let over = conductor.end();
    let ended = join(threads).await;
    let curve = curve.await?;
    let (clock, finished) = conducted?;
    Ok(over.outcome(clock, finished, &ended?, &curve))
}

async fn plans(load: &Load, control: &Control, cluster: &Cluster) -> anyhow::Result<Plans> {
    let places: Vec<PartitionPlace> = cluster.leaders.keys().copied().collect();
    anyhow::ensure!(!places.is_empty(), "topics without partitions");
    let mut plans = Plans {
        producers: Vec::new(),
        consumers: Vec::new(),
        read_to: None,
    };
    if let Some(produce) = &load.produce {
        plans.producers = plan::producers(load, produce, &places, control.host)?;
    }
    if let Some(consume) = &load.consume {
        let starts = consume::start(cluster, consume, &places).await?;
        plans.consumers = plan::consumers(consume, &starts, control.host);
        if load.produce.is_none() && consume.from == ConsumeStart::Earliest {
            // Limits the read to the records of now, without what others write meanwhile.
            plans.read_to = Some(cluster.offsets(&places, End::Latest).await?);
        }
    }
    Ok(plans)
}

/// Distributes producers and consumers over the threads, round robin.
fn dealt(
    mut parts: Vec<Part>,
    producers: Vec<ProducerPlan>,
    consumers: Vec<ConsumerPlan>,
) -> Vec<Part> {
    let count = parts.len();
    for (index, plan) in producers.into_iter().enumerate() {
        parts[index % count].producers.push(plan);
    }
    for (index, plan) in consumers.into_iter().enumerate() {
        parts[index % count].consumers.push(plan);
    }
    parts
}

fn threads(control: &Control, tasks: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = control.threads.unwrap_or(processors / 4);
    threads.clamp(1, tasks.max(1))
}

fn shared(load: &Load, producers: usize, consumers: usize) -> SharedBudgets {
    let part = |mine: usize, all: u32| mine as f64 / f64::from(all.max(1));
    let bytes = load.bytes_max.map(|bytes| bytes as f64);
    let all_producers = load.produce.as_ref().map_or(1, |produce| produce.producers);
    let consume = load.consume.as_ref();
    let groups = consume.map_or(1, |consume| consume.groups);
    let all_consumers = consume.map_or(1, |consume| consume.consumers * consume.groups);
    let budget = bytes.map(|bytes| (bytes * part(producers, all_producers)) as u64);
    let to_read = bytes
        .map(|bytes| (bytes * f64::from(groups) * part(consumers, all_consumers).min(1.0)) as u64);
    SharedBudgets {
        budget: budget.unwrap_or(u64::MAX).into(),
        read_bytes: 0.into(),
        // With producers, the log end offsets limit the read instead.
        read_bytes_max: to_read
            .filter(|_| load.produce.is_none())
            .unwrap_or(u64::MAX),
        read_records: 0.into(),
    }
}

async fn join(
    threads: Vec<JoinHandle<anyhow::Result<ThreadResult>>>,
) -> anyhow::Result<Vec<ThreadResult>> {
    let joined = tokio::task::spawn_blocking(move || {
        let ended = threads.into_iter().map(JoinHandle::join);
        ended.collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for ended in joined.await? {
        all.push(ended.map_err(|_| anyhow::anyhow!("a thread of the generator panicked"))??);
    }
    Ok(all)
}

impl Part {
    fn start(self, driver: Driver) -> anyhow::Result<JoinHandle<anyhow::Result<ThreadResult>>> {
        let name = "bench".to_owned();
        let thread = std::thread::Builder::new().name(name);
        thread
            .spawn(move || match driver {
                Driver::Native => self.run(),
                Driver::Librdkafka => super::ordinary(self),
            })
            .context("starting a thread")
    }

    fn run(self) -> anyhow::Result<ThreadResult> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (warmup, interval) = (self.load.warmup_seconds, self.load.interval_seconds);
        let worker = Rc::new(Worker {
            load: self.load,
            bootstrap: self.bootstrap,
            cluster: self.cluster,
            shared: self.shared,
            phase: self.phase,
            events: self.events,
            tally: RefCell::new(Tally::new(warmup, interval, self.windows)),
            clock: Cell::new(Clock::starting_at(SystemTime::now())),
        });
        let tasks = LocalSet::new();
        for plan in self.producers {
            let places = plan.places.clone();
            let producer = plan.producer(self.verification.as_deref());
            tasks.spawn_local(produce::run(Rc::clone(&worker), producer, places));
        }
        for plan in self.consumers {
            let verification = self.verification.clone();
            let (group, index) = (plan.group, plan.index);
            let checking: consume::MakeChecking = Rc::new(move || {
                let verification = verification.as_ref();
                verification.map(|verification| verification.checking(group, index))
            });
            tasks.spawn_local(consume::run(Rc::clone(&worker), checking, plan.positions));
        }
        let watching = Rc::clone(&worker);
        let counted_from = Rc::new(Cell::new(ThreadTime::default()));
        let from = Rc::clone(&counted_from);
        tasks.spawn_local(async move { watch_time(&watching, warmup, &from).await });
        runtime.block_on(tasks);
        let time = ThreadTime::now().since(counted_from.get());
        let worker = Rc::into_inner(worker).context("a task of the generator outlived it")?;
        Ok(ThreadResult {
            totals: worker.tally.into_inner().end(),
            time,
        })
    }
}

/// Ends intervals without events, and notes the CPU time when counting begins.
async fn watch_time(worker: &Worker, warmup: f64, counted_from: &Cell<ThreadTime>) {
    let mut phase = worker.phase.clone();
    let begun = phase
        .wait_for(|phase| phase.clock.is_some() || phase.over)
        .await;
    let Some(clock) = begun.ok().and_then(|phase| phase.clock) else {
        return;
    };
    let mut warm = false;
    let intervals = async {
        loop {
            let now = clock.now();
            if now >= warmup && !warm {
                warm = true;
                counted_from.set(ThreadTime::now());
            }
            worker.tally.borrow_mut().advance(now);
            let next = worker.tally.borrow().window_end();
            let next = if warm { next } else { next.min(warmup) };
            tokio::time::sleep(clock.until(next).max(Duration::from_millis(1))).await;
        }
    };
    tokio::select! {
        () = intervals => {}
        () = worker.over() => {}
    }
}

/// Runs the phases of a load.
struct Conductor<'a> {
    load: &'a Load,
    control: &'a Control,
    cluster: &'a Cluster,
    phase: watch::Sender<Phase>,
    heard: mpsc::UnboundedReceiver<Event>,
    shared: Arc<SharedBudgets>,
    producing: usize,
    consuming: usize,
    aborted: Option<String>,
    errors: BTreeMap<String, u64>,
}

/// The state of a conductor after the end.
struct EndedConductor<'a> {
    load: &'a Load,
    aborted: Option<String>,
    errors: BTreeMap<String, u64>,
}

impl<'a> Conductor<'a> {
    /// Runs the phases; returns the clock of the load and the time of its end.
    async fn conduct(&mut self) -> anyhow::Result<(Clock, f64)> {
        for _ in 0..self.producing + self.consuming {
            match self.heard.recv().await {
                Some(Event::Ready(ready)) => ready?,
                Some(_) | None => anyhow::bail!("a task of the generator ended before it began"),
            }
        }
        let earliest = SystemTime::now() + BEFORE_START;
        let start = self
            .control
            .start_at
            .map_or(earliest, |at| at.max(earliest));
        let clock = Clock::starting_at(start);
        self.phase.send_modify(|phase| phase.clock = Some(clock));
        if self.produced(clock).await {
            self.read_all(clock).await?;
        }
        Ok((clock, clock.now()))
    }

    /// Waits for the producers, or for the planned time if there are none.
    ///
    /// Returns false if everything must end now.
    async fn produced(&mut self, clock: Clock) -> bool {
        let end = self.load.warmup_seconds + self.load.seconds;
        let reads_only = self.load.produce.is_none();
        loop {
            let left = if reads_only {
                self.consuming
            } else {
                self.producing
            };
            if left == 0 {
                return !reads_only && self.consuming > 0;
            }
            let wait = if reads_only {
                clock.until(end)
            } else {
                Duration::MAX
            };
            tokio::select! {
                event = self.heard.recv() => self.hear(event.as_ref()),
                () = self.control.stop.wait() => {
                    self.stop().await;
                    return false;
                }
                () = tokio::time::sleep(wait) => return false,
            }
        }
    }

    /// Lets consumers reach the end of what was written, if everything is to be read.
    async fn read_all(&mut self, clock: Clock) -> anyhow::Result<()> {
        if !self.load.verify && self.load.bytes_max.is_none() {
            return Ok(());
        }
        let places: Vec<PartitionPlace> = self.cluster.leaders.keys().copied().collect();
        let mut ends = self.cluster.offsets(&places, End::Latest).await?;
        // Records that only the leader has acknowledged become readable later, so this waits until
        // the ends no longer move.
        while self.load.produce.as_ref().is_some_and(|it| it.acks != -1) {
            tokio::time::sleep(LIGHT_WITHIN).await;
            let before =
                std::mem::replace(&mut ends, self.cluster.offsets(&places, End::Latest).await?);
            if before == ends {
                break;
            }
        }
        self.phase
            .send_modify(|phase| phase.read_to = Some(Arc::new(ends)));
        let mut moved = (Instant::now(), 0);
        while self.consuming > 0 {
            let records = self.shared.read_records.load(Ordering::Relaxed);
            if records != moved.1 {
                moved = (Instant::now(), records);
            }
            if moved.0.elapsed() > STUCK_AFTER {
                *self
                    .errors
                    .entry("consume: did not reach the end".to_owned())
                    .or_default() += 1;
                return Ok(());
            }
            tokio::select! {
                event = self.heard.recv() => self.hear(event.as_ref()),
                () = self.control.stop.wait() => {
                    self.aborted = Some(format!("stopped after {:.1} s", clock.now()));
                    return Ok(());
                }
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
        Ok(())
    }

    /// Stops early: producers get [`STOP_WITHIN`] for their last responses.
    async fn stop(&mut self) {
        self.aborted = Some("stopped".to_owned());
        self.phase.send_modify(|phase| phase.produced = true);
        let deadline = Instant::now() + STOP_WITHIN;
        while self.producing > 0 {
            tokio::select! {
                event = self.heard.recv() => self.hear(event.as_ref()),
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    fn hear(&mut self, event: Option<&Event>) {
        match event {
            Some(Event::ProducerDone) => self.producing -= 1,
            Some(Event::ConsumerDone) => self.consuming -= 1,
            Some(Event::Ready(_)) => {}
            // All tasks have ended.
            None => (self.producing, self.consuming) = (0, 0),
        }
    }

    /// Ends all tasks.
    fn end(self) -> EndedConductor<'a> {
        self.phase.send_modify(|phase| {
            phase.produced = true;
            phase.over = true;
        });
        EndedConductor {
            load: self.load,
            aborted: self.aborted,
            errors: self.errors,
        }
    }
}

impl EndedConductor<'_> {
    fn outcome(
        self,
        clock: Clock,
        finished: f64,
        ended: &[ThreadResult],
        curve: &curve::Curve,
    ) -> LoadOutcome {
        let mut totals = Totals::new();
        for ended in ended {
            totals.add(&ended.totals);
        }
        let counted = totals.last_event - self.load.warmup_seconds;
        let planned = self.load.seconds;
        let whole = finished >= self.load.warmup_seconds + planned && self.aborted.is_none();
        let seconds = if whole { counted.max(planned) } else { counted };
        let mut errors = totals.errors;
        for (error, count) in self.errors {
            *errors.entry(error).or_default() += count;
        }
        let times: Vec<_> = ended.iter().map(|ended| ended.time).collect();
        let client: Usage = cost::usage(&times);
        LoadOutcome {
            started_ms: clock.wall_ms(self.load.warmup_seconds) as i64,
            seconds: seconds.max(0.0),
            produce: self.load.produce.as_ref().map(|_| totals.produce.side()),
            consume: self.load.consume.as_ref().map(|_| totals.consume.side()),
            intervals: curve.intervals(finished - self.load.warmup_seconds),
            client: Some(client),
            errors,
            aborted: self.aborted,
            ..LoadOutcome::default()
        }
    }
}
