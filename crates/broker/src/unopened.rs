//! What is known of logs that could not be opened: where they are, and what the checkpoints said of them.
//!
//! Invariant: while a log is not open its lines stay in the checkpoint files, as they were. A file without them would
//! have deleted records come back at the next start, and a log that nobody has recovered would be taken for whole.

use std::path::{Path, PathBuf};

use platform::Platform;
use storage::{LogPoints, OpenAs};
use wire::types::TopicPartition;

use crate::Broker;

/// A log that could not be opened.
#[derive(Clone, Debug)]
pub(crate) struct Unopened {
    pub(crate) name: TopicPartition,
    /// The log directory that it is in.
    pub(crate) dir: PathBuf,
    /// How it is to be opened.
    pub(crate) how: OpenAs,
    /// Its topic was made in this life.
    pub(crate) is_new: bool,
}

impl<P: Platform> Broker<P> {
    /// What the checkpoint files of a directory are to say of this shard's logs, open or not.
    pub(crate) fn points_of(&self, dir: &Path) -> Vec<LogPoints> {
        let mut points = self.store.points(dir);
        let unopened = self.unopened.borrow();
        let here = unopened.values().filter(|log| log.dir == dir);
        points.extend(here.map(|log| LogPoints {
            topic_partition: log.name.clone(),
            recovery_point: log.how.recovery_point,
            log_start: log.how.log_start,
            // Nothing of it is served.
            high_watermark: log.how.log_start,
            compacted: log.how.compacted,
        }));
        points
    }

    /// Directories with a log that was not left cleanly and has not been recovered since.
    pub(crate) fn unrecovered_dirs(&self) -> Vec<PathBuf> {
        let unopened = self.unopened.borrow();
        let unclean = unopened.values().filter(|log| !log.how.clean);
        unclean.map(|log| log.dir.clone()).collect()
    }
}
