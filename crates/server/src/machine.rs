//! Facts about the machine that the settings need: name, cores, memory. Read once, at start.

use std::path::Path;

use platform::bounded;

/// Facts about the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Host name.
    pub host_name: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory that this process may use, in bytes.
    pub memory_bytes: usize,
}

impl Machine {
    /// Reads them from the operating system.
    pub fn read() -> Self {
        let host_name = line_of("/proc/sys/kernel/hostname").unwrap_or_else(|| "localhost".into());
        Self {
            host_name,
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: memory_bytes(),
        }
    }
}

fn line_of(path: impl AsRef<Path>) -> Option<String> {
    let text = bounded::kernel_text(path).ok()?;
    Some(text.lines().next()?.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Returns the lesser of the machine's memory and the limit of the control group.
///
/// The value `max` does not parse, so it is no limit.
fn memory_bytes() -> usize {
    const UNKNOWN: usize = 1 << 30;
    let total = line_of("/proc/meminfo").and_then(|line| {
        let kib: usize = line
            .strip_prefix("MemTotal:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()?;
        Some(kib.saturating_mul(1024))
    });
    let limit = line_of("/sys/fs/cgroup/memory.max").and_then(|line| line.parse().ok());
    total.unwrap_or(UNKNOWN).min(limit.unwrap_or(usize::MAX))
}
