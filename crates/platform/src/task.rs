//! Tasks of a shard, which stay on its thread and need not be `Send`.
//!
//! Invariant: usable only inside [`crate::runtime::run_shard`] or
//! [`crate::runtime::run_simulated`].

mod heavy;
mod slices;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

pub use heavy::{Heavy, free_elsewhere};
pub use slices::{Sliced, rest_if_over, sliced};
pub(crate) use slices::{begin, leave, look};
use tokio::sync::oneshot;
pub use tokio::task::{JoinError, JoinHandle, LocalSet, spawn_local as spawn, yield_now};
pub use tokio::time::error::Elapsed;
use tokio::time::{Duration, Instant};
pub use tokio::time::{timeout, timeout_at};

use crate::workers;

/// A span of time after which long work yields to other tasks.
#[derive(Clone, Copy, Debug)]
pub struct Span(Instant);

impl Span {
    /// Starts a span now.
    pub fn of(length: Duration) -> Self {
        Self(Instant::now() + length)
    }

    /// Returns true when the span is over.
    ///
    /// Never in a simulation, whose time does not advance while a task works.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// Runs two futures beside each other, and returns what both of them have returned.
pub async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(|context| {
        if of_a.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            of_a = Some(output);
        }
        if of_b.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            of_b = Some(output);
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            unfinished => {
                (of_a, of_b) = unfinished;
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs long work that needs nothing of the shard on another thread; `None` if the process is
/// ending.
pub async fn elsewhere<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (answer, answered) = oneshot::channel();
    // The caller may not wait for it any more.
    let job = Box::new(move || drop(answer.send(work())));
    if let Err(job) = workers::run(job) {
        // The clock of a simulation stands still meanwhile.
        tokio::task::spawn_blocking(job).await.ok()?;
    }
    answered.await.ok()
}

/// Does the same, and returns how long the work took once it had begun.
///
/// In a simulation that is nothing.
pub async fn elsewhere_timed<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<(R, Duration)> {
    elsewhere(move || {
        let begun = Instant::now();
        let done = work();
        (done, begun.elapsed())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::run_shard;

    #[test]
    fn work_elsewhere_is_timed_from_its_beginning() {
        const WORK: Duration = Duration::from_millis(2);
        run_shard(None, async {
            let asked = Instant::now();
            let work = || {
                let begun = Instant::now();
                while begun.elapsed() < WORK {
                    std::hint::spin_loop();
                }
                7
            };
            let (done, taken) = elsewhere_timed(work).await.unwrap();
            assert_eq!(done, 7);
            assert!(WORK <= taken && taken <= asked.elapsed(), "{taken:?}");
        })
        .unwrap();
    }
}
