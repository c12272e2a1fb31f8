//! The shard that handles a request about one group or one transactional id: the one that leads its
//! partition.
//!
//! While that topic does not exist, the request runs on this shard, and the coordinator returns the
//! error.

use platform::Platform;
use wire::kafka::NewestVersion;
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
    /// Returns the group id.
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

impl OfGroup for NewestVersion<OffsetCommitRequest> {
    fn group(&self) -> &str {
        self.message.group_id.as_str()
    }
}

/// Returns the shard of a group; this shard while the offsets topic does not exist.
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
    /// Returns the id.
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
