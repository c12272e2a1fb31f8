//! Checks that a read returns what was written, at its offset, in order and completely.

use bytes::Bytes;
use storage::FailureKind;
use wire::batch::Batches;
use wire::types::Offset;

use crate::actor::Actor;
use crate::world::World;

/// A read below some offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) from: Offset,
    pub(crate) below: Offset,
    pub(crate) bytes_max: usize,
}

/// Reads and checks the result; returns the offset to continue from, or `None` if nothing was read.
pub(crate) async fn read_checked<W: World>(actor: &Actor<W>, read: Read) -> Option<Offset> {
    let generation = actor.ledger.borrow().generation;
    let Read {
        from,
        below,
        bytes_max,
    } = read;
    let result = actor.log.read(from, below, bytes_max, true).await;
    let ledger = actor.ledger.borrow();
    let was_cut = ledger.generation != generation || ledger.truncating.is_some();
    let rotten = ledger.rotten;
    drop(ledger);
    let deleted = from < actor.log.log_start_offset();
    match result {
        Ok(parts) if was_cut => (!parts.is_empty()).then_some(from),
        Ok(parts) => {
            let next = check_batches(actor, read, &parts);
            // A high watermark saved before batches were lost may lie within a batch appended
            // later.
            let ledger = actor.ledger.borrow();
            let whole = ledger
                .batch_at(from)
                .is_none_or(|(_, batch)| batch.next <= below);
            drop(ledger);
            let nothing = next.is_none() && from < below && whole;
            actor.check(!nothing || deleted || rotten, || {
                format!("{read:?} gives nothing, although the offset is there")
            });
            next
        }
        Err(error) => {
            let excused = match error.kind() {
                FailureKind::Invalid => deleted || was_cut,
                FailureKind::Corrupt => rotten || was_cut,
                FailureKind::Closed => actor.is_stopping(),
                // The mover takes a damaged segment offline.
                FailureKind::Retry if actor.missing || rotten => true,
                FailureKind::Retry | FailureKind::Failed => {
                    actor.trouble.fails_operations() || was_cut
                }
                // A read needs a descriptor if the file is not open.
                FailureKind::Full => actor.trouble.takes_descriptors(),
            };
            if error.kind() == FailureKind::Corrupt {
                actor.journal.count(|counts| counts.damaged += 1);
            }
            actor.check(excused, || format!("{read:?} fails: {error}"));
            None
        }
    }
}

/// Returns true when a reader may go on at `base`, behind records that retention has deleted.
///
/// No checksum covers the note of a debt. When its bits flip, a deleted segment of a path that was
/// away comes back below the log's start, and readers cross the hole behind it, which is logged.
fn may_cross_deleted<W: World>(actor: &Actor<W>, base: Offset) -> bool {
    let ledger = actor.ledger.borrow();
    ledger.rotten && base <= ledger.log_start_max
}

/// Checks the batches and returns the offset after the last one.
fn check_batches<W: World>(actor: &Actor<W>, read: Read, parts: &[Bytes]) -> Option<Offset> {
    let joined: Vec<u8> = parts.concat();
    let mut next = None;
    for item in Batches::new(&joined) {
        let Ok((header, bytes)) = item else {
            actor.check(false, || {
                format!("{read:?} gives half a batch after {next:?}")
            });
            return None;
        };
        let in_place = match next {
            // Records that were deleted meanwhile are skipped.
            None => {
                let deleted = read.from < actor.log.log_start_offset();
                let skipped = deleted || may_cross_deleted(actor, header.base_offset);
                (header.base_offset <= read.from || skipped) && header.next_offset() > read.from
            }
            Some(next) => header.base_offset == next,
        };
        actor.check(in_place && header.next_offset() <= read.below, || {
            format!(
                "{read:?} gives {}..={}",
                header.base_offset,
                header.last_offset()
            )
        });
        let ledger = actor.ledger.borrow();
        let known = ledger.batches.get(&header.base_offset);
        let written = known.is_some_and(|accepted| accepted.bytes == bytes)
            || header.next_offset() <= ledger.log_start_saved;
        drop(ledger);
        actor.check(written, || {
            format!(
                "{read:?} gives a batch at {} that was not written there",
                header.base_offset
            )
        });
        actor.journal.count(|counts| counts.read += 1);
        next = Some(header.next_offset());
    }
    if let Some(next) = next {
        actor.journal.note(&[3, read.from.0, next.0]);
    }
    next
}
