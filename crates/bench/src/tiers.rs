//! The bytes on each tier of a broker during a load, sampled over the wire and added to the points
//! of the curve.
//!
//! A broker that does not report them gives no samples; the curve then has no tiers.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;

use crate::load::log_dirs::LogDirs;
use crate::load::{Security, Stop};
use crate::outcome::Interval;
use crate::usage::now_ms;

/// Interval of the samples.
const EVERY: Duration = Duration::from_millis(250);

/// The bytes on each tier at a time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample {
    /// Time of the sample, in milliseconds since 1970.
    pub at_ms: i64,
    /// Bytes, first tier first.
    pub bytes: Vec<u64>,
}

/// Samples until it is finished.
pub struct Sampler {
    stop: Stop,
    thread: Option<JoinHandle<anyhow::Result<Vec<Sample>>>>,
}

impl Sampler {
    /// Starts to sample the bytes in these directories of a broker, one per tier.
    pub fn start(bootstrap: String, dirs: Vec<PathBuf>) -> anyhow::Result<Self> {
        let stop = Stop::default();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("tiers".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(sample(&bootstrap, &dirs, &stopped))
            })
            .context("starting the thread that asks for tiers")?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops and returns the samples in order of time, or the error that ended the sampling.
    pub fn finish(mut self) -> anyhow::Result<Vec<Sample>> {
        self.stop.now();
        let Some(thread) = self.thread.take() else {
            return Ok(Vec::new());
        };
        let ended = thread.join();
        ended.map_err(|_| anyhow::anyhow!("the thread that asks for tiers panicked"))?
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.now();
    }
}

async fn sample(bootstrap: &str, dirs: &[PathBuf], stop: &Stop) -> anyhow::Result<Vec<Sample>> {
    let dirs: Vec<_> = dirs.iter().map(PathBuf::as_path).collect();
    let mut asked = LogDirs::connect(bootstrap, &Security::default()).await?;
    let mut samples = Vec::new();
    while !stop.is_set() {
        let bytes = asked.bytes(&dirs).await?;
        samples.push(Sample {
            at_ms: now_ms(),
            bytes,
        });
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.wait() => {}
        }
    }
    Ok(samples)
}

/// Adds to each interval the last sample before its end.
///
/// The curve began to count at `started_ms`; intervals before the first sample have none.
pub fn put(samples: &[Sample], started_ms: i64, intervals: &mut [Interval]) {
    for interval in intervals {
        let end = started_ms + (interval.at * 1e3).round() as i64;
        let behind = samples.partition_point(|sample| sample.at_ms <= end);
        let last = behind.checked_sub(1).and_then(|at| samples.get(at));
        interval.tier_bytes = last.map_or_else(Vec::new, |sample| sample.bytes.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_what_was_there_at_their_end() {
        let sample = |at_ms, fast| Sample {
            at_ms,
            bytes: vec![fast, 1],
        };
        let samples = [sample(10_500, 5), sample(11_000, 6), sample(11_900, 7)];
        let mut intervals: Vec<_> = [0.0, 1.0, 2.0]
            .map(|at| Interval {
                at,
                ..Interval::default()
            })
            .into();
        put(&samples, 10_000, &mut intervals);
        let fast: Vec<_> = intervals
            .iter()
            .map(|one| one.tier_bytes.first().copied())
            .collect();
        assert_eq!(fast, [None, Some(6), Some(7)]);
    }
}
