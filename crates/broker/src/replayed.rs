//! Reads a partition of an internal topic from its start to its end, batch by batch, when a
//! coordinator loads it.
//!
//! The end is the high watermark, up to which everything has survived. The caller knows what the
//! batches mean; the first batch that cannot be read or accepted ends the reading.

use bytes::Bytes;
use platform::Platform;
use wire::batch::{BatchHeader, Batches};
use wire::error::BatchError;

use crate::partition::{Isolation, Partition};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// Gives each batch to `take`, in the order of the log.
pub(crate) async fn each_batch<P, E>(
    partition: &Partition<P>,
    mut take: impl FnMut(&BatchHeader, &Bytes) -> Result<(), E>,
) -> Result<(), E>
where
    P: Platform,
    E: From<storage::Error> + From<BatchError>,
{
    let mut next = partition.log.log_start_offset();
    loop {
        let end = partition.readable_end(Isolation::ReadUncommitted);
        if next >= end {
            return Ok(());
        }
        let slices = partition.log.read(next, end, READ_BYTES, true).await?;
        let bytes = Bytes::from(slices.concat());
        let before = next;
        for batch in Batches::new(&bytes) {
            let (header, batch) = batch?;
            next = header.next_offset();
            take(&header, &bytes.slice_ref(batch))?;
        }
        if next == before {
            return Ok(());
        }
    }
}
