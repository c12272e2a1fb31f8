//! What this process uses of the machine, for metrics. Linux's `/proc/self`, read anew at each call.
//!
//! It does not cache: callers ask when somebody scrapes.

use std::io;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Use of resources at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usage {
    /// Processor time, user and system.
    pub cpu: Duration,
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
    /// Address space, in bytes.
    pub virtual_bytes: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// How many there may be; `None` without a bound.
    pub open_files_max: Option<u64>,
}

/// Looks at this process.
pub fn usage() -> io::Result<Usage> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let (virtual_pages, resident_pages) =
        pages(&statm).ok_or_else(|| unreadable("/proc/self/statm"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| unreadable("/proc/self/stat"))?;
    let page_bytes = page_size() as u64;
    Ok(Usage {
        cpu: Duration::from_millis(ticks * 1000 / clock_ticks_per_second().max(1)),
        resident_bytes: resident_pages * page_bytes,
        virtual_bytes: virtual_pages * page_bytes,
        // The directory is open itself while it is counted.
        open_files: (std::fs::read_dir("/proc/self/fd")?.count() as u64).saturating_sub(1),
        open_files_max: getrlimit(Resource::Nofile).current,
    })
}

fn unreadable(path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unexpected content of {path}"),
    )
}

/// User and system ticks: the 14th and 15th field. The second is a name in parentheses and may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Pages of address space and pages resident.
fn pages(statm: &str) -> Option<(u64, u64)> {
    let mut fields = statm.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("nonsense"), None);
        assert_eq!(pages("500 42 1 2 0 3 0\n"), Some((500, 42)));
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
