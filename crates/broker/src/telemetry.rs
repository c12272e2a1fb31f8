//! Client telemetry (KIP-714): which clients are to send which metrics, how often, and what the
//! broker does with them.
//!
//! A client's instance id selects the shard that knows it. Decisions are pure: the (monotonic) time
//! is a parameter. The rules are Kafka's: a request before the push interval has passed is refused,
//! except for the first push after a request for the subscription; a push after a terminating one
//! is refused; when a subscription changes, the state of every client starts again.
//!
//! Bounded: the instances of a shard; at the bound, the address with the most gives one up
//! (`telemetry/ledger.rs`). The metrics of clients are in `telemetry/received.rs`, the selection of
//! clients in `telemetry/subscription.rs`.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an index out of bounds ends the broker"
    )
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use platform::clock::Instant;
use wire::types::{ErrorCode, Uuid};

use crate::handler::Context;

mod home;
mod ledger;
mod received;
mod retained;
mod subscription;

use ledger::{Holder, Ledger};
pub use received::{BYTES_MAX, Metrics, ReceivedMetrics};
pub(crate) use subscription::Subscriptions;
pub use subscription::{Client, Subscription};

/// Maximum number of known clients, over all shards.
const INSTANCES_MAX: usize = 16_384;
/// A client that was silent for this long, and for three intervals, is forgotten.
const FORGOTTEN_AFTER_MIN: Duration = Duration::from_mins(1);
/// Maximum stored length of a client id.
const CALLED_BYTES_MAX: usize = 256;

/// The clients that one shard knows.
pub(crate) struct Telemetry {
    instances: RefCell<Instances>,
    instances_max: usize,
    /// The subscriptions of clients.
    pub(crate) subscriptions: Subscriptions,
    received: ReceivedMetrics,
}

#[derive(Default)]
struct Instances {
    // Bounded: `INSTANCES_MAX`.
    of: HashMap<Uuid, Instance>,
    /// Each client holds one unit.
    ledger: Ledger,
}

/// A client. Its metrics are not stored, because they are in the metadata.
struct Instance {
    subscription: i32,
    interval: Duration,
    /// Version of the subscriptions from which the client's own was built.
    version: u64,
    last_get: Option<Instant>,
    last_push: Option<Instant>,
    heard: Instant,
    terminating: bool,
    /// True if the last push was refused because of the client's view of its subscription: the
    /// client may request it immediately.
    is_astray: bool,
}

/// A push, without its metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    /// The subscription id in the push.
    pub(crate) subscription: i32,
    /// True for the client's last push.
    pub(crate) terminating: bool,
    /// True if the broker supports its codec.
    pub(crate) known_codec: bool,
    /// Bytes of metrics, compressed.
    pub(crate) bytes: usize,
}

impl Context {
    /// Returns the attributes that distinguish the client.
    pub(crate) fn telemetry_client(&self, id: Uuid) -> Client {
        let software = self.software.borrow();
        Client {
            id,
            called: wire::text::cut(&self.client_id, CALLED_BYTES_MAX).to_owned(),
            software_name: software.name.clone(),
            software_version: software.version.clone(),
            address: self.peer.ip(),
            port: self.peer.port(),
        }
    }
}

impl Telemetry {
    /// Returns the state without clients.
    pub(crate) fn new(shards: usize, metrics: Metrics) -> Self {
        Self {
            instances: RefCell::default(),
            instances_max: (INSTANCES_MAX / shards.max(1)).max(1),
            subscriptions: Subscriptions::default(),
            received: ReceivedMetrics::new(metrics, shards),
        }
    }

    /// Returns the metrics that were received.
    pub(crate) fn received(&self) -> &ReceivedMetrics {
        &self.received
    }

    /// Returns true for a client that is not forgotten.
    pub(crate) fn knows(&self, id: Uuid) -> bool {
        self.instances.borrow().of.contains_key(&id)
    }

