//! Where a request about one group or one transactional id is handled: the shard that leads its partition.
//!
//! While there is no such topic nothing has a home; the question is then put here, and the coordinator says so.

use platform::Platform;
use wire::kafka::Newest;
use wire::messages::{
    AddOffsetsToTxnRequest, ConsumerGroupHeartbeatRequest, EndTxnRequest, HeartbeatRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest,
    OffsetDeleteRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};

use crate::Broker;
use crate::group::partition_for;
use crate::names::OFFSETS_TOPIC;
use crate::shards::ShardIndex;

/// A request that names one group.
pub(super) trait OfGroup: wire::protocol::Request + Send + 'static {
    /// Its name.
    fn group(&self) -> &str;
}

macro_rules! of_group {
    ($($request:ident),*) => {$(
        impl OfGroup for $request {
            fn group(&self) -> &str {
                self.group_id.as_str()
            }
        }
    )*};
}
of_group!(
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetDeleteRequest,
    TxnOffsetCommitRequest,
    ConsumerGroupHeartbeatRequest
);

impl OfGroup for Newest<OffsetCommitRequest> {
    fn group(&self) -> &str {
        self.message.group_id.as_str()
    }
}

/// The shard of a group; this one while no group has a home.
pub(super) fn home_of<P: Platform>(broker: &Broker<P>, group: &str) -> ShardIndex {
    let image = broker.image();
    image
        .topic_by_name(OFFSETS_TOPIC)
        .map_or(broker.shards.me(), |topic| {
            let home = partition_for(group, topic.partition_count());
            broker.shards.owner(topic.id, home)
        })
}

/// A request that names one transactional id, or none.
pub(super) trait OfTransaction: wire::protocol::Request + Send + 'static {
    /// The id.
    fn id(&self) -> Option<&str>;
}

impl OfTransaction for InitProducerIdRequest {
    fn id(&self) -> Option<&str> {
        self.transactional_id.as_ref().map(|id| id.0.as_str())
    }
}

impl OfTransaction for AddOffsetsToTxnRequest {
    fn id(&self) -> Option<&str> {
        Some(&self.transactional_id.0)
    }
}

impl OfTransaction for EndTxnRequest {
    fn id(&self) -> Option<&str> {
        Some(&self.transactional_id.0)
    }
}
