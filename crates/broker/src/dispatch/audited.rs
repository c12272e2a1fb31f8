//! What an auditor has to know of requests that delete or move data without a change of the
//! metadata: what was done, by the response.
//!
//! Parts of a request that were refused are left out. Not here: changes of the metadata
//! (`controller/service/audited.rs`), rights (`access.rs`), logins (`login.rs`).

use std::fmt::Write as _;

use platform::Platform;
use wire::messages::{
    AlterReplicaLogDirsResponse, DeleteGroupsResponse, DeleteRecordsResponse, OffsetDeleteResponse,
};

use super::call::Call;
use crate::audit::{AuditedChange, AuditedRequest, TEXT_BYTES_MAX};

/// Notes the groups that were deleted.
pub(super) fn groups_deleted<P: Platform>(call: &Call<'_, P>, response: &DeleteGroupsResponse) {
    let Some(audited) = call.audited() else {
        return;
    };
    let deleted = response.results.iter().filter(|one| one.error_code == 0);
    audited.changed(deleted.map(|one| AuditedChange::new("delete_group", &one.group_id, "")));
}

/// Notes the topics whose records were deleted.
pub(super) fn records_deleted<P: Platform>(call: &Call<'_, P>, response: &DeleteRecordsResponse) {
    let Some(audited) = call.audited() else {
        return;
    };
    let topics = response.topics.iter().map(|topic| {
        let done = topic.partitions.iter().filter(|one| one.error_code == 0);
        let each = done.map(|one| (one.partition_index, Some(one.low_watermark)));
        (topic.name.as_str(), listed(each))
    });
    audited.changed(changes("delete_records", topics));
}

/// Notes the topics whose logs move to another directory.
pub(super) fn logs_moved<P: Platform>(call: &Call<'_, P>, response: &AlterReplicaLogDirsResponse) {
    let Some(audited) = call.audited() else {
        return;
    };
    let topics = response.results.iter().map(|topic| {
        let done = topic.partitions.iter().filter(|one| one.error_code == 0);
        (
            topic.topic_name.as_str(),
            listed(done.map(|one| (one.partition_index, None))),
        )
    });
    audited.changed(changes("move_logs", topics));
}

/// Notes the topics whose offsets were deleted from a group.
pub(super) fn offsets_deleted(
    audited: &AuditedRequest,
    group: &str,
    response: &OffsetDeleteResponse,
) {
    let topics = response.topics.iter().filter_map(|topic| {
        let done = topic.partitions.iter().filter(|one| one.error_code == 0);
        let partitions = listed(done.map(|one| (one.partition_index, None)));
        let value = format!("topic {} {partitions}", topic.name.as_str());
        (!partitions.is_empty()).then(|| AuditedChange::new("delete_offsets", group, &value))
    });
    audited.changed(topics);
}

fn changes<'a>(
    what: &'static str,
    topics: impl Iterator<Item = (&'a str, String)>,
) -> impl Iterator<Item = AuditedChange> {
    let done = topics.filter(|(_, partitions)| !partitions.is_empty());
    done.map(move |(topic, partitions)| AuditedChange::new(what, topic, &partitions))
}

/// Returns the partitions as text, and up to which offset: as many as are kept of it.
fn listed(partitions: impl Iterator<Item = (i32, Option<i64>)>) -> String {
    let mut text = String::new();
    for (partition, offset) in partitions {
        let before = if text.is_empty() { "partitions " } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{before}{partition}");
        if let Some(offset) = offset {
            let _ = write!(text, " before {offset}");
        }
        if text.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_done_is_listed_and_as_much_as_is_kept() {
        assert_eq!(listed([].into_iter()), "");
        let some = [(0, Some(17)), (2, None)];
        assert_eq!(listed(some.into_iter()), "partitions 0 before 17, 2");
        let all = listed((0..1_000_000).map(|one| (one, None)));
        assert!(all.len() > TEXT_BYTES_MAX && all.len() < TEXT_BYTES_MAX + 20);
        let topics = [("a", String::new()), ("b", "partitions 1".to_owned())];
        let told: Vec<_> = changes("delete_records", topics.into_iter()).collect();
        assert_eq!(
            told,
            [AuditedChange::new("delete_records", "b", "partitions 1")]
        );
    }
}
