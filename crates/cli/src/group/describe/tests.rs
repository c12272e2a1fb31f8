//! A group that cannot be described, beside one that can.

use bytes::Bytes;
use wire::messages::consumer_group_describe_response::DescribedGroup;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, GroupId, ListGroupsRequest, ListGroupsResponse, OffsetFetchRequest,
    OffsetFetchResponse, describe_groups_response as classic,
};

use super::*;
use crate::ask::{AskedRequest, Peer, text};

const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// The groups that the broker lists; the last is of a type that cannot be described.
const LISTED: [&str; 3] = ["readers", "secret", "shared"];

fn modern(request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse {
    let groups = request.group_ids.into_iter().map(|id| {
        let error = match id.0.as_str() {
            "readers" => 0,
            "secret" => GROUP_AUTHORIZATION_FAILED,
            _ => GROUP_ID_NOT_FOUND,
        };
        let group = DescribedGroup::default().with_group_id(id);
        group.with_error_code(error)
    });
    ConsumerGroupDescribeResponse::default().with_groups(groups.collect())
}

fn old(request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let groups = request.groups.into_iter().map(|id| {
        let group = classic::DescribedGroup::default().with_group_id(id);
        group.with_error_code(GROUP_ID_NOT_FOUND)
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

fn listed(_: ListGroupsRequest) -> ListGroupsResponse {
    let groups = LISTED.map(|name| ListedGroup::default().with_group_id(GroupId(text(name))));
    ListGroupsResponse::default().with_groups(groups.to_vec())
}

fn positions(request: OffsetFetchRequest) -> OffsetFetchResponse {
    let groups = request.groups.into_iter();
    let groups = groups.map(|one| OffsetFetchResponseGroup::default().with_group_id(one.group_id));
    OffsetFetchResponse::default().with_groups(groups.collect())
}

fn answer(asked: &AskedRequest) -> Option<Bytes> {
    asked
        .metadata(Vec::new())
        .or_else(|| asked.coordinator())
        .or_else(|| asked.to(modern))
        .or_else(|| asked.to(old))
        .or_else(|| asked.to(listed))
        .or_else(|| asked.to(positions))
}

fn look(names: &[&str]) -> DescribedGroups {
    let names = names.iter().map(|name| name.parse().unwrap());
    let describe = Describe {
        names: names.collect(),
    };
    describe.look(&mut Peer::start(answer).cluster()).unwrap()
}

#[test]
fn a_group_that_fails_hides_no_other_and_one_that_is_gone_is_no_failure_of_a_pattern() {
    let found = look(&["*"]);
    let names: Vec<_> = found.groups.iter().map(|one| &one.group.name).collect();
    assert_eq!(names, ["readers"]);
    assert_eq!(found.errors, ["group secret: GROUP_AUTHORIZATION_FAILED"]);
    assert!(!found.is_complete());
    assert!(look(&["re*", "sh*"]).is_complete());
}

#[test]
fn a_group_that_is_named_has_to_exist() {
    let found = look(&["shared", "readers"]);
    assert_eq!(found.errors, ["group shared does not exist"]);
    assert_eq!(found.groups.len(), 1);
    assert!(!found.is_complete());
}
