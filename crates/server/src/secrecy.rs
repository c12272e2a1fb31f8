//! Keeps the memory of a process that holds secrets to itself: the kernel writes no core of it, and
//! other processes of its user cannot read its memory or attach to it.
//!
//! What that costs: no core to look at after a crash (the log has the stack), and `gdb`, `strace`
//! and `perf -p` need root. The files in `/proc/self` belong to root from then on, so that the
//! process may not open its own `/proc/self/io`: it is opened before. The watchdog's traces are
//! made inside of the process and go on. Not here: which settings are secrets (`config`).

use std::fs::File;
use std::io::{self, Seek as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use platform::bounded;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// More than the kernel writes.
const IO_BYTES_MAX: u64 = 4096;

/// What this process has read and written, as it was opened when that was allowed.
static IO: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// Asks the kernel to write no core of this process.
pub(crate) fn leave_no_core() {
    IO.get_or_init(|| File::open("/proc/self/io").ok().map(Mutex::new));
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a crash may write a core with keys and passwords in it");
    }
}

/// Returns the bytes that this process has caused to be read from and written to disks, if the
/// kernel counts them.
pub(crate) fn disk_bytes() -> Option<(u64, u64)> {
    match IO.get() {
        Some(Some(file)) => {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            counts(&text(&mut file).ok()?)
        }
        Some(None) | None => platform::process::disk_bytes(),
    }
}

fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let bytes = bounded::stream(&*file, IO_BYTES_MAX)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn counts(io: &str) -> Option<(u64, u64)> {
    let of = |name: &str| {
        let mut lines = io.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value?.trim().parse().ok()
    };
    Some((of("read_bytes")?, of("write_bytes")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_again_and_again_from_a_file_that_stays_open() {
        let Ok(mut file) = File::open("/proc/self/io") else {
            // A kernel without these counts.
            return;
        };
        for _ in 0..2 {
            assert!(counts(&text(&mut file).unwrap()).is_some());
        }
        assert_eq!(counts("read_bytes: 4096\n"), None);
        assert_eq!(counts("read_bytes: 1\nwrite_bytes: 2\n"), Some((1, 2)));
    }
}
