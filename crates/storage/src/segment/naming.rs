//! Names in a log directory as values: what a file or folder is, judged by its name alone.
//!
//! The names are Kafka's; tiers, set-aside files and pools add Forebay's own suffixes. A segment's
//! files share its base offset as twenty digits. A suffix marks a file that is to be removed
//! (`.deleted`), is not complete yet (`.cleaned`, `.moving`), or is about to replace others
//! (`.swap`).
//! It does not access a disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::types::{Offset, TopicPartition, Uuid};

use crate::checkpoint::{aborted_segments, leader_epochs, limits, moved_log, partition_metadata};

/// The longest name that file systems accept.
const NAME_BYTES_MAX: usize = 255;
/// The suffix of a file that waits for its removal. Kafka removes such files at start, too.
pub(crate) const DELETED: &str = ".deleted";
/// The suffix of the files of an unfinished compaction.
pub(crate) const CLEANED: &str = ".cleaned";
/// The suffix of the files that a finished compaction was putting in place.
pub(crate) const SWAP: &str = ".swap";
/// The suffix of a copy between tiers until it is complete.
pub(crate) const MOVING: &str = ".moving";
/// The suffix of the note that a segment is not at home.
const AWAY: &str = ".away";
/// The suffix of the note that files elsewhere must not count any more.
const OWED: &str = ".owed";
/// The suffix of a file that was set aside: the broker neither reads nor removes it.
const ASIDE: &str = ".aside";
/// The suffix of a topic's folder that waits for its removal.
const DELETED_FOLDER: &str = "-delete";
/// The suffix of a folder that belongs to no topic.
const STRAY_FOLDER: &str = "-stray";
/// The suffix of a copy of a partition's folder that is moving to another log directory.
const FUTURE_FOLDER: &str = "-future";
/// The file that will become the next segment. Its suffix makes both Kafka and Forebay remove it at
/// start.
pub(crate) const PREPARED: &str = "next.log.deleted";

/// The suffix of a file that is prepared in the log directory itself, where Kafka looks only at
/// folders.
const POOLED: &str = ".pooled";
/// The suffix of such a file while it is being prepared.
const POOLED_PART: &str = ".pooled.part";

/// The content of a segment's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// The batches.
    Log,
    /// Offset to position.
    OffsetIndex,
    /// Timestamp to offset.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
    /// The producers as they were at the offset in the name.
    Snapshot,
}

impl Role {
    const ALL: [Self; 5] = [
        Self::Log,
        Self::OffsetIndex,
        Self::TimeIndex,
        Self::TxnIndex,
        Self::Snapshot,
    ];

    fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A classified name in a partition's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// A file of a segment, or a producer snapshot, in place.
    Segment(Offset, Role),
    /// A file that a finished compaction was putting in place.
    Swap(Offset, Role),
    /// A note at home that the segment is on another path, with the path's id if the name contains
    /// it.
    Away(Offset, Option<Uuid>),
    /// A note at home that files elsewhere must not count any more.
    Owed(Offset),
    /// Set aside.
    Aside,
    /// A file to be removed: deleted, unfinished or temporary.
    Leftover,
    /// A checkpoint file.
    Checkpoint,
    /// Not a file of Forebay or Kafka.
    Foreign,
}

/// Returns the name under which a file is set aside; the time distinguishes it from earlier ones.
pub(crate) fn set_aside_name(name: &str, now_ms: i64) -> String {
    format!("{name}.{now_ms}{ASIDE}")
}

/// Returns true for the name of a file that was set aside under this name, at whatever time.
pub(crate) fn is_set_aside(file: &str, name: &str) -> bool {
    let behind = file.strip_prefix(name);
    let time = behind.and_then(|behind| behind.strip_suffix(ASIDE)?.strip_prefix('.'));
    time.is_some_and(|time| time.parse::<i64>().is_ok())
}

/// Returns the name of a set-aside file after the log has continued without it; no start restores
/// it.
pub(crate) fn passed_over_name(aside: &str) -> String {
    let stem = aside.strip_suffix(ASIDE).unwrap_or(aside);
    format!("{stem}.past")
}

