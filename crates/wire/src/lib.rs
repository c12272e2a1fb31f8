//! Kafka as bytes and values: types, record batches, request and response frames, metadata and
//! group records, messages of SASL, the rules of ACLs, Java's properties format.
//!
//! Invariants: this crate has no clock, files, sockets or async code. Every decoder returns a value
//! or an error for any input, and its memory is bounded by the length of the input.

#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod acl;
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod batch;
pub mod crc;
pub mod error;
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod kafka;
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod properties;
pub mod records;
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod sasl;
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod telemetry;
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::cast_possible_truncation)
)]
pub mod text;
pub mod types;

pub use kafka_protocol::messages;
pub use kafka_protocol::protocol;
pub use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
