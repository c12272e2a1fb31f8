//! Telemetry of clients (KIP-714): who is asked for which metrics, how often, and what came of it.
//!
//! A client's instance id picks the shard that knows it. Decisions are pure: each is told the time. Rules as Kafka's: a
//! request before the push interval is over is refused, save the first push after the subscription was told; a client
//! that said it terminates is not heard any more; when a subscription changes, everybody's begins anew.
//! Bounded: the instances of a shard, the least recently heard goes first. What clients measured is in
//! `telemetry/received.rs`, which of them are asked in `telemetry/subscription.rs`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use platform::Platform;
use wire::types::{ErrorCode, Uuid};

use crate::Broker;
use crate::handler::Context;

pub(crate) mod received;
pub(crate) mod subscription;

pub(crate) use received::{Metrics, Received};
pub(crate) use subscription::{Client, Subscription};

/// Clients known in all, over all shards.
const INSTANCES_MAX: usize = 16_384;
/// A client that was not heard for so long, or for three intervals, is forgotten.
const FORGOTTEN_AFTER_MS_MIN: i64 = 60_000;

/// The clients that one shard knows.
pub(crate) struct Telemetry {
    instances: RefCell<HashMap<Uuid, Instance>>,
    instances_max: usize,
    received: Received,
}

/// A client.
struct Instance {
    subscription: Rc<Subscription>,
    last_get_ms: Option<i64>,
    last_push_ms: Option<i64>,
    heard_ms: i64,
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

impl<P: Platform> Broker<P> {
    /// Runs `work` on the shard that knows a client.
    pub(crate) async fn at_telemetry<R: Send + 'static>(
        &self,
        id: Uuid,
        work: impl FnOnce(Rc<Self>) -> Result<R, ErrorCode> + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let (high, low) = id.as_u64_pair();
        let owner = usize::try_from((high ^ low) % self.shards.count() as u64).unwrap_or(0);
        let done = self
            .shards
            .call(owner, |broker| std::future::ready(work(broker)));
        done.await.unwrap_or(Err(ErrorCode::UnknownServerError))
    }
}

impl Context {
    /// Who asks, for what tells clients apart.
    pub(crate) fn telemetry_client(&self, id: Uuid) -> Client {
        let software = self.software.borrow();
        Client {
            id,
            called: self.client_id.to_string(),
            software_name: software.name.clone(),
            software_version: software.version.clone(),
            address: self.peer.ip().to_string(),
            port: self.peer.port(),
        }
    }
}

impl Telemetry {
    /// Nobody is known.
    pub(crate) fn new(shards: usize, received: Received) -> Self {
        Self {
            instances: RefCell::default(),
            instances_max: (INSTANCES_MAX / shards.max(1)).max(1),
            received,
        }
    }

    /// What has been received.
    pub(crate) fn received(&self) -> &Received {
        &self.received
    }

    /// Judges a question for the subscription.
    pub(crate) fn ask(
        &self,
        id: Uuid,
        subscription: Subscription,
        now_ms: i64,
    ) -> Result<Rc<Subscription>, ErrorCode> {
        self.with(id, subscription, now_ms, |client| {
            let last = client.last_get_ms.max(client.last_push_ms);
            let due = client.is_due(last, now_ms);
            if due {
                client.last_get_ms = Some(now_ms);
            } else if !client.is_astray {
                return Err(ErrorCode::ThrottlingQuotaExceeded);
            }
            client.is_astray = false;
            Ok(Rc::clone(&client.subscription))
        })
    }

    /// Judges a push; what it carries is not looked at.
    pub(crate) fn push(
        &self,
        id: Uuid,
        subscription: Subscription,
        push: Push,
        bytes_max: usize,
        now_ms: i64,
    ) -> Result<(), ErrorCode> {
        self.with(id, subscription, now_ms, |client| {
            let judged = client.judge(push, bytes_max, now_ms);
            client.terminating = push.terminating;
            let astray = [
                ErrorCode::UnknownSubscriptionId,
                ErrorCode::UnsupportedCompressionType,
            ];
            client.is_astray = judged.is_err_and(|code| astray.contains(&code));
            judged
        })
    }

    /// Runs `decide` on a client that may be new; counts what is refused.
    fn with<R>(
        &self,
        id: Uuid,
        subscription: Subscription,
        now_ms: i64,
        decide: impl FnOnce(&mut Instance) -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        let mut instances = self.instances.borrow_mut();
        let known = instances.get(&id);
        if known.is_none_or(|known| known.subscription.version != subscription.version) {
            if known.is_none() && instances.len() >= self.instances_max {
                self.make_room(&mut instances, now_ms);
            }
            instances.insert(id, Instance::new(subscription, now_ms));
        }
        self.received.count_instances(instances.len());
        let Some(client) = instances.get_mut(&id) else {
            return Err(ErrorCode::UnknownServerError);
        };
        client.heard_ms = now_ms;
        let decided = decide(client);
        if let Err(code) = &decided {
            self.received.refused(*code);
        }
        decided
    }

    /// Forgets who has not been heard for long, and if there is nobody, the one not heard for longest.
    fn make_room(&self, instances: &mut HashMap<Uuid, Instance>, now_ms: i64) {
        let gone = |client: &Instance| now_ms - client.heard_ms > client.forgotten_after_ms();
        let before = instances.len();
        instances.retain(|id, client| {
            let stays = !gone(client);
            if !stays {
                self.received.forget(*id);
            }
            stays
        });
        if instances.len() < before {
            return;
        }
        let oldest = instances
            .iter()
            .min_by_key(|(id, client)| (client.heard_ms, **id));
        if let Some(id) = oldest.map(|(id, _)| *id) {
            instances.remove(&id);
            self.received.forget(id);
        }
    }

    /// Forgets who has not been heard for long.
    pub(crate) fn forget_idle(&self, now_ms: i64) {
        let mut instances = self.instances.borrow_mut();
        instances.retain(|id, client| {
            let stays = now_ms - client.heard_ms <= client.forgotten_after_ms();
            if !stays {
                self.received.forget(*id);
            }
            stays
        });
        self.received.count_instances(instances.len());
    }
}

impl Instance {
    fn new(subscription: Subscription, now_ms: i64) -> Self {
        Self {
            subscription: Rc::new(subscription),
            last_get_ms: None,
            last_push_ms: None,
            heard_ms: now_ms,
            terminating: false,
            is_astray: false,
        }
    }

    fn is_due(&self, last_ms: Option<i64>, now_ms: i64) -> bool {
        let interval = i64::from(self.subscription.interval_ms);
        last_ms.is_none_or(|last| now_ms - last >= interval)
    }

    fn forgotten_after_ms(&self) -> i64 {
        FORGOTTEN_AFTER_MS_MIN.max(3 * i64::from(self.subscription.interval_ms))
    }

    fn judge(&mut self, push: Push, bytes_max: usize, now_ms: i64) -> Result<(), ErrorCode> {
        if self.terminating {
            return Err(ErrorCode::InvalidRequest);
        }
        // Clients spread their first push over half to one and a half intervals.
        let is_first = self.last_get_ms > self.last_push_ms;
        if is_first || self.is_due(self.last_push_ms, now_ms) {
            self.last_push_ms = Some(now_ms);
        } else if !push.terminating {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if push.subscription != self.subscription.id {
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
