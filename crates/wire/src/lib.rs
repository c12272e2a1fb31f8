//! Kafka as bytes and values: types, record batches, request and response frames, metadata and group records.
//!
//! Invariant: no clock, no files, no sockets, no async. Every decoder here is total: any input gives a value or an
//! error, and costs memory bounded by the input's length.

pub mod batch;
pub mod records;
pub mod types;
