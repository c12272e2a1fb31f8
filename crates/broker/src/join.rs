//! Waiting for several futures at once.
//!
//! Unlike the `join_all` of libraries, the first poll polls every future in order, however many
//! there are: the order of appends of pipelined requests depends on that. Later polls reach only
//! the futures that were woken, and their neighbours: each of the ten thousand partitions of a
//! request completes at a different time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Number of futures that share a waker.
const NEIGHBOURS: usize = 32;

enum JoinSlot<F: Future> {
    Waiting(Pin<Box<F>>),
    Done(F::Output),
}

/// Completes with the results in the order of the futures.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    join_boxed(futures.into_iter().map(Box::pin)).await
}

/// Does the same for futures that are boxed already.
pub(crate) async fn join_boxed<F: Future>(
    mut futures: impl Iterator<Item = Pin<Box<F>>>,
) -> Vec<F::Output> {
    let Some(first) = futures.next() else {
        return Vec::new();
    };
    let Some(second) = futures.next() else {
        // Most requests are about one partition.
        return vec![first.await];
    };
    let all = [first, second].into_iter().chain(futures);
    let mut slots: Vec<JoinSlot<F>> = all.map(JoinSlot::Waiting).collect();
    if slots.len() <= NEIGHBOURS {
        std::future::poll_fn(|context| poll_all(&mut slots, context)).await;
    } else {
        let mut bells: Vec<Bell> = Vec::new();
        let chunks = slots.len().div_ceil(NEIGHBOURS);
        bells.resize_with(chunks, Bell::default);
        std::future::poll_fn(|context| {
            let mut waiting = false;
            for (slots, bell) in slots.chunks_mut(NEIGHBOURS).zip(&mut bells) {
                waiting |= bell.answer(context, |context| poll_all(slots, context));
            }
            if waiting {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
    // A future left out would shift the results of those behind it.
    let done = |slot| match slot {
        JoinSlot::Done(output) => output,
        JoinSlot::Waiting(_) => unreachable!("all futures have ended"),
    };
    slots.into_iter().map(done).collect()
}

fn poll_all<F: Future>(slots: &mut [JoinSlot<F>], context: &mut Context<'_>) -> Poll<()> {
    let mut waiting = false;
    for slot in slots {
        if let JoinSlot::Waiting(future) = slot {
            match future.as_mut().poll(context) {
                Poll::Ready(output) => *slot = JoinSlot::Done(output),
                Poll::Pending => waiting = true,
            }
        }
    }
    if waiting {
        Poll::Pending
    } else {
        Poll::Ready(())
    }
}

/// The shared waker of neighbours.
#[derive(Default)]
enum Bell {
    /// Not polled yet.
    #[default]
    New,
    Hung(Waker, Arc<BellWaker>),
    Done,
}

struct BellWaker {
    rung: AtomicBool,
    /// The task that waits for all futures.
    task: Waker,
}

impl Wake for BellWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl Bell {
    /// Polls the neighbours if one of them was woken, or if the waiting task has changed; returns
    /// true while they wait.
    fn answer(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<()>,
    ) -> bool {
        match self {
            Self::Done => return false,
            Self::Hung(_, rung) if rung.task.will_wake(context.waker()) => {
                if !rung.rung.swap(false, Ordering::AcqRel) {
                    return true;
                }
            }
            Self::New | Self::Hung(..) => {
                let rung = Arc::new(BellWaker {
                    rung: AtomicBool::new(false),
                    task: context.waker().clone(),
                });
                *self = Self::Hung(Waker::from(Arc::clone(&rung)), rung);
            }
        }
        let Self::Hung(waker, _) = self else {
            unreachable!("a bell hangs while its neighbours wait");
        };
        let waiting = poll(&mut Context::from_waker(waker)).is_pending();
        if !waiting {
            *self = Self::Done;
        }
        waiting
    }
}

/// Completes when all futures have, or as soon as one completes with a result for which `goes_on`
/// is false. Returns the results there are.
pub(crate) async fn all_while<F: Future>(
    futures: impl IntoIterator<Item = F>,
    goes_on: impl Fn(&F::Output) -> bool,
) -> Vec<Option<F::Output>> {
    let slots = futures.into_iter().map(Box::pin).map(JoinSlot::Waiting);
    let mut slots: Vec<JoinSlot<F>> = slots.collect();
    std::future::poll_fn(|context| {
        let all = poll_all(&mut slots, context);
        let over = slots
            .iter()
            .any(|slot| matches!(slot, JoinSlot::Done(output) if !goes_on(output)));
        if over { Poll::Ready(()) } else { all }
    })
    .await;
    let done = |slot| match slot {
        JoinSlot::Done(output) => Some(output),
        JoinSlot::Waiting(_) => None,
    };
    slots.into_iter().map(done).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use platform::sync::oneshot;

    use super::*;

    /// A task that polls, and knows whether it was woken since it was last asked.
    struct Task(Arc<WakeFlag>);

    #[derive(Default)]
    struct WakeFlag(AtomicBool);

    impl Wake for WakeFlag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    impl Task {
        fn new() -> Self {
            Self(Arc::default())
        }

        fn was_woken(&self) -> bool {
            self.0.0.swap(false, Ordering::Relaxed)
        }

        fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
            let waker = Waker::from(Arc::clone(&self.0));
            future.poll(&mut Context::from_waker(&waker))
        }
    }

    #[test]
    fn none_one_and_two_give_their_results_in_order() {
        for count in 0..3_usize {
            let (ends, futures): (Vec<_>, Vec<_>) = (0..count).map(|_| oneshot::channel()).unzip();
            let mut all = std::pin::pin!(join_all(futures));
            let task = Task::new();
            for (index, end) in ends.into_iter().enumerate().rev() {
                assert!(task.poll(all.as_mut()).is_pending());
                end.send(index).unwrap();
                assert!(task.was_woken());
            }
            let Poll::Ready(results) = task.poll(all.as_mut()) else {
                panic!("{count} have ended");
            };
            assert!(results.into_iter().map(Result::unwrap).eq(0..count));
        }
    }

    #[test]
    fn all_while_ends_with_the_first_that_does_not_go_on() {
        for last in 0..3_usize {
            let (ends, futures): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
            let goes_on = |output: &Result<usize, _>| output != &Ok(last);
            let mut all = std::pin::pin!(all_while(futures, goes_on));
            let task = Task::new();
            let mut ends = ends.into_iter();
            for (index, end) in ends.by_ref().take(last + 1).enumerate() {
                assert!(task.poll(all.as_mut()).is_pending());
                end.send(index).unwrap();
            }
            let Poll::Ready(results) = task.poll(all.as_mut()) else {
                panic!("{last} has ended it");
            };
            let expected = (0..3).map(|index| (index <= last).then_some(Ok(index)));
            assert!(results.into_iter().eq(expected), "{last}");
            assert_eq!(ends.len(), 2 - last);
        }
    }

    #[test]
    fn all_begin_in_order_and_each_end_polls_its_neighbours_only() {
        const COUNT: usize = 10_000;
        let polls = Rc::new(Cell::new(0_usize));
        let begun = Rc::new(RefCell::new(Vec::new()));
        let (ends, futures): (Vec<_>, Vec<_>) = (0..COUNT)
            .map(|index| {
                let (end, ended) = oneshot::channel();
                let (polls, begun) = (Rc::clone(&polls), Rc::clone(&begun));
                let future = async move {
                    begun.borrow_mut().push(index);
                    let mut ended = std::pin::pin!(ended);
                    std::future::poll_fn(|context| {
                        polls.set(polls.get() + 1);
                        ended.as_mut().poll(context)
                    })
                    .await
                    .unwrap()
                };
                (end, future)
            })
            .unzip();
        let mut all = std::pin::pin!(join_all(futures));
        let (first, task) = (Task::new(), Task::new());
        assert!(first.poll(all.as_mut()).is_pending());
        assert!(begun.borrow().iter().copied().eq(0..COUNT));
        // Another task takes over: every bell must learn its waker.
        assert!(task.poll(all.as_mut()).is_pending());
        polls.set(0);
        let last = ends.len() - 1;
        for (index, end) in ends.into_iter().enumerate() {
            end.send(index).unwrap();
            assert!(task.was_woken());
            let polled = task.poll(all.as_mut());
            match polled {
                Poll::Pending => assert!(index < last),
                Poll::Ready(results) => assert!(results.into_iter().eq(0..COUNT)),
            }
        }
        assert!(polls.get() <= COUNT * NEIGHBOURS, "{} polls", polls.get());
        assert!(!first.was_woken());
    }
}
