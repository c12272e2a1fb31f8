//! The usage of a process, sampled from `/proc` during a load.
//!
//! Sampling reads four small files ten times per second. The measured window is cut out afterwards,
//! by interpolation between the samples around its ends, which excludes warm-up and tail.
//!
//! Not here: network bytes of one process. Linux counts them per network namespace, including
//! loopback. So they include the generator's traffic, and that of a second broker on this machine,
//! which is small while that broker idles.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use crate::outcome::Usage;

/// Interval of the samples.
const EVERY: Duration = Duration::from_millis(100);

/// Clock ticks per second in `/proc/PID/stat`; Linux reports 100 to programs on every supported
/// platform.
const TICKS_PER_SECOND: f64 = 100.0;

/// The counters of a process since its start, at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample {
    /// Time of the sample, in milliseconds since 1970.
    pub at_ms: i64,
    /// The counters; memory is the resident memory at that time.
    pub usage: Usage,
}

/// Returns the counters of a process; `root` is `/`, or a directory with recorded files.
pub fn sample(root: &Path, pid: u32, at_ms: i64) -> anyhow::Result<Sample> {
    let dir = root.join("proc").join(pid.to_string());
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let mut usage = Usage::default();
    let stat = read("stat")?;
    let (user, system) = cpu_ticks(&stat).context("a /proc/PID/stat of another form")?;
    usage.cpu_seconds = (user + system) / TICKS_PER_SECOND;
    usage.system_seconds = system / TICKS_PER_SECOND;
    usage.resident_bytes_max = field(&read("status")?, "VmRSS:").unwrap_or(0) * 1024;
    // The I/O counters of another user's process are not readable and count as 0.
    let io = read("io").unwrap_or_default();
    usage.disk_read_bytes = field(&io, "read_bytes:").unwrap_or(0);
    usage.disk_written_bytes = field(&io, "write_bytes:").unwrap_or(0);
    let (received, sent) = network_bytes(&read("net/dev").unwrap_or_default());
    usage.network_received_bytes = received;
    usage.network_sent_bytes = sent;
    Ok(Sample { at_ms, usage })
}

/// Returns utime and stime; they follow the last bracket, because the name in brackets may contain
/// anything.
fn cpu_ticks(stat: &str) -> Option<(f64, f64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn network_bytes(dev: &str) -> (u64, u64) {
    let rows = dev.lines().filter_map(|line| line.split_once(':'));
    rows.fold((0, 0), |(received, sent), (_, counters)| {
        let numbers: Vec<u64> = counters
            .split_whitespace()
            .map_while(|number| number.parse().ok())
            .collect();
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        (received + at(0), sent + at(8))
    })
}

/// Returns the usage between two moments, by interpolation between samples in order of time.
pub fn between(samples: &[Sample], from_ms: i64, to_ms: i64) -> Option<Usage> {
    let (start, end) = (at(samples, from_ms)?, at(samples, to_ms)?);
    let inside = samples
        .iter()
        .filter(|sample| (from_ms..=to_ms).contains(&sample.at_ms));
    let resident = inside.map(|sample| sample.usage.resident_bytes_max).max();
    Some(Usage {
        cpu_seconds: (end.cpu_seconds - start.cpu_seconds).max(0.0),
        system_seconds: (end.system_seconds - start.system_seconds).max(0.0),
        resident_bytes_max: resident.unwrap_or(end.resident_bytes_max),
        disk_written_bytes: end
            .disk_written_bytes
            .saturating_sub(start.disk_written_bytes),
        disk_read_bytes: end.disk_read_bytes.saturating_sub(start.disk_read_bytes),
        network_received_bytes: end
            .network_received_bytes
            .saturating_sub(start.network_received_bytes),
        network_sent_bytes: end
            .network_sent_bytes
            .saturating_sub(start.network_sent_bytes),
    })
}

/// Returns the counters at a moment; outside of the samples, those of the first or last sample.
fn at(samples: &[Sample], at_ms: i64) -> Option<Usage> {
    let behind = samples.partition_point(|sample| sample.at_ms < at_ms);
    let before = behind.checked_sub(1).and_then(|index| samples.get(index));
    match (before, samples.get(behind)) {
        (Some(a), Some(b)) => {
            let share = (at_ms - a.at_ms) as f64 / (b.at_ms - a.at_ms).max(1) as f64;
            Some(mixed(&a.usage, &b.usage, share))
        }
        (one, other) => one.or(other).map(|sample| sample.usage.clone()),
    }
}

fn mixed(a: &Usage, b: &Usage, share: f64) -> Usage {
    let float = |a: f64, b: f64| a + (b - a) * share;
    let whole = |a: u64, b: u64| a + (b.saturating_sub(a) as f64 * share) as u64;
    Usage {
        cpu_seconds: float(a.cpu_seconds, b.cpu_seconds),
        system_seconds: float(a.system_seconds, b.system_seconds),
        resident_bytes_max: a.resident_bytes_max.max(b.resident_bytes_max),
        disk_written_bytes: whole(a.disk_written_bytes, b.disk_written_bytes),
        disk_read_bytes: whole(a.disk_read_bytes, b.disk_read_bytes),
        network_received_bytes: whole(a.network_received_bytes, b.network_received_bytes),
        network_sent_bytes: whole(a.network_sent_bytes, b.network_sent_bytes),
    }
}

/// Samples a process until it is finished.
pub struct Sampler {
    samples: Arc<Mutex<Vec<Sample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts to sample; a process that does not exist gives no samples.
    pub fn start(pid: u32) -> anyhow::Result<Self> {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (Arc::clone(&samples), Arc::clone(&stop));
        let root = PathBuf::from("/");
        let thread = std::thread::Builder::new()
            .name("usage".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    keep(&kept, &root, pid);
                    std::thread::park_timeout(EVERY);
                }
                keep(&kept, &root, pid);
            })
            .context("starting the thread that samples")?;
        Ok(Self {
            samples,
            stop,
            thread: Some(thread),
        })
    }

    /// Stops and returns the samples in order of time.
    pub fn finish(mut self) -> Vec<Sample> {
        self.end();
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

fn keep(samples: &Mutex<Vec<Sample>>, root: &Path, pid: u32) {
    if let Ok(found) = sample(root, pid, now_ms()) {
        samples
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(found);
    }
}

/// Returns the time in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests;
