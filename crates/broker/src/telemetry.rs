//! Telemetry of clients (KIP-714): who is asked for which metrics, how often, and what came of it.
//!
//! A client's instance id picks the shard that knows it. Decisions are pure: each is told the (monotonic) time. Rules as
//! Kafka's: a request before the push interval is over is refused, save the first push after the subscription was told; a
//! client that said it terminates is not heard any more; when a subscription changes, everybody's begins anew.
//! Bounded: the instances of a shard; at the bound the address with the most gives one up (`telemetry/ledger.rs`). What
//! clients measured is in `telemetry/received.rs`, which of them are asked in `telemetry/subscription.rs`.

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
pub use received::{BYTES_MAX, Metrics, Received};
pub(crate) use subscription::Subscriptions;
pub use subscription::{Client, Subscription};

/// Clients known in all, over all shards.
const INSTANCES_MAX: usize = 16_384;
/// A client that was not heard for so long, or for three intervals, is forgotten.
const FORGOTTEN_AFTER_MIN: Duration = Duration::from_mins(1);
/// Bytes that are kept of what a client calls itself.
const CALLED_BYTES_MAX: usize = 256;

/// The clients that one shard knows.
pub(crate) struct Telemetry {
    instances: RefCell<Instances>,
    instances_max: usize,
    /// Who is asked for what.
    pub(crate) subscriptions: Subscriptions,
    received: Received,
}

#[derive(Default)]
struct Instances {
    // Bounded: `INSTANCES_MAX`.
    of: HashMap<Uuid, Instance>,
    /// Each holds one.
    ledger: Ledger,
}

/// A client. Which metrics it is asked for is not kept: the metadata says it.
struct Instance {
    subscription: i32,
    interval: Duration,
    /// Of the subscriptions from which its own was made.
    version: u64,
    last_get: Option<Instant>,
    last_push: Option<Instant>,
    heard: Instant,
    terminating: bool,
    /// The last push was refused for what the client believes of its subscription: it may ask again at once.
    is_astray: bool,
}

/// What a client is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    /// The subscription that it pushes for.
    pub(crate) subscription: i32,
    /// It ends.
    pub(crate) terminating: bool,
    /// True when its codec is one of ours.
    pub(crate) known_codec: bool,
    /// Bytes of metrics, compressed.
    pub(crate) bytes: usize,
}

impl Context {
    /// Who asks, for what tells clients apart.
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
    /// Nobody is known.
    pub(crate) fn new(shards: usize, metrics: Metrics) -> Self {
        Self {
            instances: RefCell::default(),
            instances_max: (INSTANCES_MAX / shards.max(1)).max(1),
            subscriptions: Subscriptions::default(),
            received: Received::new(metrics, shards),
        }
    }

    /// What has been received.
    pub(crate) fn received(&self) -> &Received {
        &self.received
    }

    /// True for a client that is not forgotten.
    pub(crate) fn knows(&self, id: Uuid) -> bool {
        self.instances.borrow().of.contains_key(&id)
    }

    /// Judges a question for the subscription.
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
            // What it is told now: it may call itself something else than before.
            instance.subscription = subscription.id;
            instance.interval = subscription.interval();
            Ok(())
        })
    }

    /// Judges a push; what it carries is not looked at.
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

    /// Runs `decide` on a client that may be new; counts what is refused.
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

    /// Forgets who has not been heard for long.
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
