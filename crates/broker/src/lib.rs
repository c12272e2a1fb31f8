//! Kafka semantics: partitions and their watermarks, request handlers, groups, metadata.
//!
//! One `Broker` lives on each shard (a thread with its own executor) and owns the partitions that hash to it; inside
//! a shard there are no locks, between shards there are messages.
//! Invariant: no sockets, no configuration files, no operating system: bytes of a request come in, a response goes out.

#![warn(clippy::iter_over_hash_type)]

pub mod controller;
pub mod group;
mod handler;
pub mod image;
pub mod options;
pub mod topic_config;

pub use image::OFFSETS_TOPIC;
