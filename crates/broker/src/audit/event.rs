//! One event: who did what, from where, and what became of it.
//!
//! Invariants: every text that a client chose is cut to a bound, and the event says so
//! ([`AuditEvent::is_cut`]), because a name that was cut is another name. Texts are kept as they
//! are: the writer escapes them.

use std::net::IpAddr;
use std::sync::Arc;

use wire::acl::{Operation, ResourceType};
use wire::text::cut;

use super::changes::{AuditedChange, AuditedRecords, TEXT_BYTES_MAX};
use super::classes::AuditClass;

/// Longest client id of an event, in bytes.
const CLIENT_BYTES_MAX: usize = 256;

/// Bytes that an event takes besides its texts, approximately.
const EVENT_BYTES: usize = 256;

/// The API of events of the admin port.
pub const ADMIN_API: &str = "admin";

/// What happened.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// What it is about.
    pub class: AuditClass,
    /// Who did it; empty if that is not known.
    pub principal: String,
    /// From where.
    pub origin: AuditOrigin,
    /// What exactly.
    pub detail: AuditDetail,
    /// True if a text is longer than is kept of it.
    pub is_cut: bool,
}

/// Where an event comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AuditOrigin {
    /// The client's address.
    pub address: IpAddr,
    /// The listener of the connection.
    pub listener: Arc<str>,
    /// The mechanism of the login, `TLS` for a certificate; empty without either.
    pub mechanism: &'static str,
    /// The client id; empty if there is none.
    pub client: String,
    /// The API; empty if the event is about no request.
    pub api: &'static str,
}

/// What an event is about, beside who and from where.
#[derive(Clone, Debug)]
pub enum AuditDetail {
    /// A login, and why it failed; empty if it did not.
    Login(String),
    /// A right.
    Right(AuditedRight),
    /// Changes of the metadata, as records.
    Records(Box<AuditedRecords>),
    /// Other changes.
    Changes(Vec<AuditedChange>),
}

/// A right that a client asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AuditedRight {
    /// The operation.
    pub operation: Operation,
    /// The type of the resource.
    pub resource_type: ResourceType,
    /// Its name; empty if any resource of the type would do.
    pub name: String,
    /// True if any resource of the type would do.
    pub is_any: bool,
    /// The rule that decided, in words.
    pub rule: String,
}

impl AuditOrigin {
    /// Returns the origin of an event about no request: a login.
    pub fn of_login(address: IpAddr, listener: &Arc<str>, mechanism: &'static str) -> Self {
        Self {
            address,
            listener: Arc::clone(listener),
            mechanism,
            client: String::new(),
            api: "",
        }
    }

    /// Adds the client id.
    #[must_use]
    pub(crate) fn by_client(mut self, id: &str) -> Self {
        cut(id, CLIENT_BYTES_MAX).clone_into(&mut self.client);
        self
    }
}

impl AuditEvent {
    /// Returns an event of a principal, which is empty if it is not known.
    pub fn new(
        class: AuditClass,
        principal: &str,
        origin: AuditOrigin,
        detail: AuditDetail,
    ) -> Self {
        let mut event = Self {
            class,
            principal: String::new(),
            origin,
            detail,
            is_cut: false,
        };
        event.principal = event.kept(principal);
        if let AuditDetail::Login(reason) = &mut event.detail {
            // For people, as a rule is.
            *reason = cut(reason, TEXT_BYTES_MAX).to_owned();
        }
        event
    }

    /// Returns an event about a right; without a name any resource of the type would do.
    pub fn of_right(
        class: AuditClass,
        principal: &str,
        origin: AuditOrigin,
        (operation, resource_type, name): (Operation, ResourceType, Option<&str>),
        rule: &str,
    ) -> Self {
        let mut event = Self::new(class, principal, origin, AuditDetail::Login(String::new()));
        // The rule is for people, and may repeat the name: a name that is whole stays usable.
        let rule = cut(rule, TEXT_BYTES_MAX).to_owned();
        event.detail = AuditDetail::Right(AuditedRight {
            operation,
            resource_type,
            name: name.map(|name| event.kept(name)).unwrap_or_default(),
            is_any: name.is_none(),
            rule,
        });
        event
    }

    /// Returns true for a change that a request of a client has made to data, not to the metadata:
    /// clients that are no administrators may make very many.
    pub fn is_of_data(&self) -> bool {
        let is_of_request = !["", ADMIN_API].contains(&self.origin.api);
        is_of_request && matches!(self.detail, AuditDetail::Changes(_))
    }

    fn kept(&mut self, text: &str) -> String {
        let kept = cut(text, TEXT_BYTES_MAX);
        self.is_cut |= kept.len() < text.len();
        kept.to_owned()
    }

    /// Returns the bytes that the event takes, approximately.
    pub fn bytes(&self) -> usize {
        let detail = match &self.detail {
            AuditDetail::Login(reason) => reason.len(),
            AuditDetail::Right(right) => right.name.len().saturating_add(right.rule.len()),
            AuditDetail::Records(records) => records.bytes(),
            AuditDetail::Changes(changes) => {
                let each = changes.iter().map(AuditedChange::bytes);
                each.fold(0, usize::saturating_add)
            }
        };
        let texts = [self.principal.len(), self.origin.client.len(), detail];
        texts.into_iter().fold(EVENT_BYTES, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_cut_says_so_and_a_rule_that_was_does_not() {
        let origin = || AuditOrigin::of_login([10, 0, 0, 1].into(), &"A".into(), "");
        let event = |name: &str, rule: &str| {
            let right = (Operation::Read, ResourceType::Group, Some(name));
            AuditEvent::of_right(AuditClass::Denied, "User:ada", origin(), right, rule)
        };
        let long = "n".repeat(TEXT_BYTES_MAX + 1);
        assert!(!event("g", &long).is_cut);
        let cut = event(&long, "no ACL");
        assert!(cut.is_cut);
        let AuditDetail::Right(right) = &cut.detail else {
            panic!("{cut:?}");
        };
        assert_eq!(right.name.len(), TEXT_BYTES_MAX);
        assert!(cut.bytes() >= TEXT_BYTES_MAX && cut.bytes() < TEXT_BYTES_MAX + 1000);
        let whole = "n".repeat(TEXT_BYTES_MAX);
        assert!(!event(&whole, "").is_cut);
        assert_eq!(origin().by_client(&long).client.len(), CLIENT_BYTES_MAX);
    }
}
