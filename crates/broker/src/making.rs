//! Topics that are made because a client asks for them, as Metadata do, behind the answer where it takes long.
//!
//! Invariants: whoever asks waits for [`SOON`] at most, for a place and for the topics together; of a network one question has a place,
//! and of a shard [`AT_ONCE`], so that the names which they hold are bounded and nobody's many come before another's. Whoever
//! gets no place in time has not asked: clients ask again. What cannot be made is logged now and then, for clients ask for ever.
//! Not here: making topics (`controller`).

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use platform::{Platform, task};
use wire::types::ErrorCode;

use crate::Broker;
use crate::network::network;
use crate::queues::{Queues, Turn};
use crate::rests::Rests;
use crate::seldom::Seldom;

/// An answer waits so long for the topics that its request names.
const SOON: Duration = Duration::from_millis(500);
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

impl<P: Platform> Broker<P> {
    /// Creates topics that a client asked for and that are missing. Those that take longer than the answer waits come behind it,
    /// which does not know them yet (Kafka never waits).
    pub(crate) async fn create_asked(self: &Rc<Self>, peer: IpAddr, names: Vec<String>) {
        let asked = Box::pin(async {
            let place = self.making.places.turn_of(&network(peer)).await;
            let names = self.missing_still(names).await;
            if !names.is_empty() {
                self.begin_creation(place, names).await;
            }
        });
        // Whether it is through or not, the newest image says.
        drop(task::timeout(SOON, asked).await);
    }

    /// Those that nobody has had made, while it was waited for a place.
    async fn missing_still(&self, names: Vec<String>) -> Vec<String> {
        let image = self.image();
        let mut rests = Rests::new();
        let mut missing = Vec::with_capacity(names.len());
        for name in names {
            if image.topic_by_name(&name).is_none() {
                missing.push(name);
            }
            rests.item().await;
        }
        missing
    }

    /// Goes on, with its place, when nobody waits for it any more.
    async fn begin_creation(self: &Rc<Self>, place: Turn, names: Vec<String>) {
        let me = Rc::clone(self);
        let creation = task::spawn(async move {
            let _place = place;
            me.create_missing(names).await;
        });
        drop(creation.await);
    }

    /// Topics could not be made; says so now and then.
    pub(crate) fn warn_not_created(&self, code: ErrorCode) {
        if let Some(unsaid) = self.making.failed.turn(self.platform.clock().now()) {
            tracing::warn!(?code, unsaid, "cannot create missing topics");
        }
    }

    /// A client names more topics that are missing than are made for it; says so now and then.
    pub(crate) fn warn_too_many(&self, topics: usize) {
        if let Some(unsaid) = self.making.too_many.turn(self.platform.clock().now()) {
            tracing::warn!(
                topics,
                unsaid,
                "a client names too many topics that are not there: none is created"
            );
        }
    }
}
