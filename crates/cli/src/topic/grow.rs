//! New partitions of a topic: for `topic alter --partitions` and `topic add-partitions`.
//!
//! The brokers choose the replicas.

use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::create_partitions_response::CreatePartitionsTopicResult;
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
    answered(&results, name)
}

/// Returns what the controller answered for the topic.
fn answered(results: &[CreatePartitionsTopicResult], name: &str) -> Result<(), Failure> {
    let mut all = results.iter();
    let result = all.find(|result| result.name.0.as_str() == name);
    let result = result.ok_or(Failure::LeftOut)?;
    Ok(check(result.error_code, result.error_message.as_ref())?)
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn what_became_of_another_topic_is_no_answer() {
        let result = |name: &str, error: i16| {
            CreatePartitionsTopicResult::default()
                .with_name(TopicName(text(name)))
                .with_error_code(error)
        };
        let results = [result("trucks", 0), result("cars", 37)];
        assert_eq!(answered(&results, "trucks"), Ok(()));
        let refused = Err(ErrorCode::InvalidPartitions.into());
        assert_eq!(answered(&results, "cars"), refused);
        assert_eq!(answered(&results, "bikes"), Err(Failure::LeftOut));
    }
}
