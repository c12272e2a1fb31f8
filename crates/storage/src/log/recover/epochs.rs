//! Leader epochs of a log that is being opened: the batches decide, the file of epochs is a hint.
//!
//! The file has epochs in which nothing was written, so it is kept as long as no batch contradicts
//! it. Where one does, or where the file has nothing of a log that has records, the epochs are
//! taken from the batches: one header of each segment, and all headers of those within which the
//! epoch changes. Epochs do not fall, so that is enough.

use std::collections::VecDeque;
use std::rc::Rc;

use platform::Platform;
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::super::epoch_cache::EpochCache;
use super::super::files::set_aside;
use super::Recovery;
use crate::checkpoint::leader_epochs;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::segment::naming::Role;
use crate::segment::scan::{MAGIC, Scan};

/// Bytes of one read while headers are looked at.
const WINDOW_BYTES: usize = 64 << 10;

impl<P: Platform> Recovery<'_, P> {
    /// Compares a batch that belongs to the log with the known epochs.
    pub(super) fn note_epoch(&mut self, header: &BatchHeader) {
        let found = header.leader_epoch;
        let is_first_checked = self.met_epoch.replace(found).is_none();
        let base = header.base_offset;
        let known = self.epochs.epoch_at(base);
        if known == Some(found) || found.0 < 0 {
            return;
        }
        let differs = match (known, self.epochs.entries().first()) {
            // Nothing is known below the log start any more.
            (None, Some(first)) if found <= first.epoch => return,
            (None, Some(_)) => true,
            (None, None) => is_first_checked && self.folder.bases().first() != Some(&base),
            // A process that was killed may not have saved its last epoch, which begins with a
            // batch that was not durable.
            (Some(known), _) => known > found || is_first_checked || self.clean,
        };
        self.epochs_differ |= differs;
        self.epochs.assign(found, base);
    }

    /// Takes the epochs from the batches if these contradict the file.
    pub(super) async fn settle_epochs(
        &mut self,
        segments: &VecDeque<Rc<Segment<P>>>,
        end: Offset,
    ) -> Result<()> {
        self.epochs.truncate_from_end(end);
        let latest = self.epochs.latest().map(|latest| latest.epoch);
        let met = self.met_epoch.filter(|epoch| epoch.0 >= 0);
        if !self.epochs_differ && (met.is_none() || met == latest) {
            return Ok(());
        }
        let file = self.folder.path.join(leader_epochs::FILE);
        tracing::warn!(file = %file.display(), "the batches know other leader epochs than the file, which are used");
        set_aside(self.store, &file).await?;
        let present: Vec<_> = segments
            .iter()
            .filter(|segment| !segment.is_absent())
            .collect();
        let mut epochs = EpochCache::default();
        for (at, segment) in present.iter().enumerate() {
            let first = self.first_header(segment).await?;
            let next = match present.get(at + 1) {
                Some(next) => self.first_header(next).await?,
                None => None,
            };
            let Some(first) = first else { continue };
            if next.is_some_and(|next| next.leader_epoch == first.leader_epoch) {
                note(&mut epochs, &first);
            } else {
                self.walk_epochs(segment, &mut epochs).await?;
            }
        }
        self.epochs = epochs;
        Ok(())
    }

    pub(super) async fn first_header(&self, segment: &Segment<P>) -> Result<Option<BatchHeader>> {
        let file = segment.file(self.store.disk()).await?;
        let mut scan = Scan::new(&file, 0, segment.size(), super::WALK_BYTES);
        let path = segment.path(Role::Log);
        let header = scan.header().await.map_err(Error::io("read", &path))?;
        close_again(segment);
        Ok(header.filter(|header| header.magic == MAGIC))
    }

    async fn walk_epochs(&self, segment: &Segment<P>, epochs: &mut EpochCache) -> Result<()> {
        let file = segment.file(self.store.disk()).await?;
        let mut scan = Scan::new(&file, 0, segment.size(), WINDOW_BYTES);
        let path = segment.path(Role::Log);
        while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
            if header.magic != MAGIC {
                break;
            }
            note(epochs, &header);
            scan.skip(&header);
        }
        close_again(segment);
        Ok(())
    }
}

/// Closes the file of a sealed segment: a log of many segments must not hold a descriptor for each.
fn close_again<P: Platform>(segment: &Segment<P>) {
    if segment.is_sealed() {
        segment.close_file();
    }
}

/// Notes the epoch of a batch, if it is above the one before.
fn note(epochs: &mut EpochCache, header: &BatchHeader) {
    if epochs
        .latest()
        .is_none_or(|latest| latest.epoch < header.leader_epoch)
    {
        epochs.assign(header.leader_epoch, header.base_offset);
    }
}
