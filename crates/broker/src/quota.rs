//! Quotas: how much a client has used, and how long it is throttled.
//!
//! A request is charged when it is answered. If the client then exceeds its quota, the answer has
//! the throttle time, and the broker reads nothing from the connection for that time (KIP-219). The
//! usage of a client is counted on one shard, whichever shards its connections are on: the shard
//! that the hash of the client selects (`Broker::charge`). A client without a quota costs one
//! table lookup. The metrics show what clients use, as far as there are places (`quota/places.rs`).
//!
//! Not here: the settings (`image/quotas.rs`), and the quota of metadata changes,
//! which the controller keeps (`controller/mutations.rs`).

mod busy;
mod charge;
mod limits;
mod meters;
mod metrics;
mod places;
mod rate;
mod tokens;
mod usage;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;

pub(crate) use busy::{RequestTime, timed};
pub(crate) use limits::{Bucket, Limits, QuotaKind};
pub(crate) use meters::Charge;
use meters::Meters;
pub(crate) use metrics::Metrics;
pub use rate::{Rate, Windows};
pub(crate) use tokens::TokenBucket;
use usage::ShardUsage;

use crate::handler::Context;
use crate::image::{Image, QuotaTable};

/// The quotas as one shard knows them, and the usage that it counts for all shards.
pub(crate) struct Quotas {
    limits: RefCell<(Arc<QuotaTable>, Limits)>,
    meters: RefCell<Meters>,
}

impl Quotas {
    /// Creates quotas without limits and usage, for one of `shards` shards.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            limits: RefCell::default(),
            meters: RefCell::new(Meters::new(shards)),
        }
    }

    /// Takes in the quotas of the image.
    pub(crate) fn learn(&self, image: &Image) {
        let mut limits = self.limits.borrow_mut();
        if !Arc::ptr_eq(&limits.0, image.quotas()) {
            let table = Arc::clone(image.quotas());
            *limits = (table, Limits::new(image.quotas()));
        }
    }

    /// Returns what the metrics show of the clients that this shard counts.
    pub(crate) fn usage(&self, windows: Windows, now: Instant) -> ShardUsage {
        self.meters.borrow_mut().usage(windows, now)
    }

    /// Returns true when any client has a quota of this kind.
    fn has(&self, kind: QuotaKind) -> bool {
        self.limits.borrow().1.has(kind)
    }

    /// Returns the quota of a client and the bucket that it shares.
    fn find(&self, kind: QuotaKind, client: &Context) -> Option<(Bucket, f64)> {
        let (_, limits) = &*self.limits.borrow();
        // Most brokers have none, and need not look who the client is.
        if !limits.has(kind) {
            return None;
        }
        let find = |user: &str| limits.find(kind, user, &client.client_id);
        client.session.named(find)
    }
}

/// Returns a throttle time as responses have it.
pub(crate) fn wire_ms(pause: Duration) -> i32 {
    i32::try_from(pause.as_millis()).unwrap_or(i32::MAX)
}
