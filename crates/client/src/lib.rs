//! One Kafka client: connections, what is known of a cluster, retries, a producer, a consumer.
//!
//! Everything runs on one thread, in a set of local tasks ([`blocking::Client`] has one for
//! programs that are not async). Decisions are plain values, to which the caller passes the
//! time; waiting is async and has a deadline everywhere.
//!
//! Invariants:
//! - It knows brokers by the protocol only, so it works with any Kafka.
//! - What a broker says bounds nothing that is reserved: answers are read as they come, up to a
//!   length that the settings give, and decoded behind `wire`'s guard.
//! - Secrets are in no error and in no `Debug` output.
//!
//! Not here: stores of keys (`tls`), commands, formats of output.

pub mod ask;
pub mod blocking;
pub mod cluster;
pub mod connection;
pub mod error;
pub mod http;
pub mod inspect;
pub mod producer;
pub mod retry;
#[cfg(test)]
mod scripted;
pub mod settings;
pub mod token;
mod transport;

pub use ask::Ask;
pub use cluster::{Cluster, CoordinatorKind, Leader, PartitionMetadata, TopicMetadata};
pub use connection::Connection;
pub use error::{ClientError, Refusal};
pub use producer::{Producer, Receipt, Record, Report};
pub use settings::{ClientSettings, ProducerSettings, Settings, SettingsBuilder, Tls};

pub mod consumer;
pub mod fetch;
mod group;
mod offsets;
mod pauses;
