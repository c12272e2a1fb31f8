//! A resource as a command line names it: `topic:orders`, `group:readers`, `txn:pay`, `cluster`.
//!
//! Not here: whether it exists.

use wire::acl::{CLUSTER_NAME, ResourceType};

/// One resource, by its type and its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NamedResource {
    pub(crate) resource_type: ResourceType,
    pub(crate) name: String,
}

/// The short words for types; Kafka's own are taken as well.
const SHORT: [(&str, ResourceType); 3] = [
    ("txn", ResourceType::TransactionalId),
    ("transaction", ResourceType::TransactionalId),
    ("token", ResourceType::DelegationToken),
];

/// Reads `TYPE:NAME`, or `cluster`.
pub(crate) fn parse(text: &str) -> Result<NamedResource, String> {
    let (kind, name) = text.split_once(':').unwrap_or((text, ""));
    let short = SHORT
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(kind));
    let resource_type = short.map_or_else(|| ResourceType::parse(kind), |(_, found)| Some(*found));
    let Some(resource_type) = resource_type else {
        return Err(
            "a resource is topic:NAME, group:ID, txn:ID, user:PRINCIPAL, token:ID \
                    or cluster"
                .to_owned(),
        );
    };
    let name = match (resource_type, name) {
        (ResourceType::Cluster, "" | CLUSTER_NAME) => CLUSTER_NAME,
        (ResourceType::Cluster, _) => {
            return Err(format!("the name of the cluster is {CLUSTER_NAME}"));
        }
        (_, "") => return Err(format!("{kind}:NAME has a name")),
        (_, name) => name,
    };
    Ok(NamedResource {
        resource_type,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_a_type_and_a_name() {
        for (text, resource_type, name) in [
            ("topic:orders", ResourceType::Topic, "orders"),
            ("GROUP:a:b", ResourceType::Group, "a:b"),
            ("txn:pay", ResourceType::TransactionalId, "pay"),
            ("transactional-id:pay", ResourceType::TransactionalId, "pay"),
            ("cluster", ResourceType::Cluster, CLUSTER_NAME),
            ("cluster:kafka-cluster", ResourceType::Cluster, CLUSTER_NAME),
            ("user:User:ada", ResourceType::User, "User:ada"),
        ] {
            let found = parse(text).unwrap();
            assert_eq!((found.resource_type, &*found.name), (resource_type, name));
        }
        for wrong in ["orders", "topic", "topic:", "cluster:other", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
