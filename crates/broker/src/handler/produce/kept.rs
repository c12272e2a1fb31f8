//! Topics that the coordinators keep: closed to clients, save for a tool that says what it is, as with Kafka.
//!
//! A tool's batch is taken only if the coordinator could read each of its records: of a partition with one that it cannot
//! read, no group and no transactional id is served any more. What the records say is the tool's business.

use bytes::Bytes;
use platform::Platform;
use wire::batch::record::records_within;
use wire::types::ErrorCode;

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::group::records::GroupRecord;
use crate::names::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal};
use crate::transaction::is_readable;

/// Who calls itself so may write where only the coordinators do.
const ADMIN_CLIENT: &str = "__admin_client";

/// What the batches of one request of a tool may take, decompressed: they are read in one piece.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// What a record counts beside its key and value.
const RECORD_BYTES: usize = 64;

/// What a request may still have read of its batches.
#[derive(Debug)]
pub(super) struct Left(usize);

impl Default for Left {
    fn default() -> Self {
        Self(REQUEST_BYTES_MAX)
    }
}

/// Whose records a topic takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    Open,
    Groups,
    Transactions,
}

impl Kept {
    /// Refuses the topics that the coordinators keep, unless the client is a tool.
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

    /// Refuses what the coordinator could not read, and what is behind that in the request, or behind more than is read.
    pub(super) fn check(self, batch: &Bytes, left: &mut Left) -> Result<(), ErrorCode> {
        let can_be_read = match self {
            Self::Open => return Ok(()),
            Self::Groups => |key: &Bytes, value: Option<&Bytes>| {
                GroupRecord::decode(key, value.map(AsRef::as_ref)).is_ok()
            },
            Self::Transactions => is_readable,
        };
        // Nothing is left unless all of it is read: what fails has cost as much as it could.
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
