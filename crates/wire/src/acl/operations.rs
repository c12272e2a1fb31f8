//! The bits of the operations that a client may do, as Metadata, `DescribeCluster` and
//! `DescribeGroups` answer them: bit `n` is the operation with the code `n`.

use super::codes::{Operation, ResourceType};

/// What is answered when the client did not ask.
pub const NOT_ASKED: i32 = i32::MIN;

/// Returns the operations that resources of this type know.
pub const fn supported_operations(resource_type: ResourceType) -> &'static [Operation] {
    use Operation::{
        Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe,
        DescribeConfigs, DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
    };
    match resource_type {
        ResourceType::Topic => &[
            Read,
            Write,
            Create,
            Delete,
            Alter,
            Describe,
            DescribeConfigs,
            AlterConfigs,
        ],
        ResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Cluster => &[
            Create,
            Alter,
            Describe,
            ClusterAction,
            DescribeConfigs,
            AlterConfigs,
            IdempotentWrite,
        ],
        ResourceType::TransactionalId => &[Write, Describe, TwoPhaseCommit],
        ResourceType::DelegationToken => &[Describe],
        ResourceType::User => &[CreateTokens, DescribeTokens],
    }
}

/// Returns the bits of what the client may do with a resource of this type, given the decision for
/// each operation.
///
/// A client that may not describe the cluster gets no bit of it.
pub fn authorized_operations(resource_type: ResourceType, may: impl Fn(Operation) -> bool) -> i32 {
    if resource_type == ResourceType::Cluster && !may(Operation::Describe) {
        return 0;
    }
    let operations = supported_operations(resource_type).iter().copied();
    let allowed = operations.filter(|operation| may(*operation));
    let bits = allowed.fold(0, |bits, operation| bits | (1 << operation.code()));
    assert!(bits >= 0, "no answer is mistaken for \"not asked\"");
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_may_do_everything_gets_the_bits_that_kafka_answers() {
        for (resource_type, codes) in [
            (ResourceType::Topic, &[3, 4, 5, 6, 7, 8, 10, 11][..]),
            (ResourceType::Group, &[3, 6, 8, 10, 11]),
            (ResourceType::Cluster, &[5, 7, 8, 9, 10, 11, 12]),
            (ResourceType::TransactionalId, &[4, 8, 15]),
        ] {
            let bits = codes.iter().fold(0, |bits, code| bits | (1 << code));
            assert_eq!(authorized_operations(resource_type, |_| true), bits);
        }
        // As Kafka 4.3 answers without an authorizer.
        assert_eq!(authorized_operations(ResourceType::Topic, |_| true), 3576);
        assert_eq!(authorized_operations(ResourceType::Cluster, |_| true), 8096);
    }

    #[test]
    fn only_what_is_allowed_has_a_bit() {
        let may = |operation| matches!(operation, Operation::Read | Operation::Describe);
        assert_eq!(authorized_operations(ResourceType::Topic, may), 8 | 256);
        assert_eq!(authorized_operations(ResourceType::Cluster, may), 256);
        // READ is nothing that one can do with a transactional id.
        assert_eq!(
            authorized_operations(ResourceType::TransactionalId, may),
            256
        );
    }

    #[test]
    fn the_cluster_is_hidden_from_who_may_not_describe_it() {
        let may = |operation| operation == Operation::Alter;
        assert_eq!(authorized_operations(ResourceType::Cluster, may), 0);
        assert_eq!(authorized_operations(ResourceType::Topic, may), 128);
    }
}
