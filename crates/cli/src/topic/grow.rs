//! New partitions of a topic: for `topic alter --partitions` and `topic add-partitions`.
//!
//! The brokers choose the replicas.

use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::{CreatePartitionsRequest, TopicName};

use crate::ask::{Cluster, Failure, check, text};

/// Asks for partitions up to `count` of them.
pub(super) fn to(
    cluster: &mut Cluster,
    name: &str,
    count: i32,
    dry_run: bool,
) -> Result<(), Failure> {
    let topic = CreatePartitionsTopic::default()
        .with_name(TopicName(text(name)))
        .with_count(count)
        .with_assignments(None);
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(cluster.within_ms())
        .with_validate_only(dry_run);
    let results = cluster.controller()?.ask_newest(&request)?.results;
    let result = results.first().ok_or(Failure::LeftOut)?;
    Ok(check(result.error_code, result.error_message.as_ref())?)
}
