//! The CPUs of the kernel threads that poll queues of cards, under names like files:
//! `napi/DEVICE/0`, in the order of their numbers, which is that of the queues.
//!
//! The kernel recreates a thread, with another number and on all CPUs, whenever the device comes up
//! or its channels change; so each use looks it up. Invariant: only kernel threads are found,
//! whatever name a program gives itself.

use std::io;

use platform::bounded;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cpus::Cpus;

/// Prefix of these names.
pub(super) const PREFIX: &str = "napi/";
/// `PF_KTHREAD` in the flags of `/proc/PID/stat`.
const OF_KERNEL: u64 = 0x0020_0000;

/// Returns the threads of a device, by number.
fn of_device(device: &str) -> io::Result<Vec<Pid>> {
    let mut found: Vec<(u64, Pid)> = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(comm) = bounded::kernel_text(format!("/proc/{pid}/comm")) else {
            continue;
        };
        let number = comm
            .trim()
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix(device)?.strip_prefix('-'))
            .and_then(|number| number.parse().ok());
        if let (Some(number), Some(pid)) = (number, Pid::from_raw(pid))
            && is_of_kernel(pid)
        {
            found.push((number, pid));
        }
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, pid)| pid).collect())
}

fn is_of_kernel(pid: Pid) -> bool {
    let stat = bounded::kernel_text(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| {
        let flags = rest.split_ascii_whitespace().nth(6)?;
        flags.parse::<u64>().ok()
    });
    flags.is_some_and(|flags| flags & OF_KERNEL != 0)
}

fn thread(name: &str) -> io::Result<Pid> {
    let (device, at) = name.rsplit_once('/').ok_or(io::ErrorKind::NotFound)?;
    let at: usize = at.parse().map_err(|_| io::ErrorKind::NotFound)?;
    let found = of_device(device)?.get(at).copied();
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

pub(super) fn read(name: &str) -> io::Result<String> {
    let set = sched_getaffinity(Some(thread(name)?))?;
    let cpus: Cpus = (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect();
    Ok(format!("{cpus}\n"))
}

pub(super) fn write(name: &str, text: &str) -> io::Result<()> {
    let cpus = Cpus::from_list(text).ok_or(io::ErrorKind::InvalidInput)?;
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(Some(thread(name)?), &set)?)
}

pub(super) fn list(device: &str) -> io::Result<Vec<String>> {
    let threads = of_device(device)?;
    Ok((0..threads.len()).map(|at| at.to_string()).collect())
}
