//! Shows producers the batches of a segment, by their headers.
//!
//! What was trusted may have rotted. A batch that stands in order, behind the one before it and
//! before the one after it, is shown as it is. Where they contradict each other, the CRC is
//! computed, which covers everything but the base offset and the epoch: if it is right, the batch
//! is shown at the offset where it can stand; if not, it is not shown, and readers do not get it
//! either. Without this rule one bit would end what is known of all producers beyond the log, or
//! keep a transaction open for ever. The CRC of a marker is always computed: a damaged marker is
//! shown, and reported.
//! It does not: say which segments are walked, count the damage, or find wrong bits in a batch that
//! stands in order.

use std::io;
use std::path::Path;

use platform::disk::DiskFile;
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::append::marker_of;
use super::producer_state::ProducerStates;
use super::read::walk::{following, is_possible};
use super::txn_index::AbortedTxn;
use crate::segment::scan::{NO_BATCH, Scan};
use crate::segment::stamps::{FileEnd, WRONG_OFFSET};

/// Largest marker; a longer control batch is none, and is not read.
const MARKER_BYTES_MAX: usize = 4 << 10;

const WRONG_CRC: &str = "the CRC is wrong";

/// The first damage found in a walk over a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Damage {
    /// Where its batch begins.
    pub(super) position: u64,
    /// What is wrong there.
    pub(super) reason: &'static str,
    /// Something there, or behind it, was not shown.
    pub(super) hides: bool,
}

impl Damage {
    fn note(found: &mut Option<Self>, position: u64, reason: &'static str, hides: bool) {
        let first = found.get_or_insert(Self {
            position,
            reason,
            hides,
        });
        first.hides |= hides;
    }
}

/// Logs where a segment is damaged.
pub(super) fn tell_of(path: &Path, damage: Damage) {
    let Damage {
        position,
        reason,
        hides,
    } = damage;
    tracing::error!(path = %path.display(), position, reason, is_lost = hides,
        "a segment is damaged: what its producers wrote there may not be known");
}

/// Shows `states` what they lack of a segment that begins at `base` and ends at `end`.
///
/// `aborted` is given the transactions that end as aborted there.
pub(super) async fn replay<F: DiskFile>(
    scan: &mut Scan<'_, F>,
    (base, end): (Offset, FileEnd),
    states: &mut ProducerStates,
    mut aborted: impl FnMut(AbortedTxn),
) -> io::Result<Option<Damage>> {
    let mut lowest = base;
    let mut damage = None;
    while let Some(header) = scan.header().await? {
        let placed = placed(scan, &header, lowest, end).await?;
        if placed == Some(header) && is_marker(&header) && !scan.crc_is_right(&header).await? {
            // Its outcome may be inverted, but its transaction is over in any case.
            Damage::note(&mut damage, scan.position(), WRONG_CRC, false);
        } else if placed != Some(header) {
            // If the batch is moved down to what the states already know, they do not see it.
            let is_seen = placed.is_some_and(|placed| placed.next_offset() > states.end());
            Damage::note(&mut damage, scan.position(), WRONG_OFFSET, !is_seen);
        }
        if let Some(placed) = placed {
            lowest = placed.next_offset();
            if let Some(txn) = show(scan, &placed, states).await? {
                aborted(txn);
            }
        }
        scan.skip(&header);
    }
    if !scan.is_end(scan.position()) {
        // Without the length of this batch, what is behind it cannot be found.
        Damage::note(&mut damage, scan.position(), NO_BATCH, true);
    }
    Ok(damage)
}

/// Returns the batch at `scan` with the base offset that it can have, which is not before `lowest`.
///
/// Returns `None` when the batch is damaged.
async fn placed<F: DiskFile>(
    scan: &mut Scan<'_, F>,
    header: &BatchHeader,
    lowest: Offset,
    end: FileEnd,
) -> io::Result<Option<BatchHeader>> {
    if !is_possible(header) {
        return Ok(None);
    }
    let following = following(scan, header, end).await?;
    let (base, next) = (header.base_offset, header.next_offset());
    let stands = base >= lowest && next <= end.bound;
    let agrees = match following {
        // A next batch that begins before this one can is wrong itself.
        Some(following) => following >= next || following < lowest,
        None => base == lowest,
    };
    if stands && agrees {
        return Ok(Some(*header));
    }
    let lower = BatchHeader {
        base_offset: lowest,
        ..*header
    };
    let is_right = lower.next_offset() <= end.bound && scan.crc_is_right(header).await?;
    Ok(is_right.then_some(lower))
}

fn is_marker(header: &BatchHeader) -> bool {
    header.is_control() && header.size_bytes <= MARKER_BYTES_MAX
}

/// Shows `states` the batch at `scan`, if they lack it; returns the transaction that it ends as
/// aborted.
pub(super) async fn show<F: DiskFile>(
    scan: &mut Scan<'_, F>,
    header: &BatchHeader,
    states: &mut ProducerStates,
) -> io::Result<Option<AbortedTxn>> {
    if header.next_offset() <= states.end() {
        return Ok(None);
    }
    let marker = if is_marker(header) {
        marker_of(&scan.batch(header).await?)
    } else {
        None
    };
    Ok(states.replay(header, marker))
}
