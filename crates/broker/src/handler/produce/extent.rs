//! What an append counts for: the metrics of its topic, and the turn that it takes from others.

use platform::Platform;
use wire::batch::WholeBatch;

use crate::error::AppendError;
use crate::partition::{AcceptedAppend, Partition};

/// Bytes of decompressed records that take as long as one item of a request.
const ITEM_BYTES: usize = 16 << 10;

/// The metrics of a batch.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    bytes: usize,
    records: u32,
    is_compressed: bool,
}

impl Extent {
    /// Returns the extent of the bytes that a client sent, with their batch if they are one.
    pub(super) fn of(bytes: usize, batch: Option<&WholeBatch>) -> Self {
        let header = batch.map(WholeBatch::header);
        Self {
            bytes,
            // The batch is not judged yet, so the count may be negative.
            records: header.map_or(0, |header| header.record_count.unsigned_abs()),
            is_compressed: header.is_some_and(|header| header.compression_code() != 0),
        }
    }
}

/// Counts an append, or a refused one, in the metrics of its topic.
pub(super) fn count<P: Platform>(
    partition: &Partition<P>,
    extent: Extent,
    begun: &Result<AcceptedAppend, AppendError>,
) {
    let metrics = &partition.metrics;
    metrics.produce_requests.add(1);
    let bytes = extent.bytes as u64;
    match begun {
        Ok(_) => {
            metrics.messages_in.add(u64::from(extent.records));
            metrics.bytes_in.add(bytes);
        }
        Err(error) => {
            tracing::debug!(partition = %partition.name, code = ?error.code, reason = ?error.message, "append refused");
            metrics.failed_produce_requests.add(1);
            metrics.bytes_rejected.add(bytes);
        }
    }
}

/// Returns the cost of an append, in items of a request. A refused batch may have been decompressed
/// to any size.
pub(super) fn worth(begun: &Result<AcceptedAppend, AppendError>, extent: Extent) -> usize {
    let bytes = match begun {
        Ok(accepted) => accepted.work_bytes,
        Err(_) if extent.is_compressed => usize::MAX,
        Err(_) => extent.bytes,
    };
    (bytes / ITEM_BYTES).saturating_add(1)
}
