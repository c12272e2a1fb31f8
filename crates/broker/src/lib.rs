//! Kafka semantics: partitions and their watermarks, request handlers, groups, metadata.
//!
//! One [`Broker`] lives on each shard (a thread with its own executor) and owns the partitions that
//! hash to it. Within a shard there are no locks; shards communicate by messages ([`shards`]).
//!
//! Invariant: this crate has no sockets, no configuration files and no operating system: the bytes
//! of a request come in, a response goes out.

#![warn(clippy::iter_over_hash_type)]

mod access;
pub mod answers;
pub mod audit;
pub mod authorizer;
mod broker;
mod bulk;
mod changes;
mod checkpoints;
mod client_metrics;
pub mod compaction;
pub mod controller;
pub mod dispatch;
mod error;
pub mod fetch_session;
mod fetching;
pub mod group;
mod group_config;
pub mod handler;
pub mod hanging;
pub mod housekeeping;
pub mod image;
mod join;
pub mod journals;
pub mod lifecycle;
mod lines;
pub mod listener_stores;
pub mod log_dirs;
mod making;
mod many;
pub mod metrics;
mod names;
pub mod network;
pub mod node_config;
pub mod offsets_log;
pub mod options;
pub mod partition;
mod partitions;
pub mod probe;
mod producer_ids;
mod purgatory;
mod queues;
pub mod quota;
pub mod recovery;
mod relocation;
mod renewal;
mod replayed;
mod rests;
mod room;
mod route;
mod secret_settings;
mod seldom;
pub mod session;
pub mod shards;
pub mod telemetry;
pub mod topic_config;
mod topic_rights;
mod transaction;
mod unopened;
mod unread_settings;
pub mod unserved;
pub mod wall_clock;

pub use broker::{Broker, ProcessState};
pub use names::{CONTROLLER_SHARD, METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
pub use shards::{ShardIndex, Shards};
