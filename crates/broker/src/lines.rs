//! The order of a connection's appends, or of a group's commits, when one of the requests begins in
//! pieces.
//!
//! Requests of one connection overlap; their order is the order of their first polls. A request
//! with so much to begin that the shard must serve others in between takes a place in its
//! connection's line, and the requests behind it begin once it has begun everything. A connection
//! without such a request has no line and costs one comparison.
//!
//! Invariant: the holder of a place waits for all places before it and for no other. Dropping a
//! place gives it up, also before its turn: those behind it then wait for those before it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use platform::sync::oneshot::{self, error::TryRecvError};

/// The lines of a shard: of connections, by their remote addresses, or of groups, by their ids and
/// committers.
pub(crate) struct Lines<K = SocketAddr>(Rc<RefCell<AllLines<K>>>);

struct AllLines<K> {
    // Bounded: admitted connections, `max.connections`; or requests in flight,
    // `queued.max.request.bytes`.
    by_key: BTreeMap<K, PlaceAhead>,
    /// Number of places given out so far.
    places: u64,
}

/// The place before another one; at first the end of a line.
struct PlaceAhead {
    place: u64,
    /// Completes when that place is given up, with the place before it if it never had its turn.
    gone: oneshot::Receiver<Self>,
}

impl PlaceAhead {
    /// Follows the places that were given up to the one that is still held.
    fn present(mut self) -> Option<Self> {
        loop {
            match self.gone.try_recv() {
                Ok(before) => self = before,
                Err(TryRecvError::Closed) => return None,
                Err(TryRecvError::Empty) => return Some(self),
            }
        }
    }
}

/// A place in a line.
pub(crate) struct LinePlace<K: Ord + Clone = SocketAddr> {
    lines: Rc<RefCell<AllLines<K>>>,
    line: K,
    number: u64,
    before: Option<PlaceAhead>,
    /// Signals to the place behind that this one is gone: by being dropped or, if it never had its
    /// turn, by sending the place before.
    gone: Option<oneshot::Sender<PlaceAhead>>,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(AllLines {
            by_key: BTreeMap::new(),
            places: 0,
        })))
    }
}

impl<K: Ord + Clone> Lines<K> {
    /// Takes a place behind those in the line; returns `None` if the line is empty.
    pub(crate) fn behind(&self, line: impl FnOnce() -> K) -> Option<Box<LinePlace<K>>> {
        if self.0.borrow().by_key.is_empty() {
            return None;
        }
        let line = line();
        let is_there = self.0.borrow().by_key.contains_key(&line);
        is_there.then(|| Box::new(self.enter(line)))
    }

    /// Takes the last place of the line.
    pub(crate) fn enter(&self, line: K) -> LinePlace<K> {
        let mut lines = self.0.borrow_mut();
        lines.places = lines.places.wrapping_add(1);
        let number = lines.places;
        let (sender, gone) = oneshot::channel();
        let last = PlaceAhead {
            place: number,
            gone,
        };
        let before = lines.by_key.insert(line.clone(), last);
        if let Some(before) = &before {
            assert!(before.place < number, "places are numbered as they come");
        }
        LinePlace {
            lines: Rc::clone(&self.0),
            line,
            number,
            before,
            gone: Some(sender),
        }
    }
}

impl<K: Ord + Clone> LinePlace<K> {
    /// Waits for the places before.
    pub(crate) async fn turn(&mut self) {
        // The receiver stays until it completes: a place given up before its turn sends the one
        // before it.
        while let Some(before) = &mut self.before {
            self.before = (&mut before.gone).await.ok();
        }
    }
}

impl<K: Ord + Clone> Drop for LinePlace<K> {
    fn drop(&mut self) {
        let lines = &mut self.lines.borrow_mut().by_key;
        let before = self.before.take().and_then(PlaceAhead::present);
        if let Some(before) = &before {
            assert!(before.place < self.number, "who is before came earlier");
        }
        let last = lines.get_mut(&self.line);
        let is_last = last.is_some_and(|last| last.place == self.number);
        match before {
            Some(before) if is_last => drop(lines.insert(self.line.clone(), before)),
            Some(before) => {
                // The send fails if no place is behind.
                let _ = self.gone.take().map(|gone| gone.send(before));
            }
            None if is_last => drop(lines.remove(&self.line)),
            None => {}
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
        assert!(lines.behind(|| a).is_none());
        let first = lines.enter(a);
        assert!(lines.behind(|| b).is_none());
        let mut second = lines.behind(|| a).unwrap();
        let mut third = lines.behind(|| a).unwrap();
        {
            let mut turns = (Box::pin(second.turn()), Box::pin(third.turn()));
            assert!(!is_ready(turns.0.as_mut()));
            assert!(!is_ready(turns.1.as_mut()));
            drop(first);
            assert!(is_ready(turns.0.as_mut()));
            assert!(!is_ready(turns.1.as_mut()));
        }
        drop((second, third));
        assert!(lines.behind(|| a).is_none());
        assert!(lines.0.borrow().by_key.is_empty());
    }

    #[test]
    fn who_is_behind_one_that_gives_up_before_its_turn_waits_for_those_before_it() {
        let lines = Lines::default();
        let a = SocketAddr::from(([127, 0, 0, 1], 1));
        let first = lines.enter(a);
        let mut second = lines.enter(a);
        let mut third = lines.enter(a);
        let mut turn = Box::pin(third.turn());
        assert!(!is_ready(turn.as_mut()));
        // The second has waited without a turn.
        assert!(!is_ready(std::pin::pin!(second.turn())));
        drop(second);
        assert!(!is_ready(turn.as_mut()), "it overtakes the first");
        drop(turn);
        drop(third);
        let mut fourth = lines.behind(|| a).unwrap();
        let mut turn = Box::pin(fourth.turn());
        assert!(!is_ready(turn.as_mut()), "the first is still there");
        drop(first);
        assert!(is_ready(turn.as_mut()));
        drop(turn);
        drop(fourth);
        assert!(lines.0.borrow().by_key.is_empty());
    }

    #[test]
    fn whatever_the_order_in_which_places_go_each_waits_for_those_before_it_and_no_line_is_left() {
        let a = SocketAddr::from(([127, 0, 0, 1], 1));
        for order in 0..24_usize {
            let lines = Lines::default();
            let mut places: Vec<_> = (0..4).map(|_| Some(lines.enter(a))).collect();
            let (mut order, mut left) = (order, vec![0_usize, 1, 2, 3]);
            while !left.is_empty() {
                let at = order % left.len();
                order /= left.len();
                let gone = left.remove(at);
                places[gone] = None;
                for (place, number) in left.iter().enumerate() {
                    let has_turn = {
                        let waits = places[*number].as_mut().unwrap();
                        is_ready(std::pin::pin!(waits.turn()))
                    };
                    assert_eq!(has_turn, place == 0, "{number} of {left:?}");
                }
                let behind = lines
                    .behind(|| a)
                    .map(|mut behind| is_ready(std::pin::pin!(behind.turn())));
                assert_eq!(behind, (!left.is_empty()).then_some(false));
            }
            assert!(lines.0.borrow().by_key.is_empty());
        }
    }
}
