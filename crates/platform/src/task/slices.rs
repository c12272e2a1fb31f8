//! Slices of a shard's time: ready sockets and disks are seen soon, however many tasks are ready.
//!
//! The executor runs up to 61 tasks before it looks at sockets and disks. When many clients ask for
//! much at a time, that is many milliseconds, and a request passes the queue of tasks at each of
//! its steps. A sliced task runs only while the slice lasts; afterwards it waits until the executor
//! has looked, and comes after the tasks which that look has woken.
//!
//! Invariants: a task that has waited for [`WAITS_MAX`] slices runs even in one that is over.
//! Therefore every task goes on, and waiting costs at most this number of polls, whatever the
//! number of ready tasks. A slice begins with the first sliced task after the executor has looked.
//! Outside [`crate::runtime::run_shard`], so also in a simulation, slices never end. Not here: the
//! length of one poll, which its author bounds.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::yield_now;
use tokio::time::Instant;

/// After this time sockets and disks come first.
const SLICE: Duration = Duration::from_micros(300);

/// Slices for which a task waits before it may run in one that is over.
const WAITS_MAX: u8 = 16;

/// The slice of a thread that runs now.
#[derive(Clone, Copy)]
enum Slice {
    /// The thread is no shard's, or a simulated one.
    Endless,
    /// The executor has looked, and no sliced task has run since.
    Fresh,
    /// Tasks run since this moment.
    Begun(Instant),
    /// Tasks wait.
    Over,
}

thread_local! {
    static SLICE_OF_THREAD: Cell<Slice> = const { Cell::new(Slice::Endless) };
}

/// Ends all slices of this thread, which runs a shard from now on.
pub(crate) fn begin() {
    SLICE_OF_THREAD.set(Slice::Fresh);
}

/// Notes that the shard of this thread ends.
pub(crate) fn leave() {
    SLICE_OF_THREAD.set(Slice::Endless);
}

/// Notes that the executor looks at sockets and disks now.
pub(crate) fn look() {
    if !matches!(SLICE_OF_THREAD.get(), Slice::Endless) {
        SLICE_OF_THREAD.set(Slice::Fresh);
    }
}

/// Returns true while the slice lasts; the first call of a slice begins it.
fn lasts() -> bool {
    match SLICE_OF_THREAD.get() {
        Slice::Endless => true,
        Slice::Fresh => {
            SLICE_OF_THREAD.set(Slice::Begun(Instant::now()));
            true
        }
        Slice::Begun(since) if since.elapsed() < SLICE => true,
        Slice::Begun(_) => {
            SLICE_OF_THREAD.set(Slice::Over);
            // The executor wakes in this order what waits for it: first the look, then the tasks.
            after_the_look(marker());
            false
        }
        Slice::Over => false,
    }
}

/// Wakes `waker` when the executor has looked at sockets and disks.
fn after_the_look(waker: &Waker) {
    let yielding = pin!(yield_now());
    let polled = yielding.poll(&mut Context::from_waker(waker));
    debug_assert!(polled.is_pending(), "it yields once");
}

/// A waker that begins a fresh slice.
fn marker() -> &'static Waker {
    struct Look;

    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            look();
        }
    }

    static MARKER: OnceLock<Waker> = OnceLock::new();
    MARKER.get_or_init(|| Waker::from(Arc::new(Look)))
}

/// Waits until the executor has looked at sockets and disks, if the slice is over.
pub async fn rest_if_over() {
    if !lasts() {
        yield_now().await;
    }
}

/// Runs `work` in slices: for the tasks of clients.
pub fn sliced<F: Future>(work: F) -> Sliced<F> {
    Sliced { work, waits: 0 }
}

pin_project! {
    /// A task of a client.
    pub struct Sliced<F> {
        #[pin]
        work: F,
        // The slices for which it has waited.
        waits: u8,
    }
}

impl<F: Future> Future for Sliced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if lasts() || *this.waits >= WAITS_MAX {
            *this.waits = 0;
            return this.work.poll(cx);
        }
        // Bounded: `WAITS_MAX`
        *this.waits += 1;
        after_the_look(cx.waker());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::runtime::{run_shard, run_simulated};
    use crate::task;

    /// Is ready `times` times, each time with work of a third of a slice.
    async fn works(times: usize, done: Rc<Cell<usize>>) {
        let mut left = times;
        poll_fn(|cx| {
            // The clock of a simulation stands still.
            let since = std::time::Instant::now();
            while since.elapsed() < SLICE / 3 {}
            done.set(done.get() + 1);
            left -= 1;
            if left == 0 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[test]
    fn a_ready_socket_does_not_wait_for_all_tasks_that_are_ready() {
        const TASKS: usize = 100;
        const TIMES: usize = 4;
        let done = Rc::new(Cell::new(0));
        let seen = run_shard(None, async {
            let (mut near, mut far) = tokio::net::UnixStream::pair().unwrap();
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| task::spawn(sliced(works(TIMES, Rc::clone(&done)))))
                .collect();
            let reader = task::spawn(sliced({
                let done = Rc::clone(&done);
                async move {
                    near.read_u8().await.unwrap();
                    done.get()
                }
            }));
            // The reader waits by now, and the tasks are ready again.
            yield_now().await;
            let before = done.get();
            far.write_u8(1).await.unwrap();
            let seen = reader.await.unwrap() - before;
            for task in tasks {
                task.await.unwrap();
            }
            seen
        });
        assert!(seen.unwrap() < TASKS / 2, "tasks that ran before");
        assert_eq!(done.get(), TASKS * TIMES, "every task goes on to its end");
    }

    #[test]
    fn a_task_is_not_polled_for_every_other_task_that_is_ready() {
        const TASKS: usize = 200;
        let (done, polls) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        run_shard(None, async {
            let counted = |_| {
                let (polls, mut work) = (
                    Rc::clone(&polls),
                    Box::pin(sliced(works(1, Rc::clone(&done)))),
                );
                task::spawn(poll_fn(move |cx| {
                    polls.set(polls.get() + 1);
                    work.as_mut().poll(cx)
                }))
            };
            let tasks: Vec<_> = (0..TASKS).map(counted).collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
        .unwrap();
        assert_eq!(done.get(), TASKS);
        let most = TASKS * (usize::from(WAITS_MAX) + 1);
        assert!(
            (TASKS + 1..=most).contains(&polls.get()),
            "{} polls",
            polls.get()
        );
    }

    #[test]
    fn a_simulated_slice_does_not_end() {
        let done = Rc::new(Cell::new(0));
        let all = Rc::clone(&done);
        run_simulated(async move {
            let first = task::spawn(sliced(works(10, Rc::clone(&all))));
            let second = task::spawn(sliced(async move { all.get() }));
            first.await.unwrap();
            assert_eq!(second.await.unwrap(), 1, "they take turns");
        })
        .unwrap();
        assert_eq!(done.get(), 10);
    }
}
