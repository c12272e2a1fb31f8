//! Snapshots of the metadata log: when one is due, how it is written, which ones go.

use platform::{Disk, Platform};

use super::error::{MetadataLogError, io_error};
use super::{MetadataLog, SNAPSHOT_AGAIN, snapshots};
use crate::controller::snapshot::{self, SnapshotId};
use crate::image::Image;

impl<P: Platform> MetadataLog<P> {
    /// Returns true when a snapshot is due.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let now = self.platform.clock().now();
        let may_be = self.snapshot_again.get().is_none_or(|at| at <= now);
        may_be && self.unsnapshot_bytes.get() >= self.home.snapshot_bytes
    }

    /// Postpones the next snapshot after one that could not be written. Returns true for the first
    /// failure.
    pub(crate) fn put_snapshot_off(&self) -> bool {
        let at = self.platform.clock().now() + SNAPSHOT_AGAIN;
        self.snapshot_again.replace(Some(at)).is_none()
    }

    /// Writes a snapshot of `image`, which is at the end of the log, and deletes what it
    /// supersedes.
    pub(crate) async fn write_snapshot(&self, image: &Image) -> Result<(), MetadataLogError> {
        let id = SnapshotId::of(image);
        let bytes = snapshot::write(
            &image.records(),
            image.metadata_version(),
            &self.quorum.borrow().clone(),
            id.epoch,
            image.applied().timestamp,
        );
        let bytes = bytes.map_err(|source| self.content(source))?;
        let path = self.folder.join(id.file_name());
        let written = self.platform.disk().replace_file(&path, &bytes).await;
        written.map_err(|error| io_error("write", &path, error))?;
        self.unsnapshot_bytes.set(0);
        self.snapshot_again.set(None);
        let (snapshot, bytes) = (path.display(), bytes.len());
        tracing::info!(%snapshot, bytes, "wrote a snapshot of the metadata");
        self.log.roll().await?;
        self.log.set_log_start(id.end)?;
        self.log.retain(self.platform.clock().wall_ms()).await?;
        self.delete_snapshots_before(id).await
    }

    async fn delete_snapshots_before(&self, kept: SnapshotId) -> Result<(), MetadataLogError> {
        for id in snapshots(&self.platform, &self.folder).await? {
            if id < kept {
                let path = self.folder.join(id.file_name());
                let removed = self.platform.disk().remove_file(&path).await;
                removed.map_err(|error| io_error("remove", &path, error))?;
            }
        }
        Ok(())
    }
}
