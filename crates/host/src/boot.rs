//! The current boot and its age: a clock that cannot be set and that continues while the host
//! sleeps.

use rustix::thread::{NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::root::Tree;

/// Returns the id of the boot, constant until the next one.
pub fn id(tree: &dyn Tree) -> String {
    let id = tree.text("proc/sys/kernel/random/boot_id");
    id.unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the milliseconds since the host started.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1_000).saturating_add(rest)
}

/// Returns the microseconds of CPU time of this thread: on a busy machine less than the elapsed
/// time.
pub fn worked_us() -> u64 {
    let worked = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(worked.tv_sec).unwrap_or(0);
    let rest = u64::try_from(worked.tv_nsec).unwrap_or(0) / 1_000;
    seconds.saturating_mul(1_000_000).saturating_add(rest)
}

/// Waits, including any time the host sleeps; a signal ends the wait early.
pub fn wait_ms(ms: u64) {
    let time = Timespec {
        tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1_000).unwrap_or(0) * 1_000_000,
    };
    if let NanosleepRelativeResult::Err(_) = clock_nanosleep_relative(ClockId::Boottime, &time) {
        std::thread::yield_now();
    }
}
