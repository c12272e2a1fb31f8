//! The walk from a position that an index knows to the batch that holds an offset, over headers
//! only.
//!
//! A base offset that has rotted must not lead past the wanted batch, which would be left out
//! without an error. So offsets must rise; a batch behind a gap must end before the next one
//! begins; and the index's own entry must be met.
//! It does not: check CRCs or epochs; the caller that takes the batch does.

use platform::Platform;
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::WALK_BYTES;
use crate::error::{Error, Result};
use crate::segment::naming::Role;
use crate::segment::scan::{MAGIC, NO_BATCH, Scan};
use crate::segment::stamps::{BatchPlace, FileEnd, WRONG_OFFSET, place_of};
use crate::segment::{File, Segment};

/// Where a walk begins.
#[derive(Clone, Copy)]
pub(crate) struct Floor {
    /// The start of a batch at or before the wanted one.
    pub(crate) position: u64,
    /// The last offset of that batch, as the index has it; at position 0 the base offset of the
    /// segment.
    pub(crate) offset: Offset,
}

/// A batch that was found.
#[derive(Clone, Copy)]
pub(in crate::log) struct Batch {
    /// Where it begins.
    pub(in crate::log) position: u64,
    /// The batch cannot begin before this offset.
    pub(in crate::log) lowest: Offset,
}

/// Returns the batch that holds `offset`, or the first one after it, from an entry of the index on.
///
/// Returns `None` when there is none before the end.
pub(in crate::log) async fn walk_to<P: Platform>(
    segment: &Segment<P>,
    file: &File<P>,
    from: Floor,
    end: FileEnd,
    offset: Offset,
) -> Result<Option<Batch>> {
    let mut scan = Scan::new(file, from.position, end.position, WALK_BYTES);
    let path = segment.path(Role::Log);
    let corrupt = |position, reason| Error::Corrupt {
        path: segment.path(Role::Log),
        position,
        reason,
    };
    let may_reindex =
        segment.is_sealed() && !segment.are_names_lent() && segment.reindexed.is_open();
    let mut lowest = segment.base;
    let mut damaged = None;
    let mut is_first = from.position > 0;
    while scan.position() < end.position {
        let position = scan.position();
        let header = scan.header().await.map_err(Error::io("read", &path))?;
        let Some(header) = header.filter(is_possible) else {
            return Err(corrupt(position, NO_BATCH));
        };
        if std::mem::take(&mut is_first) {
            match header.last_offset().cmp(&from.offset) {
                std::cmp::Ordering::Equal => lowest = header.base_offset,
                // Older indexes may name the last of a few batches; none names one before.
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Greater if !may_reindex => {}
                std::cmp::Ordering::Greater => return Err(corrupt(position, NO_BATCH)),
            }
        }
        let following = if header.base_offset > lowest {
            let found = following(&mut scan, &header, end).await;
            found.map_err(Error::io("read", &path))?
        } else {
            None
        };
        let is_wrong = place_of(&header, lowest, || following) == BatchPlace::Wrong;
        let is_past = header.next_offset() > offset;
        if is_wrong && is_past && following.is_none_or(|following| following > offset) {
            return Err(corrupt(position, WRONG_OFFSET));
        }
        if is_wrong {
            damaged.get_or_insert(position);
        } else if is_past {
            // The missing batch may be the damaged one, or the one that the index names.
            let is_missing = header.base_offset > offset;
            let unmet = from.position > 0 && (lowest..header.base_offset).contains(&from.offset);
            return match damaged {
                Some(damaged) if is_missing => Err(corrupt(damaged, WRONG_OFFSET)),
                None if is_missing && unmet => Err(corrupt(from.position, WRONG_OFFSET)),
                _ => Ok(Some(Batch { position, lowest })),
            };
        } else {
            lowest = header.next_offset();
        }
        scan.skip(&header);
    }
    match damaged {
        Some(damaged) => Err(corrupt(damaged, WRONG_OFFSET)),
        None => Ok(None),
    }
}

/// Returns true when a batch of ours can have this header.
pub(in crate::log) fn is_possible(header: &BatchHeader) -> bool {
    header.magic == MAGIC && header.last_offset_delta >= 0
}

/// Returns the base offset of the batch after the one where `scan` is, or where the segment ends.
pub(in crate::log) async fn following<F: platform::disk::DiskFile>(
    scan: &mut Scan<'_, F>,
    header: &BatchHeader,
    end: FileEnd,
) -> std::io::Result<Option<Offset>> {
    if scan.position() + header.size_bytes as u64 >= end.position {
        return Ok(end.next);
    }
    let next = scan.following(header).await?;
    Ok(next.filter(is_possible).map(|next| next.base_offset))
}
