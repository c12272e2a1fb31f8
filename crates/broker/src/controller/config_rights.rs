//! The rights on settings: those of a topic or a group are asked of itself, those of brokers, of
//! their loggers and of client metrics of the cluster.
//!
//! Not here: kinds of resources without settings, which are refused as such.

use wire::acl::{self, CLUSTER_NAME, Operation};

use crate::access::Access;
use crate::image::ResourceType;

use super::Refusal;

/// Refuses a client that may not do this with the settings of a resource.
pub(crate) fn check(
    access: &Access,
    operation: Operation,
    kind: ResourceType,
    resource: &str,
) -> Result<(), Refusal> {
    let (resource_type, name) = match kind {
        ResourceType::TOPIC => (acl::ResourceType::Topic, resource),
        ResourceType::GROUP => (acl::ResourceType::Group, resource),
        ResourceType::BROKER | ResourceType::BROKER_LOGGER | ResourceType::CLIENT_METRICS => {
            (acl::ResourceType::Cluster, CLUSTER_NAME)
        }
        _ => return Ok(()),
    };
    if access.may(operation, resource_type, name) {
        Ok(())
    } else {
        assert!(access.is_limited(), "others have every right");
        Err(Refusal::denied(resource_type))
    }
}

/// Returns whether a client could alter settings of brokers; a denial is not counted.
pub(crate) fn lets_alter_brokers(access: &Access) -> bool {
    access.lets(
        Operation::AlterConfigs,
        acl::ResourceType::Cluster,
        CLUSTER_NAME,
    )
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;
    use crate::access::given::limited_to;

    #[test]
    fn a_topic_and_a_group_have_their_own_rights_and_the_rest_is_the_clusters() {
        use acl::ResourceType::{Cluster, Group, Topic};
        let topic = ErrorCode::TopicAuthorizationFailed;
        let group = ErrorCode::GroupAuthorizationFailed;
        let cluster = ErrorCode::ClusterAuthorizationFailed;
        for (granted, name, refused) in [
            (Topic, "x", [None, Some(group), Some(cluster)]),
            (Group, "x", [Some(topic), None, Some(cluster)]),
            (Cluster, CLUSTER_NAME, [Some(topic), Some(group), None]),
        ] {
            let access = limited_to(&[(granted, name, Operation::AlterConfigs)]);
            let code = |kind| {
                // Who may alter settings may see them.
                let altered = check(&access, Operation::AlterConfigs, kind, "x");
                let seen = check(&access, Operation::DescribeConfigs, kind, "x");
                assert_eq!(altered, seen, "{kind:?}");
                altered.err().map(|refusal| refusal.code)
            };
            let kinds = [
                ResourceType::TOPIC,
                ResourceType::GROUP,
                ResourceType::BROKER,
            ];
            assert_eq!(kinds.map(code), refused, "{granted}");
            for kind in [ResourceType::BROKER_LOGGER, ResourceType::CLIENT_METRICS] {
                assert_eq!(code(kind), refused[2], "{kind:?}");
            }
            assert_eq!(code(ResourceType(64)), None);
        }
    }
}
