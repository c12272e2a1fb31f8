//! The checkpoint files of the log directory, as the owner of the logs maintains them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use broker::log_dirs::{LogDirs, OperatorConsent};
use platform::Platform;
use platform::disk::Disk;
use storage::checkpoint::{clean_shutdown, offsets};
use storage::{OpenAs, Store};
use wire::types::{Offset, TopicId, TopicPartition, Uuid};

/// The log directory, or the first of two.
pub(crate) const DIR: &str = "/data";

/// Returns the topic of a log; `log0`, `log1`, ... are each of their own.
pub(crate) fn topic_of(partition: &TopicPartition) -> TopicId {
    let number = partition.topic.trim_start_matches("log").parse();
    TopicId(Uuid::from_u128(7 + number.unwrap_or(0)))
}

/// The state of the logs on disk before they are opened.
pub(crate) struct LogsOnDisk {
    /// The broker's view, if there are two directories.
    dirs: Option<LogDirs>,
    clean: bool,
    recovery_points: BTreeMap<TopicPartition, Offset>,
    log_starts: BTreeMap<TopicPartition, Offset>,
    high_watermarks: BTreeMap<TopicPartition, Offset>,
}

impl LogsOnDisk {
    pub(crate) fn open_as(&self, home: &Path, partition: &TopicPartition) -> OpenAs {
        let mut dirs = self.dirs.iter().flat_map(|dirs| &dirs.dirs);
        if let (Some(all), Some(dir)) = (&self.dirs, dirs.find(|dir| dir.path == home)) {
            return all.open_as(dir, topic_of(partition), partition);
        }
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

/// Reads the log directories as a start of the broker does; `told` may declare some of them as new.
pub(crate) async fn load_all<P: Platform>(
    platform: &P,
    paths: &[PathBuf],
    told: OperatorConsent,
) -> io::Result<LogsOnDisk> {
    let dirs = LogDirs::open_as_told(platform, paths, None, None, told).await;
    let dirs = dirs.map_err(io::Error::other)?;
    let mut high_watermarks = BTreeMap::new();
    for path in paths {
        high_watermarks.extend(read(platform, path, offsets::HIGH_WATERMARKS).await?);
    }
    Ok(LogsOnDisk {
        dirs: Some(dirs),
        clean: false,
        recovery_points: BTreeMap::new(),
        log_starts: BTreeMap::new(),
        high_watermarks,
    })
}

/// Reads the files of the only directory, and removes the clean shutdown file before any log is
/// opened.
pub(crate) async fn load<P: Platform>(platform: &P) -> io::Result<LogsOnDisk> {
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
    Ok(LogsOnDisk {
        dirs: None,
        clean,
        recovery_points: read(platform, dir, offsets::RECOVERY_POINTS).await?,
        log_starts: read(platform, dir, offsets::LOG_STARTS).await?,
        high_watermarks: read(platform, dir, offsets::HIGH_WATERMARKS).await?,
    })
}

async fn read<P: Platform>(
    platform: &P,
    dir: &Path,
    name: &str,
) -> io::Result<BTreeMap<TopicPartition, Offset>> {
    let path = dir.join(name);
    match platform.disk().read_file(&path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
        Ok(bytes) => {
            let offsets = offsets::parse(&path, &bytes).map_err(io::Error::other)?;
            Ok(offsets.into_iter().collect())
        }
    }
}

/// Writes the files and returns the log start offsets that are promised from now on.
pub(crate) async fn save<P: Platform>(
    platform: &P,
    store: &Store<P>,
    dirs: &[PathBuf],
) -> io::Result<Vec<(TopicPartition, Offset)>> {
    let mut starts = Vec::new();
    for dir in dirs {
        starts.extend(save_one(platform, store, dir).await?);
    }
    Ok(starts)
}

async fn save_one<P: Platform>(
    platform: &P,
    store: &Store<P>,
    dir: &Path,
) -> io::Result<Vec<(TopicPartition, Offset)>> {
    let points = store.points(dir);
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
        disk.replace_file(&dir.join(name), &offsets::encode(&offsets))
            .await?;
    }
    if !store.checkpointed(&points, true).await.is_empty() {
        return Err(io::Error::other(
            "a log does not hold what they say for true",
        ));
    }
    Ok(starts)
}

/// Writes the clean shutdown files.
pub(crate) async fn mark_clean<P: Platform>(platform: &P, dirs: &[PathBuf]) -> io::Result<()> {
    for dir in dirs {
        let path = dir.join(clean_shutdown::FILE);
        let mark = clean_shutdown::encode(-1);
        platform.disk().replace_file(&path, &mark).await?;
    }
    Ok(())
}
