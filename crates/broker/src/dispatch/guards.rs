//! The step before a handler: it checks the rights that cover a whole request, and answers in the
//! handler's place if the client lacks one.
//!
//! A row names one of four steps, each a type here; the functions of `call.rs` take a call together
//! with its step.
//! Invariants: a row does not compile if its step refuses whole requests and the type of its
//! request says neither what it names nor what its refusal looks like ([`RefusableRequest`]). A
//! request needs the rights on what it names, and on nothing else. A refusal is a response like any
//! other, and the connection stays. Not here: what a client may do (`access.rs`), the refusals
//! (`refusals.rs`), and rights on what a request names many times, which its handler checks.

use wire::acl::{CLUSTER_NAME, ResourceType};
use wire::protocol::Request;
use wire::types::ErrorCode;

use super::row::Right;
use crate::access::{Access, denied};

/// Every client may send the request.
pub(super) struct Open;

/// The handler checks the rights.
pub(super) struct Handler;

/// The step checks all rights, in the order of the row.
pub(super) struct Step;

/// The step checks the rights on what the request names once, and the handler those on topics.
pub(super) struct StepThenHandler;

/// What a step looks at besides the request.
pub(super) struct Asker<'a> {
    /// The rights of the row.
    pub(super) rights: &'static [Right],
    /// What the client may do.
    pub(super) access: &'a Access,
    /// The version of the request.
    pub(super) version: i16,
}

/// A step, for one type of request.
pub(super) trait Checks<T: Request> {
    /// Returns the response of a request whose client lacks a right that this step checks.
    async fn refusal(by: &Asker<'_>, asked: &T) -> Option<T::Response>;
}

impl<T: Request> Checks<T> for Open {
    async fn refusal(_: &Asker<'_>, _: &T) -> Option<T::Response> {
        None
    }
}

impl<T: Request> Checks<T> for Handler {
    async fn refusal(_: &Asker<'_>, _: &T) -> Option<T::Response> {
        None
    }
}

impl<T: RefusableRequest> Checks<T> for Step {
    async fn refusal(by: &Asker<'_>, asked: &T) -> Option<T::Response> {
        assert!(!by.rights.is_empty(), "a step checks something");
        by.refusal(asked, by.rights.iter()).await
    }
}

impl<T: RefusableRequest> Checks<T> for StepThenHandler {
    async fn refusal(by: &Asker<'_>, asked: &T) -> Option<T::Response> {
        let rights = by.rights.iter();
        let once = rights.filter(|right| right.resource_type != ResourceType::Topic);
        by.refusal(asked, once).await
    }
}

/// A request that can be refused whole.
pub(super) trait RefusableRequest: Request {
    /// Returns the name of the resource of a type that the request names once.
    fn named(&self, resource_type: ResourceType) -> Option<&str>;

    /// Returns the response that says in all its places why the request is refused, as a response
    /// of this version.
    async fn refused(&self, code: ErrorCode, version: i16) -> Self::Response;
}

impl Asker<'_> {
    /// Returns the response of a request whose client lacks one of these rights.
    async fn refusal<T: RefusableRequest>(
        &self,
        asked: &T,
        mut rights: impl Iterator<Item = &'static Right>,
    ) -> Option<T::Response> {
        let lacking = rights.find(|right| !self.has(**right, asked))?;
        let (code, _) = denied(lacking.resource_type);
        Some(asked.refused(code, self.version).await)
    }

    fn has(&self, right: Right, asked: &impl RefusableRequest) -> bool {
        let name = match right.resource_type {
            ResourceType::Cluster => Some(CLUSTER_NAME),
            other => asked.named(other),
        };
        let may = |name| self.access.may(right.operation, right.resource_type, name);
        name.is_some_and(may)
    }
}
