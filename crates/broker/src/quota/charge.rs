//! Charging of a client: the shard asks the shard that counts the client, and notes the throttle
//! time.
//!
//! Invariant: a client without a quota costs one table lookup and no message. Not here: the
//! counting (`quota/meters.rs`).

use std::time::Duration;

use platform::Platform;

use super::{Bucket, Charge, QuotaKind};
use crate::Broker;
use crate::handler::Context;

impl<P: Platform> Broker<P> {
    /// Returns true when any client has a request quota: time is measured only then.
    pub(crate) fn limits_time(&self) -> bool {
        self.quotas.has(QuotaKind::Request)
    }

    /// Returns the most bytes that a client can fetch in one request without being throttled for
    /// certain.
    pub(crate) fn fetch_bytes_max(&self, client: &Context) -> usize {
        let Some((_, limit)) = self.quotas.find(QuotaKind::Fetch, client) else {
            return usize::MAX;
        };
        let windows = self.options.quota.rates;
        let seconds = f64::from(windows.samples.saturating_sub(1)) * windows.window.as_secs_f64();
        whole(limit * seconds)
    }

    /// Charges a client and returns how long it is throttled.
    pub(crate) async fn charge(
        &self,
        kind: QuotaKind,
        client: &Context,
        amount: f64,
        charge: Charge,
    ) -> Duration {
        let Some((bucket, limit)) = self.quotas.find(kind, client) else {
            return Duration::ZERO;
        };
        // Boxed, so that requests of clients without a quota stay small.
        Box::pin(self.charge_at_owner(kind, bucket, limit, amount, charge)).await
    }

    async fn charge_at_owner(
        &self,
        kind: QuotaKind,
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
        // A shard that is shutting down throttles no client.
        let pause = charged.await.unwrap_or_default();
        self.metrics.quotas.throttled(kind, pause);
        pause
    }
}

/// Converts a number of bytes; one that is too large becomes `usize::MAX`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and quotas are positive"
)]
fn whole(bytes: f64) -> usize {
    bytes as usize
}
