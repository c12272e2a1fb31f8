//! Waiting for several futures at once.
//!
//! Unlike the libraries' `join_all`, [`join_all`] polls every future in order during the first poll, however many there
//! are: the order of appends of pipelined requests rests on that. [`join_in_turns`] begins a few at a time and lets
//! others have the thread in between: for requests that name as many things as they like.
//! Invariant: whatever the number, a future that is woken costs no look at the others (few are all looked at, which is
//! cheaper than finding out which).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// So many futures are polled all when one of them is woken.
const POLLED_TOGETHER_MAX: usize = 32;
/// So many futures are polled before others have the thread.
const POLLED_IN_A_TURN_MAX: usize = 64;

enum Slot<F: Future> {
    Waiting(Pin<Box<F>>),
    Done(F::Output),
}

impl<F: Future> Slot<F> {
    /// True when it is done.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Self::Waiting(future) = self {
            match future.as_mut().poll(context) {
                Poll::Ready(output) => *self = Self::Done(output),
                Poll::Pending => return false,
            }
        }
        true
    }
}

/// Completes with the results in the order of the futures.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots = waiting(futures);
    if slots.len() <= POLLED_TOGETHER_MAX {
        std::future::poll_fn(|context| {
            let mut all = true;
            for slot in &mut slots {
                all &= slot.poll(context);
            }
            if all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    } else {
        drive(&mut slots, usize::MAX).await;
    }
    outputs(slots)
}

/// As [`join_all`], but some at a time: between them others have the thread.
pub(crate) async fn join_in_turns<F: Future>(
    futures: impl IntoIterator<Item = F>,
) -> Vec<F::Output> {
    let mut slots = waiting(futures);
    drive(&mut slots, POLLED_IN_A_TURN_MAX).await;
    outputs(slots)
}

fn waiting<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<Slot<F>> {
    futures
        .into_iter()
        .map(|future| Slot::Waiting(Box::pin(future)))
        .collect()
}

fn outputs<F: Future>(slots: Vec<Slot<F>>) -> Vec<F::Output> {
    let done = |slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Waiting(_) => None,
    };
    slots.into_iter().filter_map(done).collect()
}

/// Polls each future once, in order, and then those that are woken; at most `turn` before others have the thread.
async fn drive<F: Future>(slots: &mut [Slot<F>], turn: usize) {
    let woken = Arc::new(Woken::default());
    let mut left = slots.len();
    let mut begun = 0;
    let mut wakers: Vec<Waker> = Vec::with_capacity(slots.len());
    std::future::poll_fn(move |context| {
        woken.lock().task = Some(context.waker().clone());
        for _ in 0..turn {
            let index = if begun < slots.len() {
                let woken = Arc::clone(&woken);
                let index = begun;
                wakers.push(Waker::from(Arc::new(WakeOne { index, woken })));
                begun += 1;
                Some(index)
            } else {
                woken.lock().queue.pop()
            };
            if left == 0 {
                return Poll::Ready(());
            }
            let Some(index) = index else {
                return Poll::Pending;
            };
            let (Some(slot), Some(waker)) = (slots.get_mut(index), wakers.get(index)) else {
                continue;
            };
            let was_waiting = matches!(slot, Slot::Waiting(_));
            if was_waiting && slot.poll(&mut Context::from_waker(waker)) {
                left -= 1;
            }
        }
        if left == 0 {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The futures that have something to say.
#[derive(Default)]
struct Woken(Mutex<Ready>);

#[derive(Default)]
struct Ready {
    queue: Vec<usize>,
    /// Who waits for them.
    task: Option<Waker>,
}

impl Woken {
    fn lock(&self) -> std::sync::MutexGuard<'_, Ready> {
        // Nothing in there can be half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct WakeOne {
    index: usize,
    woken: Arc<Woken>,
}

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut ready = self.woken.lock();
        ready.queue.push(self.index);
        let task = ready.task.take();
        drop(ready);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Completes as soon as one of the futures has.
pub(crate) async fn first<F: Future>(futures: impl IntoIterator<Item = F>) {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        let ready = futures
            .iter_mut()
            .any(|future| future.as_mut().poll(context).is_ready());
        if ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use platform::runtime::run_simulated;
    use platform::sync::oneshot;
    use platform::task;

    use super::*;

    /// Completes when told, and counts how often it is looked at.
    async fn told(receiver: oneshot::Receiver<usize>, looks: Rc<Cell<usize>>) -> usize {
        let mut receiver = std::pin::pin!(receiver);
        std::future::poll_fn(|context| {
            looks.set(looks.get() + 1);
            receiver.as_mut().poll(context)
        })
        .await
        .unwrap()
    }

    /// The answers come one by one, last first, each by itself.
    #[test]
    fn a_future_that_is_done_costs_no_look_at_the_others() {
        run_simulated(async {
            let looks = Rc::new(Cell::new(0));
            let count = 5_000;
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..count).map(|_| oneshot::channel()).unzip();
            let waits = receivers
                .into_iter()
                .map(|one| told(one, Rc::clone(&looks)));
            let joined = task::spawn(join_all(waits.collect::<Vec<_>>()));
            for (index, sender) in senders.into_iter().enumerate().rev() {
                task::yield_now().await;
                sender.send(index).unwrap();
            }
            assert_eq!(joined.await.unwrap(), (0..count).collect::<Vec<_>>());
            assert!(looks.get() <= 3 * count, "{} looks", looks.get());
        })
        .unwrap();
    }

    #[test]
    fn all_begin_in_order_at_once_or_a_few_at_a_time() {
        run_simulated(async {
            for (in_turns, seen_by_others) in [(false, 200), (true, POLLED_IN_A_TURN_MAX)] {
                let begun = Rc::new(RefCell::new(Vec::new()));
                let each = (0..200).map(|index| {
                    let begun = Rc::clone(&begun);
                    async move {
                        begun.borrow_mut().push(index);
                        task::yield_now().await;
                        index
                    }
                });
                let each: Vec<_> = each.collect();
                let joined = if in_turns {
                    task::spawn(join_in_turns(each))
                } else {
                    task::spawn(join_all(each))
                };
                let seen = {
                    let begun = Rc::clone(&begun);
                    task::spawn(async move { begun.borrow().len() })
                };
                assert_eq!(seen.await.unwrap(), seen_by_others);
                assert_eq!(joined.await.unwrap(), (0..200).collect::<Vec<_>>());
                assert_eq!(*begun.borrow(), (0..200).collect::<Vec<_>>());
            }
        })
        .unwrap();
    }
}