/// Classifies `name` in a partition's folder.
pub(crate) fn classify(name: &str) -> Name {
    let checkpoints = [
        partition_metadata::FILE,
        leader_epochs::FILE,
        partition_metadata::PART_FILE,
        moved_log::FILE,
        limits::FILE,
        aborted_segments::FILE,
    ];
    if checkpoints.contains(&name) || is_of_quorum(name) {
        return Name::Checkpoint;
    }
    if let Some(digits) = name.strip_suffix(AWAY) {
        return away(digits).map_or(Name::Foreign, |(base, id)| Name::Away(base, id));
    }
    if let Some(digits) = name.strip_suffix(OWED) {
        return base_of(digits).map_or(Name::Foreign, Name::Owed);
    }
    if name.ends_with(ASIDE) {
        return Name::Aside;
    }
    if name == PREPARED {
        return Name::Leftover;
    }
    if let Some(target) = name.strip_suffix(SWAP) {
        return segment_file(target).map_or(Name::Foreign, |(base, role)| Name::Swap(base, role));
    }
    for suffix in [DELETED, CLEANED, MOVING, ".tmp"] {
        if let Some(stem) = name.strip_suffix(suffix) {
            let known = matches!(
                classify(stem),
                Name::Segment(..)
                    | Name::Checkpoint
                    | Name::Swap(..)
                    | Name::Away(..)
                    | Name::Owed(_)
                    | Name::Aside
                    | Name::Leftover
            );
            return if known { Name::Leftover } else { Name::Foreign };
        }
    }
    segment_file(name).map_or(Name::Foreign, |(base, role)| Name::Segment(base, role))
}

/// Returns true for the quorum state and the snapshots that lie beside the metadata log.
fn is_of_quorum(name: &str) -> bool {
    name == "quorum-state" || name.ends_with(".checkpoint")
}

fn segment_file(name: &str) -> Option<(Offset, Role)> {
    let (digits, suffix) = name.split_once('.')?;
    let role = Role::ALL.into_iter().find(|role| role.suffix() == suffix)?;
    base_of(digits).map(|base| (base, role))
}

/// Parses the stem of a note's name: a base offset and an optional id.
fn away(stem: &str) -> Option<(Offset, Option<Uuid>)> {
    let Some((digits, id)) = stem.split_once('.') else {
        return Some((base_of(stem)?, None));
    };
    let id = Some(id).filter(|id| id.len() == 32 && !id.contains('-'))?;
    Some((base_of(digits)?, Some(Uuid::try_parse(id).ok()?)))
}

fn base_of(digits: &str) -> Option<Offset> {
    if digits.len() != 20 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Offset)
}

/// Returns the name of a segment's file.
pub(crate) fn file_name(base: Offset, role: Role) -> String {
    format!("{:020}.{}", base.0, role.suffix())
}

/// Returns the path of a segment's file.
pub(crate) fn file_path(folder: &Path, base: Offset, role: Role) -> PathBuf {
    folder.join(file_name(base, role))
}

/// Returns the path of a file that a finished compaction was putting in place.
pub(crate) fn swap_path(folder: &Path, base: Offset, role: Role) -> PathBuf {
    folder.join(format!("{}{SWAP}", file_name(base, role)))
}

/// Returns the path of a file of an incomplete copy.
pub(crate) fn moving_path(folder: &Path, base: Offset, role: Role) -> PathBuf {
    folder.join(format!("{}{MOVING}", file_name(base, role)))
}

/// Returns the path of the note that a segment is not at home.
pub(crate) fn away_path(home: &Path, base: Offset) -> PathBuf {
    home.join(format!("{:020}{AWAY}", base.0))
}

/// Returns the path of the same note where there is no room for text in a file.
pub(crate) fn away_to_path(home: &Path, base: Offset, id: Uuid) -> PathBuf {
    home.join(format!("{:020}.{}{AWAY}", base.0, id.simple()))
}

/// Returns the path of the note that files with that base offset must not count any more elsewhere.
pub(crate) fn owed_path(home: &Path, base: Offset) -> PathBuf {
    home.join(format!("{:020}{OWED}", base.0))
}

/// Returns the path of a file that was set aside.
pub(crate) fn aside_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ASIDE);
    name.into()
}

/// Returns the base offset of a segment whose whole data file was set aside, from the file's name.
pub(crate) fn aside_base(name: &str) -> Option<Offset> {
    let stem = name.strip_suffix(ASIDE)?;
    let data = match stem.rsplit_once('.') {
        Some((data, ms)) if ms.parse::<i64>().is_ok() => data,
        _ => stem,
    };
    let (base, role) = segment_file(data)?;
    (role == Role::Log).then_some(base)
}

/// Returns the path of a file that a compaction is still making.
pub(crate) fn cleaned_path(folder: &Path, base: Offset, role: Role) -> PathBuf {
    folder.join(format!("{}{CLEANED}", file_name(base, role)))
}

