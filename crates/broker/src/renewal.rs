//! What a client may do by now: a right that a request had before a wait may be gone after it.
//!
//! Rights are judged by the newest ACLs when a handler begins, and judged again after whatever may
//! take long: a disk, another shard's log, other clients, a turn. Where nothing is limited, or no
//! ACL has changed, that costs one or two comparisons. Not here: the decisions (`access.rs`), which
//! right a request needs, and the answer to its client.

use std::sync::Arc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::kafka::Api;
use wire::types::{ErrorCode, TopicPartition};

use crate::Broker;
use crate::access::{Access, AccessNotes};
use crate::audit::AuditedRequest;
use crate::handler::Context;

impl Access {
    /// Returns what the client of a request may do, by the ACLs as this shard knows them now.
    ///
    /// It is asked for in the first poll of the request: the one before it may be a login.
    pub(crate) fn of<P: Platform>(broker: &Broker<P>, context: &Context, api: Api) -> Self {
        let Some(authorizer) = &broker.options.authorizer else {
            return Self::unlimited();
        };
        let who = (context.session.principal(), context.peer.ip());
        let now = broker.platform.clock().now();
        let acls = Arc::clone(broker.image().acls());
        let notes = AccessNotes {
            denials: &broker.metrics.denials,
            verdicts: || context.session.verdicts(),
            audited: || AuditedRequest::of(&broker.options.audit, context, api),
        };
        Self::new(authorizer, acls, who, notes, now)
    }

    /// Returns what the same client may do now.
    pub(crate) fn now<P: Platform>(&self, broker: &Broker<P>) -> Self {
        // The same ACLs give the same rights.
        self.renewed_by(broker).unwrap_or_else(|| self.clone())
    }

    /// Returns what the same client may do now; `None` if no ACL has changed.
    pub(crate) fn renewed_by<P: Platform>(&self, broker: &Broker<P>) -> Option<Self> {
        // Most brokers limit no client, and need not look at the image.
        let renewed = self.is_limited().then(|| self.renewed(&broker.image()));
        renewed.flatten()
    }

    /// Returns whether the client has lost a right by which it was judged before.
    pub(crate) fn has_lost<P: Platform>(
        &self,
        broker: &Broker<P>,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        let renewed = self.renewed_by(broker);
        renewed.is_some_and(|access| !access.may(operation, resource_type, name))
    }

    /// Refuses a client that has lost its right on the topic of a partition.
    pub(crate) fn check_again<P: Platform>(
        &self,
        broker: &Broker<P>,
        operation: Operation,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        let topic = &partition.topic;
        let has_lost = self.has_lost(broker, operation, ResourceType::Topic, topic);
        let denied = ErrorCode::TopicAuthorizationFailed;
        (!has_lost).then_some(()).ok_or(denied)
    }
}
