//! Why the kernel drops packets, by (reason, place in the kernel): from the trace point
//! `skb:kfree_skb`, in an instance of its own that ends with the measurement.
//!
//! The kernel's counters say where packets are lost, the trace point says why. It costs a line for
//! each lost packet, so it is on only during a measurement. Invariants: traces of others are
//! untouched; an instance that a killed process left behind is removed by the next; if the kernel
//! had to overwrite lines that were not read, counts are scaled by what it says it overwrote. All
//! network namespaces of the host count.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::Context as _;
use platform::bounded;

use crate::boot;

const TRACING: &str = "/sys/kernel/tracing";
const PREFIX: &str = "forebay-";
/// Buffer of a CPU, in KiB: tens of thousands of lines.
const BUFFER_KIB: &str = "4096";
/// Interval between two readings.
const READ_MS: u64 = 10;
/// Longest wait for a reading.
const TAKE_MS: u64 = 5_000;
/// Limit on the kinds of drops that are distinguished.
const KINDS_MAX: usize = 4_096;

/// Dropped packets by reason and place. Bounded: `KINDS_MAX`.
pub type Reasons = BTreeMap<(String, String), u64>;

/// A measurement in progress.
#[derive(Debug)]
pub struct Tracer {
    dir: PathBuf,
    shared: Arc<TraceShared>,
    reading: Option<JoinHandle<()>>,
    overwritten: u64,
}

#[derive(Default, Debug)]
struct TraceShared {
    found: Mutex<Reasons>,
    /// How often everything was read.
    rounds: AtomicU64,
    stop: AtomicBool,
}

impl Tracer {
    /// Begins to count.
    pub fn start() -> anyhow::Result<Tracer> {
        let instances = Path::new(TRACING).join("instances");
        let event = "events/skb/kfree_skb";
        anyhow::ensure!(
            Path::new(TRACING).join(event).exists(),
            "{TRACING}/{event} is not there: mount -t tracefs nodev {TRACING}, on a kernel with CONFIG_FTRACE"
        );
        remove_left(&instances);
        let dir = instances.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let mut tracer = Tracer {
            dir,
            shared: Arc::default(),
            reading: None,
            overwritten: 0,
        };
        tracer.write("buffer_size_kb", BUFFER_KIB)?;
        let pipe = tracer.dir.join("trace_pipe");
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking)
            .open(pipe)?;
        let shared = Arc::clone(&tracer.shared);
        tracer.reading = Some(std::thread::spawn(move || read(pipe, &shared)));
        tracer.write(&format!("{event}/enable"), "1")?;
        Ok(tracer)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Returns what was dropped since the last call.
    pub fn take(&mut self) -> Reasons {
        let rounds = || self.shared.rounds.load(Ordering::Acquire);
        // The round that is under way may have passed what was dropped a moment ago.
        let wanted = rounds().saturating_add(2);
        let until = boot::now_ms().saturating_add(TAKE_MS);
        while rounds() < wanted && boot::now_ms() < until {
            boot::wait_ms(READ_MS);
        }
        let taken = self
            .shared
            .found
            .lock()
            .map(|mut found| std::mem::take(&mut *found));
        let overwritten = overwritten(&self.dir);
        let lost = overwritten.saturating_sub(self.overwritten);
        self.overwritten = overwritten;
        scaled(taken.unwrap_or_default(), lost)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(reading) = self.reading.take() {
            // A reader that panicked has nothing more to say.
            drop(reading.join());
        }
        // An instance that stays is removed by the next measurement.
        drop(std::fs::remove_dir(&self.dir));
    }
}

/// Removes the instances of processes that are gone.
fn remove_left(instances: &Path) {
    let Ok(entries) = std::fs::read_dir(instances) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            drop(std::fs::remove_dir(entry.path()));
        }
    }
}

