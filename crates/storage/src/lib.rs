//! The partition log on Kafka's files: segments, indexes, group commit, tail cache, recovery.
//!
//! Invariants: a record below the durable offset survives the loss of power; no offset is given twice to different
//! records once anyone could have read it; nothing is served from a disk that was not checked first.
//! It does not know: requests, connections, groups, replication, other shards.

pub mod check;
pub mod checkpoint;
pub mod error;
pub mod log;
pub mod metrics;
mod num;
pub mod options;
pub mod segment;
pub mod store;
pub mod tier;

pub use error::{Error, Kind, Result};
pub use log::lookup::Found;
pub use log::{Appended, Log, Observer, Relocation, Stamp};
pub use log::{CompactOptions, CompactPolicy, Compacted, Dirt};
pub use metrics::Metrics;
pub use options::{Durability, LogOptions, OpenAs, StoreOptions};
pub use segment::naming::{
    deleted_folder_name, folder_name, is_deleted_folder, is_pooled, parse_folder_name,
    parse_future_folder_name,
};
pub use segment::scan::first_batch;
pub use store::{LogPoints, Store};
pub use tier::MoveRate;
