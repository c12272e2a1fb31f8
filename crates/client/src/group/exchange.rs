//! The requests of a member, as the protocol writes them in the version that the coordinator
//! serves, and their answers.
//!
//! Not here: when something is asked, and what the answer means.

use std::time::Duration;

use bytes::Bytes;
use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest, SyncGroupResponse,
};

use super::MemberSettings;
use crate::connection::Connection;
use crate::error::ClientError;
use crate::pauses::later;

/// The type of groups whose members are consumers.
const PROTOCOL_TYPE: &str = "consumer";
/// What is added to the rebalance timeout until the answer to a join is given up.
const JOIN_MARGIN: Duration = Duration::from_secs(5);

/// First versions with the fields that older ones cannot say.
const JOIN_INSTANCE_SINCE: i16 = 5;
const SYNC_INSTANCE_SINCE: i16 = 3;
const SYNC_STRATEGY_SINCE: i16 = 5;
const HEARTBEAT_INSTANCE_SINCE: i16 = 3;
const LEAVE_MANY_SINCE: i16 = 3;

/// What a member asks its coordinator.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum GroupRequest {
    /// A heartbeat of the consumer protocol.
    Beat(Box<ConsumerGroupHeartbeatRequest>),
    /// Joins a classic group.
    Join(JoinAsk),
    /// Gets the member's part; the leader sends all of them.
    Sync {
        generation: i32,
        member_id: String,
        strategy: Option<&'static str>,
        assigned: Vec<Assigned>,
    },
    /// Tells that the member lives.
    Heartbeat { generation: i32, member_id: String },
    /// Leaves.
    Leave { member_id: String },
}

/// What a member joins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JoinAsk {
    pub(crate) member_id: String,
    /// Strategies with subscriptions, the preferred one first.
    pub(crate) strategies: Vec<(&'static str, Bytes)>,
}

/// The part of one member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assigned {
    pub(crate) member_id: String,
    pub(crate) assignment: Bytes,
}

/// An answer to a [`GroupRequest`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum GroupAnswer {
    Beat(ConsumerGroupHeartbeatResponse),
    Join(JoinGroupResponse),
    Sync(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    Leave(LeaveGroupResponse),
}

/// Asks a coordinator and waits for its answer, for a join as long as the other members may take.
pub(crate) async fn ask(
    connection: &Connection,
    settings: &MemberSettings,
    request: GroupRequest,
    deadline: Instant,
) -> Result<GroupAnswer, ClientError> {
    match request {
        GroupRequest::Beat(request) => {
            let answer = connection.ask(&*request, deadline).await?;
            Ok(GroupAnswer::Beat(answer))
        }
        GroupRequest::Join(join) => {
            let version = connection.version::<JoinGroupRequest>()?;
            let request = join_request(settings, join, version);
            let patience = settings.rebalance_timeout.max(settings.session_timeout);
            let deadline = later(deadline, patience.saturating_add(JOIN_MARGIN));
            let answer = connection.ask_in(version, &request, deadline).await?;
            Ok(GroupAnswer::Join(answer))
        }
        GroupRequest::Sync {
            generation,
            member_id,
            strategy,
            assigned,
        } => {
            let version = connection.version::<SyncGroupRequest>()?;
            let request = sync_request(settings, (generation, &member_id), assigned, version);
            let request = if version >= SYNC_STRATEGY_SINCE {
                request
                    .with_protocol_type(Some(text(PROTOCOL_TYPE)))
                    .with_protocol_name(strategy.map(text))
            } else {
                request
            };
            // The coordinator waits for the leader's assignment.
            let deadline = later(deadline, settings.rebalance_timeout);
            let answer = connection.ask_in(version, &request, deadline).await?;
            Ok(GroupAnswer::Sync(answer))
        }
        GroupRequest::Heartbeat {
            generation,
            member_id,
        } => {
            let version = connection.version::<HeartbeatRequest>()?;
            let instance = (version >= HEARTBEAT_INSTANCE_SINCE).then(|| instance(settings));
            let request = HeartbeatRequest::default()
                .with_group_id(GroupId(text(&settings.group)))
                .with_generation_id(generation)
                .with_member_id(text(&member_id))
                .with_group_instance_id(instance.flatten());
            let answer = connection.ask_in(version, &request, deadline).await?;
            Ok(GroupAnswer::Heartbeat(answer))
        }
        GroupRequest::Leave { member_id } => {
            let version = connection.version::<LeaveGroupRequest>()?;
            let request = leave_request(settings, &member_id, version);
            let answer = connection.ask_in(version, &request, deadline).await?;
            Ok(GroupAnswer::Leave(answer))
        }
    }
}

