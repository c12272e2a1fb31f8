//! How a shard charges a client: it asks the shard that counts the client, and notes how long was said.
//!
//! Invariant: who is not limited costs one look at a table, and no message. It does not: count (`quota/meters.rs`).

use std::time::Duration;

use platform::Platform;

use super::{Bucket, Charge, Kind};
use crate::Broker;
use crate::names::ANONYMOUS;

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
