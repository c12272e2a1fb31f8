//! Ends the process when a shard has not moved for too long. A supervisor starts it again, so a
//! hang of one shard (an endless loop, a lock that is never released) causes a restart with a trace
//! instead of an outage.
//!
//! Each shard counts beats, on its own executor; a separate thread checks them in ticks. A shard is
//! stuck when its count has not moved for more than [`TICKS`] ticks. Ticks, not time: a stopped
//! process that continues, or a paused machine, has missed ticks as well. Invariant: once a shard
//! is stuck the process ends, even if nothing can be logged. The check does not run before clients
//! are let in: recovery may take long.
//!
//! The same thread feeds the watchdog of a service manager, which ends a process in which not even
//! this thread runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use platform::stack::{self, ThreadId};

use crate::notify::Supervisor;

/// Ticks within which a shard must beat.
const TICKS: u32 = 10;

/// How long the trace may take.
const TRACE_MAX: Duration = Duration::from_secs(3);

/// How long all work before the end may take.
const LAST_WORDS_MAX: Duration = Duration::from_secs(10);

/// The beats of one shard.
#[derive(Default, Debug)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    /// Its thread; 0 while there is none.
    thread: AtomicI32,
}

impl Pulse {
    /// Beats until the future is dropped, on the shard's own executor.
    pub(crate) async fn beat(self: Arc<Self>, every: Duration) {
        let running = PulseGuard(&self);
        let thread = ThreadId::current().as_raw();
        running.0.thread.store(thread, Ordering::Relaxed);
        loop {
            self.beats.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(every).await;
        }
    }
}

struct PulseGuard<'a>(&'a Pulse);

impl Drop for PulseGuard<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Ordering::Relaxed);
    }
}

