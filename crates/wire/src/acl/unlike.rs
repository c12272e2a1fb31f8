//! ACLs whose host permits something to other clients here than in Kafka, for an operator to know
//! before a move.
//!
//! Not here: ACLs that forbid. Those forbid here to all clients to which they do in Kafka.

use super::binding::AclBinding;
use super::codes::PermissionType;
use super::host::KafkaDifference;

/// Returns those of `acls` that permit something to more clients here than in Kafka, or to fewer.
pub fn unlike_kafka<'a>(
    acls: impl IntoIterator<Item = &'a AclBinding>,
) -> impl Iterator<Item = (&'a AclBinding, KafkaDifference)> {
    acls.into_iter().filter_map(|acl| {
        let permits = acl.effect() == PermissionType::Allow && acl.operation.known().is_some();
        let unlike = acl.host.unlike_kafka().filter(|_| permits)?;
        Some((acl, unlike))
    })
}

#[cfg(test)]
mod tests {
    use super::super::given::acls;
    use super::*;

    #[test]
    fn only_what_permits_can_permit_too_much() {
        let acls = acls(&[
            "ALLOW READ LITERAL TOPIC orders User:a ::1",
            "ALLOW READ LITERAL TOPIC orders User:a 10.0.0.1",
            "ALLOW ALL PREFIXED GROUP g User:* fe80:0:0:0:0:0:0:1%eth0",
            "DENY READ LITERAL TOPIC orders User:a ::1",
            // Both forbid with the first, and do nothing with the second.
            "9 READ LITERAL TOPIC orders User:a ::1",
            "ALLOW 99 LITERAL TOPIC orders User:a ::1",
        ]);
        let found: Vec<_> = unlike_kafka(&acls).collect();
        let expected = [
            (&acls[0], KafkaDifference::Wider),
            (&acls[2], KafkaDifference::Narrower),
        ];
        assert_eq!(found, expected);
    }
}
