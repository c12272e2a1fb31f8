//! The CPUs of this process: which it may use, and confining it to some of them.
//!
//! The process is confined before it has threads. Each thread inherits the CPUs of the thread that
//! starts it, so nothing else needs the setting, except the kernel's own workers of a ring
//! (`os/ring.rs`). Not here: binding a shard to its CPU (`runtime.rs`).

use std::io;

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs that the first thread may use, in ascending order.
///
/// These are the CPUs of the process, even where the calling thread is bound to one.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Some(getpid()))?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Confines this thread, and the threads that it starts later, to these CPUs.
///
/// On an error nothing changes.
pub fn confine(cpus: &[usize]) -> io::Result<()> {
    let before = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(missing(&[*cpu]));
        }
        wanted.set(*cpu);
    }
    let set = sched_setaffinity(None, &wanted);
    let now = sched_getaffinity(None)?;
    // The kernel accepts the CPUs that exist and ignores the others without an error.
    let lacking: Vec<usize> = cpus
        .iter()
        .copied()
        .filter(|cpu| set.is_err() || !now.is_set(*cpu))
        .collect();
    if lacking.is_empty() && set.is_ok() {
        return Ok(());
    }
    sched_setaffinity(None, &before)?;
    Err(missing(&lacking))
}

fn missing(cpus: &[usize]) -> io::Error {
    let text = format!("this process may not use CPU {cpus:?}, or there is none");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_stay_where_their_parent_was_confined() {
        let first = allowed().unwrap()[0];
        // A separate thread, so that the threads of other tests are not confined.
        let inherited = std::thread::spawn(move || {
            confine(&[first]).unwrap();
            let child = std::thread::spawn(|| sched_getaffinity(None).unwrap());
            child.join().unwrap()
        });
        let set = inherited.join().unwrap();
        assert!(set.is_set(first) && set.count() == 1);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_and_nothing_is_changed() {
        let first = allowed().unwrap()[0];
        std::thread::spawn(move || {
            let before = sched_getaffinity(None).unwrap();
            for wrong in [vec![first, CpuSet::MAX_CPU - 1], vec![100_000], vec![]] {
                assert!(confine(&wrong).is_err(), "{wrong:?}");
            }
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
