//! One of a log's folders as it was found: at home, or the folder of the same name on another path.
//!
//! Invariant: what cannot be changed at home is an error; what cannot be changed elsewhere takes
//! that path out of use, and no log with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use platform::disk::{Disk, Entry};
use wire::types::{Offset, Uuid};

use super::super::files::{free_aside, remove};
use crate::checkpoint::aborted_segments;
use crate::error::{Error, Result};
use crate::segment::naming::{self, Name, Role, aside_path, file_path};
use crate::tier::TierPath;

/// A base offset and the role of a file of it.
pub(super) type File = (Offset, Role);

/// A data file that was set aside.
#[derive(Clone, Debug)]
pub(super) struct AsideFile {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) modified_ms: i64,
}

/// One of the folders.
pub(super) struct Part {
    pub(super) folder: Rc<Path>,
    /// The path that it is on; `None` for home.
    pub(super) path: Option<Arc<TierPath>>,
    pub(super) logs: BTreeMap<Offset, u64>,
    pub(super) snapshots: Vec<Offset>,
    pub(super) indexes: Vec<File>,
    /// Segments with an index of aborted transactions.
    pub(super) aborted: Vec<Offset>,
    /// There is a note of those segments.
    pub(super) notes_aborted: bool,
    pub(super) swaps: Vec<(Offset, Role, u64)>,
    /// When each file was last written to.
    pub(super) times: BTreeMap<File, i64>,
    /// Notes of where segments are; only at home.
    pub(super) away: Vec<(Offset, Option<Uuid>)>,
    pub(super) owed: Vec<Offset>,
    /// The lowest base offset of an unfinished compaction.
    pub(super) cleaned_from: Option<Offset>,
    /// Copies that do not count because the right one is on an absent path.
    pub(super) shadowed: Vec<Offset>,
    /// Segments that were set aside.
    pub(super) asides: BTreeMap<Offset, Vec<AsideFile>>,
    /// A file of a segment, or any other, was set aside.
    pub(super) has_asides: bool,
    /// The folder could not be brought in order: nothing of it is used.
    pub(super) is_lost: bool,
}

impl Part {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the length of the data file of a segment that the folder has.
    pub(super) fn len_of(&self, base: Offset) -> u64 {
        *self.logs.get(&base).expect("only a holder is asked")
    }

    /// Sorts the names in a folder, and removes what is being deleted or unfinished.
    pub(super) async fn tidy<D: Disk>(
        disk: &D,
        folder: Rc<Path>,
        path: Option<Arc<TierPath>>,
        entries: Vec<Entry>,
    ) -> Result<Self> {
        let mut part = Self {
            folder,
            path,
            logs: BTreeMap::new(),
            snapshots: Vec::new(),
            indexes: Vec::new(),
            aborted: Vec::new(),
            notes_aborted: false,
            swaps: Vec::new(),
            times: BTreeMap::new(),
            away: Vec::new(),
            owed: Vec::new(),
            cleaned_from: None,
            shadowed: Vec::new(),
            asides: BTreeMap::new(),
            has_asides: false,
            is_lost: false,
        };
        for entry in entries {
            let name = if entry.is_dir {
                Name::Foreign
            } else {
                naming::classify(&entry.name)
            };
            if let Name::Segment(base, role) = name {
                part.times.insert((base, role), entry.modified_ms);
            }
            match name {
                Name::Foreign => {
                    let file = part.folder().join(&entry.name);
                    tracing::warn!(file = %file.display(), "not a file of this log, left alone");
                }
                Name::Leftover => {
                    let cleaned = naming::cleaned_base(&entry.name);
                    part.cleaned_from = part.cleaned_from.into_iter().chain(cleaned).min();
                    let removed = remove(disk, &part.folder().join(&entry.name)).await;
                    part.tolerate(removed)?;
                }
                Name::Segment(base, Role::Log) => drop(part.logs.insert(base, entry.len)),
                Name::Segment(base, Role::Snapshot) => part.snapshots.push(base),
                Name::Segment(base, role) => {
                    part.indexes.push((base, role));
                    if role == Role::TxnIndex && entry.len > 0 {
                        part.aborted.push(base);
                    }
                }
                Name::Swap(base, role) => part.swaps.push((base, role, entry.len)),
                Name::Away(base, id) => part.away.push((base, id)),
                Name::Owed(base) => part.owed.push(base),
                Name::Checkpoint => part.notes_aborted |= entry.name == aborted_segments::FILE,
                Name::Aside => part.note_aside(&entry),
            }
        }
        Ok(part)
    }

