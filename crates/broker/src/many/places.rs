//! How a request gets a place, and how work of a shard is done on another thread.
//!
//! Invariant: a turn is held until the work is done, also if nobody waits for it any more. It does not: know what a request is about.

use std::net::IpAddr;

use platform::Platform;
use platform::task::elsewhere;

use super::{LARGE_BYTES, MANY, Place};
use crate::Broker;
use crate::network::network;

impl<P: Platform> Broker<P> {
    /// A place for a request from `peer`, as soon as there is one.
    pub(crate) async fn place(&self, peer: IpAddr) -> Place {
        self.many.turn_of(&network(peer)).await
    }

    /// A place for a request of so many bytes, if it needs one.
    pub(crate) async fn place_for_bytes(&self, bytes: usize, peer: IpAddr) -> Option<Place> {
        if bytes > LARGE_BYTES {
            return Some(Box::pin(self.place(peer)).await);
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
        let turn = self.elsewhere.turn_of(&network(peer)).await;
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
            *place = Some(Box::pin(self.place(peer)).await);
        }
    }
}
