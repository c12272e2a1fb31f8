//! After a restart: what was promised is there, all of it is what was written, and where it should be.

use wire::types::Offset;

use crate::actor::Actor;
use crate::checker::reads::{self, Read};
use crate::plan::End;
use crate::world::World;

/// How the life before has ended for a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// There was none.
    Nothing,
    /// It was closed in order.
    Closed,
    /// Otherwise.
    Ended(End),
}

/// Compares a log that was just opened with its ledger, and lets the ledger forget what was lost.
pub(crate) async fn check<W: World>(actor: &Actor<W>, before: Before) {
    let (start, end) = (actor.log.log_start_offset(), actor.log.log_end_offset());
    let ledger = actor.ledger.borrow();
    let mut promised = match before {
        Before::Nothing => Offset::ZERO,
        Before::Closed => ledger.end(),
        Before::Ended(End::Kill) => ledger.kill_safe.max(ledger.power_safe),
        Before::Ended(End::PowerLoss | End::Stop) => ledger.power_safe,
    };
    if let Some(cut) = ledger.truncating {
        let whole = ledger.batch_at(cut).map_or(cut, |(base, _)| base);
        promised = promised.min(whole);
    }
    let (log_start, saved, written) = (ledger.log_start, ledger.log_start_saved, ledger.end());
    let rotten = ledger.rotten;
    drop(ledger);
    actor.check(end >= promised || rotten, || {
        format!("acknowledged up to {promised}, the log ends at {end} ({before:?})")
    });
    actor.check(end <= written || rotten, || {
        format!("written up to {written}, the log ends at {end} ({before:?})")
    });
    actor.check(
        (saved <= start && start <= log_start.max(saved)) || rotten,
        || format!("the log starts at {start}, not from {saved} to {log_start} ({before:?})"),
    );
    // A truncation that did not end leaves the old batches or fewer of them: no relaxation is needed for what is read.
    actor.ledger.borrow_mut().truncating = None;
    let mut from = start;
    while from < end {
        let read = Read {
            from,
            below: end,
            bytes_max: 64 << 10,
        };
        let Some(next) = reads::read_checked(actor, read).await else {
            break;
        };
        from = next;
    }
    let lost = actor.ledger.borrow_mut().recovered(start, end);
    actor.journal.count(|counts| counts.lost += lost as u64);
    actor.journal.note(&[4, start.0, end.0]);
}
