//! One connection to one broker: requests go out in the order of their asking, several on their way
//! at once, answers come back in the same order.
//!
//! One task drives the socket (`connection/driver.rs`); handles put requests into its queue.
//!
//! Invariants:
//! - A request is answered, or fails by its deadline. When one deadline passes, the connection is
//!   lost, and every request on it fails.
//! - At most `in_flight_max` requests are in the queue and on their way; further ones wait, up to
//!   their deadlines.
//! - A caller that holds a lost connection gets the reason for the loss, and never a wrong answer.
//!
//! Not here: which broker to ask, asking again.

mod driver;
mod login;
mod opening;
mod versions;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use platform::clock::Instant;
use platform::net::Net;
use platform::task::timeout_at;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::ask::{self, Ask};
use crate::error::ClientError;
use crate::settings::ClientSettings;
use driver::{Outgoing, Return};
pub use opening::address;
pub(crate) use opening::{Peer, open};
use versions::Versions;

/// A handle to a connection; clones share it. The last one that goes ends it.
#[derive(Clone)]
pub struct Connection(Rc<SharedConnection>);

/// What the clones of a handle to a connection share.
struct SharedConnection {
    peer: Peer,
    client_id: Rc<str>,
    versions: Versions,
    queue: mpsc::UnboundedSender<Outgoing>,
    /// One for each request in the queue and on its way.
    room: Arc<Semaphore>,
    next_id: Cell<i32>,
    lost: Rc<LostReason>,
    /// When the broker wants another login.
    login_ends: Option<Instant>,
}

/// Why a connection is lost, once it is.
#[derive(Default)]
struct LostReason(RefCell<Option<ClientError>>);

/// An answer that is on its way.
pub(crate) struct PendingAnswer<Q> {
    answer: oneshot::Receiver<Result<Bytes, ClientError>>,
    version: i16,
    address: Rc<str>,
    of: PhantomData<Q>,
}

/// A request without an answer that is on its way.
pub(crate) struct Writing(oneshot::Receiver<Result<(), ClientError>>);

impl Connection {
    /// Connects to a broker by its address, for a caller that keeps its connections itself.
    pub async fn open(
        net: &impl Net,
        host: &str,
        port: u16,
        settings: &ClientSettings,
        deadline: Instant,
    ) -> Result<Self, ClientError> {
        let peer = Peer::new(host, port, None);
        open(net, &peer, settings, &platform::os::random_u64, deadline).await
    }

    /// Sends a request in the newest version that both sides know, and waits for the answer.
    ///
    /// The deadline is that of the exchange: when it passes, the connection is lost for everybody,
    /// since answers come in order. To stop waiting without that, drop the future; the answer is
    /// then read and thrown away.
    pub async fn ask<Q: Ask>(
        &self,
        request: &Q,
        deadline: Instant,
    ) -> Result<Q::Answer, ClientError> {
        self.ask_in(self.version::<Q>()?, request, deadline).await
    }

    /// Does the same in this version, which the caller has from [`Self::version`].
    pub async fn ask_in<Q: Ask>(
        &self,
        version: i16,
        request: &Q,
        deadline: Instant,
    ) -> Result<Q::Answer, ClientError> {
        let room = self.room(deadline).await?;
        self.start(version, request, deadline, room)?.answer().await
    }

    /// Puts a request into the queue at once, so that requests go out in the order of these calls.
    ///
    /// Fails with [`ClientError::Full`] if there are too many requests already.
    pub(crate) fn begin<Q: Ask>(
        &self,
        version: i16,
        request: &Q,
        deadline: Instant,
    ) -> Result<PendingAnswer<Q>, ClientError> {
        let room = Arc::clone(&self.0.room).try_acquire_owned();
        let room = room.map_err(|_| self.0.lost.reason().unwrap_or(ClientError::Full))?;
        self.start(version, request, deadline, room)
    }

    /// Does the same for a request that has no answer.
    pub(crate) fn begin_unanswered<Q: Ask>(
        &self,
        version: i16,
        request: &Q,
        deadline: Instant,
    ) -> Result<Writing, ClientError> {
        let room = Arc::clone(&self.0.room).try_acquire_owned();
        let room = room.map_err(|_| self.0.lost.reason().unwrap_or(ClientError::Full))?;
        let (to, written) = oneshot::channel();
        self.put(version, request, deadline, room, Return::Written(to))?;
        Ok(Writing(written))
    }

