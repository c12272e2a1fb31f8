//! The CPUs of the running broker's threads, under the name `server/cpus`, and its limits, as
//! `server/limits`.
//!
//! Workers that the kernel runs for `io_uring` refuse other CPUs than theirs and are left out; they
//! follow at the next start. Invariants: only a process of this program that serves is found, and
//! only if it is the only one; threads that have CPUs of their own (`shards.pinned`) are not moved,
//! because one value could not put them back.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use platform::bounded;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cpus::Cpus;

/// The name of the CPUs.
pub(super) const NAME: &str = "server/cpus";
/// The name of the limits.
pub(super) const LIMITS: &str = "server/limits";
/// Beginning of the names of the kernel's workers.
const WORKER: &str = "iou-";

fn failed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the process of the broker.
fn broker() -> io::Result<String> {
    let ours = std::fs::metadata("/proc/self/exe")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name
            .to_str()
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            continue;
        };
        // A process may end between two looks.
        let Ok(program) = std::fs::metadata(format!("/proc/{pid}/exe")) else {
            continue;
        };
        if (program.dev(), program.ino()) != (ours.dev(), ours.ino()) {
            continue;
        }
        let command = bounded::kernel_text(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if command.split('\0').nth(1) == Some("serve") {
            found.push(pid.to_owned());
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => Err(failed("several brokers run here")),
    }
}

/// Returns the threads of the broker that can be moved.
fn threads() -> io::Result<Vec<Pid>> {
    let broker = broker()?;
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{broker}/task"))? {
        let name = entry?.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| Pid::from_raw(name.parse().ok()?))
        else {
            continue;
        };
        let comm = format!("/proc/{broker}/task/{}/comm", pid.as_raw_nonzero());
        let comm = bounded::kernel_text(comm).unwrap_or_default();
        if !comm.starts_with(WORKER) {
            threads.push(pid);
        }
    }
    Ok(threads)
}

pub(super) fn limits() -> io::Result<String> {
    bounded::kernel_text(format!("/proc/{}/limits", broker()?))
}

pub(super) fn read() -> io::Result<String> {
    let mut all: Option<Cpus> = None;
    for thread in threads()? {
        let set = match sched_getaffinity(Some(thread)) {
            // It ended meanwhile.
            Err(rustix::io::Errno::SRCH) => continue,
            set => set?,
        };
        let cpus: Cpus = (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect();
        if all.as_ref().is_some_and(|all| *all != cpus) {
            return Err(failed(
                "its threads have CPUs of their own: process.cpus moves them at the next start",
            ));
        }
        all = Some(cpus);
    }
    all.map(|cpus| format!("{cpus}\n"))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

pub(super) fn write(text: &str) -> io::Result<()> {
    let cpus = Cpus::from_list(text).ok_or(io::ErrorKind::InvalidInput)?;
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    for thread in threads()? {
        match sched_setaffinity(Some(thread), &set) {
            // It ended meanwhile.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