/// Returns the base offset of a segment of an unfinished compaction, from the name of one of its
/// files.
pub(crate) fn cleaned_base(name: &str) -> Option<Offset> {
    segment_file(name.strip_suffix(CLEANED)?).map(|(base, _)| base)
}

/// Returns the path of the `number`-th prepared file in a log directory.
pub(crate) fn pooled_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}{POOLED}"))
}

/// Returns the path of that file while it is being prepared.
pub(crate) fn pooled_part_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}{POOLED_PART}"))
}

/// A prepared file, classified by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PooledFile {
    /// A complete one with this number.
    Whole(u64),
    /// An incomplete one.
    Part,
}

/// Classifies a name in a log directory as a prepared file; returns `None` for any other name.
pub(crate) fn pooled(name: &str) -> Option<PooledFile> {
    if let Some(digits) = name.strip_suffix(POOLED_PART) {
        return base_of(digits).map(|_| PooledFile::Part);
    }
    let number = base_of(name.strip_suffix(POOLED)?)?;
    u64::try_from(number.0).ok().map(PooledFile::Whole)
}

/// Returns true for the name of a file in a log directory that was prepared to become a segment.
pub fn is_pooled(name: &str) -> bool {
    pooled(name).is_some()
}

/// Returns the folder of a partition.
pub fn folder_name(partition: &TopicPartition) -> String {
    partition.to_string()
}

/// Returns the partition that a folder belongs to, from its name; `None` for folders that are
/// deleted or not Kafka's.
pub fn parse_folder_name(name: &str) -> Option<TopicPartition> {
    if name.ends_with(DELETED_FOLDER)
        || name.ends_with(FUTURE_FOLDER)
        || name.ends_with(STRAY_FOLDER)
    {
        return None;
    }
    let (topic, partition) = name.rsplit_once('-')?;
    let canonical = partition == "0" || !partition.starts_with('0');
    let digits = !partition.is_empty() && partition.bytes().all(|digit| digit.is_ascii_digit());
    if topic.is_empty() || !canonical || !digits {
        return None;
    }
    Some(TopicPartition {
        topic: Arc::from(topic),
        partition: partition.parse().ok()?,
    })
}

/// Returns the name of a partition's folder that waits for its removal; a long topic name is
/// shortened.
pub fn deleted_folder_name(partition: &TopicPartition, unique: Uuid) -> String {
    marked_folder_name(partition, unique, DELETED_FOLDER)
}

/// Returns the name under which a folder that belongs to no topic is kept.
pub(crate) fn stray_folder_name(partition: &TopicPartition, unique: Uuid) -> String {
    marked_folder_name(partition, unique, STRAY_FOLDER)
}

/// Returns the name of a copy that is to replace a partition's folder; topic names must leave room
/// for it.
pub(crate) fn future_folder_name(partition: &TopicPartition, unique: Uuid) -> String {
    format!("{partition}.{}{FUTURE_FOLDER}", unique.simple())
}

/// Returns the partition that a folder is an unfinished copy of, from its name.
pub fn parse_future_folder_name(name: &str) -> Option<TopicPartition> {
    let (partition, unique) = name.strip_suffix(FUTURE_FOLDER)?.rsplit_once('.')?;
    let is_unique = unique.len() == 32 && unique.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_unique.then(|| parse_folder_name(partition)).flatten()
}

fn marked_folder_name(partition: &TopicPartition, unique: Uuid, mark: &str) -> String {
    let suffix = format!("-{}.{}{mark}", partition.partition, unique.simple());
    let mut topic: &str = &partition.topic;
    while topic.len() + suffix.len() > NAME_BYTES_MAX {
        let Some((end, _)) = topic.char_indices().next_back() else {
            break;
        };
        (topic, _) = topic.split_at(end); // Bounded: a character begins there.
    }
    format!("{topic}{suffix}")
}

