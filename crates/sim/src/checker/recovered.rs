//! Checks after a restart that everything promised is there, unchanged and in its place.

use wire::types::Offset;

use crate::actor::Actor;
use crate::checker::reads::{self, Read};
use crate::ledger::LogLedger;
use crate::plan::End;
use crate::world::World;

/// How the previous life of a log ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PastLife {
    /// There was no previous life.
    Nothing,
    /// The log was closed cleanly.
    Closed,
    /// The life ended without a clean close.
    Ended(End),
}

/// Compares a log that was just opened with its ledger, then removes lost batches from the ledger.
///
/// On a `healthy` disk only records on a path that is away may be refused.
pub(crate) async fn check<W: World>(actor: &Actor<W>, before: PastLife, healthy: bool) {
    let (start, end) = (actor.log.log_start_offset(), actor.log.log_end_offset());
    check_bounds(actor, before, start, end);
    // An incomplete truncation leaves all of the old batches or fewer; batches that are read need
    // no excuse.
    actor.ledger.borrow_mut().truncating = None;
    let mut from = start;
    while from < end {
        let read = Read {
            from,
            below: end,
            bytes_max: 64 << 10,
        };
        let next = reads::read_checked(actor, read).await;
        let Some(next) = next.or_else(|| after_refused(actor, from, healthy)) else {
            break;
        };
        from = next;
    }
    let lost = actor.ledger.borrow_mut().recovered(start, end);
    let by_note = actor.missing || actor.has_failed_path;
    actor.ledger.borrow_mut().start_by_note = by_note.then_some(start);
    actor.journal.count(|counts| counts.lost += lost as u64);
    actor.journal.note(&[4, start.0, end.0]);
}

/// Returns where to continue after a refused read: a segment that is away must not affect others.
fn after_refused<W: World>(actor: &Actor<W>, from: Offset, healthy: bool) -> Option<Offset> {
    let places = actor.places.as_ref()?;
    let excused = !healthy || actor.ledger.borrow().rotten;
    if actor.missing {
        actor.journal.count(|counts| counts.away += 1);
    }
    actor.check(excused || !places.serves(from), || {
        format!("{from} is refused, and is on no path that is away: {places:?}")
    });
    places.next_base(from)
}

/// Checks the start and the end of the log.
fn check_bounds<W: World>(actor: &Actor<W>, before: PastLife, start: Offset, end: Offset) {
    let ledger = actor.ledger.borrow();
    if ledger.rotten {
        return;
    }
    let (promised, written) = (promised(&ledger, before), ledger.end());
    let survives = matches!(before, PastLife::Closed | PastLife::Ended(End::Kill));
    let gone = ledger.gone_below.min(ledger.truncating.unwrap_or(end));
    let gone = if survives { gone } else { Offset::ZERO };
    let (log_start, saved) = (ledger.log_start, ledger.log_start_saved.max(gone));
    let most = if ledger.start_by_note.is_some() {
        ledger.log_start_max
    } else {
        log_start.max(saved)
    };
    drop(ledger);
    actor.check(end >= promised, || {
        format!("acknowledged up to {promised}, the log ends at {end} ({before:?})")
    });
    actor.check(end <= written, || {
        format!("written up to {written}, the log ends at {end} ({before:?})")
    });
    actor.check(saved <= start && start <= most, || {
        format!("the log starts at {start}, not from {saved} to {most} ({before:?})")
    });
}

/// Returns the offset below which everything must be there.
fn promised(ledger: &LogLedger, before: PastLife) -> Offset {
    let promised = match before {
        PastLife::Nothing => Offset::ZERO,
        PastLife::Closed => ledger.end(),
        PastLife::Ended(End::Kill) => ledger.kill_safe.max(ledger.power_safe),
        PastLife::Ended(End::PowerLoss | End::Stop) => ledger.power_safe,
    };
    let cut = ledger.truncating.map(|cut| {
        let whole = ledger.batch_at(cut);
        whole.map_or(cut, |(base, _)| base)
    });
    cut.map_or(promised, |cut| promised.min(cut))
}
