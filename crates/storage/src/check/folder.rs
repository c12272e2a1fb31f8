//! Checks one log in all its folders: their owner, the files in them, and the segments in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};

use platform::disk::Disk;
use wire::types::{LeaderEpoch, Offset, TopicId};

use super::segment::{self, Walk};
use super::{LogContext, Report, SmallFileContent, at, is_of_one_file, read};
use crate::backup::recovery_limit;
use crate::checkpoint::{leader_epochs, limits, partition_metadata};
use crate::log::epoch_cache::EpochCache;
use crate::log::producer_state::{ProducerStates, snapshot};
use crate::segment::naming::{self, Name, Role, classify, file_path};
use crate::segment::scan::ExpectedBatch;

/// The segments of a log and what else the folders contain about it.
struct FoundSegments {
    /// Folder and length of each data file.
    logs: BTreeMap<Offset, (PathBuf, u64)>,
    /// Data files that are not the only ones of their segments, and the folder of the other one.
    twins: Vec<(Offset, PathBuf, PathBuf)>,
    /// Folder, base and length of data files that the next start puts in the place of segments.
    swaps: Vec<(PathBuf, Offset, u64)>,
    /// The offsets for which it does.
    replaced: Vec<Range<Offset>>,
    away: BTreeSet<Offset>,
    owed: BTreeSet<Offset>,
    home: PathBuf,
    epochs: Option<EpochCache>,
    /// Below this everything was durable; `None` if all of the log was, by a clean stop.
    recovery_point: Option<Offset>,
}

/// Checks the log that lies in `folders`.
pub(super) async fn check<D: Disk>(
    disk: &D,
    folders: &[PathBuf],
    known: &LogContext<'_>,
    report: &mut Report,
) -> std::io::Result<()> {
    let mut found = FoundSegments {
        logs: BTreeMap::new(),
        twins: Vec::new(),
        swaps: Vec::new(),
        replaced: Vec::new(),
        away: BTreeSet::new(),
        owed: BTreeSet::new(),
        home: folders.first().cloned().unwrap_or_default(),
        epochs: None,
        recovery_point: None,
    };
    let mut owner = None;
    for folder in folders {
        names(disk, folder, &mut found, report).await?;
        if let Some(id) = topic_of(disk, folder, &mut found, report).await? {
            if owner.is_some_and(|owner| owner != id) {
                report.damage(
                    folder,
                    None,
                    "belongs to another topic than a folder of the same name",
                );
                return Ok(());
            }
            owner = Some(id);
        }
    }
    found.recovery_point = recovery_point(disk, &found.home, known).await?;
    found.find_replaced(disk).await?;
    found.say_twins(report);
    found.say_away(report);
    let file = found.home.join(leader_epochs::FILE);
    if let SmallFileContent::Bytes(bytes) = read(disk, &file, report).await? {
        match leader_epochs::parse(&file, &bytes) {
            Ok(epochs) => found.epochs = Some(EpochCache::new(&epochs)),
            Err(error) => report.hint(&file, error.to_string()),
        }
    }
    segments(disk, &found, known.was_compacted, report).await
}

/// Returns up to where a log was durable when its broker was killed; `None` after a clean stop.
async fn recovery_point<D: Disk>(
    disk: &D,
    home: &Path,
    known: &LogContext<'_>,
) -> std::io::Result<Option<Offset>> {
    let dir = home.parent().unwrap_or(home);
    let Some(points) = known.unclean.get(dir) else {
        return Ok(None);
    };
    let point = points.get(known.name).copied().unwrap_or(Offset::ZERO);
    let file = home.join(limits::FILE);
    let SmallFileContent::Bytes(bytes) = read(disk, &file, &mut Report::default()).await? else {
        return Ok(Some(point));
    };
    let limit = recovery_limit(limits::FILE, &bytes).unwrap_or(Offset::ZERO);
    Ok(Some(point.min(limit)))
}

