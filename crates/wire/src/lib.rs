//! Kafka as bytes and values: types, record batches, request and response frames, metadata and
//! group records.
//!
//! Invariant: no clock, no files, no sockets, no async. Every decoder here is total: any input
//! gives a value or an error, and costs memory bounded by the input's length.

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
pub mod records;
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
