//! How a request gets a place, and how work of a shard runs on another thread.
//!
//! Invariant: a turn is held until the work is done, even if the request is dropped. It does not
//! know what a request is about.

use std::net::IpAddr;

use platform::Platform;
use platform::clock::Instant;
use platform::task::elsewhere;

use super::{LARGE_BYTES, MANY, RequestPlace};
use crate::Broker;
use crate::network::network;
use crate::quota::RequestTime;

impl<P: Platform> Broker<P> {
    /// Waits for a place for a request from `peer`.
    pub(crate) async fn place(&self, peer: IpAddr) -> RequestPlace {
        self.many.turn_of(&network(peer)).await
    }

    /// Waits for a place for a request of this many bytes, if it needs one.
    pub(crate) async fn place_for_bytes(&self, bytes: usize, peer: IpAddr) -> Option<RequestPlace> {
        if bytes > LARGE_BYTES {
            return Some(Box::pin(self.place(peer)).await);
        }
        None
    }

    /// Runs slow work that needs nothing of the shard on another thread for `peer`, one at a time
    /// and by turns. Its time counts as the request's.
    ///
    /// `None` while the broker stops.
    pub(crate) async fn beside<R: Send + 'static>(
        &self,
        (peer, busy): (IpAddr, &RequestTime),
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let turn = self.elsewhere.turn_of(&network(peer)).await;
        let work = move || {
            // Held until the work is done, even if the request is dropped.
            let _turn = turn;
            let began = Instant::now();
            let done = work();
            (done, began.elapsed())
        };
        let (done, spent) = elsewhere(work).await?;
        busy.add(spent);
        Some(done)
    }

    /// Waits for a place for a request that turns out to be about this many things, if it needs one
    /// and has none.
    pub(crate) async fn place_for(
        &self,
        things: usize,
        peer: IpAddr,
        place: &mut Option<RequestPlace>,
    ) {
        if things > MANY && place.is_none() {
            *place = Some(Box::pin(self.place(peer)).await);
        }
    }
}
