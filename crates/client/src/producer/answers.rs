//! From the answer to a Produce request to one for each of its batches. Pure.
//!
//! Invariant: a batch that the answer leaves out has an unknown fate; what the answer names beyond
//! those that were sent is ignored.

use std::collections::BTreeMap;
use std::rc::Rc;

use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::produce_response::PartitionProduceResponse;
use wire::messages::{ProduceRequest, ProduceResponse, TopicName};
use wire::{StrBytes, types::ErrorCode};

use super::outbox::{Parcel, PartitionKey};
use super::verdict::BatchAnswer;
use crate::cluster::Leader;
use crate::error::{ClientError, Refusal};

/// What a broker answered to a Produce request.
#[derive(Default)]
pub(super) struct ProduceAnswers {
    /// In the order of the batches that were sent.
    pub(super) answers: Vec<BatchAnswer>,
    /// Leaders that the broker knows and the client may not.
    pub(super) leaders: Vec<(PartitionKey, Leader)>,
}

/// Makes the request that sends these batches.
pub(super) fn request(
    parcels: &[Parcel],
    acks: i16,
    timeout_ms: i32,
    transactional_id: Option<&str>,
) -> ProduceRequest {
    let mut topics: BTreeMap<Rc<str>, Vec<PartitionProduceData>> = BTreeMap::new();
    for parcel in parcels {
        let (topic, index) = &parcel.place;
        let batch = PartitionProduceData::default()
            .with_index(*index)
            .with_records(Some(parcel.taken.bytes.clone()));
        topics.entry(Rc::clone(topic)).or_default().push(batch);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        TopicProduceData::default()
            .with_name(TopicName(text(&name)))
            .with_partition_data(partitions)
    });
    ProduceRequest::default()
        .with_transactional_id(transactional_id.map(|id| text(id).into()))
        .with_acks(acks)
        .with_timeout_ms(timeout_ms)
        .with_topic_data(topics.collect())
}

/// Reads the answer to it.
pub(super) fn told(broker: &str, parcels: &[Parcel], response: &ProduceResponse) -> ProduceAnswers {
    let mut found: BTreeMap<(&str, i32), &PartitionProduceResponse> = BTreeMap::new();
    for topic in &response.responses {
        for partition in &topic.partition_responses {
            found.insert((topic.name.as_str(), partition.index), partition);
        }
    }
    let mut told = ProduceAnswers::default();
    for parcel in parcels {
        let (topic, index) = &parcel.place;
        let Some(partition) = found.get(&(&**topic, *index)) else {
            let reason = format!("the answer to Produce leaves out {topic}-{index}");
            let error = ClientError::malformed(broker, reason);
            told.answers.push(BatchAnswer::Unknown(error));
            continue;
        };
        let leader = &partition.current_leader;
        if leader.leader_id.0 >= 0 && leader.leader_epoch >= 0 {
            let leader = Leader {
                node: leader.leader_id.0,
                epoch: leader.leader_epoch,
            };
            told.leaders.push((parcel.place.clone(), leader));
        }
        told.answers.push(answered(partition));
    }
    told
}

fn answered(partition: &PartitionProduceResponse) -> BatchAnswer {
    let Some(code) = ErrorCode::try_from_code(partition.error_code) else {
        let known = |number: i64| (number >= 0).then_some(number);
        return BatchAnswer::Written {
            offset: known(partition.base_offset),
            append_time: known(partition.log_append_time_ms),
        };
    };
    let of_record = partition.record_errors.first();
    let of_record = of_record.and_then(|one| one.batch_index_error_message.as_ref());
    let message = partition.error_message.as_ref().or(of_record);
    BatchAnswer::Refused(Refusal {
        code,
        message: message.map(|message| message.as_str().to_owned()),
    })
}

/// Returns text in the type of the codecs.
pub(super) fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::messages::produce_response::{LeaderIdAndEpoch, TopicProduceResponse};

    use super::*;
    use crate::producer::queue::TakenBatch;

    fn parcel(topic: &str, partition: i32) -> Parcel {
        Parcel {
            place: (topic.into(), partition),
            taken: TakenBatch {
                number: 0,
                bytes: Bytes::from_static(b"batch"),
            },
        }
    }

    fn partition(index: i32, code: i16) -> PartitionProduceResponse {
        PartitionProduceResponse::default()
            .with_index(index)
            .with_error_code(code)
            .with_base_offset(if code == 0 { 7 } else { -1 })
            .with_log_append_time_ms(-1)
    }

    #[test]
    fn batches_are_sent_by_topic_and_answered_in_the_order_they_were_sent() {
        let parcels = [
            parcel("b", 1),
            parcel("a", 0),
            parcel("b", 0),
            parcel("c", 0),
        ];
        let request = request(&parcels, -1, 30_000, None);
        let shape = request.topic_data.iter();
        let shape: Vec<_> = shape
            .map(|topic| (topic.name.as_str(), topic.partition_data.len()))
            .collect();
        assert_eq!(shape, [("a", 1), ("b", 2), ("c", 1)]);

        let topic = |name, partitions| {
            TopicProduceResponse::default()
                .with_name(TopicName(text(name)))
                .with_partition_responses(partitions)
        };
        let moved = partition(1, 6).with_current_leader(
            LeaderIdAndEpoch::default()
                .with_leader_id(4.into())
                .with_leader_epoch(9),
        );
        let response = ProduceResponse::default().with_responses(vec![
            topic("a", vec![partition(0, 0), partition(5, 0)]),
            topic(
                "b",
                vec![
                    partition(0, 10).with_error_message(Some(text("big"))),
                    moved,
                ],
            ),
        ]);
        let told = told("x:1", &parcels, &response);
        assert!(matches!(&told.answers[0], BatchAnswer::Refused(one) if one.code.code() == 6));
        let written = BatchAnswer::Written {
            offset: Some(7),
            append_time: None,
        };
        assert_eq!(told.answers[1], written);
        assert!(matches!(&told.answers[2], BatchAnswer::Refused(one)
            if one.to_string() == "MESSAGE_TOO_LARGE: big"));
        assert!(matches!(told.answers[3], BatchAnswer::Unknown(_)));
        let leader = Leader { node: 4, epoch: 9 };
        assert_eq!(told.leaders, [(("b".into(), 1), leader)]);
    }
}
