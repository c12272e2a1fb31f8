//! Base offset and leader epoch of a batch in recovery: no CRC covers them, so the next batch is
//! used to check them.
//!
//! A batch may begin behind a gap, and in a newer epoch. If the one after it fits only without
//! that, a bit of it has rotted: the log ends before it, not behind it with a wrong last record.

use platform::Platform;
use platform::disk::DiskFile;
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::Recovery;
use crate::error::{Error, Result};
use crate::segment::naming::Role;
use crate::segment::scan::{ExpectedBatch, MAGIC, Scan};

impl<P: Platform> Recovery<'_, P> {
    /// Returns true when the next whole batch with a right CRC contradicts this one's offset or
    /// epoch.
    ///
    /// This batch is the one where `scan` is.
    pub(super) async fn is_out_of_line<F: DiskFile>(
        &self,
        scan: &mut Scan<'_, F>,
        header: &BatchHeader,
        expected: ExpectedBatch,
        next_segment: Option<Offset>,
    ) -> Result<bool> {
        let io = |error| Error::io("read", &self.folder.path)(error);
        let gap = header.base_offset > expected.offset;
        let raised = header.leader_epoch > expected.epoch;
        if !gap && !raised {
            return Ok(false);
        }
        let position = scan.position() + header.size_bytes as u64;
        let is_last = scan.is_end(position);
        let following = match next_segment {
            Some(base) if is_last => self.first_header(&self.stored(base, base)).await?,
            _ => scan.following(header).await.map_err(io)?,
        };
        let possible =
            |following: &BatchHeader| following.magic == MAGIC && following.last_offset_delta >= 0;
        let Some(following) = following.filter(possible) else {
            return Ok(false);
        };
        let next = header.next_offset();
        let without_gap = expected.offset.plus(next.since(header.base_offset));
        let moved = gap && (without_gap..next).contains(&following.base_offset);
        let epoch = following.leader_epoch;
        let goes_on =
            epoch == expected.epoch || self.epochs.epoch_at(following.last_offset()) == Some(epoch);
        let spike =
            raised && following.base_offset == next && epoch < header.leader_epoch && goes_on;
        if !moved && !spike {
            return Ok(false);
        }
        match next_segment {
            Some(base) if is_last => self.first_crc_is_right(base, &following).await,
            _ => scan.crc_is_right_at(position, &following).await.map_err(io),
        }
    }

    async fn first_crc_is_right(&self, base: Offset, header: &BatchHeader) -> Result<bool> {
        let segment = self.stored(base, base);
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        let mut scan = Scan::new(&file, 0, segment.size(), super::WALK_BYTES);
        let right = scan.crc_is_right(header).await;
        right.map_err(Error::io("read", &path))
    }
}
