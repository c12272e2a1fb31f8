//! The checkpoint files of the log directory, as the owner of the logs keeps them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::Disk;
use storage::checkpoint::{clean_shutdown, offsets};
use storage::{OpenAs, Store};
use wire::types::{Offset, TopicPartition};

/// The log directory.
pub(crate) const DIR: &str = "/data";

/// What is known of the logs before they are opened.
pub(crate) struct Found {
    clean: bool,
    recovery_points: BTreeMap<TopicPartition, Offset>,
    log_starts: BTreeMap<TopicPartition, Offset>,
    high_watermarks: BTreeMap<TopicPartition, Offset>,
}

impl Found {
    pub(crate) fn open_as(&self, partition: &TopicPartition) -> OpenAs {
        let of = |offsets: &BTreeMap<_, _>| offsets.get(partition).copied().unwrap_or(Offset::ZERO);
        OpenAs {
            clean: self.clean,
            recovery_point: of(&self.recovery_points),
            log_start: of(&self.log_starts),
            compacted: None,
        }
    }

    pub(crate) fn high_watermark(&self, partition: &TopicPartition) -> Offset {
        self.high_watermarks
            .get(partition)
            .copied()
            .unwrap_or(Offset::ZERO)
    }
}

/// Reads the files, and takes away the mark of a clean stop before any log is touched.
pub(crate) async fn load<P: Platform>(platform: &P) -> io::Result<Found> {
    let disk = platform.disk();
    let dir = Path::new(DIR);
    match disk.list(dir).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create_dir(dir).await?,
        listed => drop(listed?),
    }
    let clean = match disk.remove_file(&dir.join(clean_shutdown::FILE)).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        removed => {
            removed?;
            disk.sync_dir(dir).await?;
            true
        }
    };
    Ok(Found {
        clean,
        recovery_points: read(platform, offsets::RECOVERY_POINTS).await?,
        log_starts: read(platform, offsets::LOG_STARTS).await?,
        high_watermarks: read(platform, offsets::HIGH_WATERMARKS).await?,
    })
}

async fn read<P: Platform>(
    platform: &P,
    name: &str,
) -> io::Result<BTreeMap<TopicPartition, Offset>> {
    let path = Path::new(DIR).join(name);
    match platform.disk().read_file(&path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
        Ok(bytes) => {
            let offsets = offsets::parse(&path, &bytes).map_err(io::Error::other)?;
            Ok(offsets.into_iter().collect())
        }
    }
}

/// Writes the files. Gives the log starts that are promised now.
pub(crate) async fn save<P: Platform>(
    platform: &P,
    store: &Store<P>,
) -> io::Result<Vec<(TopicPartition, Offset)>> {
    let points = store.points(Path::new(DIR));
    let path = |name: &str| -> PathBuf { Path::new(DIR).join(name) };
    let of = |offset: fn(&storage::LogPoints) -> Offset| -> Vec<(TopicPartition, Offset)> {
        points
            .iter()
            .map(|point| (point.topic_partition.clone(), offset(point)))
            .collect()
    };
    let starts = of(|point| point.log_start);
    let disk = platform.disk();
    for (name, offsets) in [
        (offsets::LOG_STARTS, starts.clone()),
        (offsets::RECOVERY_POINTS, of(|point| point.recovery_point)),
        (offsets::HIGH_WATERMARKS, of(|point| point.high_watermark)),
    ] {
        disk.replace_file(&path(name), &offsets::encode(&offsets))
            .await?;
    }
    if !store.checkpointed(&points, true).await {
        return Err(io::Error::other(
            "a log does not hold what they say for true",
        ));
    }
    Ok(starts)
}

/// Leaves the mark of a clean stop.
pub(crate) async fn mark_clean<P: Platform>(platform: &P) -> io::Result<()> {
    let path = Path::new(DIR).join(clean_shutdown::FILE);
    platform
        .disk()
        .replace_file(&path, &clean_shutdown::encode(-1))
        .await
}
