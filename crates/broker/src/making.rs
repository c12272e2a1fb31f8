//! Creation of topics that a client's request names, such as a Metadata request, or that the broker
//! itself needs to answer; a slow creation continues after the answer.
//!
//! Invariants: a request waits at most [`SOON`] for a place and for the topics together. One
//! request of a network has a place, and [`AT_ONCE`] of a shard, so that the names they hold are
//! bounded and the many requests of one client do not come before those of others. A request
//! without a place in time is dropped, because clients repeat it. A shard creates one topic of the
//! broker itself at a time, however many requests wait for it. Failed creations are logged only now
//! and then, because clients repeat their requests endlessly. Not here: creating topics
//! (`controller`), and waiting for them (`broker.rs`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use platform::sync::{OwnedSemaphorePermit, Semaphore};
use wire::types::ErrorCode;

use crate::network::network;
use crate::queues::{Queues, Turn, owned_turn};
use crate::seldom::SeldomLine;

/// How long an answer waits for what the controller makes for it: topics, producer ids.
pub(crate) const SOON: Duration = Duration::from_millis(500);
/// Requests of a shard that create topics at a time.
///
/// Each holds at most ten thousand names of 249 bytes: 10 MB a shard.
const AT_ONCE: usize = 4;

/// The requests that create topics, and when failures were last logged.
pub(crate) struct TopicCreations {
    places: Queues<IpAddr>,
    /// Held while a topic of the broker itself is created.
    own: Arc<Semaphore>,
    failed: SeldomLine,
    too_many: SeldomLine,
}

impl Default for TopicCreations {
    fn default() -> Self {
        Self {
            places: Queues::new(AT_ONCE),
            own: Arc::new(Semaphore::new(1)),
            failed: SeldomLine::default(),
            too_many: SeldomLine::default(),
        }
    }
}

impl TopicCreations {
    /// Waits for a place for a request from `peer`.
    pub(crate) async fn place(&self, peer: IpAddr) -> Turn {
        self.places.turn_of(&network(peer)).await
    }

    /// Waits for the turn to create a topic of the broker itself.
    pub(crate) async fn own_turn(&self) -> OwnedSemaphorePermit {
        owned_turn(&self.own).await
    }

    /// Logs, now and then, that topics could not be created.
    pub(crate) fn warn_failed(&self, code: ErrorCode, now: Instant) {
        if let Some(unsaid) = self.failed.turn(now) {
            tracing::warn!(?code, unsaid, "cannot create missing topics");
        }
    }

    /// Logs, now and then, that a client names more missing topics than are created for it.
    pub(crate) fn warn_too_many(&self, topics: usize, now: Instant) {
        if let Some(unsaid) = self.too_many.turn(now) {
            tracing::warn!(
                topics,
                unsaid,
                "a client names too many topics that are not there: none is created"
            );
        }
    }
}
