//! A group as its coordinator describes it, in the classic or the consumer protocol.
//!
//! Assignments are decoded for consumers only.

use anyhow::Context as _;
use bytes::{Buf as _, Bytes};
use serde::Serialize;
use wire::Decodable as _;
use wire::messages::consumer_group_describe_response as modern;
use wire::messages::describe_groups_response as classic;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, DescribeGroupsRequest, GroupId,
};
use wire::types::ErrorCode;

use crate::ask::{Cluster, Coordinates, Place, Refusal, check, patiently, text};

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
    pub(super) partitions: Vec<Place>,
}

impl Group {
    /// Returns the member to which a partition is assigned.
    pub(super) fn owner(&self, place: &Place) -> Option<&Member> {
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
            let groups = broker.ask_newest(&request)?.groups;
            let group = groups.into_iter().next().context("an empty answer")?;
            match check(group.error_code, group.error_message.as_ref()) {
                Ok(()) => return Ok(Some(of_modern(name, id, group))),
                Err(refusal) if !is_other_kind(&refusal) => return Err(refusal.into()),
                Err(_) => {}
            }
        }
        let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(name))]);
        let groups = broker.ask_newest(&request)?.groups;
        let group = groups.into_iter().next().context("an empty answer")?;
        match check(group.error_code, group.error_message.as_ref()) {
            Err(refusal) if refusal.error == ErrorCode::GroupIdNotFound => Ok(None),
            Err(refusal) => Err(refusal.into()),
            // Brokers before 4.0 report a missing group in this way.
            Ok(()) if group.group_state.as_str() == "Dead" => Ok(None),
            Ok(()) => Ok(Some(of_classic(name, id, group)?)),
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

fn of_classic(
    name: &str,
    coordinator: i32,
    group: classic::DescribedGroup,
) -> anyhow::Result<Group> {
    let is_consumer = group.protocol_type.as_str() == "consumer";
    let members = group.members.into_iter().map(|member| {
        let assignment = member.member_assignment;
        Ok(Member {
            id: member.member_id.to_string(),
            instance: member.group_instance_id.map(|id| id.to_string()),
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            // The format of assignments in other kinds of groups is unknown.
            partitions: if is_consumer {
                assigned(assignment)?
            } else {
                Vec::new()
            },
        })
    });
    Ok(Group {
        name: name.to_owned(),
        kind: "classic",
        state: group.group_state.to_string(),
        assignor: group.protocol_data.to_string(),
        coordinator,
        members: members.collect::<anyhow::Result<_>>()?,
    })
}

/// Decodes the partitions of an assignment in the consumer format.
fn assigned(mut bytes: Bytes) -> anyhow::Result<Vec<Place>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    anyhow::ensure!(bytes.len() >= 2, "an assignment of one byte");
    // Newer versions only add to the older ones.
    let version = bytes.get_i16().min(3);
    let assignment = ConsumerProtocolAssignment::decode(&mut bytes, version)?;
    let topics = assignment.assigned_partitions.iter();
    Ok(topics
        .flat_map(|topic| places(topic.topic.0.as_str(), &topic.partitions))
        .collect())
}

fn places(topic: &str, partitions: &[i32]) -> Vec<Place> {
    let places = partitions.iter().map(|&index| (topic.to_owned(), index));
    places.collect()
}
