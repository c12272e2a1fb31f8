//! The transaction coordinator: the producer of each transactional id, the partitions of its
//! transaction, and how the transaction ended.
//!
//! - [`state`]: the state of an id, as in `__transaction_state`;
//! - [`machine`]: every decision about one id, pure;
//! - [`coordinator`]: the ids whose partition of `__transaction_state` this shard leads: decides,
//!   appends, settles, answers;
//! - [`admission`]: the checks before a transaction's first batch in a partition;
//! - [`markers`]: carries out a decision in the partitions of the transaction;
//! - [`weight`]: the bytes that ids take; [`payers`]: who pays for them; [`tally`]: how many are in
//!   which state;
//! - [`metrics`]: what an operator sees of all that;
//! - [`log`]: appends and loads.
//!
//! Invariants: a decision is in the log, below its high watermark, before it is answered or a
//! marker is written; a decision in the log is carried out, across restarts, however long that
//! takes; an id has one change in flight at a time. Not here: what partitions do with batches and
//! markers (`partition.rs`, `storage`), offsets of groups in transactions (`group`).

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
pub(crate) mod metrics;
mod payers;
pub(crate) mod state;
mod tally;
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

/// Longest wait of a request for its change to be written.
///
/// The change continues after that; requests meanwhile get `ConcurrentTransactions`.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Runs a change in a task of its own, which ends when its outcome is known, and answers in time.
pub(crate) async fn change<T: 'static>(
    change: impl Future<Output = Result<T, ErrorCode>> + 'static,
) -> Result<T, ErrorCode> {
    match task::timeout(ANSWERED_WITHIN, task::spawn(change)).await {
        Ok(done) => done.unwrap_or(Err(ErrorCode::NotCoordinator)),
        Err(_) => Err(ErrorCode::CoordinatorNotAvailable),
    }
}

/// Returns the shard of a transactional id, or this one while `__transaction_state` does not exist.
pub(crate) fn home_of<P: Platform>(broker: &Broker<P>, id: &str) -> ShardIndex {
    let image = broker.image();
    let topic = image.topic_by_name(TRANSACTIONS_TOPIC);
    topic.map_or(broker.shards.me(), |topic| {
        let count = topic.partition_count();
        broker.shards.owner(topic.id, partition_for(id, count))
    })
}
