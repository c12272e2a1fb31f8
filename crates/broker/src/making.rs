//! Topics that are made because a client asks for them, as Metadata do, behind the answer where it takes long.
//!
//! Invariants: whoever asks waits for [`SOON`] at most, for a place and for the topics together; of a network one question has a place,
//! and of a shard [`AT_ONCE`], so that the names which they hold are bounded and nobody's many come before another's. Whoever
//! gets no place in time has not asked: clients ask again. What cannot be made is logged now and then, for clients ask for ever.
//! Not here: making topics (`controller`), and waiting for them (`broker.rs`).

use std::net::IpAddr;
use std::time::Duration;

use platform::clock::Instant;
use wire::types::ErrorCode;

use crate::network::network;
use crate::queues::{Queues, Turn};
use crate::seldom::Seldom;

/// An answer waits so long for the topics that its request names.
pub(crate) const SOON: Duration = Duration::from_millis(500);
/// Ten thousand names of 249 bytes each at most: 10 MB a shard.
const AT_ONCE: usize = 4;

/// Who has topics made, and what was said about those that cannot be.
pub(crate) struct Making {
    places: Queues<IpAddr>,
    failed: Seldom,
    too_many: Seldom,
}

impl Default for Making {
    fn default() -> Self {
        Self {
            places: Queues::new(AT_ONCE),
            failed: Seldom::default(),
            too_many: Seldom::default(),
        }
    }
}

impl Making {
    /// A place for a question from `peer`, as soon as there is one.
    pub(crate) async fn place(&self, peer: IpAddr) -> Turn {
        self.places.turn_of(&network(peer)).await
    }

    /// Topics could not be made; says so now and then.
    pub(crate) fn warn_failed(&self, code: ErrorCode, now: Instant) {
        if let Some(unsaid) = self.failed.turn(now) {
            tracing::warn!(?code, unsaid, "cannot create missing topics");
        }
    }

    /// A client names more topics that are missing than are made for it; says so now and then.
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
