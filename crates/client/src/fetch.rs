//! Reading records: what is asked of which broker, and what is taken from the answers.
//!
//! [`fetcher`] decides for all partitions, by [`reading`] for one, [`session`] for one broker and
//! [`taking`] for one answer; [`batch`] and [`record`] are what a reader gets; [`room`] bounds the
//! memory. All of it is pure; `consumer` asks the brokers.
//!
//! Invariants: positions move forward only, unless the log was cut, its start passed the position,
//! or the application seeks; no record is delivered twice or left out; batches with a wrong CRC are
//! not delivered; memory is bounded by [`room`] whatever brokers send.

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
mod samples;