impl FoundSegments {
    /// Finds out which segments the next start replaces by what a compaction has made of them.
    ///
    /// Their indexes go first. A file that is not sound replaces nothing.
    async fn find_replaced<D: Disk>(&mut self, disk: &D) -> std::io::Result<()> {
        for (folder, base, len) in &self.swaps {
            let path = naming::swap_path(folder, *base, Role::Log);
            match segment::sound_end(disk, &path, *base, *len).await {
                Ok(Some(end)) => self.replaced.push(*base..end.max(base.plus(1))),
                Ok(None) => {}
                Err(error) if is_of_one_file(&error) => {}
                Err(error) => return Err(at(&path, &error)),
            }
        }
        Ok(())
    }

    /// Reports segments with two data files.
    fn say_twins(&self, report: &mut Report) {
        for (base, path, other) in &self.twins {
            let is_noted = self.away.contains(base) || self.owed.contains(base);
            if is_noted || self.recovery_point.is_some() {
                report.note(
                    path,
                    "one of two copies of a segment that was being moved; the next start keeps one",
                );
            } else {
                let what = format!("the same segment is in {}, too", other.display());
                report.damage(path, None, what);
            }
        }
    }

    /// Reports notes of segments that are nowhere.
    fn say_away(&self, report: &mut Report) {
        let first = self.logs.keys().next();
        for base in &self.away {
            if self.logs.contains_key(base) {
                continue;
            }
            let note = naming::away_path(&self.home, *base);
            // A start puts what was made of them in the place of segments, and takes their notes.
            if self.replaced.iter().any(|range| range.contains(base)) {
                report.note(&note, "the note of a segment that a compaction replaces");
                continue;
            }
            // The file goes before its note, and the oldest segment first.
            if self.recovery_point.is_some() && first.is_some_and(|first| base < first) {
                report.note(&note, "the note of a segment that was being deleted");
                continue;
            }
            // And a note is there before the file of a new segment.
            if self.recovery_point.is_some_and(|point| *base >= point) {
                report.hint(
                    &note,
                    "its segment was about to begin when the process ended, or its directory was \
                     not looked at",
                );
                continue;
            }
            report.damage(
                &note,
                None,
                "the segment is in none of the directories that were looked at",
            );
        }
    }
}

/// Classifies the names in a folder.
async fn names<D: Disk>(
    disk: &D,
    folder: &Path,
    found: &mut FoundSegments,
    report: &mut Report,
) -> std::io::Result<()> {
    let mut indexes = Vec::new();
    let entries = match disk.list(folder).await {
        Ok(entries) => entries,
        Err(error) if is_of_one_file(&error) => {
            report.damage(folder, None, format!("cannot be listed: {error}"));
            return Ok(());
        }
        Err(error) => return Err(at(folder, &error)),
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        let name = if entry.is_dir {
            Name::Foreign
        } else {
            classify(&entry.name)
        };
        match name {
            Name::Segment(base, Role::Log) => {
                let data = (folder.to_path_buf(), entry.len);
                if let Some((other, _)) = found.logs.insert(base, data) {
                    found.twins.push((base, path, other));
                }
            }
            Name::Segment(offset, Role::Snapshot) => {
                snapshot_at(disk, folder, offset, report).await?;
            }
            Name::Segment(base, _) => indexes.push((base, path)),
            Name::Away(base, _) => drop(found.away.insert(base)),
            Name::Aside => report.note(
                &path,
                "was set aside, as damaged or as one of two copies; it is not used, and may be removed when nobody misses it",
            ),
            Name::Swap(base, role) => {
                report.note(&path, "a compaction that the next start finishes");
                if role == Role::Log {
                    let swap = (folder.to_path_buf(), base, entry.len);
                    found.swaps.push(swap);
                }
            }
            Name::Leftover => report.note(&path, "left over; the next start removes it"),
            Name::Foreign => report.note(&path, "not a file of a log"),
            Name::Owed(base) => drop(found.owed.insert(base)),
            Name::Checkpoint => {}
        }
    }
    for (base, path) in indexes {
        if !found.logs.contains_key(&base) {
            report.hint(&path, "an index without its segment");
        }
    }
    Ok(())
}