/// Returns true for the folder of a deleted topic.
pub fn is_deleted_folder(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(DELETED_FOLDER) else {
        return false;
    };
    stem.rsplit_once('.').is_some_and(|(partition, unique)| {
        unique.len() == 32
            && unique.bytes().all(|digit| digit.is_ascii_hexdigit())
            && parse_folder_name(partition).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: topic.into(),
            partition,
        }
    }

    #[test]
    fn files_are_known_by_kafkas_names_and_by_no_others() {
        let base = Offset(368_769);
        for (name, expected) in [
            ("00000000000000368769.log", Name::Segment(base, Role::Log)),
            (
                "00000000000000368769.index",
                Name::Segment(base, Role::OffsetIndex),
            ),
            (
                "00000000000000368769.timeindex",
                Name::Segment(base, Role::TimeIndex),
            ),
            (
                "00000000000000368769.txnindex",
                Name::Segment(base, Role::TxnIndex),
            ),
            (
                "00000000000000368769.snapshot",
                Name::Segment(base, Role::Snapshot),
            ),
            ("00000000000000368769.log.swap", Name::Swap(base, Role::Log)),
            ("00000000000000368769.log.deleted", Name::Leftover),
            ("00000000000000368769.log.moving", Name::Leftover),
            ("00000000000000368769.index.moving.tmp", Name::Leftover),
            ("00000000000000368769.away", Name::Away(base, None)),
            (
                "00000000000000368769.00000000000000000000000000000007.away",
                Name::Away(base, Some(Uuid::from_u128(7))),
            ),
            ("00000000000000368769.7.away", Name::Foreign),
            ("00000000000000368769.owed", Name::Owed(base)),
            ("00000000000000368769.owed.tmp", Name::Leftover),
            ("00000000000000368769.log.aside", Name::Aside),
            ("00000000000000368769.log.from-77.1.aside", Name::Aside),
            (
                "00000000000000368769.log.from-77.1.aside.tmp",
                Name::Leftover,
            ),
            ("aborted-segments", Name::Checkpoint),
            ("00000000000000368769.away.tmp", Name::Leftover),
            ("368769.away", Name::Foreign),
            ("tier.metadata", Name::Checkpoint),
            ("00000000000000368769.index.cleaned", Name::Leftover),
            ("00000000000000368769.index.tmp", Name::Leftover),
            ("00000000000000368769.index.cleaned.tmp", Name::Leftover),
            ("leader-epoch-checkpoint.tmp", Name::Leftover),
            ("leader-epoch-checkpoint", Name::Checkpoint),
            ("partition.metadata", Name::Checkpoint),
            ("quorum-state", Name::Checkpoint),
            ("quorum-state.tmp", Name::Leftover),
            (
                "00000000000000000041-0000000002.checkpoint",
                Name::Checkpoint,
            ),
            (PREPARED, Name::Leftover),
            ("notes.deleted", Name::Foreign),
            ("368769.log", Name::Foreign),
            ("+0000000000000368769.log", Name::Foreign),
            ("99999999999999999999.log", Name::Foreign),
            ("00000000000000368769.log.bak", Name::Foreign),
        ] {
            assert_eq!(classify(name), expected, "{name}");
        }
        assert_eq!(
            file_name(base, Role::TimeIndex),
            "00000000000000368769.timeindex"
        );
    }

    #[test]
    fn files_made_in_advance_are_known_by_their_number() {
        let dir = Path::new("/d");
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            pooled(&name(pooled_path(dir, 7))),
            Some(PooledFile::Whole(7))
        );
        assert_eq!(
            pooled(&name(pooled_part_path(dir, 7))),
            Some(PooledFile::Part)
        );
        for foreign in [
            "7.pooled",
            "mine.pooled",
            "00000000000000000007.log",
            ".pooled",
        ] {
            assert_eq!(pooled(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn folders_name_their_partition() {
        assert_eq!(
            parse_folder_name("my-topic-12"),
            Some(partition("my-topic", 12))
        );
        assert_eq!(folder_name(&partition("my-topic", 12)), "my-topic-12");
        for foreign in [
            "lost+found",
            "topic",
            "topic-",
            "-1",
            "topic-01",
            "topic-x",
            "t-0-future",
        ] {
            assert_eq!(parse_folder_name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn copies_on_their_way_name_their_partition() {
        let name = future_folder_name(&partition("a.b-c", 3), Uuid::from_u128(7));
        assert_eq!(name, "a.b-c-3.00000000000000000000000000000007-future");
        assert_eq!(parse_future_folder_name(&name), Some(partition("a.b-c", 3)));
        for other in [
            "t-0-future",
            "t-0.7-future",
            "t-0",
            "t-0.00000000000000000000000000000007-delete",
        ] {
            assert_eq!(parse_future_folder_name(other), None, "{other}");
        }
    }

    #[test]
    fn deleted_folders_are_recognized_and_never_too_long() {
        let unique = Uuid::from_u128(7);
        let name = deleted_folder_name(&partition("t", 3), unique);
        assert_eq!(name, "t-3.00000000000000000000000000000007-delete");
        assert!(is_deleted_folder(&name));
        assert_eq!(parse_folder_name(&name), None);
        let long = deleted_folder_name(&partition(&"x".repeat(249), 1000), unique);
        assert_eq!(long.len(), 255);
        assert!(is_deleted_folder(&long));
        assert!(!is_deleted_folder("orders-to-delete"));
    }
}