fn join_request(settings: &MemberSettings, join: JoinAsk, version: i16) -> JoinGroupRequest {
    let strategies = join.strategies.into_iter().map(|(name, subscription)| {
        JoinGroupRequestProtocol::default()
            .with_name(text(name))
            .with_metadata(subscription)
    });
    let instance = (version >= JOIN_INSTANCE_SINCE).then(|| instance(settings));
    JoinGroupRequest::default()
        .with_group_id(GroupId(text(&settings.group)))
        .with_session_timeout_ms(millis(settings.session_timeout))
        .with_rebalance_timeout_ms(millis(settings.rebalance_timeout))
        .with_member_id(text(&join.member_id))
        .with_group_instance_id(instance.flatten())
        .with_protocol_type(text(PROTOCOL_TYPE))
        .with_protocols(strategies.collect())
}

fn sync_request(
    settings: &MemberSettings,
    (generation, member_id): (i32, &str),
    assigned: Vec<Assigned>,
    version: i16,
) -> SyncGroupRequest {
    let assigned = assigned.into_iter().map(|one| {
        SyncGroupRequestAssignment::default()
            .with_member_id(text(&one.member_id))
            .with_assignment(one.assignment)
    });
    let instance = (version >= SYNC_INSTANCE_SINCE).then(|| instance(settings));
    SyncGroupRequest::default()
        .with_group_id(GroupId(text(&settings.group)))
        .with_generation_id(generation)
        .with_member_id(text(member_id))
        .with_group_instance_id(instance.flatten())
        .with_assignments(assigned.collect())
}

fn leave_request(settings: &MemberSettings, member_id: &str, version: i16) -> LeaveGroupRequest {
    let request = LeaveGroupRequest::default().with_group_id(GroupId(text(&settings.group)));
    if version < LEAVE_MANY_SINCE {
        return request.with_member_id(text(member_id));
    }
    let member = MemberIdentity::default()
        .with_member_id(text(member_id))
        .with_group_instance_id(instance(settings));
    request.with_members(vec![member])
}

fn instance(settings: &MemberSettings) -> Option<StrBytes> {
    settings.instance_id.as_deref().map(text)
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::BytesMut;

    use super::*;
    use crate::ask::Ask;
    use crate::pauses::Pauses;

    fn settings() -> MemberSettings {
        MemberSettings {
            group: "g".to_owned(),
            instance_id: Some("i".to_owned()),
            rack: None,
            topics: BTreeSet::from(["t".into()]),
            assignor: None,
            strategies: Vec::new(),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            rebalance_timeout: Duration::MAX,
            metadata_max_age: Duration::from_mins(5),
            pauses: Pauses::new(Duration::ZERO, Duration::ZERO),
        }
    }

    fn encodes<Q: Ask>(request: impl Fn(i16) -> Q) {
        for version in Q::OLDEST..=Q::NEWEST {
            let written = request(version).encode(&mut BytesMut::new(), version);
            assert_eq!(written, Ok(()), "version {version}");
        }
    }

    #[test]
    fn every_version_can_be_said() {
        let settings = settings();
        encodes(|version| {
            let join = JoinAsk {
                member_id: "m".to_owned(),
                strategies: vec![("range", Bytes::from_static(b"x"))],
            };
            join_request(&settings, join, version)
        });
        encodes(|version| {
            let assigned = Assigned {
                member_id: "m".to_owned(),
                assignment: Bytes::new(),
            };
            sync_request(&settings, (3, "m"), vec![assigned], version)
        });
        encodes(|version| leave_request(&settings, "m", version));
    }
}
