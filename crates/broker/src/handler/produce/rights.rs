//! The right to write in a transaction, which a request needs on its transactional id as soon as
//! one of its batches belongs to a transaction.
//!
//! As in Kafka, the id of a request without such batches is not judged.

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::batch::WholeBatch;
use wire::kafka::produce::{ProducePartition, ProduceRequest};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicPartition};

use crate::Broker;
use crate::access::Access;
use crate::group::owned;

/// Returns true if the request has a batch of a transaction in which the client may not write, or
/// which has no id.
pub(super) fn lacks_transaction(access: &Access, request: &ProduceRequest) -> bool {
    let is_of_transaction = |partition: &ProducePartition| {
        let records = partition.records.as_ref();
        records.is_some_and(|records| WholeBatch::claims_transaction(records))
    };
    let mut partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.any(is_of_transaction)
        && request
            .transactional_id
            .as_ref()
            .is_none_or(|id| !access.may(Operation::Write, ResourceType::TransactionalId, id))
}

/// The rights of a request's client, which a batch needs again when it begins after a wait.
#[derive(Clone)]
pub(super) struct WriteRights {
    access: Access,
    /// The transactional id; `None` if the client is not limited.
    id: Option<StrBytes>,
}

impl WriteRights {
    pub(super) fn of(access: &Access, id: Option<StrBytes>) -> Self {
        // A copy: the memory of the frame is not held while the append is waited for.
        let id = id.filter(|_| access.is_limited()).map(|id| owned(&id));
        let access = access.clone();
        Self { access, id }
    }

    /// Refuses a client that has lost a right since the request was judged.
    #[inline]
    pub(super) fn check_again<P: Platform>(
        &self,
        broker: &Broker<P>,
        partition: &TopicPartition,
        is_transactional: bool,
    ) -> Result<(), ErrorCode> {
        if !self.access.is_limited() {
            return Ok(());
        }
        self.access
            .check_again(broker, Operation::Write, partition)?;
        let has_lost = |id: &StrBytes| {
            let of = ResourceType::TransactionalId;
            self.access.has_lost(broker, Operation::Write, of, id)
        };
        if is_transactional && self.id.as_ref().is_some_and(has_lost) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::batch::builder::BatchBuilder;
    use wire::kafka::produce::ProduceTopic;
    use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId};

    use super::*;
    use crate::access::given::limited_to;

    /// A request with an empty partition, and one with a batch.
    fn request(id: Option<&'static str>, is_transactional: bool) -> ProduceRequest {
        let builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
        let mut builder = builder
            .producer(ProducerId(1), 0, 0)
            .transactional(is_transactional);
        builder.add(TimestampMs(1), None, Some(b"v"), &[]);
        let records = builder.finish().expect("a batch");
        let partition = |index, records| ProducePartition { index, records };
        ProduceRequest {
            transactional_id: id.map(StrBytes::from_static_str),
            acks: -1,
            timeout_ms: 1000,
            topics: vec![ProduceTopic {
                name: StrBytes::from_static_str("t"),
                topic_id: TopicId::ZERO,
                partitions: vec![partition(0, None), partition(1, Some(records))],
            }],
        }
    }

    #[test]
    fn a_batch_of_a_transaction_needs_the_right_on_its_id() {
        let access = limited_to(&[(ResourceType::TransactionalId, "mine", Operation::Write)]);
        for (id, is_transactional, lacks) in [
            (Some("mine"), true, false),
            (Some("other"), true, true),
            (None, true, true),
            (Some("other"), false, false),
            (None, false, false),
        ] {
            let request = request(id, is_transactional);
            let found = lacks_transaction(&access, &request);
            assert_eq!(found, lacks, "{id:?} {is_transactional}");
        }
    }
}
