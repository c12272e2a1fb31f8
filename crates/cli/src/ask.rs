//! Asking brokers: one connection, the cluster behind it, and what a refusal says.
//!
//! Everything blocks: a command does one thing after the other.

mod connection;
mod offsets;
mod refusal;
mod route;

pub(crate) use connection::{CLIENT_ID, Connection};
pub(crate) use offsets::{EARLIEST, LATEST, Offsets, Place, read_committed};
pub(crate) use refusal::{Refusal, check, patiently, while_it_passes};
pub(crate) use route::{Cluster, Coordinates};
use wire::StrBytes;

/// Text as the codecs take it.
pub(crate) fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}
