//! What the sockets and the generator can do: the same load, sent to a receiver that reads every
//! byte, responds, and stores nothing.
//!
//! The receiver is a thread of this process, so that its CPU time can be separated from the
//! generator's.

use std::sync::mpsc;

use anyhow::Context as _;

use crate::experiment::plan::PlannedMeasurement;
use crate::load::{self, Control, Stop};
use crate::outcome::Limit;
use crate::sink::{self, SinkMode};

/// Duration of each combination.
const SECONDS: f64 = 1.0;

/// Runs a planned load against a receiver that discards the records.
pub fn sockets(planned: &PlannedMeasurement, stop: &Stop) -> anyhow::Result<Limit> {
    let receiver = Receiver::start()?;
    let mut load = planned.load.clone();
    (load.warmup_seconds, load.seconds, load.bytes_max) = (0.0, SECONDS, None);
    // The plan's topics do not exist on the receiver.
    load.topics.existing = false;
    let control = Control {
        stop: stop.clone(),
        ..Control::default()
    };
    let before = receiver.cpu_seconds();
    let outcome = load::run_blocking(&receiver.address, &load, &control);
    let used = receiver.cpu_seconds() - before;
    receiver.end()?;
    let outcome = outcome.context("sending to a receiver that throws everything away")?;
    let bytes = outcome.produce.map_or(0, |side| side.bytes) as f64;
    Ok(Limit {
        name: "socket sink".to_owned(),
        parameters: planned.parameters.clone(),
        bytes_per_second: bytes / outcome.seconds.max(0.001),
        cpu_seconds_per_gb: if bytes > 0.0 {
            used / (bytes / 1e9)
        } else {
            0.0
        },
        command: "forebay bench sink, in a thread of the generator".to_owned(),
        ..Limit::default()
    })
}

struct Receiver {
    address: String,
    thread_id: i32,
    stop: Stop,
    thread: std::thread::JoinHandle<anyhow::Result<()>>,
}

impl Receiver {
    fn start() -> anyhow::Result<Self> {
        let stop = Stop::default();
        let stopped = stop.clone();
        let (told, listening) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("sink".to_owned())
            .spawn(move || receive(&told, &stopped))
            .context("starting the thread that receives")?;
        let Ok((address, thread_id)) = listening.recv() else {
            // The thread ended before it listened; its result has the reason.
            let ended = thread
                .join()
                .map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
            return Err(ended
                .err()
                .unwrap_or_else(|| anyhow::anyhow!("the receiver ended")));
        };
        Ok(Self {
            address,
            thread_id,
            stop,
            thread,
        })
    }

    /// Returns the CPU time of the thread so far; 0 if the kernel does not report it.
    fn cpu_seconds(&self) -> f64 {
        let file = format!("/proc/self/task/{}/schedstat", self.thread_id);
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let nanoseconds = text
            .split(' ')
            .next()
            .and_then(|first| first.parse::<u64>().ok());
        nanoseconds.unwrap_or(0) as f64 / 1e9
    }

    fn end(self) -> anyhow::Result<()> {
        self.stop.now();
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the receiver panicked"))?
    }
}

fn receive(told: &mpsc::Sender<(String, i32)>, stop: &Stop) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = async {
        let listener = sink::listen("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        // Fails only if the starting thread no longer waits; it then sends no load either.
        let _ = told.send((address, thread_id));
        tokio::select! {
            served = sink::serve(listener, SinkMode::Copies) => served,
            () = stop.wait() => Ok(()),
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, served)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::choice::OnlyPatterns;
    use crate::experiment::{find, plan};

    #[test]
    fn the_generator_reaches_a_rate_that_costs_the_receiver_time() {
        let experiment = find("quick").unwrap();
        let actions = plan::plan(&experiment, &OnlyPatterns::default()).unwrap();
        let first = plan::without_broker(&actions).remove(0);
        let limit = sockets(&first, &Stop::default()).unwrap();
        assert!(limit.bytes_per_second > 1e6, "{limit:?}");
        assert!(limit.cpu_seconds_per_gb > 0.0, "{limit:?}");
        assert_eq!(limit.parameters, first.parameters);
    }
}
