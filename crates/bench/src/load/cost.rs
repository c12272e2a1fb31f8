//! The resources that the generator itself uses: CPU time of its threads, memory of its process.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::outcome::Usage;

/// CPU time of a thread.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct ThreadTime {
    all: f64,
    system: f64,
}

impl ThreadTime {
    /// Returns the CPU time of the calling thread so far.
    pub(super) fn now() -> Self {
        let all = clock_gettime(ClockId::ThreadCPUTime);
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        Self {
            all: all.tv_sec as f64 + all.tv_nsec as f64 / 1e9,
            system: system_ticks(&stat).unwrap_or(0) as f64
                / rustix::param::clock_ticks_per_second() as f64,
        }
    }

    /// Returns the CPU time of the whole process so far, including ended threads.
    #[cfg(feature = "librdkafka")]
    pub(super) fn of_process() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self {
            all: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
            system: system_ticks(&stat).unwrap_or(0) as f64
                / rustix::param::clock_ticks_per_second() as f64,
        }
    }

    /// Returns all of it, in seconds.
    pub(super) fn all(self) -> f64 {
        self.all
    }

    /// Returns the CPU time used since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            all: self.all - earlier.all,
            system: (self.system - earlier.system).min(self.all - earlier.all),
        }
    }
}

/// Returns the total usage of threads.
pub(super) fn usage(times: &[ThreadTime]) -> Usage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Usage {
        cpu_seconds: times.iter().map(|time| time.all).sum(),
        system_seconds: times.iter().map(|time| time.system).sum(),
        resident_bytes_max: resident_max(&status).unwrap_or(0),
        ..Usage::default()
    }
}

/// Returns the 15th field; the second one, a name in parentheses, may contain anything.
fn system_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(12)?.parse().ok()
}

fn resident_max(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 777 888 0 0 20";
        assert_eq!(system_ticks(stat), Some(888));
        assert_eq!(
            resident_max("VmPeak:\t 9 kB\nVmHWM:\t  12 kB\n"),
            Some(12_288)
        );
    }

    #[test]
    fn work_takes_time() {
        let before = ThreadTime::now();
        let mut sum = 0u64;
        while ThreadTime::now().since(before).all < 0.002 {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        let usage = usage(&[ThreadTime::now().since(before)]);
        assert!(
            usage.cpu_seconds >= 0.002 && usage.resident_bytes_max > 0,
            "{sum}"
        );
    }
}