async fn snapshot_at<D: Disk>(
    disk: &D,
    folder: &Path,
    offset: Offset,
    report: &mut Report,
) -> std::io::Result<()> {
    let path = file_path(folder, offset, Role::Snapshot);
    match disk.read_file_within(&path, snapshot::FILE_BYTES_MAX).await {
        Ok(bytes) => {
            if let Err(error) = snapshot::parse_at(offset, &bytes) {
                report.hint(&path, error.to_string());
            }
            Ok(())
        }
        Err(error) if is_of_one_file(&error) => {
            report.hint(&path, format!("cannot be read: {error}"));
            Ok(())
        }
        Err(error) => Err(at(&path, &error)),
    }
}

/// Returns the topic that owns the folder.
///
/// The folder with `partition.metadata` becomes the log's home.
async fn topic_of<D: Disk>(
    disk: &D,
    folder: &Path,
    found: &mut FoundSegments,
    report: &mut Report,
) -> std::io::Result<Option<TopicId>> {
    let mut any = false;
    for name in [partition_metadata::FILE, partition_metadata::PART_FILE] {
        let file = folder.join(name);
        match read(disk, &file, report).await? {
            SmallFileContent::Bytes(bytes) => {
                if name == partition_metadata::FILE {
                    found.home = folder.to_path_buf();
                }
                match partition_metadata::parse(&file, &bytes) {
                    Ok(id) => return Ok(Some(id)),
                    Err(error) => report.damage(&file, None, error.to_string()),
                }
                any = true;
            }
            SmallFileContent::Unreadable => any = true,
            SmallFileContent::Missing => {}
        }
    }
    // The metadata log is exempt: its topic id is a constant.
    let is_metadata = folder
        .file_name()
        .is_some_and(|name| name == "__cluster_metadata-0");
    if !any && !is_metadata {
        let file = folder.join(partition_metadata::FILE);
        report.hint(
            &file,
            "missing: the next start takes the folder for the topic of its name",
        );
    }
    Ok(None)
}

/// Walks over all segments, oldest first.
async fn segments<D: Disk>(
    disk: &D,
    found: &FoundSegments,
    was_compacted: bool,
    report: &mut Report,
) -> std::io::Result<()> {
    let first = found.logs.keys().next().copied().unwrap_or(Offset::ZERO);
    let mut walk = Walk {
        expected: ExpectedBatch {
            offset: first,
            gaps: true,
            epoch: LeaderEpoch(i32::MIN),
        },
        producers: ProducerStates::new(first),
        may_have_gaps: was_compacted,
        epochs_differ: false,
        recovery_point: found.recovery_point,
    };
    let last = found.logs.keys().next_back().copied();
    for (&base, (folder, len)) in &found.logs {
        let path = file_path(folder, base, Role::Log);
        if base < walk.expected.offset {
            let what = format!(
                "begins within the segment before it, which ends at {}",
                walk.expected.offset
            );
            report.damage(&path, None, what);
        } else if base > walk.expected.offset
            && !was_compacted
            && walk.is_unsure(walk.expected.offset)
        {
            let what = format!(
                "begins behind {}, where the log ends for the next start, which takes this segment \
                 out: it was being written when the process ended",
                walk.expected.offset
            );
            report.hint(&path, what);
            break;
        } else if base > walk.expected.offset {
            let what = format!(
                "the offsets from {} on are missing before it",
                walk.expected.offset
            );
            walk.gap(&path, 0, &what, report);
        }
        walk.expected.offset = base;
        let data = segment::BatchFile {
            folder,
            base,
            len: *len,
            is_last: Some(base) == last,
            is_replaced: found.replaced.iter().any(|range| range.contains(&base)),
        };
        report.segments = report.segments.saturating_add(1);
        match segment::check(disk, &data, found.epochs.as_ref(), &mut walk, report).await {
            Ok(()) => {}
            Err(error) if is_of_one_file(&error) => {
                report.damage(&path, None, format!("cannot be read to its end: {error}"));
                let mut behind = found.logs.range((Bound::Excluded(base), Bound::Unbounded));
                walk.expected.offset = behind.next().map_or(base, |(next, _)| *next);
            }
            Err(error) => return Err(at(&path, &error)),
        }
    }
    if walk.epochs_differ {
        let file = found.home.join(leader_epochs::FILE);
        report.hint(&file, "says other leader epochs than the batches");
    }
    Ok(())
}