    /// Judges a request for the subscription.
    pub(crate) fn ask(
        &self,
        client: &Client,
        subscription: &Subscription,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        self.with(client, subscription, now, |instance| {
            let last = instance.last_get.max(instance.last_push);
            let due = instance.is_due(last, now);
            if due {
                instance.last_get = Some(now);
            } else if !instance.is_astray {
                return Err(ErrorCode::ThrottlingQuotaExceeded);
            }
            instance.is_astray = false;
            // The current subscription: the client's attributes may have changed.
            instance.subscription = subscription.id;
            instance.interval = subscription.interval();
            Ok(())
        })
    }

    /// Judges a push, without its metrics.
    pub(crate) fn push(
        &self,
        client: &Client,
        subscription: &Subscription,
        push: Push,
        bytes_max: usize,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        self.with(client, subscription, now, |instance| {
            let judged = instance.judge(push, bytes_max, now);
            instance.terminating = push.terminating;
            let astray = [
                ErrorCode::UnknownSubscriptionId,
                ErrorCode::UnsupportedCompressionType,
            ];
            instance.is_astray = judged.is_err_and(|code| astray.contains(&code));
            judged
        })
    }

    /// Runs `decide` on a client that may be new; counts refusals.
    fn with<R>(
        &self,
        client: &Client,
        subscription: &Subscription,
        now: Instant,
        decide: impl FnOnce(&mut Instance) -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        let mut instances = self.instances.borrow_mut();
        let Instances { of, ledger } = &mut *instances;
        let is_known = of.contains_key(&client.id);
        if !is_known
            && ledger.len() >= self.instances_max
            && let Some(id) = ledger.first_to_go()
        {
            ledger.remove(id);
            of.remove(&id);
            self.received.forget(id);
        }
        ledger.heard(client.id, client.holder(), usize::from(!is_known));
        let instance = of
            .entry(client.id)
            .or_insert_with(|| Instance::new(subscription, now));
        if instance.version != subscription.version {
            *instance = Instance::new(subscription, now);
        }
        instance.heard = now;
        let decided = decide(instance);
        assert_eq!(
            of.len(),
            ledger.len(),
            "each client that is known has a place"
        );
        assert!(ledger.len() <= self.instances_max, "another has given way");
        self.received.count_instances(ledger.len());
        if let Err(code) = &decided {
            self.received.refused(*code);
        }
        decided
    }

    /// Forgets clients that were silent for too long.
    pub(crate) fn forget_idle(&self, now: Instant) {
        let mut instances = self.instances.borrow_mut();
        let Instances { of, ledger } = &mut *instances;
        of.retain(|id, instance| {
            let stays = !instance.is_gone(now);
            if !stays {
                ledger.remove(*id);
                self.received.forget(*id);
            }
            stays
        });
        assert_eq!(
            of.len(),
            ledger.len(),
            "each client that is known has a place"
        );
        self.received.count_instances(ledger.len());
    }
}

impl Instance {
    fn new(subscription: &Subscription, now: Instant) -> Self {
        Self {
            subscription: subscription.id,
            interval: subscription.interval(),
            version: subscription.version,
            last_get: None,
            last_push: None,
            heard: now,
            terminating: false,
            is_astray: false,
        }
    }

    fn is_due(&self, last: Option<Instant>, now: Instant) -> bool {
        last.is_none_or(|last| now.saturating_duration_since(last) >= self.interval)
    }

    fn is_gone(&self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.heard);
        silent > FORGOTTEN_AFTER_MIN.max(self.interval.saturating_mul(3))
    }

    fn judge(&mut self, push: Push, bytes_max: usize, now: Instant) -> Result<(), ErrorCode> {
        if self.terminating {
            return Err(ErrorCode::InvalidRequest);
        }
        // Clients spread their first push over half to one and a half intervals.
        let is_first = self.last_get > self.last_push;
        if is_first || self.is_due(self.last_push, now) {
            self.last_push = Some(now);
        } else if !push.terminating {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if push.subscription != self.subscription {
            return Err(ErrorCode::UnknownSubscriptionId);
        }
        if !push.known_codec {
            return Err(ErrorCode::UnsupportedCompressionType);
        }
        if push.bytes > bytes_max {
            return Err(ErrorCode::TelemetryTooLarge);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
