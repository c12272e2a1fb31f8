//! The threads of a shard for long work that needs nothing of it.
//!
//! The allocator keeps what was freed for the thread that allocated it. Work that takes turns on
//! many threads leaves as much behind on each of them as it ever took. So these threads are few,
//! and work goes to the one that worked last.
//! Invariants: a job runs once, and begins in the order in which jobs come; the threads are made
//! when the shard starts, so that no job meets a system without threads, and end after it; a
//! thread that serves requests comes before them where processors are few.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

mod slice;

use rustix::process::{getpriority_process, setpriority_process};

/// Threads of a shard. More jobs than these wait.
const THREADS: usize = 6;

/// By how much the threads are nicer than their shard: a job beside a busy shard has a quarter of a
/// processor, as large requests have of a shard's thread, and the shard does not wait for it.
const NICER_BY: i32 = 5;

/// The slice of the threads: of two that are ready, the scheduler (EEVDF, Linux 6.12) lets the one
/// with the shorter slice run at once. With equal slices a shard that is woken waits until the job
/// has had its own, which is a tick of 4 ms where the kernel is not preempted.
const SLICE: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static OF_THIS_SHARD: RefCell<Option<Workers>> = const { RefCell::new(None) };
}

/// The threads; dropping this ends them when they have done what they do.
pub(crate) struct Workers(Arc<Mutex<Jobs>>);

#[derive(Default)]
struct Jobs {
    // Bounded: jobs of requests, whose number `many.rs` and queues of networks bound, one of each
    // compaction, and large buffers that are freed.
    waiting: VecDeque<Job>,
    /// The threads without a job, the one that worked last at the end.
    // Bounded: `THREADS`.
    idle: Vec<Sender<Job>>,
    is_over: bool,
}

impl Workers {
    /// Makes the threads.
    pub(crate) fn start() -> io::Result<Self> {
        let workers = Self(Arc::default());
        for _ in 0..THREADS {
            let (give, given) = channel();
            lock(&workers.0).idle.push(give.clone());
            let jobs = Arc::clone(&workers.0);
            thread::Builder::new()
                .name("worker".to_owned())
                .spawn(move || {
                    stand_back();
                    work(&jobs, &give, &given);
                })?;
        }
        Ok(workers)
    }

    /// Makes these the threads to which [`run`] gives the jobs of this thread, until it ends.
    pub(crate) fn enter(self) {
        OF_THIS_SHARD.set(Some(self));
    }
}

/// Ends the threads of this shard.
pub(crate) fn leave() {
    OF_THIS_SHARD.take();
}

/// Gives a job to the threads of this shard; gives it back where there are none, as in a
/// simulation.
pub(crate) fn run(job: Job) -> Result<(), Job> {
    let jobs = |workers: &RefCell<Option<Workers>>| {
        let workers = workers.borrow();
        workers.as_ref().map(|workers| Arc::clone(&workers.0))
    };
    // A thread that ends has no such place any more.
    let Ok(Some(jobs)) = OF_THIS_SHARD.try_with(jobs) else {
        return Err(job);
    };
    let mut jobs = lock(&jobs);
    let Some(idle) = jobs.idle.pop() else {
        jobs.waiting.push_back(job);
        return Ok(());
    };
    assert!(
        jobs.waiting.is_empty(),
        "no job waits while a thread is idle"
    );
    drop(jobs);
    idle.send(job).map_err(|unsent| unsent.0)
}

/// Lets the threads that serve requests come before this one. A refusal costs order, not work.
fn stand_back() {
    if let Ok(nice) = getpriority_process(None) {
        let _ = setpriority_process(None, nice.saturating_add(NICER_BY));
    }
    let _ = slice::set(SLICE);
}

/// Does jobs until the shard is over.
fn work(jobs: &Mutex<Jobs>, give: &Sender<Job>, given: &Receiver<Job>) {
    while let Ok(job) = given.recv() {
        let mut next = Some(job);
        while let Some(job) = next.take() {
            // A job that panics has ended, and its asker hears of it; the thread goes on.
            drop(catch_unwind(AssertUnwindSafe(job)));
            let mut jobs = lock(jobs);
            if jobs.is_over {
                return;
            }
            next = jobs.waiting.pop_front();
            if next.is_none() {
                jobs.idle.push(give.clone());
                assert!(jobs.idle.len() <= THREADS, "a thread is idle once");
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut jobs = lock(&self.0);
        jobs.is_over = true;
        jobs.waiting.clear();
        // Wakes the threads that wait.
        for idle in jobs.idle.drain(..) {
            drop(idle.send(Box::new(|| ())));
        }
    }
}

fn lock(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    // Nothing under the lock panics half-way.
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_beyond_the_threads_wait_in_order_and_all_run_once() {
        Workers::start().unwrap().enter();
        let (done, results) = channel();
        let (open, opened) = channel::<()>();
        let opened = Arc::new(Mutex::new(opened));
        for number in 0..100 {
            let (done, opened) = (done.clone(), Arc::clone(&opened));
            let job: Job = Box::new(move || {
                // The first jobs keep all threads until the last one is given.
                drop(opened.lock().map(|opened| opened.recv()));
                let _ = done.send(number);
            });
            assert!(run(job).is_ok());
        }
        drop(open);
        let mut all: Vec<_> = results.iter().take(100).collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        leave();
    }

    #[test]
    fn one_job_after_the_other_runs_on_one_thread() {
        Workers::start().unwrap().enter();
        let mut ids = Vec::new();
        for _ in 0..50 {
            let (done, result) = channel();
            let job: Job = Box::new(move || done.send(thread::current().id()).unwrap());
            assert!(run(job).is_ok());
            ids.push(result.recv().unwrap());
            // The thread is idle again before the next job.
            while OF_THIS_SHARD
                .with_borrow(|workers| lock(&workers.as_ref().unwrap().0).idle.len() < THREADS)
            {
                thread::yield_now();
            }
        }
        assert!(ids.iter().all(|id| *id == ids[0]));
        leave();
    }

    #[test]
    fn jobs_stand_back_behind_the_shard() {
        let of_this_thread = || getpriority_process(None).unwrap();
        let shard = of_this_thread();
        Workers::start().unwrap().enter();
        let (done, result) = channel();
        let job: Job = Box::new(move || done.send(of_this_thread()).unwrap());
        assert!(run(job).is_ok());
        assert_eq!(result.recv().unwrap(), (shard + NICER_BY).min(19));
        leave();
    }

    #[test]
    fn without_a_shard_a_job_comes_back() {
        assert!(run(Box::new(|| ())).is_err());
    }
}
