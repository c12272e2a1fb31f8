//! Finishes what a compaction was putting in place when the process ended.
//!
//! A `.swap` was whole and durable before it had that name, and no old file goes before; so the
//! start finishes it. But a name proves nothing: the file replaces segments only if every batch in
//! it has a right CRC, fits its name, and is a batch of the segments that it is to replace, as far
//! as they are still there.
//! Invariants: a file that is not whole is set aside, and the segments stay as they are. An index
//! under such a name counts only together with its data; alone, the data already has its name, and
//! all its indexes are rebuilt from it.

use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::{Disk, Open};
use wire::types::Offset;

use super::super::super::files::{remove, set_aside};
use super::super::part::Part;
use super::{GatherState, NotedLocation, after_base, sound_end_of};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path, swap_path};
use crate::segment::scan::Scan;

/// Bytes of one read while only headers are looked at.
const WALK_BYTES: usize = 64 << 10;
/// Largest distance of an offset from the base of its segment.
const OFFSETS_MAX: i64 = 1 << 31;

/// A data file that is to replace others.
struct Swap {
    base: Offset,
    path: PathBuf,
    len: u64,
    next: Offset,
}

impl<P: Platform> GatherState<'_, P> {
    pub(super) async fn finish_compaction(&mut self) -> Result<()> {
        for at in 0..self.parts.len() {
            while !self.parts[at].is_lost {
                let finished = match self.drop_overtaken_swaps(at).await {
                    Ok(()) => self.complete_swaps(at).await,
                    Err(error) => Err(error),
                };
                match finished {
                    Ok(()) => break,
                    // If the failed path is that of a segment to be replaced, the loop continues
                    // without it.
                    Err(error) => self.lose_failed(at, &error)?,
                }
            }
        }
        Ok(())
    }

    /// Returns true when there is such a segment, or a note of it.
    fn is_known(&self, base: Offset) -> bool {
        self.notes.away.contains_key(&base)
            || self.parts.iter().any(|part| part.logs.contains_key(&base))
    }

    /// Returns true when there is such a segment, or its noted place could not be read.
    fn is_left(&self, base: Offset) -> bool {
        let noted = self.notes.away.get(&base).map(|place| self.noted(place));
        matches!(noted, Some(NotedLocation::Unread | NotedLocation::Unsure))
            || !self.holders(base).is_empty()
    }

    /// Removes swaps of segments that a compaction was already making again.
    ///
    /// Such a swap is in the same folder, because no old file goes while another compaction is
    /// under way. Where the old segment is gone, the swap is not one of these.
    async fn drop_overtaken_swaps(&mut self, at: usize) -> Result<()> {
        let Some(from) = self.parts[at].cleaned_from else {
            return Ok(());
        };
        let swaps = std::mem::take(&mut self.parts[at].swaps);
        let (overtaken, kept): (Vec<_>, Vec<_>) = swaps
            .into_iter()
            .partition(|(base, ..)| *base >= from && self.is_left(*base));
        self.parts[at].swaps = kept;
        for (base, role, _) in overtaken {
            let path = swap_path(self.parts[at].folder(), base, role);
            remove(self.store.disk(), &path).await?;
        }
        Ok(())
    }

    /// Puts compacted segments in the place of those they were made of, wherever these are.
    async fn complete_swaps(&mut self, at: usize) -> Result<()> {
        let swaps = self.parts[at].swaps.clone();
        if swaps.is_empty() {
            return Ok(());
        }
        let disk = self.store.disk();
        let mut whole = Vec::new();
        for &(base, role, len) in &swaps {
            if role == Role::Log
                && let Some(swap) = self.judged(at, base, len).await?
            {
                self.remove_replaced(at, base, swap.next).await?;
                whole.push(base);
            }
        }
        let (due, rest): (Vec<_>, Vec<_>) = swaps
            .into_iter()
            .partition(|(base, role, _)| *role != Role::Snapshot && whole.contains(base));
        for (base, role, _) in rest {
            self.drop_swap(at, base, role).await?;
        }
        // The new segment must not have its name while an old one of the same offsets may come
        // back.
        self.parts[at].sync(disk).await?;
        let part = &mut self.parts[at];
        let (data, others): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|(_, role, _)| *role == Role::Log);
        for (base, role, len) in others.into_iter().chain(data) {
            let from = swap_path(part.folder(), base, role);
            let to = file_path(part.folder(), base, role);
            let renamed = disk.rename(&from, &to).await;
            renamed.map_err(Error::io("rename", &from))?;
            if role == Role::Log {
                part.logs.insert(base, len);
            } else {
                part.indexes.push((base, role));
            }
            if role == Role::TxnIndex && len > 0 {
                part.aborted.push(base);
            }
        }
        part.swaps.clear();
        part.sync(disk).await
    }

    /// Returns what a file that is to replace others holds, if it may replace them.
    async fn judged(&self, at: usize, base: Offset, len: u64) -> Result<Option<Swap>> {
        let disk = self.store.disk();
        let path = swap_path(self.parts[at].folder(), base, Role::Log);
        // The file may stand for several segments.
        let bounds = (base, Offset(i64::MAX));
        let reason = match sound_end_of(disk, &path, bounds, len).await? {
            None => "a batch in it is damaged, or is not of a segment of this name",
            Some(next) if next.since(base) > OFFSETS_MAX => {
                "its offsets are more than a segment can hold"
            }
            Some(next) => {
                let path = path.clone();
                let swap = Swap {
                    base,
                    path,
                    len,
                    next,
                };
                match self.misfit(&swap).await? {
                    None => return Ok(Some(swap)),
                    Some(reason) => reason,
                }
            }
        };
        if self.is_known(base) {
            tracing::error!(file = %path.display(), reason,
                "what was to replace a segment is not used: the segment stays");
        } else {
            tracing::error!(file = %path.display(), reason,
                "what was to replace segments is not used, and the first of them is not there: records may be missing");
        }
        Ok(None)
    }

    /// Returns why a file of good batches cannot have been made of the segments that are there.
    async fn misfit(&self, swap: &Swap) -> Result<Option<&'static str>> {
        let disk = self.store.disk();
        let is_known = self.is_known(swap.base);
        if swap.len == 0 && is_known {
            return Ok(Some("it is empty"));
        }
        let below = swap.next.max(Offset(swap.base.0.saturating_add(1)));
        for part in self.parts.iter().filter(|part| !part.is_lost) {
            for (&base, &len) in part.logs.range(swap.base..below) {
                let old = file_path(part.folder(), base, Role::Log);
                if !is_made_of(disk, swap, (&old, len), base).await? {
                    return Ok(Some("the segment before it has other batches"));
                }
            }
            if let Some((&base, &len)) = part.logs.range(..swap.base).next_back()
                && !is_known
                && end_of(disk, part, (base, self.sure_next(base, None)), len).await? > swap.base
            {
                return Ok(Some("it begins within another segment"));
            }
        }
        Ok(None)
    }

    /// Drops a file that replaces nothing; data is set aside.
    ///
    /// An index alone means that the data already has its name. Which of the two indexes is right
    /// cannot be known, so both go.
    async fn drop_swap(&mut self, at: usize, base: Offset, role: Role) -> Result<()> {
        let disk = self.store.disk();
        let part = &mut self.parts[at];
        let path = swap_path(part.folder(), base, role);
        if matches!(role, Role::Log | Role::Snapshot) {
            return set_aside(self.store, &path).await;
        }
        remove(disk, &path).await?;
        let named = std::mem::take(&mut part.indexes);
        let (stale, kept): (Vec<_>, Vec<_>) = named.into_iter().partition(|(of, _)| *of == base);
        part.indexes = kept;
        for (base, role) in stale {
            remove(disk, &file_path(part.folder(), base, role)).await?;
        }
        Ok(())
    }

    /// Removes everywhere what a compacted segment stands for; what cannot be removed is owed.
    async fn remove_replaced(&mut self, by: usize, base: Offset, next: Offset) -> Result<()> {
        let disk = self.store.disk();
        for at in 0..self.parts.len() {
            if self.parts[at].is_lost {
                continue;
            }
            for old in self.parts[at].bases_in(base, next) {
                if let Err(error) = self.parts[at].remove_segment(disk, old).await {
                    if at == by {
                        return Err(error);
                    }
                    self.owe(at, old, &error).await?;
                }
            }
        }
        // Segments on an absent path must not come back.
        let noted: Vec<_> = self
            .notes
            .away
            .range(base..next.max(base))
            .filter(|(at, _)| **at != base)
            .map(|(at, place)| (*at, place.clone()))
            .collect();
        if noted.is_empty() {
            return Ok(());
        }
        for (old, place) in noted {
            if !matches!(
                self.noted(&place),
                NotedLocation::In(_) | NotedLocation::Nowhere
            ) {
                self.note_owed(old, place).await?;
            }
            if self.unwritten.contains(&old) {
                // Only the note says that this segment does not count.
                let path = self.home.to_path_buf();
                return Err(Error::Full { path });
            }
            self.remove_note(old).await?;
        }
        // Before the replacement counts: with a note alone, a start would take set-aside files back
        // as these segments.
        self.parts[0].sync(disk).await
    }
}

