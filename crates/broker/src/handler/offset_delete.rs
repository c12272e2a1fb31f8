//! `OffsetDelete` (key 47), version 0: deletes committed offsets of topics to which the group is
//! not subscribed.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::access::Access;
use crate::group::{GroupCoordinator, OffsetDeletion, OffsetsLog, Topics};
use crate::rests::{Rests, each};

pub(crate) async fn handle<P: Platform, L: OffsetsLog, T: Topics>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetDeleteRequest,
    now: impl Fn() -> (Arc<T>, Option<Access>),
    access: &Access,
) -> OffsetDeleteResponse {
    let may_read = |topic: &OffsetDeleteRequestTopic| {
        access.may(Operation::Read, ResourceType::Topic, &topic.name)
    };
    let readable = each(&request.topics, may_read).await;
    if access.is_limited() && !readable.is_empty() && !readable.contains(&true) {
        // As in Kafka, the group is not asked.
        return denied(request).await;
    }
    let deleted = delete(coordinator, request, &readable, now).await;
    deleted.unwrap_or_else(|error| OffsetDeleteResponse::default().with_error_code(error.code()))
}

/// Finds the offsets that may be deleted, yielding in between, and then decides in one piece, by
/// the rights of then.
async fn delete<P: Platform, L: OffsetsLog, T: Topics>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetDeleteRequest,
    readable: &[bool],
    now: impl Fn() -> (Arc<T>, Option<Access>),
) -> Result<OffsetDeleteResponse, ErrorCode> {
    let id = &request.group_id.0;
    if id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    coordinator.read(id, |groups| groups.check_delete_offsets(id))??;
    assert!(
        readable.len() == request.topics.len(),
        "each topic is judged"
    );
    let (topics, _) = now();
    let mut going = OffsetDeletion::default();
    // Topics without partitions count too: one item stands for the topic itself.
    let judged = request.topics.iter().zip(readable);
    let items = judged.flat_map(|(topic, readable)| {
        let partitions = topic.partitions.iter().map(|one| Some(one.partition_index));
        [None]
            .into_iter()
            .chain(partitions)
            .map(move |index| (topic, *readable, index))
    });
    let told = coordinator.look_through(id, items, |groups, (topic, readable, index)| {
        let index = index?;
        Some(if !readable {
            ErrorCode::TopicAuthorizationFailed.code()
        } else if !topics.has_partition(&topic.name, index) {
            ErrorCode::UnknownTopicOrPartition.code()
        } else if groups.find_going(id, &topic.name, index, &mut going) {
            ErrorCode::GroupSubscribedToTopic.code()
        } else {
            0
        })
    });
    let told = told.await?;
    if !coordinator.fits_log(id, going.log_bytes())? {
        return Err(ErrorCode::UnknownServerError);
    }
    let mut stay = KeptTopics::new();
    if let (_, Some(access)) = now() {
        if !access.may(Operation::Delete, ResourceType::Group, id) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        let may_read = |topic: &str| access.may(Operation::Read, ResourceType::Topic, topic);
        let lost = going.keep(may_read).into_iter();
        stay.extend(lost.map(|topic| (topic, ErrorCode::TopicAuthorizationFailed)));
    }
    let write = coordinator.write(id, |groups, _| {
        match groups.delete_offsets(request, &going) {
            Ok((records, read)) => (records, Ok(read)),
            Err(error) => (Vec::new(), Err(error)),
        }
    });
    let read = write.await??.into_iter();
    stay.extend(read.map(|topic| (topic, ErrorCode::GroupSubscribedToTopic)));
    Ok(answer(&request.topics, told, &stay).await)
}

/// Topics whose offsets stay although they were found, and why.
// Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
type KeptTopics = BTreeMap<StrBytes, ErrorCode>;

/// Answers a request if the client may read none of its topics.
async fn denied(request: &OffsetDeleteRequest) -> OffsetDeleteResponse {
    let code = ErrorCode::TopicAuthorizationFailed.code();
    let told = request.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter().map(|_| Some(code));
        [None].into_iter().chain(partitions)
    });
    let told = each(told, |code| code).await;
    answer(&request.topics, told, &KeptTopics::new()).await
}

/// Builds the response.
///
/// `told` has an entry for each topic, followed by those of its partitions. `stay` holds the topics
/// to which the group subscribed meanwhile, or that the client may not read any more.
async fn answer(
    topics: &[OffsetDeleteRequestTopic],
    told: Vec<Option<i16>>,
    stay: &KeptTopics,
) -> OffsetDeleteResponse {
    let (mut told, mut rests) = (told.into_iter(), Rests::new());
    let mut answers = Vec::with_capacity(topics.len());
    for topic in topics {
        told.next();
        let stays = stay.get(&topic.name.0);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (partition, code) in topic.partitions.iter().zip(told.by_ref()) {
            let Some(code) = code else {
                unreachable!("a topic has its place before its partitions");
            };
            let code = match (code, stays) {
                (0, Some(why)) => why.code(),
                (code, _) => code,
            };
            let answer = OffsetDeleteResponsePartition::default();
            let answer = answer.with_partition_index(partition.partition_index);
            partitions.push(answer.with_error_code(code));
            rests.item().await;
        }
        let answer = OffsetDeleteResponseTopic::default().with_name(topic.name.clone());
        answers.push(answer.with_partitions(partitions));
        rests.item().await;
    }
    OffsetDeleteResponse::default().with_topics(answers)
}
