//! What metrics show of a shard: its partitions and the directories of its logs.
//!
//! The functions read known state and wait for no disk; the one that visits all partitions gives
//! way to others after each [`VISITED_AT_ONCE`]. Not here: the names of metrics (`metrics`), groups
//! (`broker`), and the room on disks (`metrics/room.rs`).

use broker::Broker;
use broker::image::Image;
use broker::partition::Partition;
use platform::os::System;
use platform::task::yield_now;
use platform::{Disk as _, Platform as _};
use storage::Store;
use storage::tier::TierTable;

use crate::config::Settings;
use crate::metrics::{DirRow, LogRow, Replicas, TierDir};

/// Partitions visited before other tasks have their turn.
const VISITED_AT_ONCE: usize = 256;

/// Returns the state of the partitions that this shard leads.
pub(super) async fn logs(broker: &Broker<System>) -> Vec<LogRow> {
    let led = broker.led_partitions();
    in_turns(&led, |some, rows| {
        let image = broker.image();
        rows.extend(some.iter().map(|partition| row(&image, partition)));
    })
    .await
}

/// Gathers what `look` makes of the items, some at a time.
async fn in_turns<T, R>(items: &[T], mut look: impl FnMut(&[T], &mut Vec<R>)) -> Vec<R> {
    let mut rows = Vec::with_capacity(items.len());
    for some in items.chunks(VISITED_AT_ONCE) {
        if !rows.is_empty() {
            yield_now().await;
        }
        look(some, &mut rows);
    }
    rows
}

/// Returns the state of one partition.
fn row(image: &Image, partition: &Partition<System>) -> LogRow {
    let topic = image.topic_by_id(partition.topic_id);
    let known = topic.and_then(|topic| topic.partitions.get(&partition.name.partition));
    let in_sync_min = partition.config().min_insync_replicas;
    LogRow {
        partition: partition.name.clone(),
        size_bytes: partition.log.size_bytes(),
        start_offset: partition.log.log_start_offset().0,
        end_offset: partition.log.log_end_offset().0,
        segments: partition.log.segment_count() as u64,
        high_watermark: partition.high_watermark().0,
        producer_bytes: partition.log.producer_states().bytes() as u64,
        replicas: Replicas {
            // A partition that was just deleted is missing from the metadata seen here.
            count: known.map_or(1, |known| known.replicas.len()),
            in_sync: known.map_or(1, |known| known.isr.len()),
            is_led_by_preferred: known
                .is_none_or(|known| known.replicas.first() == Some(&known.leader)),
            in_sync_min: usize::try_from(in_sync_min).unwrap_or(0),
        },
    }
}

/// Returns every directory that holds logs, with its tier.
pub(super) fn dirs(settings: &Settings, tiers: Option<&TierTable>) -> Vec<TierDir> {
    let Some(tiers) = tiers else {
        let dirs = settings.log_dirs.iter();
        return dirs.map(|dir| (dir.clone(), String::new())).collect();
    };
    let name = |tier: usize| tiers.tiers()[tier].name.to_string();
    let paths = tiers.paths().iter();
    paths
        .map(|path| (path.dir().to_path_buf(), name(path.tier)))
        .collect()
}

/// Returns the state of directories, as this shard sees it.
pub(super) fn states(dirs: Vec<TierDir>, platform: &System, store: &Store<System>) -> Vec<DirRow> {
    let row = |(dir, tier): TierDir| DirRow {
        failed: store.dir_failure(&dir),
        under_way_for: platform.disk().under_way_for(&dir),
        dir: dir.display().to_string(),
        tier,
    };
    dirs.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_visited_some_at_a_time() {
        let items: Vec<usize> = (0..10 * VISITED_AT_ONCE).collect();
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.build().unwrap();
        runtime.block_on(async {
            let mut visited = Box::pin(in_turns(&items, |some, rows| {
                rows.extend_from_slice(some);
            }));
            let mut turns = 0;
            let rows = std::future::poll_fn(|context| {
                turns += 1;
                visited.as_mut().poll(context)
            })
            .await;
            assert_eq!(turns, 10);
            assert_eq!(rows, items);
        });
    }
}
