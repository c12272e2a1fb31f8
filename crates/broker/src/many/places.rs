//! How a request gets a place, and how work of a shard runs on another thread.
//!
//! Invariant: a turn is held until the work is done, even if the request is dropped. It does not
//! know what a request is about.

use std::net::IpAddr;

use platform::Platform;
use platform::task::{elsewhere, elsewhere_timed};

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
    /// and by turns.
    ///
    /// `None` while the broker stops.
    pub(crate) async fn beside<R: Send + 'static>(
        &self,
        peer: IpAddr,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let turn = self.elsewhere.turn_of(&network(peer)).await;
        let work = move || {
            // Held until the work is done, even if the request is dropped.
            let _turn = turn;
            work()
        };
        elsewhere(work).await
    }

    /// Does the same for a request that is charged for the time that the work takes.
    pub(crate) async fn beside_for<R: Send + 'static>(
        &self,
        (peer, busy): (IpAddr, &RequestTime),
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let turn = self.elsewhere.turn_of(&network(peer)).await;
        let work = move || {
            let _turn = turn;
            work()
        };
        let (done, taken) = elsewhere_timed(work).await?;
        busy.add(taken);
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