fn read(mut pipe: File, shared: &TraceShared) {
    let mut rest = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        loop {
            match pipe.read(&mut part) {
                Ok(0) => break,
                Ok(read) => rest.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Nothing is left to read.
                Err(_) => break,
            }
            let end = rest
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            let lines = String::from_utf8_lossy(&rest[..end]).into_owned();
            if let Ok(mut found) = shared.found.lock() {
                add(&mut found, &lines);
            }
            rest.drain(..end);
        }
        shared.rounds.fetch_add(1, Ordering::Release);
        if stop {
            return;
        }
        boot::wait_ms(READ_MS);
    }
}

fn add(found: &mut Reasons, lines: &str) {
    for drop in lines.lines().filter_map(parse) {
        if found.len() < KINDS_MAX || found.contains_key(&drop) {
            *found.entry(drop).or_default() += 1;
        }
    }
}

/// Returns reason and place of a line.
fn parse(line: &str) -> Option<(String, String)> {
    let (_, drop) = line.split_once("kfree_skb: ")?;
    let (_, place) = drop.split_once("location=")?;
    let place = place.split(' ').next()?.split('+').next()?;
    let (_, reason) = drop.split_once("reason: ")?;
    Some((reason.trim().to_owned(), place.to_owned()))
}

/// Returns how many lines the kernel overwrote before they were read.
fn overwritten(dir: &Path) -> u64 {
    let Ok(cpus) = std::fs::read_dir(dir.join("per_cpu")) else {
        return 0;
    };
    let of = |path: PathBuf| {
        let stats = bounded::kernel_text(path.join("stats")).ok()?;
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("overrun: "))?;
        line.trim().parse::<u64>().ok()
    };
    let all = cpus.flatten().filter_map(|cpu| of(cpu.path()));
    all.fold(0, u64::saturating_add)
}

/// Returns counts that include, by proportion, what was not read.
fn scaled(found: Reasons, lost: u64) -> Reasons {
    let read = found
        .values()
        .fold(0_u64, |all, count| all.saturating_add(*count));
    if lost == 0 || read == 0 {
        return found;
    }
    let scale = |count: u64| {
        let whole = u128::from(count) * (u128::from(read) + u128::from(lost)) / u128::from(read);
        u64::try_from(whole).unwrap_or(u64::MAX)
    };
    found
        .into_iter()
        .map(|(drop, count)| (drop, scale(count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "          <idle>-0       [001] ..s2.  71.5: kfree_skb: skbaddr=000 rx_sk=000 protocol=2048 location=udp_queue_rcv_one_skb+0x1a2/0x5e0 reason: SOCKET_RCVBUFF\n\
                         load-7 [000] b..1. 71.6: kfree_skb: skbaddr=000 rx_sk=000 protocol=2048 location=udp_queue_rcv_one_skb+0x1a2/0x5e0 reason: SOCKET_RCVBUFF\n\
                         load-7 [000] b..1. 71.7: kfree_skb: skbaddr=000 rx_sk=000 protocol=34525 location=veth_xmit+0x9/0x10 reason: NOT_SPECIFIED\n\
                         CPU:0 [LOST 12 EVENTS]\n";

    #[test]
    fn lines_are_summed_by_reason_and_place() {
        let mut found = Reasons::new();
        add(&mut found, LINES);
        let pair = |reason: &str, place: &str| (reason.to_owned(), place.to_owned());
        let expect = [
            (pair("NOT_SPECIFIED", "veth_xmit"), 1),
            (pair("SOCKET_RCVBUFF", "udp_queue_rcv_one_skb"), 2),
        ];
        assert_eq!(found, Reasons::from(expect));
    }

    #[test]
    fn what_was_overwritten_counts_by_proportion() {
        let pair = |reason: &str| (reason.to_owned(), String::new());
        let found = Reasons::from([(pair("A"), 30), (pair("B"), 10)]);
        assert_eq!(scaled(found.clone(), 0), found);
        let expect = Reasons::from([(pair("A"), 300), (pair("B"), 100)]);
        assert_eq!(scaled(found, 360), expect);
    }
}
