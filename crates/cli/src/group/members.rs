//! A group as its coordinator describes it, in the classic or the consumer protocol.
//!
//! Assignments are decoded for consumers only.

use anyhow::Context as _;
use serde::Serialize;
use wire::messages::consumer_group_describe_response as modern;
use wire::messages::describe_groups_response as classic;
use wire::messages::{ConsumerGroupDescribeRequest, DescribeGroupsRequest, GroupId};
use wire::types::ErrorCode;

use super::assignment;
use crate::ask::{Cluster, Coordinates, Failure, PartitionKey, Refusal, check, patiently, text};

/// A group.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) state: String,
    pub(super) assignor: String,
    pub(super) coordinator: i32,
    pub(super) members: Vec<Member>,
}

/// A member.
#[derive(Debug, Serialize)]
pub(super) struct Member {
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<String>,
    pub(super) client: String,
    pub(super) host: String,
    pub(super) partitions: Vec<PartitionKey>,
}

impl Group {
    /// Returns the member to which a partition is assigned.
    pub(super) fn owner(&self, place: &PartitionKey) -> Option<&Member> {
        self.members
            .iter()
            .find(|member| member.partitions.contains(place))
    }

    /// Returns true if the group has no members.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state.as_str(), "Empty" | "Dead")
    }
}

/// Asks the coordinator for a group; returns `None` if it does not exist.
pub(super) fn ask(cluster: &mut Cluster, name: &str) -> anyhow::Result<Option<Group>> {
    let id = cluster.coordinator(Coordinates::Group, name)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let group = patiently(within, || {
        if broker.serves::<ConsumerGroupDescribeRequest>() {
            let request =
                ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text(name))]);
            let mut groups = broker.ask_newest(&request)?.groups.into_iter();
            let group = groups.find(|one| one.group_id.0.as_str() == name);
            let group = group.ok_or(Failure::LeftOut)?;
            match check(group.error_code, group.error_message.as_ref()) {
                Ok(()) => return Ok(Some(of_modern(name, id, group))),
                Err(refusal) if !is_other_kind(&refusal) => return Err(refusal.into()),
                Err(_) => {}
            }
        }
        let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(name))]);
        let mut groups = broker.ask_newest(&request)?.groups.into_iter();
        let group = groups.find(|one| one.group_id.0.as_str() == name);
        let group = group.ok_or(Failure::LeftOut)?;
        match check(group.error_code, group.error_message.as_ref()) {
            Err(refusal) if refusal.error == ErrorCode::GroupIdNotFound => Ok(None),
            Err(refusal) => Err(refusal.into()),
            // Brokers before 4.0 report a missing group in this way.
            Ok(()) if group.group_state.as_str() == "Dead" => Ok(None),
            Ok(()) => Ok(Some(of_classic(name, id, group))),
        }
    });
    group.with_context(|| format!("group {name}"))
}

/// Returns true if the group uses the other protocol or does not exist.
fn is_other_kind(refusal: &Refusal) -> bool {
    matches!(
        refusal.error,
        ErrorCode::GroupIdNotFound | ErrorCode::UnsupportedVersion
    )
}

fn of_modern(name: &str, coordinator: i32, group: modern::DescribedGroup) -> Group {
    let members = group.members.into_iter().map(|member| Member {
        id: member.member_id.to_string(),
        instance: member.instance_id.map(|id| id.to_string()),
        client: member.client_id.to_string(),
        host: member.client_host.to_string(),
        partitions: member
            .assignment
            .topic_partitions
            .iter()
            .flat_map(|topic| places(topic.topic_name.0.as_str(), &topic.partitions))
            .collect(),
    });
    Group {
        name: name.to_owned(),
        kind: "consumer",
        state: group.group_state.to_string(),
        assignor: group.assignor_name.to_string(),
        coordinator,
        members: members.collect(),
    }
}

fn of_classic(name: &str, coordinator: i32, group: classic::DescribedGroup) -> Group {
    let is_consumer = group.protocol_type.as_str() == "consumer";
    let members = group.members.into_iter().map(|member| {
        let bytes = Some(member.member_assignment).filter(|_| is_consumer);
        Member {
            id: member.member_id.to_string(),
            instance: member.group_instance_id.map(|id| id.to_string()),
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            // The format of assignments in other kinds of groups is unknown. Bytes that are no
            // assignment do not hide the group.
            partitions: bytes.and_then(assignment::decode).unwrap_or_default(),
        }
    });
    Group {
        name: name.to_owned(),
        kind: "classic",
        state: group.group_state.to_string(),
        assignor: group.protocol_data.to_string(),
        coordinator,
        members: members.collect(),
    }
}

fn places(topic: &str, partitions: &[i32]) -> Vec<PartitionKey> {
    let places = partitions.iter().map(|&index| (topic.to_owned(), index));
    places.collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::messages::{ConsumerGroupDescribeResponse, DescribeGroupsResponse};

    use super::*;
    use crate::ask::{AskedRequest, Peer};

    #[test]
    fn bytes_that_are_no_assignment_leave_the_member_without_partitions() {
        let member = |id: &str, assignment: &'static [u8]| {
            classic::DescribedGroupMember::default()
                .with_member_id(text(id))
                .with_member_assignment(Bytes::from_static(assignment))
        };
        let cars = b"\0\0\0\0\0\x01\0\x04cars\0\0\0\x01\0\0\0\x02";
        let members = vec![member("a", b"\0\0\x7f\xff\xff\xff"), member("b", cars)];
        let group = classic::DescribedGroup::default()
            .with_protocol_type(text("consumer"))
            .with_members(members);
        let members = of_classic("g", 1, group).members.into_iter();
        let members: Vec<_> = members.map(|one| (one.id, one.partitions)).collect();
        let place = ("cars".to_owned(), 2);
        let expected = [("a".to_owned(), vec![]), ("b".to_owned(), vec![place])];
        assert_eq!(members, expected);
    }

    #[test]
    fn a_group_that_nobody_asked_for_is_no_answer() {
        fn other() -> GroupId {
            GroupId(text("other"))
        }
        let modern_too = |error: i16| {
            move |asked: &AskedRequest| {
                let group = modern::DescribedGroup::default().with_group_id(other());
                let modern = ConsumerGroupDescribeResponse::default().with_groups(vec![
                    group.clone(),
                    group
                        .with_group_id(GroupId(text("g")))
                        .with_error_code(error),
                ]);
                let group = classic::DescribedGroup::default().with_group_id(other());
                let classic = DescribeGroupsResponse::default().with_groups(vec![group]);
                asked
                    .coordinator()
                    .or_else(|| asked.to(|_: ConsumerGroupDescribeRequest| modern))
                    .or_else(|| asked.to(|_: DescribeGroupsRequest| classic))
            }
        };
        let mut cluster = Peer::start(modern_too(0)).cluster();
        let group = ask(&mut cluster, "g").unwrap().unwrap();
        assert_eq!((group.name.as_str(), group.kind), ("g", "consumer"));
        let left_out = ask(&mut cluster, "h").unwrap_err();
        let reason = "group h: the broker did not answer for it";
        assert_eq!(format!("{left_out:#}"), reason);
        // The group is not of this kind, and the other answer leaves it out.
        let mut cluster = Peer::start(modern_too(69)).cluster();
        assert!(ask(&mut cluster, "g").is_err());
    }
}
