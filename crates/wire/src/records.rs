//! The records that Kafka keeps in its own topics, as bytes and values.
//!
//! - [`metadata`]: `KRaft` records of `__cluster_metadata` and their framing;
//! - [`control`]: records of the control batches of that log and of its snapshots;
//! - [`offsets`]: keys and values of `__consumer_offsets`;
//! - [`transactions`]: keys and values of `__transaction_state`.
//!
//! Each schema is one table in the `schema!` language (`records/schema.rs`), over the primitives of
//! `records/codec.rs`. Invariants: decoding returns a value or an error for any input, and
//! allocates in proportion to its input; encoding writes the same bytes as Kafka 4.3 for the same
//! values. Not here: the batches that carry the records.

mod codec;
pub mod control;
pub mod metadata;
pub mod offsets;
mod schema;
pub mod transactions;

pub use codec::{DecodeError, Field, Form, Reader, write_unsigned_varint};
