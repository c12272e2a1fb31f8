//! Reading records: what the client asks each broker for, and what it takes from the answers.
//!
//! `fetcher.rs` decides for all partitions, by `reading.rs` for one, `session.rs` for one broker
//! and `taking.rs` for one answer; `batch.rs` and `record.rs` are what a reader gets; `room.rs`
//! bounds the memory. All of it is pure; `consumer` asks the brokers.
//!
//! Invariants: positions move forward only, unless the log was cut, its start passed the position,
//! or the application seeks; no record is delivered twice or left out; batches with a wrong CRC are
//! not delivered; memory is bounded by `room.rs` whatever brokers send.

mod aborted;
mod batch;
pub(crate) mod fetcher;
pub(crate) mod reading;
mod record;
pub(crate) mod request;
pub(crate) mod room;
mod session;
mod taking;

pub use batch::{FetchedBatch, OpenBatch};
pub use reading::{Position, Whence};
pub use record::{Header, Headers, RecordView, Records};

#[cfg(test)]
pub(crate) mod samples;
