//! Resource usage of this process, for metrics, from Linux's `/proc/self`.
//!
//! Invariant: each call reads the current values. Not here: caching; the caller calls only for a
//! scrape.

use std::io;
use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::bounded;

/// Resource usage at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usage {
    /// CPU time, user and system.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Address space in bytes.
    pub virtual_bytes: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// Limit of open file descriptors; `None` without a limit.
    pub open_files_max: Option<u64>,
}

/// Returns the current usage of this process.
pub fn usage() -> io::Result<Usage> {
    let statm = bounded::kernel_text("/proc/self/statm")?;
    let (virtual_pages, resident_pages) =
        pages(&statm).ok_or_else(|| unreadable("/proc/self/statm"))?;
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let page_bytes = page_size() as u64;
    Ok(Usage {
        cpu: Duration::try_from(cpu).unwrap_or_default(),
        resident_bytes: resident_pages.saturating_mul(page_bytes),
        virtual_bytes: virtual_pages.saturating_mul(page_bytes),
        // The directory `/proc/self/fd` is itself open during the count.
        open_files: (std::fs::read_dir("/proc/self/fd")?.count() as u64).saturating_sub(1),
        open_files_max: getrlimit(Resource::Nofile).current,
    })
}

/// Returns the bytes that this process has caused to be read from and written to disks, if the
/// kernel counts them.
pub fn disk_bytes() -> Option<(u64, u64)> {
    disk_bytes_in(&bounded::kernel_text("/proc/self/io").ok()?)
}

fn disk_bytes_in(io: &str) -> Option<(u64, u64)> {
    let of = |name: &str| {
        let mut lines = io.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value?.trim().parse().ok()
    };
    Some((of("read_bytes")?, of("write_bytes")?))
}

/// Returns true when this process was started with SIGHUP ignored.
///
/// Call it before installing a handler for SIGHUP.
pub fn ignores_hangup() -> bool {
    const HANGUP: u64 = 1;
    let status = bounded::kernel_text("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP != 0)
}

/// Returns true while this process has a controlling terminal. When the terminal is closed the
/// system takes it away before it sends SIGHUP.
pub fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// Returns the limit of open files of this process; `None` without a limit.
pub fn open_files_max() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current?;
    usize::try_from(limit).ok()
}

fn unreadable(path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unexpected content of {path}"),
    )
}

/// Returns the pages of address space and the resident pages.
fn pages(statm: &str) -> Option<(u64, u64)> {
    let mut fields = statm.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_pages() {
        assert_eq!(
            pages(
                "500 42 1 2 0 3 0
"
            ),
            Some((500, 42))
        );
        assert_eq!(pages("500"), None);
        assert_eq!(pages("no pages"), None);
    }

    #[test]
    fn bytes_of_disks_are_those_that_reached_them() {
        let io =
            "rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 7\n";
        assert_eq!(disk_bytes_in(io), Some((4096, 512)));
        assert_eq!(disk_bytes_in("read_bytes: 4096\n"), None);
        assert_eq!(disk_bytes_in("read_bytes: x\nwrite_bytes: 1\n"), None);
    }

    #[test]
    fn this_process_is_there() {
        let before = usage().unwrap();
        let files: Vec<_> = (0..5)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let after = usage().unwrap();
        assert!(before.resident_bytes > 100_000 && before.virtual_bytes >= before.resident_bytes);
        assert!(after.open_files >= files.len() as u64);
        assert!(after.cpu >= before.cpu);
    }
}
