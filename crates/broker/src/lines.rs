//! Keeping the order of a connection's appends when one of its requests begins in pieces.
//!
//! Requests of one connection overlap, and what each begins in its first poll keeps their order. One with so much to begin
//! that others of the shard must have their turn in between takes a place in its connection's line; requests behind it
//! begin when it has begun everything. A connection without such a request has no line, and costs one comparison.
//! Invariant: who has a place waits for nobody but those before it, and gives it up when it is dropped.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use platform::sync::oneshot;

/// The lines of a shard, by the address of the connection's other end: as many as there are connections at most.
#[derive(Default)]
pub(crate) struct Lines(Rc<RefCell<All>>);

#[derive(Default)]
struct All {
    // Bounded: connections that are let in, `max.connections`.
    by_address: BTreeMap<SocketAddr, Last>,
    /// Places that there have been.
    places: u64,
}

/// The end of a line.
struct Last {
    place: u64,
    /// Ends when that place is given up.
    gone: oneshot::Receiver<()>,
}

/// A place in a line.
pub(crate) struct Place {
    lines: Rc<RefCell<All>>,
    line: SocketAddr,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    /// Told to the one behind by being dropped.
    _gone: oneshot::Sender<()>,
}

impl Lines {
    /// A place behind those who are in the line; none if nobody is.
    pub(crate) fn behind(&self, line: SocketAddr) -> Option<Box<Place>> {
        let is_there = {
            let lines = &self.0.borrow().by_address;
            !lines.is_empty() && lines.contains_key(&line)
        };
        is_there.then(|| Box::new(self.enter(line)))
    }

    /// The last place of the line.
    pub(crate) fn enter(&self, line: SocketAddr) -> Place {
        let mut lines = self.0.borrow_mut();
        lines.places = lines.places.wrapping_add(1);
        let number = lines.places;
        let (sender, gone) = oneshot::channel();
        let last = Last {
            place: number,
            gone,
        };
        let before = lines.by_address.insert(line, last);
        Place {
            lines: Rc::clone(&self.0),
            line,
            number,
            before: before.map(|last| last.gone),
            _gone: sender,
        }
    }
}

impl Place {
    /// Waits for those before.
    pub(crate) async fn turn(&mut self) {
        if let Some(before) = self.before.take() {
            // It never sends: it goes.
            let _ = before.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let lines = &mut self.lines.borrow_mut().by_address;
        if lines
            .get(&self.line)
            .is_some_and(|last| last.place == self.number)
        {
            lines.remove(&self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(turn: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        turn.poll(&mut context) == Poll::Ready(())
    }

    #[test]
    fn who_is_behind_waits_for_those_before_and_nobody_else_does() {
        let lines = Lines::default();
        let [a, b] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        assert!(lines.behind(a).is_none());
        let first = lines.enter(a);
        assert!(lines.behind(b).is_none());
        let mut second = lines.behind(a).unwrap();
        let mut third = lines.behind(a).unwrap();
        {
            let mut turns = (Box::pin(second.turn()), Box::pin(third.turn()));
            assert!(!is_ready(turns.0.as_mut()));
            assert!(!is_ready(turns.1.as_mut()));
            drop(first);
            assert!(is_ready(turns.0.as_mut()));
            assert!(!is_ready(turns.1.as_mut()));
        }
        drop((second, third));
        assert!(lines.behind(a).is_none());
        assert!(lines.0.borrow().by_address.is_empty());
    }
}
