//! The executor of a shard: one thread, one current-thread tokio runtime, one set of local tasks.
//!
//! The simulated executor has a paused clock: time advances only when every task waits, and then
//! directly to the next deadline. Neither starts threads of its own, except tokio's blocking pool,
//! whose threads stay: a system that runs out of threads later makes work wait and does not end the
//! process.

use std::future::Future;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::task;
use crate::workers::{self, Workers};

/// Threads per shard that may block on the disk: several times the limit of one directory
/// (`os/lanes.rs`).
const BLOCKING_THREADS_MAX: usize = 96;

/// How long a thread of the blocking pool is kept that has nothing to do.
///
/// The pool panics if it has no thread and the system refuses one; with a thread, work waits for
/// it. So threads are kept for as long as a process runs.
pub const BLOCKING_THREADS_KEPT: Duration = Duration::from_hours(100 * 365 * 24);

/// Runs a shard on this thread until `future` completes, bound to a CPU if `core` names one.
///
/// Drops the remaining tasks.
pub fn run_shard<F: Future>(core: Option<usize>, future: F) -> io::Result<F::Output> {
    if let Some(core) = core {
        bind_to(core);
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREADS_KEPT)
        .on_thread_park(task::look)
        .build()?;
    begin_blocking_pool(&runtime);
    Workers::start()?.enter();
    task::begin();
    let output = LocalSet::new().block_on(&runtime, future);
    task::leave();
    workers::leave();
    Ok(output)
}

/// Makes the first thread of the blocking pool of `runtime`, which is built with
/// [`BLOCKING_THREADS_KEPT`].
///
/// From then on work waits for a thread when the system has no further one.
pub fn begin_blocking_pool(runtime: &Runtime) {
    drop(runtime.spawn_blocking(|| ()));
}

/// Runs a simulated shard: the same with a paused clock.
pub fn run_simulated<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(LocalSet::new().block_on(&runtime, future))
}

fn bind_to(core: usize) {
    let mut cores = CpuSet::new();
    let bound = if core < CpuSet::MAX_CPU {
        cores.set(core);
        sched_setaffinity(None, &cores)
    } else {
        Err(Errno::INVAL)
    };
    if let Err(error) = bound {
        tracing::warn!(core, %error, "cannot bind a shard to its processor");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn local_tasks_run_and_simulated_time_does_not_wait() {
        let day = Duration::from_hours(24);
        let answer = run_simulated(async move {
            let shared = Rc::new(20);
            let theirs = Rc::clone(&shared);
            let task = task::spawn(async move {
                tokio::time::sleep(day).await;
                *theirs + 1
            });
            *shared + task.await.unwrap()
        });
        assert_eq!(answer.unwrap(), 41);
    }

    #[test]
    fn a_shard_runs_where_it_is_told_or_elsewhere_if_that_is_refused() {
        assert_eq!(run_shard(Some(0), async { 1 }).unwrap(), 1);
        assert_eq!(run_shard(Some(100_000), async { 2 }).unwrap(), 2);
        assert_eq!(run_shard(None, async { 3 }).unwrap(), 3);
    }
}
