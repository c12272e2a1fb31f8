//! Placeholder: the authorizer's settings.

use wire::acl::Policy;

/// What the operator set about authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorizer {
    /// Super users, and resources without ACLs.
    pub policy: Policy,
    /// Whether ACLs are enforced.
    pub mode: AuthorizerMode,
}

/// What becomes of what ACLs deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizerMode {
    /// It is refused.
    Enforce,
    /// It is logged, and done.
    Log,
}
