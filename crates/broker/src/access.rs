//! What the client of a request may do: the decisions of `wire/acl`, as handlers ask for them.
//!
//! It is made once for each request, in its first poll: a login before it may have changed who the
//! client is. It has the newest ACLs of that moment, and goes with the request to other shards.
//!
//! There are three questions, because not every "no" is worth telling the operator:
//! - [`Access::may`]: a right that the client needs. A denial is counted, and logged now and then;
//! - [`Access::has`]: a right that another can replace; the caller asks for that one next;
//! - [`Access::sees`]: whether something stands in a list. What does not is left out silently.
//!   [`Access::lets`] is the same question about any right.
//!
//! Invariants: without an authorizer, and for a super user, every answer is yes, and costs one
//! comparison. With `authorizer.mode=log` clients may do and see everything, and what ACLs deny is
//! counted as what would be denied; only [`Access::has`] tells what ACLs say, so that the question
//! after it is asked. Not here: which right a request needs (its row, and its handler), and the
//! answer to its client.

mod denials;
#[cfg(test)]
pub(crate) mod given;
mod verdicts;
mod words;

use std::net::IpAddr;
use std::sync::Arc;

use platform::clock::Instant;
use wire::acl::{
    Action, CLUSTER_NAME, Client, Decision, Operation, Principal, ResourceType,
    authorized_operations,
};

use crate::audit::{AuditClass, AuditedRequest};
use crate::authorizer::{Authorizer, AuthorizerMode};
use crate::image::{Acls, Image};
pub(crate) use denials::Denials;
pub(crate) use verdicts::Verdicts;
pub(crate) use words::{denied, words};

/// What the client of one request may do.
#[derive(Clone, Debug)]
pub(crate) struct Access(Option<Arc<LimitedAccess>>);

/// A client that may not do everything.
#[derive(Debug)]
struct LimitedAccess {
    acls: Arc<Acls>,
    authorizer: Arc<Authorizer>,
    principal: Principal,
    address: IpAddr,
    denials: Denials,
    /// What ACLs have permitted on the connection.
    verdicts: Arc<Verdicts>,
    /// The request, for an auditor who wants to know of it.
    audited: Option<AuditedRequest>,
    /// When the request began.
    began: Instant,
}

/// What goes with the questions of a client.
pub(crate) struct AccessNotes<'a, V, A> {
    /// Counts what it is denied.
    pub(crate) denials: &'a Denials,
    /// Returns what ACLs have permitted on its connection.
    pub(crate) verdicts: V,
    /// Returns the request, if an auditor wants to know of it.
    pub(crate) audited: A,
}

impl Access {
    /// Returns what a client may do, from this address and from now on.
    pub(crate) fn new(
        authorizer: &Arc<Authorizer>,
        acls: Arc<Acls>,
        (principal, address): (Principal, IpAddr),
        notes: AccessNotes<
            '_,
            impl FnOnce() -> Arc<Verdicts>,
            impl FnOnce() -> Option<AuditedRequest>,
        >,
        now: Instant,
    ) -> Self {
        assert!(principal.is_complete(), "a client's principal has a type");
        if authorizer.policy.super_users.contains(&principal) {
            return Self::unlimited();
        }
        Self(Some(Arc::new(LimitedAccess {
            acls,
            authorizer: Arc::clone(authorizer),
            principal,
            address,
            denials: notes.denials.clone(),
            verdicts: (notes.verdicts)(),
            audited: (notes.audited)(),
            began: now,
        })))
    }

    /// Returns the same client's by the ACLs of `image`; `None` if those are the same.
    ///
    /// For requests that have waited: what was permitted before may be denied by now.
    #[inline]
    pub(crate) fn renewed(&self, image: &Image) -> Option<Self> {
        let limited = self.0.as_ref()?;
        Some(Self(Some(Arc::new(limited.renewed(image)?))))
    }

    /// Returns that of a client that may do everything.
    pub(crate) const fn unlimited() -> Self {
        Self(None)
    }

    /// Returns false if the answer to every question is yes, so that none need be asked.
    #[inline]
    pub(crate) const fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the client may do this; a denial is counted and logged.
    #[inline]
    pub(crate) fn may(
        &self,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        let action = Action {
            operation,
            resource_type,
            name,
        };
        self.0.as_ref().is_none_or(|limited| limited.may(&action))
    }

