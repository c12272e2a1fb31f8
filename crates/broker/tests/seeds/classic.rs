//! Members of a classic group: they join, the leader divides the partitions, they commit positions
//! in their generation.
//!
//! In one generation no partition has two members; a position of an older generation is refused
//! once a newer one has committed; positions that were acknowledged do not go back.

use bytes::Bytes;
use platform::sim::Rng;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, OffsetCommitRequest, SyncGroupRequest,
};
use wire::types::ErrorCode;

use crate::book::Life;
use crate::chain::PARTITIONS;
use crate::harness::asks::{error, text, topic_name};

const GROUP: &str = "classic";

fn group() -> GroupId {
    GroupId(text(GROUP))
}

/// A member, until its life ends: membership after membership.
pub(crate) async fn run(life: Life, number: usize, mut rng: Rng) {
    let mut member_id = String::new();
    loop {
        life.pause(&mut rng, 3_000).await;
        if let Err(code) = belong(&life, number, &mut member_id, &mut rng).await {
            if code == ErrorCode::UnknownMemberId {
                member_id.clear();
            }
            let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(GROUP)]);
            life.cluster.ask(4, &find).await;
        }
    }
}

/// Joins, learns what it has, and works until the group wants something else.
async fn belong(
    life: &Life,
    number: usize,
    member_id: &mut String,
    rng: &mut Rng,
) -> Result<(), ErrorCode> {
    let joined = join(life, member_id).await?;
    let generation = joined.generation_id;
    let mine = sync(life, &joined, member_id).await?;
    {
        let mut book = life.book.borrow_mut();
        book.counts.synced += 1;
        book.note(&[4, i64::try_from(number).unwrap(), generation.into()]);
        for partition in &mine {
            let other = book.generations.insert((generation, *partition), number);
            book.check(other.is_none_or(|other| other == number), || {
                format!(
                    "classic member {number} was told to have partition {partition} in generation \
                     {generation}, as was {other:?}"
                )
            });
        }
    }
    loop {
        life.pause(rng, 3_000).await;
        let beat = HeartbeatRequest::default()
            .with_group_id(group())
            .with_generation_id(generation)
            .with_member_id(text(member_id));
        let alive = error(life.cluster.ask(4, &beat).await.error_code);
        for partition in &mine {
            // Also in a generation that is over: that must be refused.
            let refused = commit(life, *partition, generation, member_id).await;
            let stale = matches!(
                refused,
                Some(ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId)
            );
            life.count(|counts| counts.stale += u64::from(stale));
        }
        if let Some(code) = alive {
            return Err(code);
        }
        match rng.below(100) {
            0..5 => {
                let me = MemberIdentity::default().with_member_id(text(member_id));
                let request = LeaveGroupRequest::default()
                    .with_group_id(group())
                    .with_members(vec![me]);
                life.cluster.ask(4, &request).await;
                member_id.clear();
                return Ok(());
            }
            5..10 => life.pause(rng, 30_000).await,
            _ => {}
        }
    }
}

async fn join(life: &Life, member_id: &mut String) -> Result<JoinGroupResponse, ErrorCode> {
    loop {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0"));
        let request = JoinGroupRequest::default()
            .with_group_id(group())
            .with_member_id(text(member_id))
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(10_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let answer = life.cluster.ask(7, &request).await;
        match error(answer.error_code) {
            None => {
                *member_id = answer.member_id.to_string();
                return Ok(answer);
            }
            Some(ErrorCode::MemberIdRequired) => *member_id = answer.member_id.to_string(),
            Some(code) => return Err(code),
        }
    }
}

async fn sync(
    life: &Life,
    joined: &JoinGroupResponse,
    member_id: &str,
) -> Result<Vec<i32>, ErrorCode> {
    let mut assignments = Vec::new();
    if joined.leader.as_str() == member_id {
        for (index, member) in joined.members.iter().enumerate() {
            let index = i32::try_from(index).unwrap();
            let count = i32::try_from(joined.members.len()).unwrap();
            let theirs = (0..PARTITIONS).filter(|partition| partition % count == index);
            let bytes: Vec<u8> = theirs.map(|it| u8::try_from(it).unwrap()).collect();
            assignments.push(
                SyncGroupRequestAssignment::default()
                    .with_member_id(member.member_id.clone())
                    .with_assignment(bytes.into()),
            );
        }
    }
    let request = SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(joined.generation_id)
        .with_member_id(text(member_id))
        .with_assignments(assignments);
    let answer = life.cluster.ask(3, &request).await;
    match error(answer.error_code) {
        None => Ok(answer.assignment.iter().map(|it| i32::from(*it)).collect()),
        Some(code) => Err(code),
    }
}

async fn commit(
    life: &Life,
    partition: i32,
    generation: i32,
    member_id: &str,
) -> Option<ErrorCode> {
    let position = {
        let mut book = life.book.borrow_mut();
        book.next_position += 1;
        let position = book.next_position;
        let positions = book.positions.entry(partition).or_default();
        positions.unsure.push(position);
        position
    };
    let at = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(position);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(vec![at]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(member_id))
        .with_topics(vec![topic]);
    let answer = life.cluster.ask(8, &request).await;
    let refused = error(answer.topics[0].partitions[0].error_code);
    let mut book = life.book.borrow_mut();
    let book = &mut *book;
    let positions = book.positions.entry(partition).or_default();
    match refused {
        None => {
            let before = positions.told.replace((position, generation));
            positions.unsure.retain(|it| *it > position);
            book.counts.positions += 1;
            book.check(before.is_none_or(|(_, newest)| newest <= generation), || {
                format!(
                    "partition {partition} was told to be at {position} in generation {generation}, \
                     after {before:?}"
                )
            });
        }
        Some(ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId) => {
            positions.unsure.retain(|it| *it != position);
        }
        Some(_) => {}
    }
    refused
}

/// On a healthy disk: positions are the acknowledged ones, or those of a later attempt.
pub(crate) async fn inspect(life: &Life) {
    for partition in 0..PARTITIONS {
        let found = life.cluster.committed(GROUP, "t", partition).await;
        let mut book = life.book.borrow_mut();
        let positions = book.positions.entry(partition).or_default();
        let told = positions.told.map_or(-1, |told| told.0);
        let kept = found == told || positions.unsure.contains(&found);
        let unsure = positions.unsure.clone();
        book.check(kept, || {
            format!(
                "partition {partition} of the classic group was told {told} (perhaps {unsure:?}) \
                 and is at {found}"
            )
        });
        book.note(&[5, partition.into(), found]);
    }
}
