//! The records that Kafka keeps in its own topics, as bytes and values.
//!
//! - [`metadata`]: `KRaft` records of `__cluster_metadata` and their framing;
//! - [`control`]: what control batches of that log and of its snapshots hold;
//! - [`offsets`]: keys and values of `__consumer_offsets`;
//! - [`transactions`]: keys and values of `__transaction_state`.
//!
//! Every schema is one table in the `schema!` language (`records/schema.rs`), over the primitives
//! of `records/codec.rs`. Invariants: decoding is total and allocates in proportion to its input;
//! what is encoded has the bytes that Kafka 4.3 writes for the same values. Not here: batches,
//! which carry the records.

mod codec;
pub mod control;
pub mod metadata;
pub mod offsets;
mod schema;
pub mod transactions;

pub use codec::{DecodeError, Field, Form, Reader, write_unsigned_varint};
