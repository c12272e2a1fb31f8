//! Keeping the order of a connection's appends, or of a group's commits, when one of the requests begins in pieces.
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

/// The lines of a shard: of connections, by the address of the other end; or of groups, by their ids.
pub(crate) struct Lines<K = SocketAddr>(Rc<RefCell<All<K>>>);

struct All<K> {
    // Bounded: connections that are let in, `max.connections`; or requests in flight, `queued.max.request.bytes`.
    by_key: BTreeMap<K, Last>,
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
pub(crate) struct Place<K: Ord = SocketAddr> {
    lines: Rc<RefCell<All<K>>>,
    line: K,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    /// Told to the one behind by being dropped.
    _gone: oneshot::Sender<()>,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(All {
            by_key: BTreeMap::new(),
            places: 0,
        })))
    }
}

impl<K: Ord + Clone> Lines<K> {
    /// A place behind those who are in the line; none if nobody is.
    pub(crate) fn behind(&self, line: K) -> Option<Box<Place<K>>> {
        let is_there = {
            let lines = &self.0.borrow().by_key;
            !lines.is_empty() && lines.contains_key(&line)
        };
        is_there.then(|| Box::new(self.enter(line)))
    }

    /// The last place of the line.
    pub(crate) fn enter(&self, line: K) -> Place<K> {
        let mut lines = self.0.borrow_mut();
        lines.places = lines.places.wrapping_add(1);
        let number = lines.places;
        let (sender, gone) = oneshot::channel();
        let last = Last {
            place: number,
            gone,
        };
        let before = lines.by_key.insert(line.clone(), last);
        Place {
            lines: Rc::clone(&self.0),
            line,
            number,
            before: before.map(|last| last.gone),
            _gone: sender,
        }
    }
}

impl<K: Ord> Place<K> {
    /// Waits for those before.
    pub(crate) async fn turn(&mut self) {
        if let Some(before) = self.before.take() {
            // It never sends: it goes.
            let _ = before.await;
        }
    }
}

impl<K: Ord> Drop for Place<K> {
    fn drop(&mut self) {
        let lines = &mut self.lines.borrow_mut().by_key;
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
        assert!(lines.0.borrow().by_key.is_empty());
    }
}
