//! What an auditor has to know of the admin endpoint: logins, denials and orders.
//!
//! Events have the listener ADMIN and the API `admin`. Invariant: a client that was not let in is
//! not named, since what it sent may be a password.

use std::net::IpAddr;
use std::sync::Arc;

use broker::audit::{
    ADMIN_API, Audit, AuditClass, AuditDetail, AuditEvent, AuditOrigin, AuditedChange,
};
use hyper::Request;
use wire::acl::{CLUSTER_NAME, Decision, Operation, Principal, ResourceType};

use super::Peer;
use crate::config::{AdminAuth, AdminSettings};

/// Where the events of the endpoint go.
pub(super) struct AuditedAdmin {
    audit: Audit,
    mechanism: &'static str,
    listener: Arc<str>,
}

impl AuditedAdmin {
    pub(super) fn new(audit: Audit, auth: AdminAuth) -> Self {
        Self {
            audit,
            mechanism: match auth {
                AdminAuth::None => "",
                AdminAuth::Basic => "basic",
                AdminAuth::Bearer => "bearer",
                AdminAuth::Mtls => "TLS",
            },
            listener: AdminSettings::LISTENER.into(),
        }
    }

    fn origin(&self, address: IpAddr) -> AuditOrigin {
        AuditOrigin {
            api: ADMIN_API,
            ..AuditOrigin::of_login(address, &self.listener, self.mechanism)
        }
    }

    fn put(&self, class: AuditClass, principal: &str, peer: &Peer, detail: AuditDetail) {
        let origin = self.origin(peer.address);
        let event = AuditEvent::new(class, principal, origin, detail);
        self.audit.put(event);
    }

    pub(super) fn logged_in(&self, principal: &Principal, peer: &Peer) {
        if self.audit.takes(AuditClass::Auth) {
            let detail = AuditDetail::Login(String::new());
            self.put(AuditClass::Auth, principal.as_str(), peer, detail);
        }
    }

    pub(super) fn failed(&self, cause: &str, peer: &Peer) {
        if self.audit.takes(AuditClass::AuthFailure) {
            let detail = AuditDetail::Login(cause.to_owned());
            self.put(AuditClass::AuthFailure, "", peer, detail);
        }
    }

    pub(super) fn denied(
        &self,
        principal: &Principal,
        peer: &Peer,
        operation: Operation,
        (rule, is_enforced): (&Decision<'_>, bool),
    ) {
        let class = if is_enforced {
            AuditClass::Denied
        } else {
            AuditClass::WouldDeny
        };
        if self.audit.takes(class) {
            let right = (operation, ResourceType::Cluster, Some(CLUSTER_NAME));
            let (origin, rule) = (self.origin(peer.address), rule.to_string());
            let principal = principal.as_str();
            let event = AuditEvent::of_right(class, principal, origin, right, &rule);
            self.audit.put(event);
        }
    }

    pub(super) fn ordered<B>(&self, principal: &str, request: &Request<B>, peer: &Peer) {
        if self.audit.takes(AuditClass::Admin) {
            let (path, method) = (request.uri().path(), request.method().as_str());
            let order = vec![AuditedChange::new("order", path, method)];
            let detail = AuditDetail::Changes(order);
            self.put(AuditClass::Admin, principal, peer, detail);
        }
    }
}