    async fn room(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, ClientError> {
        let room = Arc::clone(&self.0.room).acquire_owned();
        let late = || ClientError::timed_out(self.address(), "too many requests on their way");
        let room = timeout_at(deadline, room).await.map_err(|_| late())?;
        room.map_err(|_| self.0.lost.reason().unwrap_or(ClientError::Closed))
    }

    fn start<Q: Ask>(
        &self,
        version: i16,
        request: &Q,
        deadline: Instant,
        room: OwnedSemaphorePermit,
    ) -> Result<PendingAnswer<Q>, ClientError> {
        let (to, answer) = oneshot::channel();
        self.put(version, request, deadline, room, Return::Answer(to))?;
        Ok(PendingAnswer {
            answer,
            version,
            address: Rc::clone(&self.0.peer.address),
            of: PhantomData,
        })
    }

    fn put<Q: Ask>(
        &self,
        version: i16,
        request: &Q,
        deadline: Instant,
        room: OwnedSemaphorePermit,
        to: Return,
    ) -> Result<(), ClientError> {
        if let Some(reason) = self.0.lost.reason() {
            return Err(reason);
        }
        let id = self.0.next_id.get();
        self.0.next_id.set(id.wrapping_add(1) & i32::MAX);
        let frame = ask::frame(request, version, id, &self.0.client_id);
        let invalid = |reason| ClientError::invalid(ask::name_of(Q::API), reason);
        let frame = frame.map_err(invalid)?;
        let outgoing = Outgoing::new((id, frame), Q::API, deadline, to, room);
        let put = self.0.queue.send(outgoing);
        put.map_err(|_| self.0.lost.reason().unwrap_or(ClientError::Closed))
    }

    /// Returns the newest version of a request that both sides know.
    pub fn version<Q: Ask>(&self) -> Result<i16, ClientError> {
        self.version_up_to::<Q>(i16::MAX)
    }

    /// Does the same, for a caller that knows no version newer than `newest`.
    pub fn version_up_to<Q: Ask>(&self, newest: i16) -> Result<i16, ClientError> {
        let ours = (Q::OLDEST, Q::NEWEST.min(newest));
        self.0.versions.common(self.address(), Q::API, ours)
    }

    /// Returns true if nothing can be asked any more.
    pub fn is_lost(&self) -> bool {
        self.0.lost.0.borrow().is_some()
    }

    /// Returns true if the login ends soon: another connection should take its place.
    pub fn is_ageing(&self, now: Instant) -> bool {
        self.0.login_ends.is_some_and(|ends| now >= ends)
    }

    /// Returns the address of the broker, `host:port`.
    pub fn address(&self) -> &str {
        &self.0.peer.address
    }

    /// Returns the id of the broker, if the connection was made by it.
    pub fn node(&self) -> Option<i32> {
        self.0.peer.node
    }
}

impl<Q: Ask> PendingAnswer<Q> {
    /// Waits for the answer. The driver keeps the deadline.
    pub(crate) async fn answer(self) -> Result<Q::Answer, ClientError> {
        let frame = self.answer.await.unwrap_or(Err(ClientError::Closed))?;
        let answer = ask::answer::<Q>(frame, self.version);
        answer.map_err(|reason| {
            let reason = format!("the answer to {}: {reason}", ask::name_of(Q::API));
            ClientError::malformed(&self.address, reason)
        })
    }
}

impl Writing {
    /// Waits until the request is in the hands of the system. The driver keeps the deadline.
    pub(crate) async fn written(self) -> Result<(), ClientError> {
        self.0.await.unwrap_or(Err(ClientError::Closed))
    }
}

impl LostReason {
    fn reason(&self) -> Option<ClientError> {
        self.0.borrow().clone()
    }

    /// The first reason stays.
    fn set(&self, reason: &ClientError) {
        self.0.borrow_mut().get_or_insert_with(|| reason.clone());
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("Connection");
        shown.field("address", &self.address());
        shown.field("node", &self.node());
        shown.field("is_lost", &self.is_lost());
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
