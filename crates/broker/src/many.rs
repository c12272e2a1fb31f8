//! Places for requests that are about very many things.
//!
//! Such a request lets others have their turn again and again, and each of its things takes memory, several times of what it
//! took in the request, until it is answered. So only a few of them are at work on a shard at a time, one of each network; others
//! come one behind the other. Requests about few things, which are all that most clients send, need no place.
//! Expected of those who have one: they wait for nothing that takes another, or that only time or clients bring.

use std::net::IpAddr;

use platform::Platform;
use platform::task::elsewhere;

use crate::Broker;
use crate::network::network;
use crate::queues::Turn;

/// Requests of a shard that are at work at a time: one may wait for a disk or another shard.
pub(crate) const AT_ONCE: usize = 2;
/// More things than these are very many.
pub(crate) const MANY: usize = 2048;
/// A request of more bytes may be about very many.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

/// A place; dropped, it is the next one's.
pub(crate) type Place = Turn;

impl<P: Platform> Broker<P> {
    /// A place for a request from `peer`, as soon as there is one; none while the broker stops.
    pub(crate) async fn place(&self, peer: IpAddr) -> Option<Place> {
        self.many.turn_of(&network(peer)).await
    }

    /// A place for a request of so many bytes, if it needs one.
    pub(crate) async fn place_for_bytes(&self, bytes: usize, peer: IpAddr) -> Option<Place> {
        if bytes > LARGE_BYTES {
            return Box::pin(self.place(peer)).await;
        }
        None
    }

    /// Has what takes long, and needs nothing of the shard, done on another thread for `peer`, one at a time and by turns. `None`
    /// while the broker stops.
    pub(crate) async fn beside<R: Send + 'static>(
        &self,
        peer: IpAddr,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let turn = self.elsewhere.turn_of(&network(peer)).await?;
        let work = move || {
            // Held until it is done, also if nobody waits for it any more.
            let _turn = turn;
            work()
        };
        elsewhere(work).await
    }

    /// The same for one that turns out to be about so many things, if it has no place yet.
    pub(crate) async fn place_for(&self, things: usize, peer: IpAddr, place: &mut Option<Place>) {
        if things > MANY && place.is_none() {
            *place = Box::pin(self.place(peer)).await;
        }
    }
}