/// Returns the interval of beats with which a healthy shard is never considered stuck.
pub(crate) fn beat_interval(stuck_after: Duration) -> Duration {
    (stuck_after / (2 * TICKS)).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// The state of the watch.
struct WatchedShards {
    pulses: Vec<Arc<Pulse>>,
    /// Beats at the last tick, and ticks since they changed.
    seen: Vec<(u64, u32)>,
}

impl WatchedShards {
    /// Checks once; returns a stuck shard, if there is one.
    fn tick(&mut self) -> Option<(usize, ThreadId)> {
        let each = self.pulses.iter().zip(&mut self.seen).enumerate();
        for (shard, (pulse, (before, still))) in each {
            let beats = pulse.beats.load(Ordering::Relaxed);
            let thread = pulse.thread.load(Ordering::Relaxed);
            if beats != *before || thread == 0 {
                (*before, *still) = (beats, 0);
                continue;
            }
            *still += 1;
            if *still > TICKS {
                return Some((shard, ThreadId::from_raw(thread)));
            }
        }
        None
    }
}

/// Starts the watch in a thread of its own, which also feeds the service manager; without
/// `stuck_after` only the latter.
pub(crate) fn start(
    pulses: Vec<Arc<Pulse>>,
    stuck_after: Option<Duration>,
    supervisor: Arc<Supervisor>,
) -> anyhow::Result<()> {
    let tick = stuck_after.map(|stuck_after| stuck_after / TICKS);
    let Some((nap, naps)) = naps(tick, supervisor.feed_every()) else {
        return Ok(());
    };
    let seen = vec![(0, 0); pulses.len()];
    let mut watched = WatchedShards { pulses, seen };
    let watch = move || {
        loop {
            for _ in 0..naps {
                if supervisor.feed_every().is_some() {
                    supervisor.feed();
                }
                thread::sleep(nap);
            }
            if let Some(stuck_after) = stuck_after
                && let Some((shard, stuck)) = watched.tick()
            {
                end(shard, stuck, stuck_after);
            }
        }
    };
    thread::Builder::new()
        .name("watchdog".into())
        .spawn(watch)?;
    Ok(())
}

/// Returns how long to sleep between two feeds, and how many of these sleeps make a tick.
///
/// `None` if there is nothing to do.
fn naps(tick: Option<Duration>, feed_every: Option<Duration>) -> Option<(Duration, u32)> {
    let Some(tick) = tick else {
        return Some((feed_every?, 1));
    };
    let feed_every = feed_every.unwrap_or(tick).min(tick);
    let naps = tick.as_nanos().div_ceil(feed_every.as_nanos().max(1));
    let naps = u32::try_from(naps).unwrap_or(u32::MAX).max(1);
    Some((tick / naps, naps))
}

/// Logs where the shard hangs, and ends the process.
fn end(shard: usize, stuck: ThreadId, stuck_after: Duration) -> ! {
    // The log itself may be what hangs.
    let last = thread::Builder::new().spawn(|| {
        thread::sleep(LAST_WORDS_MAX);
        std::process::abort();
    });
    if last.is_ok() {
        let frames = stack::of(stuck, TRACE_MAX).unwrap_or_default();
        let stack = stack::named(&frames);
        let stuck_ms = u64::try_from(stuck_after.as_millis()).unwrap_or(u64::MAX);
        tracing::error!(
            shard,
            stuck_ms,
            stack,
            "a shard does not move: the process ends, to be started again (shard.watchdog.ms; \
             addr2line -Cfe FILE 0xOFFSET names the frames)"
        );
    }
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> WatchedShards {
        let pulse = Pulse::default();
        pulse.thread.store(1, Ordering::Relaxed);
        WatchedShards {
            pulses: vec![Arc::new(pulse)],
            seen: vec![(0, 0)],
        }
    }

    #[test]
    fn a_shard_that_beats_now_and_then_is_not_stuck_and_one_that_has_stopped_is() {
        let mut watched = watched();
        for tick in 0..1000 {
            if tick % TICKS == 0 {
                watched.pulses[0].beats.fetch_add(1, Ordering::Relaxed);
            }
            assert!(watched.tick().is_none());
        }
        let ticks = (1..100).find(|_| watched.tick().is_some());
        assert!(ticks.is_some_and(|ticks| ticks <= TICKS + 1));
    }

    #[test]
    fn a_service_manager_is_fed_in_time_and_ticks_stay_as_long_as_they_were() {
        let seconds = |seconds: u64| Some(Duration::from_secs(seconds));
        let of =
            |tick, feed_every| naps(tick, feed_every).map(|(nap, naps)| (nap.as_millis(), naps));
        assert_eq!(of(seconds(3), None), Some((3000, 1)));
        assert_eq!(of(seconds(3), seconds(10)), Some((3000, 1)));
        assert_eq!(of(seconds(3), seconds(1)), Some((1000, 3)));
        assert_eq!(of(seconds(3), seconds(2)), Some((1500, 2)));
        assert_eq!(of(None, seconds(10)), Some((10_000, 1)));
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(Duration::ZERO), seconds(1)), Some((0, 1)));
    }

    #[test]
    fn a_shard_that_has_ended_is_not_stuck() {
        let mut watched = watched();
        watched.pulses[0].thread.store(0, Ordering::Relaxed);
        assert!((0..100).all(|_| watched.tick().is_none()));
    }

    /// Runs itself as a child process, which has to end.
    #[test]
    fn the_process_ends_with_a_trace_when_a_shard_hangs() {
        const INSIDE: &str = "FOREBAY_TEST_HANG";
        if std::env::var_os(INSIDE).is_some() {
            tracing_subscriber::fmt()
                .with_writer(std::io::stderr)
                .init();
            let pulse = Arc::new(Pulse::default());
            let stuck_after = Some(Duration::from_millis(200));
            start(vec![Arc::clone(&pulse)], stuck_after, Arc::default()).unwrap();
            let hanging = async {
                tokio::task::spawn_local(pulse.beat(Duration::from_millis(10)));
                tokio::task::yield_now().await;
                loop {
                    std::hint::spin_loop();
                }
            };
            platform::runtime::run_shard::<_>(None, hanging).unwrap();
        }
        let me = std::env::current_exe().unwrap();
        let this = "watchdog::tests::the_process_ends_with_a_trace_when_a_shard_hangs";
        let ended = std::process::Command::new(me)
            .args(["--exact", this, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(!ended.status.success());
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("a shard does not move"), "{said}");
        assert!(said.contains("+0x"), "{said}");
    }
}
