//! Pauses in long loops, in which other tasks of the shard run.
//!
//! A shard is one thread: a loop over everything that a client has sent delays all other clients of
//! the shard. Such loops rest after a fixed number of items, or earlier when those have taken long:
//! new memory may cost as much as the work on it. What was checked before a rest may not be true
//! after it. Not here: loops whose order must not be interrupted, which are bounded instead.

use std::time::Duration;

use platform::task::{Span, yield_now};

/// Most items of a loop between two rests.
const ITEMS: u32 = 512;
/// Time of a loop after which it rests. In a simulation work takes no time.
const TIME: Duration = Duration::from_micros(200);
/// Items between two readings of the clock.
const ITEMS_OF_A_READING: u32 = 32;
/// The same number, for loops that work piece by piece.
pub(crate) const PIECE: usize = ITEMS as usize;

/// The weight in items of a decision on a part of a change, which reads settings and makes records
/// and an answer.
pub(crate) const DECISION: usize = 16;

const _: () = assert!(
    DECISION > 0 && DECISION < PIECE,
    "a decision is less than a piece"
);

/// When a loop rests next.
pub(crate) struct Rests {
    /// Items until the next rest.
    left: u32,
    /// What `left` is when the clock is read next.
    reading: u32,
    /// The time that is left, since the clock was read first.
    span: Option<Span>,
}

const READ_FIRST: u32 = ITEMS - ITEMS_OF_A_READING;

impl Rests {
    /// Begins a loop.
    pub(crate) const fn new() -> Self {
        Self {
            left: ITEMS,
            reading: READ_FIRST,
            span: None,
        }
    }

    /// Counts one item, and rests if that is due.
    pub(crate) async fn item(&mut self) {
        self.items(1).await;
    }

    /// Counts an item that weighs as much as `count` items.
    pub(crate) async fn items(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        assert!(self.left > 0, "a rest that is due is taken");
        self.left = self.left.saturating_sub(count);
        if self.left <= self.reading && self.is_due() {
            *self = Self::new();
            yield_now().await;
        }
    }

    /// Reads the clock, and returns true when the loop rests now.
    fn is_due(&mut self) -> bool {
        self.reading = self.left.saturating_sub(ITEMS_OF_A_READING);
        let span = self.span.get_or_insert_with(|| Span::of(TIME));
        self.left == 0 || span.is_over()
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

    use platform::runtime::run_simulated;

    use platform::task::Span;

    use super::{ITEMS, PIECE, TIME, each};

    /// Returns the output of a future that does not rest.
    pub(crate) fn now<F: Future>(future: F) -> F::Output {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    /// Returns the output of a future, and how often it rested while its work took no time.
    pub(crate) fn rested<F: Future>(future: F) -> (usize, F::Output) {
        run_simulated(async { rested_by_clock(future) }).unwrap()
    }

    fn rested_by_clock<F: Future>(future: F) -> (usize, F::Output) {
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

    #[test]
    fn a_loop_rests_earlier_when_its_items_take_long() {
        let slow = |item| {
            let span = Span::of(TIME / 16);
            while !span.is_over() {}
            item
        };
        // Every item of the loop takes a part of the time, and the clock is read every 32.
        let (rests, results) = rested_by_clock(each(0..PIECE, slow));
        assert!(rests > 3, "{rests} rests");
        assert_eq!(results.len(), PIECE);
    }
}
