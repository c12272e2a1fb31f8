//! One look at a log's folder: its names, and the small files that opening the log reads.
//!
//! A start opens ten thousand logs, most of them small and idle. The reads of one are not many, but
//! each was a way to another thread and back; one look has them all (`Disk::look`).
//! Invariants: where a folder has anything but the files of a log at rest (a move, a compaction,
//! something set aside), nothing is read at the look but the names, and every reader reads for
//! itself; the name of a folder is durable before its log is opened: the first one in each
//! directory syncs the names of all that were there.
//! It does not: interpret the files, or decide what becomes of the log.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{ChooseFiles, DirLook, Disk, Entry};
use wire::types::Offset;

use crate::checkpoint::{leader_epochs, limits, partition_metadata};
use crate::error::{Error, Result};
use crate::segment::looked::LookedFiles;
use crate::segment::naming::{self, Name, Role, file_name};
use crate::store::Store;

/// No longer file is read at a look: indexes of large segments are read by who needs them.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Looks at a folder; returns its small files and its names.
async fn look<P: Platform>(
    store: &Store<P>,
    folder: &Rc<Path>,
) -> io::Result<(LookedFiles, Vec<Entry>)> {
    // With tiers, other folders decide what is in this one.
    let is_alone = store.tiers().is_none() && !store.opens_step_by_step();
    let choose: ChooseFiles = if is_alone { choose } else { |_| Vec::new() };
    let DirLook { entries, files } = store.disk().look(folder, choose).await?;
    let wanted = wanted(&entries).filter(|_| is_alone);
    let is_known = wanted.is_some();
    let mut missing: BTreeSet<_> = wanted.into_iter().flatten().collect();
    for entry in &entries {
        missing.remove(&entry.name);
    }
    // A log that was cut is not at rest before its owner has said so.
    let is_at_rest = is_known && missing.contains(limits::FILE);
    assert!(
        is_known || files.is_empty(),
        "only of a log at rest something is read"
    );
    Ok((
        LookedFiles::new(folder, files, missing, is_at_rest),
        entries,
    ))
}

/// Looks at the folder of a log, and makes it if it is not there; its name is durable then.
///
/// That of a new topic is not there, unless an earlier attempt has made it.
pub(super) async fn look_or_make<P: Platform>(
    store: &Store<P>,
    dir: &Path,
    folder: &Rc<Path>,
    is_new: bool,
) -> Result<(LookedFiles, Vec<Entry>)> {
    let is_known = store.are_names_durable(dir) && !store.opens_step_by_step();
    if is_known && !is_new {
        match look(store, folder).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            looked => return looked.map_err(Error::io("list", folder)),
        }
    }
    let created = store.disk().create_dir(folder).await;
    // After a failure, the folder may be there without a durable name.
    store.note_names(dir, created.is_ok());
    created.map_err(Error::io("create", folder))?;
    let looked = look(store, folder).await;
    looked.map_err(Error::io("list", folder))
}

/// Chooses the files that opening the log in a folder with these names reads, if it is at rest.
fn choose(entries: &[Entry]) -> Vec<String> {
    let mut chosen = wanted(entries).unwrap_or_default();
    chosen.retain(|name| {
        let at = entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
        let entry = at.ok().and_then(|at| entries.get(at));
        entry.is_some_and(|entry| entry.len <= FILE_BYTES_MAX)
    });
    chosen
}

/// Returns the names of files that opening a log reads, whether they are there or not; `None` when
/// the folder has anything but the files of a log at rest.
fn wanted(entries: &[Entry]) -> Option<Vec<String>> {
    // The last segment, and whether it has batches: the indexes of an empty one are not read.
    let mut last: Option<(Offset, bool)> = None;
    let mut snapshot: Option<Offset> = None;
    for entry in entries {
        if entry.is_dir {
            return None;
        }
        match naming::classify(&entry.name) {
            Name::Segment(base, Role::Log) => last = last.max(Some((base, entry.len > 0))),
            Name::Segment(base, Role::Snapshot) => snapshot = snapshot.max(Some(base)),
            Name::Segment(..) | Name::Checkpoint => {}
            Name::Swap(..)
            | Name::Away(..)
            | Name::Owed(_)
            | Name::Aside
            | Name::Leftover
            | Name::Foreign => return None,
        }
    }
    let mut names = vec![
        partition_metadata::FILE.to_owned(),
        leader_epochs::FILE.to_owned(),
        limits::FILE.to_owned(),
    ];
    if let Some((base, true)) = last {
        let indexes = [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex];
        names.extend(indexes.map(|role| file_name(base, role)));
    }
    names.extend(snapshot.map(|at| file_name(at, Role::Snapshot)));
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, len: u64) -> Entry {
        Entry {
            name: name.to_owned(),
            is_dir: false,
            len,
            modified_ms: 0,
        }
    }

    fn folder(names: &[&str]) -> Vec<Entry> {
        let mut entries: Vec<_> = names.iter().map(|name| entry(name, 1)).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }

    #[test]
    fn what_opening_reads_is_chosen_and_only_of_a_log_at_rest() {
        let names = [
            "00000000000000000000.log",
            "00000000000000000000.index",
            "00000000000000000007.log",
            "00000000000000000007.index",
            "00000000000000000007.timeindex",
            "00000000000000000007.snapshot",
            "00000000000000000009.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ];
        let at_rest = folder(&names);
        let mut chosen = choose(&at_rest);
        chosen.sort();
        assert_eq!(
            chosen,
            [
                "00000000000000000007.index",
                "00000000000000000007.timeindex",
                "00000000000000000009.snapshot",
                "leader-epoch-checkpoint",
                "partition.metadata",
            ]
        );
        for other in [
            "00000000000000000007.log.swap",
            "00000000000000000000.away",
            "00000000000000000000.owed",
            "leader-epoch-checkpoint.aside",
            "00000000000000000007.index.tmp",
            "what-is-this",
        ] {
            let mut all = names.to_vec();
            all.push(other);
            assert_eq!(choose(&folder(&all)), Vec::<String>::new(), "{other}");
        }
    }

    #[test]
    fn long_files_are_left_to_who_needs_them() {
        let mut entries = folder(&["00000000000000000000.log", "00000000000000000000.index"]);
        assert_eq!(choose(&entries), ["00000000000000000000.index"]);
        for entry in &mut entries {
            entry.len = FILE_BYTES_MAX + 1;
        }
        assert_eq!(choose(&entries), Vec::<String>::new());
    }

    #[test]
    fn the_indexes_of_an_empty_segment_are_not_read() {
        let mut entries = folder(&["00000000000000000000.index", "00000000000000000000.log"]);
        for entry in &mut entries {
            entry.len = 0;
        }
        assert_eq!(choose(&entries), Vec::<String>::new());
    }
}
