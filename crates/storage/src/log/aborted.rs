//! Indexes of a sealed segment that have to be made anew, with the aborted transactions whose file is gone or damaged.
//!
//! Those follow from the batches: producers as of a snapshot before the segment (or of the log's first segment, where no
//! snapshot can be read), and everything replayed from there. Without that, readers at `read_committed` would be given the
//! records of aborted transactions and not be told.

use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, is_unreadable};
use wire::types::Offset;

use super::Log;
use super::append::marker_of;
use super::producer_state::{ProducerStates, snapshot};
use super::txn_index::TxnIndex;
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;
use crate::segment::{Loaded, Segment, load};

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

impl<P: Platform> Log<P> {
    /// The indexes of a sealed segment by its batches.
    pub(super) async fn rebuilt(&self, segment: &Rc<Segment<P>>) -> Result<Loaded> {
        let disk = self.store.disk();
        let options = self.index_options();
        let aborted = match load::aborted_of(disk, segment, options).await? {
            Some(aborted) => aborted,
            None => self.aborted_in(segment).await?,
        };
        let file = segment.file(disk).await?;
        load::rebuild(segment, &file, options, aborted).await
    }

    /// The transactions whose abort marker lies in a segment.
    async fn aborted_in(&self, segment: &Rc<Segment<P>>) -> Result<TxnIndex> {
        let mut states = self.producers_at(segment.base).await?;
        let mut aborted = TxnIndex::new();
        self.replay_segment(segment, &mut states, &mut aborted)
            .await?;
        Ok(aborted)
    }

    /// The producers as of `end`, which a segment begins with or the log ends with: from the newest snapshot before it
    /// that can be read, and the batches after that.
    pub(super) async fn producers_at(&self, end: Offset) -> Result<ProducerStates> {
        let disk = self.store.disk();
        let now = self.store.clock().reading();
        let expiration_ms = self.options().producer_id_expiration_ms;
        let first = self
            .segments
            .borrow()
            .front()
            .map_or(end, |first| first.base);
        let mut states = ProducerStates::new(first.min(end));
        let snapshots = self.snapshots_on_disk().await?;
        for offset in snapshots.into_iter().rev().filter(|at| *at <= end) {
            let path = file_path(&self.folder, offset, Role::Snapshot);
            let bytes = match disk.read_file_within(&path, snapshot::FILE_BYTES_MAX).await {
                Ok(bytes) => bytes,
                Err(error) if is_unreadable(&error) => continue,
                Err(error) => return Err(Error::io("read", &path)(error)),
            };
            if let Ok(producers) = snapshot::parse(&bytes) {
                states = ProducerStates::restore(offset, &producers, now, expiration_ms);
                break;
            }
        }
        while states.end() < end {
            let Some(segment) = self.segment_with(states.end()) else {
                break;
            };
            self.replay_segment(&segment, &mut states, &mut TxnIndex::new())
                .await?;
            states.advance_log_start(segment.next.get());
        }
        Ok(states)
    }

    /// Shows the producers what a segment has beyond what they know.
    async fn replay_segment(
        &self,
        segment: &Rc<Segment<P>>,
        states: &mut ProducerStates,
        aborted: &mut TxnIndex,
    ) -> Result<()> {
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        let mut scan = Scan::new(&file, 0, segment.size.get(), WALK_BYTES);
        while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
            if header.next_offset() > states.end() {
                let marker = if header.is_control() {
                    let batch = scan.batch(&header).await;
                    marker_of(&batch.map_err(Error::io("read", &path))?)
                } else {
                    None
                };
                if let Some(txn) = states.replay(&header, marker) {
                    aborted.append(txn);
                }
            }
            scan.skip(&header);
        }
        Ok(())
    }
}
