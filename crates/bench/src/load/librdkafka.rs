//! The load through an ordinary client: librdkafka, with one client and one thread per producer and
//! consumer.
//!
//! Plan, pace, counts and check are those of the native client; only the protocol implementation
//! differs. Produce latency ends with the delivery report; without a rate it counts from when the
//! record was passed to the client, so it includes the time in the client's queue. Requests and
//! bytes on the wire are unknown and remain zero. The usage of the generator is that of the whole
//! process, because the client has its own threads.

mod consumer;
mod producer;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use rdkafka::ClientConfig;

use super::cost::ThreadTime;
use super::native::{Part, ThreadResult};
use super::tally::{Tally, Totals};
use super::worker::{Clock, Worker};

/// Longest time that a client may take to reach its broker.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// How long a thread waits for its client before it does other work.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs all producers and consumers; blocks.
pub(super) fn run(part: Part) -> anyhow::Result<ThreadResult> {
    let Part {
        producers,
        consumers,
        load,
        bootstrap,
        cluster,
        shared,
        phase,
        events,
        windows,
        verification,
    } = part;
    let worker = || Worker {
        load: Arc::clone(&load),
        bootstrap: bootstrap.clone(),
        cluster: cluster.clone(),
        shared: Arc::clone(&shared),
        phase: phase.clone(),
        events: events.clone(),
        tally: RefCell::new(Tally::new(
            load.warmup_seconds,
            load.interval_seconds,
            windows.clone(),
        )),
        clock: Cell::new(Clock::starting_at(SystemTime::now())),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut totals = Totals::new();
    let counted_from = thread::scope(|scope| {
        let mut threads = Vec::new();
        for plan in producers {
            let (worker, verification) = (worker(), verification.as_deref());
            let run = move || producer::run(worker, plan.by_hand(verification));
            threads.push(scope.spawn(run));
        }
        for plan in consumers {
            let (worker, verification) = (worker(), verification.as_deref());
            threads.push(scope.spawn(move || {
                let checking =
                    verification.map(|verification| verification.checking(plan.group, plan.index));
                consumer::run(worker, &plan, checking)
            }));
        }
        let counted_from = runtime.block_on(warm(&worker()));
        for ended in threads {
            let ended = ended.join().map_err(|_| anyhow!("a thread panicked"))?;
            totals.add(&ended);
        }
        anyhow::Ok(counted_from)
    })?;
    let time = ThreadTime::of_process().since(counted_from);
    Ok(ThreadResult { totals, time })
}

/// Waits until counting begins, and returns the CPU time used by then.
async fn warm(worker: &Worker) -> ThreadTime {
    let mut phase = worker.phase.clone();
    let begun = phase
        .wait_for(|phase| phase.clock.is_some() || phase.over)
        .await;
    if let Some(clock) = begun.ok().and_then(|phase| phase.clock) {
        tokio::select! {
            () = tokio::time::sleep(clock.until(worker.load.warmup_seconds)) => {}
            () = worker.over() => {}
        }
    }
    ThreadTime::of_process()
}

/// Waits for the load to begin; returns false if it never will.
fn begin(worker: &Worker, ready: anyhow::Result<()>) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .context("starting a runtime");
    match runtime {
        Ok(runtime) => runtime.block_on(worker.begin(ready)),
        Err(error) => {
            let failed = super::worker::Event::Ready(ready.and(Err(error)));
            // Without a receiver the load has ended.
            let _ = worker.events.send(failed);
            false
        }
    }
}

/// Returns the settings common to all clients.
fn settings(worker: &Worker) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &worker.bootstrap)
        .set("client.id", super::client::CLIENT_ID);
    settings
}
