//! Showing producers the batches of a segment, by their headers.
//!
//! No CRC is computed, and none covers a base offset: a batch that does not stand where one can stand, between the one
//! before it and the one after it and within its segment, is damaged and is not shown. It is not served to readers either.
//! Without this rule one rotten bit would end what is known of all producers beyond the end of the log.
//! It does not: say which segments are walked, or count the damage.

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
use crate::segment::stamps::{FileEnd, Place, WRONG_OFFSET, place_of};

/// The first damage of a segment that was walked over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Damage {
    /// Where its batch begins.
    pub(super) position: u64,
    /// What is wrong there.
    pub(super) reason: &'static str,
}

/// Says where a segment is damaged.
pub(super) fn tell_of(path: &Path, damage: Damage) {
    let Damage { position, reason } = damage;
    tracing::error!(path = %path.display(), position, reason,
        "a segment is damaged: what its producers wrote there is not known");
}

/// Shows `states` what a segment that begins at `base` and ends at `end` has beyond what they know; `aborted` is given
/// the transactions that end as aborted there.
pub(super) async fn replay<F: DiskFile>(
    scan: &mut Scan<'_, F>,
    (base, end): (Offset, FileEnd),
    states: &mut ProducerStates,
    mut aborted: impl FnMut(AbortedTxn),
) -> io::Result<Option<Damage>> {
    let mut lowest = base;
    let mut damage = None;
    while let Some(header) = scan.header().await? {
        if stands(scan, &header, lowest, end).await? {
            lowest = header.next_offset();
            if let Some(txn) = show(scan, &header, states).await? {
                aborted(txn);
            }
        } else {
            let position = scan.position();
            let reason = WRONG_OFFSET;
            damage.get_or_insert(Damage { position, reason });
        }
        scan.skip(&header);
    }
    let position = scan.position();
    if !scan.is_end(position) {
        // Without its length nothing behind it is found.
        let reason = NO_BATCH;
        damage.get_or_insert(Damage { position, reason });
    }
    Ok(damage)
}

/// True where the batch at `scan`, which cannot begin before `lowest`, may stand.
async fn stands<F: DiskFile>(
    scan: &mut Scan<'_, F>,
    header: &BatchHeader,
    lowest: Offset,
    end: FileEnd,
) -> io::Result<bool> {
    if !is_possible(header) || header.next_offset() > end.bound {
        return Ok(false);
    }
    let following = if header.base_offset > lowest {
        following(scan, header, end).await?
    } else {
        None
    };
    Ok(place_of(header, lowest, || following) != Place::Wrong)
}

/// Shows `states` the batch at `scan`, if they do not know it; gives the transaction that it ends as aborted.
pub(super) async fn show<F: DiskFile>(
    scan: &mut Scan<'_, F>,
    header: &BatchHeader,
    states: &mut ProducerStates,
) -> io::Result<Option<AbortedTxn>> {
    if header.next_offset() <= states.end() {
        return Ok(None);
    }
    let marker = if header.is_control() {
        marker_of(&scan.batch(header).await?)
    } else {
        None
    };
    Ok(states.replay(header, marker))
}