    fn note_aside(&mut self, entry: &Entry) {
        self.has_asides = true;
        if let Some(base) = naming::aside_base(&entry.name) {
            self.asides.entry(base).or_default().push(AsideFile {
                name: entry.name.clone(),
                len: entry.len,
                modified_ms: entry.modified_ms,
            });
        }
    }

    /// Returns a failure at home; a failure elsewhere takes that path out of use.
    ///
    /// The work on that path then waits.
    pub(super) fn tolerate(&self, result: Result<()>) -> Result<()> {
        let (Err(error), Some(path)) = (&result, &self.path) else {
            return result;
        };
        if !error.is_exhausted() && path.fail(&error.to_string()) {
            tracing::error!(dir = %path.dir().display(), %error,
                "a tier's path failed: nothing more is put on it");
        }
        Ok(())
    }

    /// Removes indexes without data.
    pub(super) async fn remove_orphans<D: Disk>(&self, disk: &D) -> Result<()> {
        for &(base, role) in &self.indexes {
            if !self.logs.contains_key(&base) && !self.shadowed.contains(&base) {
                let file = file_path(self.folder(), base, role);
                tracing::warn!(file = %file.display(), "an index without its segment is removed");
                self.tolerate(remove(disk, &file).await)?;
            }
        }
        Ok(())
    }

    /// Returns the base offsets in a range that have any file.
    pub(super) fn bases_in(&self, base: Offset, next: Offset) -> Vec<Offset> {
        let is_old = |at: &Offset| *at == base || (base..next.max(base)).contains(at);
        let indexes = self.indexes.iter().map(|(base, _)| base);
        let mut bases: Vec<_> = self
            .logs
            .keys()
            .chain(indexes)
            .copied()
            .filter(is_old)
            .collect();
        bases.sort_unstable();
        bases.dedup();
        bases
    }

    /// Removes a segment, data first, and its indexes even if the data has already gone.
    ///
    /// An old index of aborted transactions would hide records of the new data. Durable when it
    /// returns.
    pub(super) async fn remove_segment<D: Disk>(&mut self, disk: &D, base: Offset) -> Result<()> {
        if self.logs.contains_key(&base) {
            remove(disk, &file_path(self.folder(), base, Role::Log)).await?;
        }
        for &(of, role) in &self.indexes {
            if of == base {
                remove(disk, &file_path(self.folder(), base, role)).await?;
            }
        }
        self.forget(base);
        self.sync(disk).await
    }

    /// Renames a segment's data to an unused name that nothing reads, and removes its indexes.
    ///
    /// Durable when it returns.
    pub(super) async fn set_aside<D: Disk>(
        &mut self,
        disk: &D,
        base: Offset,
        now_ms: i64,
    ) -> Result<()> {
        let from = file_path(self.folder(), base, Role::Log);
        if self.logs.contains_key(&base) {
            let to = if self.asides.contains_key(&base) {
                free_aside(disk, &from, now_ms).await?
            } else {
                aside_path(&from)
            };
            let renamed = disk.rename(&from, &to).await;
            renamed.map_err(Error::io("rename", &from))?;
            self.logs.remove(&base);
        }
        self.remove_segment(disk, base).await
    }

    /// Drops a segment that no longer counts, whether its files are there or not.
    pub(super) fn forget(&mut self, base: Offset) {
        self.logs.remove(&base);
        self.indexes.retain(|index| index.0 != base);
    }

    /// Removes what a compaction was making for `base`.
    pub(super) async fn remove_unmade<D: Disk>(&mut self, disk: &D, base: Offset) -> Result<()> {
        for (of, role, _) in self.swaps.extract_if(.., |swap| swap.0 == base) {
            remove(disk, &naming::swap_path(&self.folder, of, role)).await?;
        }
        self.sync(disk).await
    }

    pub(super) async fn sync<D: Disk>(&self, disk: &D) -> Result<()> {
        let synced = disk.sync_dir(self.folder()).await;
        synced.map_err(Error::dir_sync(self.folder()))
    }
}
