//! Quotas at work: how much a client has used, and how long it must wait.
//!
//! A quota is charged when a request is answered. Once more was used than the quota allows, the
//! answer says how long that takes to be made good, and the connection is left alone for so long
//! (KIP-219). What a client has used is counted in one place, whatever shards its connections are
//! on: on the shard that the hash of the client names ([`Broker::charge`]). Who is not limited
//! costs one look at a table. Not here: the settings themselves (`image/quotas.rs`), and the quota
//! of changes to the metadata, which the controller keeps (`controller/mutations.rs`).

mod busy;
mod limits;
mod meters;
mod metrics;
mod rate;
mod tokens;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;

pub(crate) use busy::{Busy, timed};
pub(crate) use limits::{Bucket, Kind, Limits};
pub(crate) use meters::Charge;
use meters::Meters;
pub(crate) use metrics::Metrics;
pub use rate::{Rate, Windows};
pub(crate) use tokens::TokenBucket;

use crate::Broker;
use crate::image::{Image, QuotaTable};

/// Everybody's name while nobody is asked for one.
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

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

impl<P: Platform> Broker<P> {
    /// True when somebody's share of the time is limited: time is taken only then.
    pub(crate) fn limits_time(&self) -> bool {
        self.quotas.limits().has(Kind::Request)
    }

    /// Most bytes that a client can fetch at once without being held back for certain.
    pub(crate) fn fetch_bytes_max(&self, client_id: &str) -> usize {
        let limits = self.quotas.limits();
        let Some((_, limit)) = limits.find(Kind::Fetch, ANONYMOUS, client_id) else {
            return usize::MAX;
        };
        let windows = self.options.quota.rates;
        let seconds = f64::from(windows.samples.saturating_sub(1)) * windows.window.as_secs_f64();
        whole(limit * seconds)
    }

    /// Charges a client, and says how long it must be left alone.
    pub(crate) async fn charge(
        &self,
        kind: Kind,
        client_id: &str,
        amount: f64,
        charge: Charge,
    ) -> Duration {
        let limits = self.quotas.limits();
        let Some((bucket, limit)) = limits.find(kind, ANONYMOUS, client_id) else {
            return Duration::ZERO;
        };
        drop(limits);
        // Boxed: the requests of those who are not limited stay small.
        Box::pin(self.charge_at_owner(kind, bucket, limit, amount, charge)).await
    }

    async fn charge_at_owner(
        &self,
        kind: Kind,
        bucket: Bucket,
        limit: f64,
        amount: f64,
        charge: Charge,
    ) -> Duration {
        let owner = bucket.owner(self.shards.count());
        let charged = self.shards.call(owner, move |broker| async move {
            let now = broker.platform.clock().now();
            let windows = broker.options.quota.rates;
            let mut meters = broker.quotas.meters.borrow_mut();
            let before = meters.bytes();
            let pause = meters.charge(bucket, limit, windows, amount, charge, now);
            broker.metrics.quotas.kept(before, meters.bytes());
            pause
        });
        // A shard that is shutting down holds nobody back.
        let mut pause = charged.await.unwrap_or_default();
        if kind == Kind::Request {
            pause = pause.min(self.options.quota.rates.window);
        }
        self.metrics.quotas.throttled(kind, pause);
        pause
    }
}

/// A number of bytes; more than there can be is as many as there can be.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and quotas are positive"
)]
fn whole(bytes: f64) -> usize {
    bytes as usize
}

/// A pause as responses have it.
pub(crate) fn wire_ms(pause: Duration) -> i32 {
    i32::try_from(pause.as_millis()).unwrap_or(i32::MAX)
}
