//! The partition log on Kafka's files: segments, indexes, group commit, tail cache, recovery.
//!
//! Invariants: a record below the durable offset survives a power loss; an offset that a consumer
//! may have read is never given to a different record; no file is served before it was checked.
//! It does not know: requests, connections, groups, replication, other shards.

pub mod backup;
pub mod check;
pub mod checkpoint;
pub mod error;
pub mod journal;
pub mod log;
pub mod metrics;
mod num;
pub mod options;
pub mod segment;
pub mod store;
pub mod tier;

pub use error::{Error, FailureKind, Result};
pub use log::lookup::TimestampAndOffset;
pub use log::{CompactOptions, CompactPolicy, CompactionRound, Dirt};
pub use log::{Log, LogAppendInfo, Observer, Relocation, Stamp};
pub use metrics::Metrics;
pub use options::{Durability, LogOptions, OpenAs, StoreOptions};
pub use segment::naming::{
    deleted_folder_name, folder_name, is_deleted_folder, is_pooled, parse_folder_name,
    parse_future_folder_name,
};
pub use segment::scan::first_batch;
pub use store::{JournalOptions, LogPoints, Store, remove_some_leftovers};
pub use tier::MoveRate;
