//! Quotas at work: how much a client has used, and how long it must wait.
//!
//! A quota is charged when a request is answered. Once more was used than the quota allows, the
//! answer says how long that takes to be made good, and the connection is left alone for so long
//! (KIP-219). What a client has used is counted in one place, whatever shards its connections are
//! on: on the shard that the hash of the client names ([`Broker::charge`]). Who is not limited
//! costs one look at a table. Not here: the settings themselves (`image/quotas.rs`), and the quota
//! of changes to the metadata, which the controller keeps (`controller/mutations.rs`).

mod busy;
mod charge;
mod limits;
mod meters;
mod metrics;
mod rate;
mod tokens;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use busy::{Busy, timed};
pub(crate) use limits::{Bucket, Kind, Limits};
pub(crate) use meters::Charge;
use meters::Meters;
pub(crate) use metrics::Metrics;
pub use rate::{Rate, Windows};
pub(crate) use tokens::TokenBucket;

use crate::image::{Image, QuotaTable};

/// Quotas as one shard knows them, and what it counts for all shards.
pub(crate) struct Quotas {
    limits: RefCell<(Arc<QuotaTable>, Rc<Limits>)>,
    meters: RefCell<Meters>,
}

impl Quotas {
    /// No quotas, nothing used.
    pub(crate) fn new() -> Self {
        let limits = (Arc::default(), Rc::new(Limits::default()));
        Self {
            limits: RefCell::new(limits),
            meters: RefCell::new(Meters::default()),
        }
    }

    /// Takes over what the image says.
    pub(crate) fn learn(&self, image: &Image) {
        let mut limits = self.limits.borrow_mut();
        if !Arc::ptr_eq(&limits.0, image.quotas()) {
            *limits = (
                Arc::clone(image.quotas()),
                Rc::new(Limits::new(image.quotas())),
            );
        }
    }

    fn limits(&self) -> Rc<Limits> {
        Rc::clone(&self.limits.borrow().1)
    }
}

/// A pause as responses have it.
pub(crate) fn wire_ms(pause: Duration) -> i32 {
    i32::try_from(pause.as_millis()).unwrap_or(i32::MAX)
}
