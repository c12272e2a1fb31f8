//! Waiting for several futures at once.
//!
//! Unlike the libraries' `join_all`, every future is polled in order during the first poll, however many there are:
//! the order of appends of pipelined requests rests on that.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

enum Slot<F: Future> {
    Waiting(Pin<Box<F>>),
    Done(F::Output),
}

/// Completes with the results in the order of the futures.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<Slot<F>> = futures
        .into_iter()
        .map(|future| Slot::Waiting(Box::pin(future)))
        .collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for slot in &mut slots {
            if let Slot::Waiting(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Slot::Done(output),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let done = |slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Waiting(_) => None,
    };
    slots.into_iter().filter_map(done).collect()
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