/// Returns true when each batch of `swap` within an old segment is a batch of that segment.
///
/// A compaction takes records out of batches, and leaves their offsets and epochs.
async fn is_made_of<D: Disk>(
    disk: &D,
    swap: &Swap,
    (old, old_len): (&Path, u64),
    old_base: Offset,
) -> Result<bool> {
    let open = async |path: &Path| {
        let opened = disk.open(path, Open::Read).await;
        opened.map_err(Error::io("open", path))
    };
    let (made_file, old_file) = (open(&swap.path).await?, open(old).await?);
    let mut made_scan = Scan::new(&made_file, 0, swap.len, WALK_BYTES);
    let mut old_scan = Scan::new(&old_file, 0, old_len, WALK_BYTES);
    let mut expected = after_base(old_base);
    while let Some(made) = made_scan
        .header()
        .await
        .map_err(Error::io("read", &swap.path))?
    {
        if made.base_offset < old_base {
            made_scan.skip(&made);
            continue;
        }
        let found = old_scan.header().await.map_err(Error::io("read", old))?;
        // Behind its end, or behind damage, the old file proves nothing.
        let Some(found) = found.filter(|found| expected.refuses(found).is_none()) else {
            break;
        };
        if found.base_offset > made.base_offset {
            return Ok(false);
        }
        if found.base_offset == made.base_offset {
            let is_same = found.last_offset() == made.last_offset()
                && found.leader_epoch == made.leader_epoch
                && found.producer_id == made.producer_id;
            if !is_same {
                return Ok(false);
            }
            made_scan.skip(&made);
        }
        expected = expected.after(&found);
        old_scan.skip(&found);
    }
    Ok(true)
}

/// Returns the offset after the last batch of a segment, by its headers, up to the next segment.
pub(super) async fn end_of<D: Disk>(
    disk: &D,
    part: &Part,
    (base, next): (Offset, Offset),
    len: u64,
) -> Result<Offset> {
    let path = file_path(part.folder(), base, Role::Log);
    let file = disk.open(&path, Open::Read).await;
    let file = file.map_err(Error::io("open", &path))?;
    let mut scan = Scan::new(&file, 0, len, WALK_BYTES);
    let mut expected = after_base(base);
    while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
        if header.next_offset() > next || expected.refuses(&header).is_some() {
            break;
        }
        expected = expected.after(&header);
        scan.skip(&header);
    }
    Ok(expected.offset)
}
