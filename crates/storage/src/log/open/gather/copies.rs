//! Chooses which of several copies of a segment without a note counts, by what is in them.
//!
//! Invariant: a copy with fewer good batches never takes the place of one with more, whole or not.
//! It does not: move or remove a copy.

use std::path::Path;

use platform::Platform;
use platform::disk::{Disk, Open};
use wire::types::{LeaderEpoch, Offset};

use super::super::part::Part;
use super::GatherState;
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::{ExpectedBatch, Scan};

/// Bytes of one read while a copy is read through.
const VERIFY_BYTES: usize = 1 << 20;

impl<P: Platform> GatherState<'_, P> {
    /// Returns the copy with the most good batches, of several that no note names.
    ///
    /// Among equals it prefers one with nothing behind its batches, then the younger, then the
    /// faster. `None`: all are damaged, and none has more than another.
    pub(super) async fn best(&self, base: Offset, holders: &[usize]) -> Result<Option<usize>> {
        let mut found = Vec::new();
        for &at in holders {
            let part = &self.parts[at];
            let path = file_path(part.folder(), base, Role::Log);
            let len = part.len_of(base);
            // A file that is still written to has room behind its batches, and perhaps a part of
            // one.
            let bounds = (base, self.sure_next(base, None));
            let (end, is_whole) = good_end_of(self.store.disk(), &path, bounds, len).await?;
            // What a compaction has just put in place, and a file of unknown time, counts as the
            // oldest of equals.
            let modified_ms = part.times.get(&(base, Role::Log)).copied().unwrap_or(0);
            found.push(((end, is_whole, modified_ms), at));
        }
        let is_like = |one: &(Offset, bool, i64), (end, is_whole, _): &(Offset, bool, i64)| {
            !is_whole && !one.1 && one.0 == *end
        };
        let all_alike = found.first().is_some_and(|(first, _)| {
            let mut others = found.iter();
            others.all(|(other, _)| is_like(first, other))
        });
        if all_alike {
            tracing::error!(base = base.0, folder = %self.parts[holders[0]].folder().display(),
                "a segment has several copies and all are damaged: they are left alone");
            return Ok(None);
        }
        // Of equals the first, which is the faster one.
        let best = found.into_iter().rev().max_by_key(|(rank, _)| *rank);
        Ok(best.map(|(_, at)| at))
    }
}

impl<P: Platform> GatherState<'_, P> {
    /// Returns where the next segment begins that is noted or at home, except `but`: a segment ends
    /// there.
    pub(super) fn sure_next(&self, base: Offset, but: Option<Offset>) -> Offset {
        let after = Offset(base.0.saturating_add(1));
        let home = self.parts.first().into_iter();
        let home = home.flat_map(|home| home.logs.range(after..).map(|(base, _)| *base));
        let noted = self.notes.away.range(after..).map(|(base, _)| *base);
        let next = noted
            .take(2)
            .chain(home.take(2))
            .filter(|at| Some(*at) != but);
        // Without a known next segment there is no bound.
        next.min().unwrap_or(Offset(i64::MAX))
    }
}

/// Returns the offset after the last batch of a segment, or `None` if not all of it is good.
pub(super) async fn sound_end<D: Disk>(
    disk: &D,
    part: &Part,
    (base, next): (Offset, Offset),
) -> Result<Option<Offset>> {
    let path = file_path(part.folder(), base, Role::Log);
    let len = part.len_of(base);
    sound_end_of(disk, &path, (base, next), len).await
}

/// Returns true when a segment does not begin with a good batch.
pub(super) async fn is_empty<D: Disk>(disk: &D, part: &Part, base: Offset) -> Result<bool> {
    let path = file_path(part.folder(), base, Role::Log);
    let len = part.len_of(base);
    let (end, _) = good_end_of(disk, &path, (base, Offset(i64::MAX)), len).await?;
    Ok(end == base)
}

/// Returns what `sound_end` does, for any file with the batches of a segment.
pub(super) async fn sound_end_of<D: Disk>(
    disk: &D,
    path: &Path,
    bounds: (Offset, Offset),
    len: u64,
) -> Result<Option<Offset>> {
    let (end, is_whole) = good_end_of(disk, path, bounds, len).await?;
    Ok(is_whole.then_some(end))
}

/// Returns the offset after the good batches that a file begins with, and whether nothing is behind
/// them.
///
/// A batch beyond `next`, where the next segment begins, is not good: no CRC covers a base offset.
pub(super) async fn good_end_of<D: Disk>(
    disk: &D,
    path: &Path,
    (base, next): (Offset, Offset),
    len: u64,
) -> Result<(Offset, bool)> {
    let file = disk.open(path, Open::Read).await;
    let file = file.map_err(Error::io("open", path))?;
    let mut scan = Scan::new(&file, 0, len, VERIFY_BYTES);
    let mut expected = after_base(base);
    while scan.position() < len {
        let Some(header) = scan.header().await.map_err(Error::io("read", path))? else {
            break;
        };
        let crc_is_right = scan.crc_is_right(&header).await;
        let is_beyond = header.next_offset() > next || expected.refuses(&header).is_some();
        if is_beyond || !crc_is_right.map_err(Error::io("read", path))? {
            break;
        }
        expected = expected.after(&header);
        scan.skip(&header);
    }
    Ok((expected.offset, scan.position() >= len))
}

pub(super) fn after_base(base: Offset) -> ExpectedBatch {
    ExpectedBatch {
        offset: base,
        gaps: true,
        epoch: LeaderEpoch(i32::MIN),
    }
}
