//! What clients were denied, for the operator: counters, and lines of the log.
//!
//! Clients repeat what is denied, so each kind of denial has one line a minute: it names the
//! client, the resource, and the rule.
//! Invariant: labels and kinds are types of resources and operations, never a text of a client.

#![allow(
    clippy::disallowed_types,
    reason = "a kind has one line for all shards; the lock is held for a look, when something is denied"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use platform::clock::Instant;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use wire::acl::{Action, Decision, Operation, Principal, ResourceType};
use wire::text::cut;

use crate::seldom::SeldomLine;

/// How much of a name a line of the log repeats, in bytes.
const NAME_BYTES_MAX: usize = 200;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    resource_type: &'static str,
    operation: &'static str,
}

/// Counters of denials; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Denials(Arc<DenialCounts>);

#[derive(Debug, Default)]
struct DenialCounts {
    denied: Family<Labels, Counter>,
    would_deny: Family<Labels, Counter>,
    // Unbounded: the types of resources, times their operations, times two.
    lines: Mutex<BTreeMap<(ResourceType, Operation, bool), SeldomLine>>,
}

impl Denials {
    /// Creates and registers the counters.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let denials = Self::default();
        registry.register(
            "forebay_authorization_denied",
            "Rights that clients asked for and do not have",
            denials.0.denied.clone(),
        );
        registry.register(
            "forebay_authorization_would_deny",
            "Rights that clients do not have and were given, because authorizer.mode is log",
            denials.0.would_deny.clone(),
        );
        denials
    }

    /// Returns what a monitoring system would read.
    #[cfg(test)]
    pub(super) fn shown(&self) -> String {
        let mut registry = Registry::default();
        registry.register("denied", "", self.0.denied.clone());
        registry.register("would_deny", "", self.0.would_deny.clone());
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).expect("text");
        shown
    }

    /// Counts a denial, and logs it unless one like it was logged lately.
    pub(super) fn note(
        &self,
        enforced: bool,
        (principal, address): (&Principal, IpAddr),
        action: &Action<'_>,
        decision: Decision<'_>,
        now: Instant,
    ) {
        let Action {
            operation,
            resource_type,
            name,
        } = *action;
        let labels = Labels {
            resource_type: resource_type.name(),
            operation: operation.name(),
        };
        let counters = if enforced {
            &self.0.denied
        } else {
            &self.0.would_deny
        };
        counters.get_or_create(&labels).inc();
        let kind = (resource_type, operation, enforced);
        let Some(unsaid) = self.turn(kind, now) else {
            return;
        };
        let shown = |text| cut(text, NAME_BYTES_MAX);
        let (principal, name) = (shown(principal.as_str()), shown(name));
        if enforced {
            tracing::info!(
                principal, %address, %operation, %resource_type, name, rule = %decision, unsaid,
                "a client was denied what it asked for"
            );
        } else {
            tracing::info!(
                principal, %address, %operation, %resource_type, name, rule = %decision, unsaid,
                "would_deny: a client does what ACLs deny, because authorizer.mode is log"
            );
        }
    }

    /// Returns how many lines of the kind were left out; `None` if this one is left out, too.
    fn turn(&self, kind: (ResourceType, Operation, bool), now: Instant) -> Option<u64> {
        let lines = self.0.lines.lock();
        let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
        lines.entry(kind).or_default().turn(now)
    }
}
