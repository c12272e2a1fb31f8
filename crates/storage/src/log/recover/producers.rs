//! Producers as of where a recovery begins to check: the newest snapshot that is not past it, and the batches after.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, is_unreadable};
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::super::append::marker_of;
use super::super::producer_state::{ProducerSnapshot, ProducerStates, snapshot};
use super::{Recovery, Start, WALK_BYTES};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;
use crate::segment::{File, Loaded, Segment};

impl<P: Platform> Recovery<'_, P> {
    /// Restores the producers as of the start of what is to be checked (or later, where that is trusted).
    pub(super) async fn restore_producers(
        &mut self,
        sealed: &VecDeque<Rc<Segment<P>>>,
        opened: &Rc<Segment<P>>,
        start: Start,
        snapshot_max: Offset,
    ) -> Result<()> {
        self.begin_with_snapshot(snapshot_max).await?;
        // What lies between the snapshot and the start is trusted, so its headers are enough.
        for segment in sealed.iter().chain([opened]) {
            let is_opened = Rc::ptr_eq(segment, opened);
            let next = if is_opened {
                start.expected.offset
            } else {
                segment.next.get()
            };
            if next > self.producers.end() {
                let end = if is_opened {
                    start.position
                } else {
                    segment.size.get()
                };
                self.replay_headers(segment, end).await?;
            }
        }
        Ok(())
    }

    /// What the snapshot at `offset` says; `None` when it is damaged.
    async fn snapshot_at(&self, offset: Offset) -> Result<Option<Vec<ProducerSnapshot>>> {
        let path = file_path(&self.folder.path, offset, Role::Snapshot);
        let disk = self.store.disk();
        let bytes = match disk.read_file_within(&path, snapshot::FILE_BYTES_MAX).await {
            Ok(bytes) => bytes,
            // No snapshot is empty.
            Err(error) if is_unreadable(&error) => Vec::new(),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        match snapshot::parse_at(offset, &bytes) {
            Ok(producers) => Ok(Some(producers)),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "a damaged producer snapshot is not used");
                Ok(None)
            }
        }
    }

    /// The producers as the newest snapshot that can be read, and is not past `max`, has them.
    async fn begin_with_snapshot(&mut self, max: Offset) -> Result<()> {
        let first = self.folder.bases().first().copied().unwrap_or(Offset::ZERO);
        let mut offsets = self.folder.snapshots.clone();
        offsets.sort_unstable();
        let usable = offsets.partition_point(|offset| *offset <= max);
        // Bounded: no more than there are.
        let later = offsets.split_off(usable);
        let expiration_ms = self.options.producer_id_expiration_ms;
        let now = self.store.clock().reading();
        self.producers = ProducerStates::new(first);
        for offset in offsets.into_iter().rev() {
            if let Some(producers) = self.snapshot_at(offset).await? {
                self.producers = ProducerStates::restore(offset, &producers, now, expiration_ms);
                break;
            }
        }
        let accounted = self.producers.producer_count() > 0 && self.producers.end() >= first;
        // Retention was at it: of those whose batches it has deleted, a later snapshot tells what they had written.
        if !accounted && first > Offset::ZERO {
            for offset in later {
                if let Some(mut producers) = self.snapshot_at(offset).await? {
                    producers.retain(|producer| producer.last_offset < first);
                    self.producers = ProducerStates::restore(first, &producers, now, expiration_ms);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The producers as of the end of the log, where what was known of them was of a longer one. False: that is not what
    /// a clean stop leaves.
    pub(super) async fn restore_below(
        &mut self,
        segments: &VecDeque<Rc<Segment<P>>>,
        end: Offset,
    ) -> Result<bool> {
        if self.clean {
            return Ok(false);
        }
        tracing::warn!(folder = %self.folder.path.display(), %end, snapshot = %self.producers.end(),
            "a producer snapshot is of a longer log and is not used");
        self.begin_with_snapshot(end).await?;
        for segment in segments.iter().filter(|segment| !segment.absent.get()) {
            if segment.next.get() > self.producers.end() {
                self.replay_headers(segment, segment.size.get()).await?;
            }
        }
        Ok(true)
    }

    async fn replay_headers(&mut self, segment: &Segment<P>, end: u64) -> Result<()> {
        let file = segment.file(self.store.disk()).await?;
        let path = segment.path(Role::Log);
        let mut scan = Scan::new(&file, 0, end, WALK_BYTES);
        while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
            if header.next_offset() > self.producers.end() {
                self.replay(&mut scan, &header, None, &path).await?;
            }
            scan.skip(&header);
        }
        Ok(())
    }

    pub(super) async fn replay(
        &mut self,
        scan: &mut Scan<'_, File<P>>,
        header: &BatchHeader,
        loaded: Option<&mut Loaded>,
        path: &Path,
    ) -> Result<()> {
        let marker = if header.is_control() {
            marker_of(&scan.batch(header).await.map_err(Error::io("read", path))?)
        } else {
            None
        };
        if header.next_offset() > self.producers.end() {
            let aborted = self.producers.replay(header, marker);
            if let (Some(aborted), Some(loaded)) = (aborted, loaded) {
                loaded.aborted.append(aborted);
            }
        }
        Ok(())
    }
}
