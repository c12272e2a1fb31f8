//! The checkpoint files of the log directories: recovery points, log start offsets, high watermarks.
//!
//! Every shard knows the positions of its own logs; the files are for all of them, so one shard gathers and writes.
//! Invariants: a file is replaced as a whole; a position in it was true when it was gathered, and recovery points only
//! name what was durable by then.

use std::rc::Rc;

use platform::{Disk, Platform};
use storage::checkpoint::offsets;
use storage::store::LogPoints;
use wire::types::{Offset, TopicPartition};

use crate::Broker;
use crate::broker::CONTROLLER_SHARD;

impl<P: Platform> Broker<P> {
    /// Writes the checkpoint files of all log directories; false when one could not be written.
    pub async fn checkpoint(&self) -> bool {
        let write = |broker: Rc<Self>| async move { broker.write_checkpoints().await };
        self.shards
            .call(CONTROLLER_SHARD, write)
            .await
            .unwrap_or(false)
    }

    async fn write_checkpoints(self: Rc<Self>) -> bool {
        let mut all_written = true;
        // One at a time: an older gathering must not replace the file of a newer one.
        let _turn = self.checkpoint_turn.acquire().await;
        for dir in &self.log_dirs.dirs {
            let path = dir.path.clone();
            let gathered = self
                .shards
                .call_all(move |broker| std::future::ready(broker.store.points(&path)));
            let points: Vec<LogPoints> = gathered.await.into_iter().flatten().collect();
            let files = [
                (
                    offsets::RECOVERY_POINTS,
                    rows(&points, |p| p.recovery_point),
                ),
                (offsets::LOG_STARTS, rows(&points, |p| p.log_start)),
                (
                    offsets::HIGH_WATERMARKS,
                    rows(&points, |p| p.high_watermark),
                ),
            ];
            for (name, rows) in files {
                let path = dir.path.join(name);
                let written = self
                    .platform
                    .disk()
                    .replace_file(&path, &offsets::encode(&rows))
                    .await;
                if let Err(error) = written {
                    all_written = false;
                    tracing::error!(path = %path.display(), %error, "cannot write the checkpoint");
                }
            }
        }
        all_written
    }
}

fn rows(
    points: &[LogPoints],
    field: impl Fn(&LogPoints) -> Offset,
) -> Vec<(TopicPartition, Offset)> {
    points
        .iter()
        .map(|points| (points.topic_partition.clone(), field(points)))
        .collect()
}
