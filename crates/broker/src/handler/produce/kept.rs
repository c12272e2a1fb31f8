//! Topics of the coordinators: closed to clients, except to a tool that identifies itself, as in
//! Kafka.
//!
//! A tool's batch is accepted only if the coordinator can decode each of its records: the
//! coordinator cannot load a partition with a record that it cannot decode, and then serves none of
//! its groups or transactional ids. What the records mean is the tool's responsibility.

use bytes::Bytes;
use platform::Platform;
use wire::batch::record::records_within;
use wire::types::ErrorCode;

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::group::records::GroupRecord;
use crate::names::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal};
use crate::transaction::is_readable;

/// The client id that may write to the coordinators' topics.
const ADMIN_CLIENT: &str = "__admin_client";

/// Maximum decompressed size of the batches of a tool's request, which are read in one piece.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// What a record counts in addition to its key and value.
const RECORD_BYTES: usize = 64;

/// The bytes of its batches that a request may still have read.
#[derive(Debug)]
pub(super) struct ReadBudget(usize);

impl Default for ReadBudget {
    fn default() -> Self {
        Self(REQUEST_BYTES_MAX)
    }
}

/// The coordinator that reads a topic's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TopicReader {
    Open,
    Groups,
    Transactions,
}

impl TopicReader {
    /// Refuses the coordinators' topics, unless the client is a tool.
    pub(super) fn of<P: Platform>(
        broker: &Broker<P>,
        topic: &TopicKey,
        client: &str,
    ) -> Result<Self, ErrorCode> {
        let by_name = |name: &str| match name {
            name if !is_internal(name) => Ok(Self::Open),
            _ if client != ADMIN_CLIENT => Err(ErrorCode::InvalidTopicException),
            OFFSETS_TOPIC => Ok(Self::Groups),
            TRANSACTIONS_TOPIC => Ok(Self::Transactions),
            _ => Err(ErrorCode::InvalidTopicException),
        };
        match topic {
            TopicKey::Name(name) => by_name(name),
            TopicKey::Id(id) => {
                let image = broker.image();
                let found = image.topic_by_id(*id);
                found.map_or(Ok(Self::Open), |found| by_name(&found.name))
            }
        }
    }

    /// Refuses a batch that the coordinator could not decode or that exceeds the limit, and all
    /// batches after it in the request.
    pub(super) fn check(self, batch: &Bytes, left: &mut ReadBudget) -> Result<(), ErrorCode> {
        let can_be_read = match self {
            Self::Open => return Ok(()),
            Self::Groups => |key: &Bytes, value: Option<&Bytes>| {
                GroupRecord::decode(key, value.map(AsRef::as_ref)).is_ok()
            },
            Self::Transactions => is_readable,
        };
        // Only a batch that is read completely leaves a remainder: a failed one may have cost the
        // maximum.
        let bytes_max = std::mem::take(&mut left.0);
        let refused = ErrorCode::InvalidRecord;
        let mut rest = bytes_max.checked_sub(batch.len()).ok_or(refused)?;
        for record in records_within(batch, bytes_max).map_err(|_| refused)? {
            let record = record.map_err(|_| refused)?;
            let (key, value) = (record.key.as_ref(), record.value.as_ref());
            let bytes = key.map_or(0, Bytes::len);
            let bytes = bytes.saturating_add(value.map_or(0, Bytes::len));
            let counted = bytes.saturating_add(RECORD_BYTES);
            rest = rest.checked_sub(counted).ok_or(refused)?;
            if !key.is_some_and(|key| can_be_read(key, value)) {
                return Err(refused);
            }
        }
        left.0 = rest;
        Ok(())
    }
}
