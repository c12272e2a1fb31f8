//! What measurements call: questions about rights as requests ask them, without a request.

use std::sync::Arc;

use platform::clock::Instant;
use wire::acl::{Operation, Policy, Principal, ResourceType};

use crate::access::{Access, AccessNotes, Denials};
use crate::authorizer::{Authorizer, AuthorizerMode};
use crate::image::Image;

/// What a client on this machine may do, as one of its requests knows it.
#[derive(Debug)]
pub struct AskedRights(Access);

impl AskedRights {
    /// Returns that of a principal under the ACLs of an image.
    pub fn new(image: &Image, principal: Principal, now: Instant) -> Self {
        let authorizer = Arc::new(Authorizer {
            policy: Policy::default(),
            mode: AuthorizerMode::Enforce,
        });
        let who = (principal, [127, 0, 0, 1].into());
        let notes = AccessNotes {
            denials: &Denials::default(),
            verdicts: Arc::default,
            audited: || None,
        };
        let acls = Arc::clone(image.acls());
        Self(Access::new(&authorizer, acls, who, notes, now))
    }

    /// Returns whether the client may read a topic.
    pub fn may_read(&self, topic: &str) -> bool {
        self.0.may(Operation::Read, ResourceType::Topic, topic)
    }
}
