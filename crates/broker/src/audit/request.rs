//! The request that an event is about: what is known of its client when it begins.
//!
//! It goes with the request to other shards and through the turns of the controller. Not here:
//! whether the client may do what it asks for, and what becomes of the request.

use std::net::IpAddr;
use std::sync::Arc;

use wire::acl::{Action, Decision, Operation, Principal};
use wire::kafka::Api;
use wire::protocol::StrBytes;
use wire::sasl::Mechanism;

use super::changes::{AuditedChange, AuditedRecords};
use super::{Audit, AuditClass, AuditDetail, AuditEvent, AuditOrigin};
use crate::dispatch::LoginFailure;
use crate::handler::Context;

/// Changes in one event; more are in further ones.
const CHANGES_MAX: usize = 100;

/// A request whose events are wanted.
#[derive(Clone, Debug)]
pub(crate) struct AuditedRequest {
    audit: Audit,
    principal: Principal,
    address: IpAddr,
    listener: Arc<str>,
    mechanism: Option<Mechanism>,
    client_id: StrBytes,
    api: Api,
}

/// A change of the metadata that is under way.
pub(crate) struct AuditedTurn {
    audit: Audit,
    event: AuditEvent,
}

impl AuditedRequest {
    /// Returns the request of a client; `None` if no events are wanted.
    #[inline]
    pub(crate) fn of(audit: &Audit, context: &Context, api: Api) -> Option<Self> {
        audit.is_on().then(|| Self {
            audit: audit.clone(),
            principal: context.session.principal(),
            address: context.peer.ip(),
            listener: Arc::clone(&context.listener),
            mechanism: context.session.mechanism(),
            client_id: context.client_id.clone(),
            api,
        })
    }

    fn origin(&self) -> AuditOrigin {
        let mechanism = self.mechanism.map_or("", Mechanism::name);
        let origin = AuditOrigin::of_login(self.address, &self.listener, mechanism);
        AuditOrigin {
            api: self.api.name(),
            ..origin.by_client(&self.client_id)
        }
    }

    /// Returns true if uses of this right are wanted.
    pub(crate) fn takes_allowed(&self, operation: Operation) -> bool {
        self.audit.takes_allowed(operation)
    }

    /// Notes a right that the client asked for. `is_any`: on any resource of the type.
    pub(crate) fn asked(
        &self,
        class: AuditClass,
        (action, is_any): (&Action<'_>, bool),
        decision: &Decision<'_>,
    ) {
        if !self.audit.takes(class) {
            return;
        }
        let name = (!is_any).then_some(action.name);
        let right = (action.operation, action.resource_type, name);
        let (principal, rule) = (self.principal.as_str(), decision.to_string());
        let event = AuditEvent::of_right(class, principal, self.origin(), right, &rule);
        self.audit.put(event);
    }

    /// Returns false while changes of the metadata are refused.
    pub(crate) fn takes_changes(&self) -> bool {
        self.audit.takes_changes()
    }

    /// Returns a change of the metadata that is about to be made; `None` if those are not wanted.
    pub(crate) fn changing(&self, records: impl FnOnce() -> AuditedRecords) -> Option<AuditedTurn> {
        self.audit.takes(AuditClass::Admin).then(|| {
            let detail = AuditDetail::Records(Box::new(records()));
            let principal = self.principal.as_str();
            AuditedTurn {
                audit: self.audit.clone(),
                event: AuditEvent::new(AuditClass::Admin, principal, self.origin(), detail),
            }
        })
    }

    /// Notes changes that were made, which are no metadata.
    pub(crate) fn changed(&self, changes: impl IntoIterator<Item = AuditedChange>) {
        if !self.audit.takes(AuditClass::Admin) {
            return;
        }
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let some = changes.by_ref().take(CHANGES_MAX).collect();
            let (principal, detail) = (self.principal.as_str(), AuditDetail::Changes(some));
            let event = AuditEvent::new(AuditClass::Admin, principal, self.origin(), detail);
            self.audit.put(event);
        }
    }
}

impl AuditedTurn {
    /// Notes what became of the change.
    pub(crate) fn done(mut self, is_done: bool) {
        if let AuditDetail::Records(records) = &mut self.event.detail {
            records.is_done = is_done;
        }
        self.audit.put(self.event);
    }
}

impl Audit {
    /// Notes a login that is complete.
    pub(crate) fn logged_in(&self, context: &Context, mechanism: Mechanism, who: &Principal) {
        if self.takes(AuditClass::Auth) {
            self.login(
                (AuditClass::Auth, who.as_str()),
                context,
                mechanism.name(),
                "",
            );
        }
    }

    /// Notes a login that failed. The client is not named, unless it was logged in before: what
    /// should be a name may be a password.
    pub(crate) fn login_failed(&self, context: &Context, failure: &LoginFailure) {
        if !self.takes(AuditClass::AuthFailure) {
            return;
        }
        let session = &context.session;
        let mechanism = match failure {
            LoginFailure::Refused(mechanism, _) => Some(*mechanism),
            _ => session.mechanism(),
        };
        let principal = session.is_again().then(|| session.principal());
        let principal = principal.as_ref().map_or("", Principal::as_str);
        let mechanism = mechanism.map_or("", Mechanism::name);
        let class = AuditClass::AuthFailure;
        self.login((class, principal), context, mechanism, &failure.to_string());
    }

    fn login(
        &self,
        (class, principal): (AuditClass, &str),
        context: &Context,
        mechanism: &'static str,
        reason: &str,
    ) {
        let (address, listener) = (context.peer.ip(), &context.listener);
        let origin = AuditOrigin::of_login(address, listener, mechanism);
        let origin = origin.by_client(&context.client_id);
        let detail = AuditDetail::Login(reason.to_owned());
        self.put(AuditEvent::new(class, principal, origin, detail));
    }
}
