//! Spreads connections over shards: the kernel chooses at random, so with few connections one shard
//! could get all of them.
//!
//! Invariant: a connection goes to a shard that has at most as many as any other at that moment
//! (two shards that accept at the same time may err by one).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::AcceptedConnection;

/// The number of connections of each shard, and the channel to send it further ones.
pub(super) struct Spread {
    shards: Vec<Target>,
}

struct Target {
    connections: Arc<AtomicUsize>,
    // Bounded: connections that have a seat, `admission::admit`.
    hand: mpsc::UnboundedSender<AcceptedConnection>,
}

/// The place of one connection in the count of its shard; dropping this frees it.
pub(super) struct ShardSeat(Arc<AtomicUsize>);

impl Drop for ShardSeat {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection is counted once");
    }
}

impl Spread {
    /// Creates it for `count` shards; the receivers are in the order of the shards.
    pub(super) fn new(count: usize) -> (Self, Vec<mpsc::UnboundedReceiver<AcceptedConnection>>) {
        assert!(count > 0, "a connection goes to a shard");
        let (hands, ends): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let target = |hand| Target {
            connections: Arc::default(),
            hand,
        };
        (
            Self {
                shards: hands.into_iter().map(target).collect(),
            },
            ends,
        )
    }

    /// Chooses the shard for a connection that `me` has accepted, and counts it there.
    pub(super) fn choose(&self, me: usize) -> (usize, ShardSeat) {
        let load = |at: usize| self.shards[at].connections.load(Ordering::Relaxed);
        let least = (0..self.shards.len())
            .min_by_key(|at| (load(*at), *at != me))
            .unwrap_or(me);
        let connections = Arc::clone(&self.shards[least].connections);
        connections.fetch_add(1, Ordering::Relaxed);
        (least, ShardSeat(connections))
    }

    /// Sends a connection to its shard; a shard that is ending drops it.
    pub(super) fn hand(&self, to: usize, accepted: AcceptedConnection) {
        let _ = self.shards[to].hand.send(accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_where_there_are_fewest_and_stay_if_it_makes_no_difference() {
        let (spread, _ends) = Spread::new(3);
        let (first, one) = spread.choose(1);
        let (second, _two) = spread.choose(1);
        let (third, _three) = spread.choose(1);
        assert_eq!(first, 1);
        let mut all = [first, second, third];
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        drop(one);
        assert_eq!(spread.choose(2).0, 1);
    }
}