    /// Returns whether the client may do this with the cluster; a denial is counted and logged.
    #[inline]
    pub(crate) fn may_cluster(&self, operation: Operation) -> bool {
        self.may(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// Returns whether the client may do this with at least one resource of the type; a denial is
    /// counted and logged. It may rest, so a caller judges again if ACLs have changed meanwhile.
    pub(crate) async fn may_any(&self, operation: Operation, resource_type: ResourceType) -> bool {
        match &self.0 {
            Some(limited) => limited.may_any(operation, resource_type).await,
            None => true,
        }
    }

    /// Returns whether ACLs permit this, in every mode; nothing is counted. For a right that
    /// another can replace: the caller asks [`Self::may`] for that one next.
    #[inline]
    pub(crate) fn has(
        &self,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        let action = Action {
            operation,
            resource_type,
            name,
        };
        let limited = self.0.as_ref();
        limited.is_none_or(|limited| limited.permits(&action))
    }

    /// Returns whether ACLs permit this with the cluster, as [`Self::has`].
    #[inline]
    pub(crate) fn has_cluster(&self, operation: Operation) -> bool {
        self.has(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// Returns whether the client may see this in a list: whether it may describe it. Nothing is
    /// counted.
    #[inline]
    pub(crate) fn sees(&self, resource_type: ResourceType, name: &str) -> bool {
        self.lets(Operation::Describe, resource_type, name)
    }

    /// Returns whether the client can do this: ACLs permit it, or nothing is enforced. Nothing is
    /// counted, because the client asks for it elsewhere, or is not told of it.
    #[inline]
    pub(crate) fn lets(
        &self,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        let action = Action {
            operation,
            resource_type,
            name,
        };
        self.0.as_ref().is_none_or(|limited| limited.lets(&action))
    }

    /// Returns the bits of the operations that the client may do; nothing is counted.
    pub(crate) fn operations(&self, resource_type: ResourceType, name: &str) -> i32 {
        let lets = |operation| self.lets(operation, resource_type, name);
        authorized_operations(resource_type, lets)
    }
}

impl LimitedAccess {
    // Apart from that of `Access`, whose callers are on the path of every request.
    #[inline(never)]
    fn renewed(&self, image: &Image) -> Option<Self> {
        if Arc::ptr_eq(&self.acls, image.acls()) {
            return None;
        }
        Some(Self {
            acls: Arc::clone(image.acls()),
            authorizer: Arc::clone(&self.authorizer),
            principal: self.principal.clone(),
            denials: self.denials.clone(),
            verdicts: Arc::clone(&self.verdicts),
            audited: self.audited.clone(),
            ..*self
        })
    }

    fn client(&self) -> Client<'_> {
        Client::new(&self.principal, self.address)
    }

    fn decide(&self, action: &Action<'_>) -> Decision<'_> {
        let policy = &self.authorizer.policy;
        self.acls.index().decide(policy, &self.client(), action)
    }

    /// Returns whether the client can do this: it is permitted, or nothing is enforced.
    fn lets(&self, action: &Action<'_>) -> bool {
        !self.enforces() || self.permits(action)
    }

    /// Returns whether ACLs permit this.
    fn permits(&self, action: &Action<'_>) -> bool {
        let decide = || self.decide(action).is_allowed();
        self.verdicts.permits(&self.acls, action, decide)
    }

    fn may(&self, action: &Action<'_>) -> bool {
        if self.permits(action) {
            self.note_allowed((action, false), || self.decide(action));
            return true;
        }
        self.passes((action, false), self.decide(action))
    }

    async fn may_any(&self, operation: Operation, resource_type: ResourceType) -> bool {
        let (policy, client) = (&self.authorizer.policy, self.client());
        let audited = self.audited.as_ref();
        let wants_rule = audited.is_some_and(|audited| audited.takes_allowed(operation));
        let asked = (operation, resource_type);
        let decided = self.acls.decide_any(policy, &client, asked, wants_rule);
        let decision = decided.await;
        let action = Action {
            operation,
            resource_type,
            name: "(any)",
        };
        if !decision.is_allowed() {
            return self.passes((&action, true), decision);
        }
        self.note_allowed((&action, true), || decision);
        true
    }

    fn note_allowed<'a>(&self, asked: (&Action<'_>, bool), decide: impl FnOnce() -> Decision<'a>) {
        let operation = asked.0.operation;
        let audited = self.audited.as_ref();
        if let Some(audited) = audited.filter(|audited| audited.takes_allowed(operation)) {
            audited.asked(AuditClass::Allowed, asked, &decide());
        }
    }

    fn enforces(&self) -> bool {
        match self.authorizer.mode {
            AuthorizerMode::Enforce => true,
            AuthorizerMode::Log => false,
        }
    }

    /// Takes notice of a denial; returns whether the client goes on all the same.
    #[cold]
    fn passes(&self, asked: (&Action<'_>, bool), decision: Decision<'_>) -> bool {
        assert!(!decision.is_allowed(), "only a denial is told");
        let action = asked.0;
        if let Some(audited) = &self.audited {
            let class = match self.authorizer.mode {
                AuthorizerMode::Enforce => AuditClass::Denied,
                AuthorizerMode::Log => AuditClass::WouldDeny,
            };
            audited.asked(class, asked, &decision);
        }
        let (enforced, who) = (self.enforces(), (&self.principal, self.address));
        self.denials
            .note(enforced, who, action, decision, self.began);
        !enforced
    }
}

#[cfg(test)]
impl Access {
    /// Returns that of a client on this host, under these ACLs.
    pub(crate) fn given(acls: Arc<Acls>, mode: AuthorizerMode, principal: &str) -> Self {
        let policy = wire::acl::Policy::default();
        let authorizer = Arc::new(Authorizer { policy, mode });
        let principal = Principal::parse(principal).expect("a principal");
        let who = (principal, [127, 0, 0, 1].into());
        let notes = AccessNotes {
            denials: &Denials::default(),
            verdicts: Arc::default,
            audited: || None,
        };
        Self::new(&authorizer, acls, who, notes, Instant::now())
    }

    /// Returns the counters of what the client was denied, as a monitoring system reads them.
    pub(crate) fn shown_denials(&self) -> String {
        let limited = self.0.as_ref();
        limited.map_or_else(String::new, |limited| limited.denials.shown())
    }
}

#[cfg(test)]
mod tests;
