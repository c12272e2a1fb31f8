//! Placeholder: the ACLs of the metadata.

use std::sync::Arc;

use wire::acl::{AclBinding, AclIndex};

/// ACLs.
#[derive(Clone, Debug, Default)]
pub struct Acls {
    index: AclIndex,
}

impl PartialEq for Acls {
    fn eq(&self, other: &Self) -> bool {
        self.index.count() == other.index.count()
    }
}

impl Acls {
    /// Returns these ACLs.
    pub fn of(acls: &[Arc<AclBinding>]) -> Self {
        let index = AclIndex::new(acls);
        Self { index }
    }

    /// Returns the ACLs, prepared for decisions.
    pub fn index(&self) -> &AclIndex {
        &self.index
    }
}
