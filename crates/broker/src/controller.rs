//! The controller of a standalone broker: what a request means for the metadata, as records.
//!
//! Decisions are pure: they read an [`Image`] and the options, and return an [`Outcome`]: records
//! to append, and the response to give once they are durable. Nothing changes before
//! [`Image::replay`] sees the records. `controller/decide/` has one file for each request, `controller/topics.rs` creates, deletes and grows topics,
//! `controller/configs.rs` changes settings, `controller/startup.rs` says what a start writes. Not
//! here: appending and waiting (`controller/metadata_log.rs`).

pub(crate) mod answers;
pub(crate) mod batches;
pub(crate) mod bounds;
pub(crate) mod configs;
pub(crate) mod decide;
pub mod metadata_log;
pub(crate) mod mutations;
pub mod offline;
pub(crate) mod placement;
pub(crate) mod quorum;
pub(crate) mod quorum_state;
pub(crate) mod quotas;
mod service;
pub(crate) mod snapshot;
pub(crate) mod startup;
pub(crate) mod topic_name;
pub(crate) mod topics;

pub use batches::BadBatch;
pub use metadata_log::{Home, MetadataLogError};
pub use mutations::Caller;
pub use service::{Controller, Publish};

use wire::StrBytes;
use wire::records::metadata::{MetadataRecord, ProducerIdsRecord};
use wire::types::{ErrorCode, NodeId, Uuid};

use crate::image::Image;
use crate::options::BrokerOptions;

/// Producer ids in a block.
pub const PRODUCER_ID_BLOCK: i64 = 1000;
/// Records that one request may cause.
pub(crate) const RECORDS_PER_REQUEST_MAX: usize = 10_000;

/// What a decision reads.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// The metadata as it is.
    pub(crate) image: &'a Image,
    /// What this broker was told at start.
    pub(crate) options: &'a BrokerOptions,
}

/// Refuses a request that names more parts than one request may change: nobody else changes anything while it is decided on.
pub(crate) fn check_count(parts: usize) -> Result<(), Refusal> {
    if parts > RECORDS_PER_REQUEST_MAX {
        return Err(too_large());
    }
    Ok(())
}

/// The same for a request about things with parts of their own; one without any is work, too.
pub(crate) fn check_parts(each: impl Iterator<Item = usize>) -> Result<(), Refusal> {
    let parts = each.map(|parts| parts.max(1));
    check_count(parts.fold(0, usize::saturating_add))
}

/// What a request is told that asks for too much.
pub(crate) fn too_large() -> Refusal {
    let message = "Unable to perform excessively large batch operation.";
    Refusal::new(ErrorCode::PolicyViolation, message)
}

/// A name for a message. One that is longer than any topic's may be is cut: a message may be told for each of many
/// partitions.
pub(crate) fn quoted(name: &str) -> &str {
    const BYTES_MAX: usize = 255;
    wire::text::cut(name, BYTES_MAX)
}

const _: () = assert!(PRODUCER_ID_BLOCK > 0, "a block has an id");

/// A decision: what to write, and what to answer once it is durable.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<R> {
    /// Records to append as one batch; empty when nothing changes.
    pub records: Vec<MetadataRecord>,
    /// The answer.
    pub response: R,
}

/// Why a part of a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// Kafka's code.
    pub(crate) code: ErrorCode,
    /// Words for the user.
    pub(crate) message: Option<String>,
}

impl Refusal {
    /// A refusal with words of its own.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
        }
    }

    /// Code and message as responses hold them; `Ok` is no error.
    pub(crate) fn parts(result: Result<(), Self>) -> (i16, Option<StrBytes>) {
        match result {
            Ok(()) => (0, None),
            Err(refusal) => (
                refusal.code.code(),
                refusal.message.map(StrBytes::from_string),
            ),
        }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
        }
    }
}

/// Hands out a block of producer ids: the first id and how many. None are left when a log says so.
pub(crate) fn allocate_producer_ids(
    image: &Image,
    node: NodeId,
) -> Outcome<Result<(i64, i64), ErrorCode>> {
    let first = image.next_producer_id();
    if first > i64::MAX - PRODUCER_ID_BLOCK {
        return Outcome {
            records: Vec::new(),
            response: Err(ErrorCode::UnknownServerError),
        };
    }
    let record = producer_ids(image, node, first.saturating_add(PRODUCER_ID_BLOCK));
    Outcome {
        records: vec![record.into()],
        response: Ok((first, PRODUCER_ID_BLOCK)),
    }
}

/// Says that the producer ids below `next` are given out.
pub(crate) fn producer_ids(image: &Image, node: NodeId, next: i64) -> ProducerIdsRecord {
    ProducerIdsRecord {
        broker_id: node.0,
        broker_epoch: image.broker(node).map_or(-1, |broker| broker.epoch),
        next_producer_id: next,
    }
}

/// A random topic id that Kafka would give: not one of the reserved ones, and its text does not
/// begin with a dash, which tools would take for an option.
pub(crate) fn topic_id(random: &mut dyn FnMut() -> u64) -> Uuid {
    loop {
        let bits = u128::from(random()) << 64 | u128::from(random());
        let id = uuid_v4(bits);
        if id.as_u128() > 100 && !wire::types::uuid_to_base64(id).starts_with('-') {
            return id;
        }
    }
}

/// A random UUID (version 4) of these bits.
pub(crate) fn uuid_v4(bits: u128) -> Uuid {
    const VERSION: u128 = 0xf000 << 64;
    const VARIANT: u128 = 0xc000 << 48;
    Uuid::from_u128(bits & !VERSION & !VARIANT | 0x4000 << 64 | 0x8000 << 48)
}

#[cfg(test)]
pub(crate) mod tests;
