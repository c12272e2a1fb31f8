//! The transaction coordinator: which producer a transactional id is, what its transaction spans, how it ended.
//!
//! - [`state`]: where an id stands, as `__transaction_state` has it;
//! - [`machine`]: every decision about one id, pure;
//! - [`coordinator`]: the ids whose partition of `__transaction_state` a shard leads: decide, append, settle, answer;
//! - [`admission`]: what comes before the first batch in a partition;
//! - [`markers`]: carries a decision out in the partitions of the transaction;
//! - [`log`]: appends and loads.
//!
//! Invariants: what is decided is in the log, below its high watermark, before anybody is told or a marker is written;
//! a decision that is in the log is carried out, across restarts, however long it takes; an id has one change on its
//! way at a time. Not here: what partitions make of batches and markers (`partition.rs`, `storage`), offsets of groups
//! in transactions (`group`).

mod admission;
pub(crate) mod coordinator;
pub(crate) mod log;
pub(crate) mod machine;
mod markers;
pub(crate) mod state;

use platform::Platform;

use crate::Broker;
use crate::group::partition_for;
use crate::shards::ShardIndex;

pub(crate) use admission::{admit, admit_offsets, told_of_admission};
pub(crate) use coordinator::{TransactionCoordinator, VERSION_FEATURE};
pub(crate) use markers::{Ending, end_at};

/// The topic of transactional ids.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// The shard of a transactional id; this one while no id has a home.
pub(crate) fn home_of<P: Platform>(broker: &Broker<P>, id: &str) -> ShardIndex {
    let image = broker.image();
    let topic = image.topic_by_name(TRANSACTIONS_TOPIC);
    topic.map_or(broker.shards.me(), |topic| {
        let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        broker.shards.owner(topic.id, partition_for(id, count))
    })
}
