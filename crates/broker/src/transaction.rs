//! The transaction coordinator: which producer a transactional id is, what its transaction spans, how it ended.
//!
//! - [`state`]: where an id stands, as `__transaction_state` has it;
//! - [`machine`]: every decision about one id, pure;
//! - [`coordinator`]: the ids whose partition of `__transaction_state` a shard leads: decide, append, settle, answer;
//! - [`admission`]: what comes before the first batch in a partition;
//! - [`markers`]: carries a decision out in the partitions of the transaction;
//! - [`weight`]: what ids take, in bytes;
//! - [`log`]: appends and loads.
//!
//! Invariants: what is decided is in the log, below its high watermark, before anybody is told or a marker is written;
//! a decision that is in the log is carried out, across restarts, however long it takes; an id has one change on its
//! way at a time. Not here: what partitions make of batches and markers (`partition.rs`, `storage`), offsets of groups
//! in transactions (`group`).

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an index out of bounds ends the broker"
    )
)]

mod admission;
pub(crate) mod coordinator;
mod ending;
pub(crate) mod log;
pub(crate) mod machine;
mod markers;
pub(crate) mod state;
mod weight;

use std::future::Future;
use std::time::Duration;

use platform::Platform;
use platform::task;
use wire::types::ErrorCode;

use crate::Broker;
use crate::group::partition_for;
use crate::names::TRANSACTIONS_TOPIC;
use crate::shards::ShardIndex;

pub(crate) use admission::{admit, admit_offsets, told_of_admission};
pub(crate) use coordinator::TransactionCoordinator;
pub(crate) use ending::Ending;
pub(crate) use log::is_readable;
pub(crate) use markers::end_at;

/// How long whoever asks for a change is kept waiting for it to be written down. It goes on without him, and who asks
/// again meanwhile is told that another change is on its way.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Makes a change in a task of its own, which ends when its fate is known, and answers in time.
pub(crate) async fn change<T: 'static>(
    change: impl Future<Output = Result<T, ErrorCode>> + 'static,
) -> Result<T, ErrorCode> {
    match task::timeout(ANSWERED_WITHIN, task::spawn(change)).await {
        Ok(done) => done.unwrap_or(Err(ErrorCode::NotCoordinator)),
        Err(_) => Err(ErrorCode::CoordinatorNotAvailable),
    }
}

/// The shard of a transactional id; this one while no id has a home.
pub(crate) fn home_of<P: Platform>(broker: &Broker<P>, id: &str) -> ShardIndex {
    let image = broker.image();
    let topic = image.topic_by_name(TRANSACTIONS_TOPIC);
    topic.map_or(broker.shards.me(), |topic| {
        let count = topic.partition_count();
        broker.shards.owner(topic.id, partition_for(id, count))
    })
}
