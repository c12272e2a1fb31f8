//! Asks brokers: one connection, the cluster behind it, and errors from answers.
//!
//! Everything blocks: a command takes one step after the other.

mod answers;
mod connection;
mod failure;
mod offsets;
#[cfg(test)]
mod peer;
mod refusal;
mod route;

pub(crate) use answers::each_answer;
pub(crate) use connection::{CLIENT_ID, Connection};
pub(crate) use failure::Failure;
pub(crate) use offsets::{EARLIEST, LATEST, Offsets, PartitionKey, read_committed};
#[cfg(test)]
pub(crate) use peer::{AskedRequest, Peer};
pub(crate) use refusal::{Refusal, check, patiently, while_it_passes};
pub(crate) use route::{Cluster, Coordinates};
use wire::StrBytes;

/// Returns text in the type of the codecs.
pub(crate) fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}
