//! Reads everything once after the last write, to determine what was lost.
//!
//! It runs a load without producers, from the earliest offsets to the log end offsets of its start.
//! Not here: what is missing (`session.rs` has the acknowledgements).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;

use super::WrittenTopics;
use super::check::Checker;
use super::session::Session;
use crate::load::hook::{ConsumerCheck, Numbering, Verification};
use crate::load::{self, Control, PartitionPlace, Stop};
use crate::outcome::RecordCheckResult;
use crate::spec::{Consume, ConsumeStart, Driver, Load, Topics};

/// Connections for reading.
const CONSUMERS_MAX: u32 = 4;
/// Seconds without a byte after which the sweep fails.
const STILL_SECONDS_MAX: u32 = 60;
/// So long that only the ends of the partitions end the load.
const SECONDS: f64 = 1e8;

/// Reads all partitions of these topics from start to end.
pub(super) async fn sweep(
    written: &WrittenTopics<'_>,
    session: &Session,
    stop: &Stop,
) -> anyhow::Result<Checker> {
    let everything = Arc::new(SweepCheck {
        empty: session.checker(),
        seen: Mutex::new(session.checker()),
    });
    let (ours, still) = (Stop::default(), Arc::new(AtomicU32::new(0)));
    let (ending, counting) = (ours.clone(), Arc::clone(&still));
    let control = Control {
        stop: ours.clone(),
        progress: Some(Arc::new(move |interval| {
            if interval.consumed > 0 {
                counting.store(0, Ordering::Relaxed);
            } else if counting.fetch_add(1, Ordering::Relaxed) + 1 >= STILL_SECONDS_MAX {
                ending.now();
            }
        })),
        verification: Some(Arc::new(Arc::clone(&everything))),
        ..Control::default()
    };
    let load = reading(written);
    let outcome = tokio::select! {
        outcome = load::run(written.bootstrap, &load, &control) => outcome?,
        () = stop.wait() => bail!("it was stopped"),
    };
    if still.load(Ordering::Relaxed) >= STILL_SECONDS_MAX {
        let errors: Vec<_> = outcome.errors.keys().map(String::as_str).collect();
        bail!(
            "nothing came for {STILL_SECONDS_MAX} s: {}",
            errors.join("; ")
        );
    }
    let seen = everything
        .seen
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(seen.clone())
}

fn reading(written: &WrittenTopics<'_>) -> Load {
    let topics = written.topics;
    let partitions = topics.count.saturating_mul(topics.partitions);
    Load {
        topics: Topics {
            existing: true,
            ..topics.clone()
        },
        produce: None,
        consume: Some(Consume {
            consumers: partitions.clamp(1, CONSUMERS_MAX),
            groups: 1,
            from: ConsumeStart::Earliest,
            min_bytes: 1,
            max_wait_ms: 500,
            max_bytes: 16 << 20,
            partition_max_bytes: 4 << 20,
            discard: false,
        }),
        driver: Driver::Native,
        warmup_seconds: 0.0,
        seconds: SECONDS,
        bytes_max: None,
        interval_seconds: 1.0,
        verify: true,
        security: written.security.map(Path::to_owned),
    }
}

/// The check of a load without producers.
struct SweepCheck {
    empty: Checker,
    seen: Mutex<Checker>,
}

impl Verification for Arc<SweepCheck> {
    fn value_bytes_min(&self) -> usize {
        0
    }

    fn numbering(&self, _producer: u32) -> Box<dyn Numbering> {
        unreachable!("a reading has no producers")
    }

    fn checking(&self, _group: u32, _consumer: u32) -> Box<dyn ConsumerCheck> {
        Box::new(Reader {
            checker: self.empty.clone(),
            all: Arc::clone(self),
        })
    }

    fn verified(&self) -> RecordCheckResult {
        RecordCheckResult::default()
    }
}

struct Reader {
    checker: Checker,
    all: Arc<SweepCheck>,
}

impl ConsumerCheck for Reader {
    fn read(
        &mut self,
        place: PartitionPlace,
        offset: i64,
        _key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        self.checker.read(place, offset, value);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut all = self.all.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.absorb(&self.checker);
    }
}
