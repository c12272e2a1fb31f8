//! ACLs among the records that are kept without being decoded.
//!
//! Nothing here is enforced: the broker has no authorizer yet, and an operator who takes over the
//! metadata of a Kafka has to be told how many ACLs no longer protect anything. The bytes of the
//! record stay what they are.

use uuid::Uuid;

use super::schemas::{AccessControlEntryRecord, RemoveAccessControlEntryRecord};
use super::{ACL, ACL_REMOVED, Field, OpaqueRecord, Reader};

/// What one record changes of the ACLs.
#[derive(Clone, PartialEq, Debug)]
pub enum AclChange {
    /// There is one more.
    Added(AccessControlEntryRecord),
    /// The one with this id is gone.
    Removed(Uuid),
}

impl OpaqueRecord {
    /// Returns what the record changes of the ACLs; `None` for a record of another type, and for
    /// one that cannot be read.
    pub fn acl(&self) -> Option<AclChange> {
        match self.key {
            ACL => {
                let form = AccessControlEntryRecord::form(self.version);
                let record = AccessControlEntryRecord::read(&mut Reader::new(&self.body), form);
                record.ok().map(AclChange::Added)
            }
            ACL_REMOVED => {
                let form = RemoveAccessControlEntryRecord::form(self.version);
                let record =
                    RemoveAccessControlEntryRecord::read(&mut Reader::new(&self.body), form);
                record.ok().map(|record| AclChange::Removed(record.id))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_acl_is_read_from_the_bytes_that_kafka_writes() {
        // AccessControlEntryRecord 0: id, topic, "orders", literal, "User:a", "*", READ, ALLOW.
        let mut body = vec![7; 16];
        body.push(2);
        body.extend(b"\x07orders\x03\x07User:a\x02*\x03\x03\x00");
        let record = OpaqueRecord {
            key: 18,
            version: 0,
            body: body.into(),
        };
        let Some(AclChange::Added(acl)) = record.acl() else {
            panic!("{record:?}");
        };
        assert_eq!(acl.id, Uuid::from_bytes([7; 16]));
        assert_eq!(
            (acl.resource_name.as_str(), acl.principal.as_str()),
            ("orders", "User:a")
        );
        assert_eq!((acl.operation, acl.permission_type), (3, 3));
        let mut body = vec![7; 16];
        body.push(0);
        let record = OpaqueRecord {
            key: 19,
            version: 0,
            body: body.into(),
        };
        assert_eq!(record.acl(), Some(AclChange::Removed(acl.id)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(key in 17_i16..21, body in any::<Vec<u8>>()) {
            let record = OpaqueRecord { key, version: 0, body: body.into() };
            let _ = record.acl();
        }
    }
}
