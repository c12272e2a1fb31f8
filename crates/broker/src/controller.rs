//! The controller of a standalone broker: turns a request into metadata records.
//!
//! Decisions are pure: a decision reads an [`Image`] and the options, and returns a
//! [`ControllerDecision`]: the records to append, and the response to send once they are durable.
//! The metadata changes only when [`Image::replay`] applies the records. `controller/decide/` has
//! one file for each request, `controller/topics.rs` creates, deletes and grows topics,
//! `controller/configs.rs` changes settings, `controller/startup.rs` builds the records that a
//! start writes. Not here: appending and waiting (`controller/metadata_log.rs`).

pub(crate) mod answers;
pub(crate) mod batches;
pub(crate) mod bounds;
pub(crate) mod config_rights;
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
pub(crate) mod stores;
pub(crate) mod topic_name;
pub(crate) mod topics;

pub use batches::BadBatch;
pub use metadata_log::{Home, MetadataLogError};
pub use mutations::Caller;
pub use service::{Controller, Publish};

use wire::StrBytes;
use wire::acl;
use wire::records::metadata::{MetadataRecord, ProducerIdsRecord};
use wire::types::{ErrorCode, NodeId, Uuid};

use crate::access::denied;
use crate::image::Image;
use crate::options::BrokerOptions;

/// Producer ids in one block.
pub const PRODUCER_ID_BLOCK: i64 = 1000;
/// Maximum number of records that one request may cause.
pub(crate) const RECORDS_PER_REQUEST_MAX: usize = 10_000;

/// The input of a decision.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// The current metadata.
    pub(crate) image: &'a Image,
    /// The configuration that this broker started with.
    pub(crate) options: &'a BrokerOptions,
}

/// Refuses a request that names more parts than one request may change. No other change runs during
/// a decision, so its length is bounded.
pub(crate) fn check_count(parts: usize) -> Result<(), Refusal> {
    if parts > RECORDS_PER_REQUEST_MAX {
        return Err(too_large());
    }
    Ok(())
}

/// Refuses a request whose items have too many parts in total.
///
/// An item without parts counts as one, because deciding on it is work too.
pub(crate) fn check_parts(each: impl Iterator<Item = usize>) -> Result<(), Refusal> {
    let parts = each.map(|parts| parts.max(1));
    check_count(parts.fold(0, usize::saturating_add))
}

/// Returns the refusal for a request that asks for too much.
pub(crate) fn too_large() -> Refusal {
    let message = "Unable to perform excessively large batch operation.";
    Refusal::new(ErrorCode::PolicyViolation, message)
}

/// Returns a name for use in a message, cut to the maximum length of a topic name.
///
/// The response may repeat such a message for each of many partitions.
pub(crate) fn quoted(name: &str) -> &str {
    const BYTES_MAX: usize = 255;
    wire::text::cut(name, BYTES_MAX)
}

const _: () = assert!(PRODUCER_ID_BLOCK > 0, "a block has an id");

/// A decision: the records to write, and the response to send once they are durable.
#[derive(Clone, PartialEq, Debug)]
pub struct ControllerDecision<R> {
    /// Records to append as one batch; empty when nothing changes.
    pub records: Vec<MetadataRecord>,
    /// The response.
    pub response: R,
}

/// Why the controller refuses a part of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// Kafka's error code.
    pub(crate) code: ErrorCode,
    /// Message for the user.
    pub(crate) message: Option<String>,
}

impl Refusal {
    /// Returns a refusal with its own message.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
        }
    }

    /// Returns the refusal of a client that lacks a right on a resource of this type, in Kafka's
    /// words.
    pub(crate) fn denied(resource_type: acl::ResourceType) -> Self {
        let (code, words) = denied(resource_type);
        Self::new(code, words)
    }

    /// Returns code and message as responses hold them; `Ok` is code 0.
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

/// Allocates a block of producer ids: returns the first id and the count.
///
/// Fails when the log shows that no ids are left.
pub(crate) fn allocate_producer_ids(
    image: &Image,
    node: NodeId,
) -> ControllerDecision<Result<(i64, i64), ErrorCode>> {
    let first = image.next_producer_id();
    if first > i64::MAX - PRODUCER_ID_BLOCK {
        return ControllerDecision {
            records: Vec::new(),
            response: Err(ErrorCode::UnknownServerError),
        };
    }
    let record = producer_ids(image, node, first.saturating_add(PRODUCER_ID_BLOCK));
    ControllerDecision {
        records: vec![record.into()],
        response: Ok((first, PRODUCER_ID_BLOCK)),
    }
}

/// Returns the record that marks the producer ids below `next` as given out.
pub(crate) fn producer_ids(image: &Image, node: NodeId, next: i64) -> ProducerIdsRecord {
    ProducerIdsRecord {
        broker_id: node.0,
        broker_epoch: image.broker(node).map_or(-1, |broker| broker.epoch),
        next_producer_id: next,
    }
}

/// Returns a random topic id of the form that Kafka assigns.
///
/// It is not one of the reserved ids, and its text does not begin with a dash, which tools would
/// parse as an option.
pub(crate) fn topic_id(random: &mut dyn FnMut() -> u64) -> Uuid {
    loop {
        let bits = u128::from(random()) << 64 | u128::from(random());
        let id = uuid_v4(bits);
        if id.as_u128() > 100 && !wire::types::uuid_to_base64(id).starts_with('-') {
            return id;
        }
    }
}

/// Returns a random UUID (version 4) built from these bits.
pub(crate) fn uuid_v4(bits: u128) -> Uuid {
    const VERSION: u128 = 0xf000 << 64;
    const VARIANT: u128 = 0xc000 << 48;
    Uuid::from_u128(bits & !VERSION & !VARIANT | 0x4000 << 64 | 0x8000 << 48)
}

#[cfg(test)]
pub(crate) mod tests;
