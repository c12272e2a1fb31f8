//! Pauses in long loops, in which other tasks of the shard run.
//!
//! A shard is one thread: a loop over everything that a client has sent delays all other clients of
//! the shard. Such loops rest once every fixed number of items. What was checked before a rest may
//! not be true after it. Not here: loops whose order must not be interrupted, which are bounded
//! instead.

use platform::task::yield_now;

/// Items of a loop between two rests: the cheap work of handlers on them takes well below a
/// millisecond.
const ITEMS: u32 = 512;
/// The same number, for loops that work piece by piece.
pub(crate) const PIECE: usize = ITEMS as usize;

/// The weight in items of a decision on a part of a change, which reads settings and makes records
/// and an answer.
pub(crate) const DECISION: usize = 16;

const _: () = assert!(
    DECISION > 0 && DECISION < PIECE,
    "a decision is less than a piece"
);

/// The number of items until the next rest of a loop.
pub(crate) struct Rests(u32);

impl Rests {
    /// Begins a loop.
    pub(crate) const fn new() -> Self {
        Self(ITEMS)
    }

    /// Counts one item, and rests if that is due.
    pub(crate) async fn item(&mut self) {
        self.items(1).await;
    }

    /// Counts an item that weighs as much as `count` items.
    pub(crate) async fn items(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        assert!(self.0 > 0, "a rest that is due is taken");
        self.0 = self.0.saturating_sub(count);
        if self.0 == 0 {
            self.0 = ITEMS;
            yield_now().await;
        }
    }
}

/// Returns the results of `work` for all items, with rests.
pub(crate) async fn each<T, R>(
    items: impl IntoIterator<Item = T>,
    work: impl FnMut(T) -> R,
) -> Vec<R> {
    let items = items.into_iter();
    // Most requests are about few things, and need not keep what a rest needs.
    if items.size_hint().1.is_some_and(|most| most < PIECE) {
        return items.map(work).collect();
    }
    Box::pin(each_in_turns(items, work)).await
}

async fn each_in_turns<T, R>(
    items: impl Iterator<Item = T>,
    mut work: impl FnMut(T) -> R,
) -> Vec<R> {
    let mut results = Vec::with_capacity(items.size_hint().0);
    let mut rests = Rests::new();
    for item in items {
        results.push(work(item));
        rests.item().await;
    }
    results
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::{ITEMS, each};

    /// Returns the output of a future that does not rest.
    pub(crate) fn now<F: Future>(future: F) -> F::Output {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    /// Returns the output of a future, and how often it rested.
    pub(crate) fn rested<F: Future>(future: F) -> (usize, F::Output) {
        let mut context = Context::from_waker(Waker::noop());
        let mut future = std::pin::pin!(future);
        let mut rests = 0;
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return (rests, output),
                Poll::Pending => rests += 1,
            }
        }
    }

    #[test]
    fn a_short_loop_does_not_rest_and_a_long_one_does() {
        let few = usize::try_from(ITEMS - 1).unwrap();
        assert_eq!(now(each(0..few, |item| item)).len(), few);
        let mut context = Context::from_waker(Waker::noop());
        let mut many = std::pin::pin!(each(0..=few, |item| item));
        assert!(many.as_mut().poll(&mut context).is_pending());
    }
}
