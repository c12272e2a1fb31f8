//! The lines of the checkpoint files for logs that are not open.
//!
//! Invariant: a log that is not open keeps its lines. It does not write files (`checkpoints.rs`).

use std::path::{Path, PathBuf};

use platform::Platform;
use storage::LogPoints;

use crate::Broker;

impl<P: Platform> Broker<P> {
    /// Returns the lines of a directory's checkpoint files for this shard's logs, open or not.
    pub(crate) fn points_of(&self, dir: &Path) -> Vec<LogPoints> {
        let mut points = self.store.points(dir);
        let unopened = self.unopened.borrow();
        let here = unopened.values().filter(|log| log.dir == dir);
        points.extend(here.map(|log| LogPoints {
            topic_partition: log.name.clone(),
            recovery_point: log.how.recovery_point,
            log_start: log.how.log_start,
            // None of its records is served.
            high_watermark: log.how.log_start,
            compacted: log.how.compacted,
        }));
        points
    }

    /// Returns the directories with a log that was not left cleanly and has not been recovered
    /// since.
    pub(crate) fn unrecovered_dirs(&self) -> Vec<PathBuf> {
        let unopened = self.unopened.borrow();
        let unclean = unopened.values().filter(|log| !log.how.clean);
        unclean.map(|log| log.dir.clone()).collect()
    }
}
