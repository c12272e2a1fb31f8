//! Checks that lookups by timestamp and leader epoch agree with the records.

use platform::sim::Rng;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::actor::Actor;
use crate::ledger::LogLedger;
use crate::world::World;

/// Tries a few lookups in a log that does not change meanwhile.
pub(crate) async fn check<W: World>(actor: &Actor<W>, rng: &mut Rng) {
    if actor.ledger.borrow().rotten {
        return;
    }
    for _ in 0..3 {
        let (target, expect, max) = {
            let ledger = actor.ledger.borrow();
            let target = some_timestamp(&ledger, rng);
            (target, first_not_older(&ledger, target), largest(&ledger))
        };
        let (start, end) = (actor.log.log_start_offset(), actor.log.log_end_offset());
        match actor.log.offset_for_timestamp(target, end).await {
            Ok(found) => {
                let found = found.map(|found| (found.offset, found.timestamp));
                actor.check(found == expect, || {
                    format!(
                        "the first record not older than {target:?} is {expect:?}, not {found:?}"
                    )
                });
            }
            Err(error) => actor.check_error("lookup of a timestamp", &error),
        }
        match actor.log.max_timestamp(end).await {
            Ok(found) => {
                let found = found.map(|found| (found.offset, found.timestamp));
                // A deleted record with a larger timestamp may hide it while its segment still
                // exists.
                let hidden = found.is_none() && start > Offset::ZERO;
                actor.check(found == max || hidden, || {
                    format!("the first record with the largest timestamp is {max:?}, not {found:?}")
                });
            }
            Err(error) => actor.check_error("lookup of the largest timestamp", &error),
        }
    }
    let ledger = actor.ledger.borrow();
    let start = ledger.log_start_max.max(actor.log.log_start_offset());
    let wrong = ledger.batches.iter().find_map(|(base, batch)| {
        let offset = (*base).max(start);
        let found = actor.log.epoch_at(offset);
        let readable = batch.next > start;
        (readable && found != Some(LeaderEpoch(batch.epoch))).then_some((
            offset,
            batch.epoch,
            found,
        ))
    });
    drop(ledger);
    if let Some((offset, epoch, found)) = wrong {
        actor.check(false, || {
            format!("{offset} is of epoch {epoch}, not {found:?}")
        });
    }
}

fn some_timestamp(ledger: &LogLedger, rng: &mut Rng) -> TimestampMs {
    let count = ledger.batches.len() as u64;
    let at = usize::try_from(rng.below(count.max(1))).unwrap_or(0);
    let timestamp = ledger
        .batches
        .values()
        .nth(at)
        .and_then(|batch| batch.timestamps.first().copied());
    let jitter = i64::try_from(rng.below(3)).unwrap_or(0) - 1;
    timestamp.map_or(TimestampMs(0), |timestamp| {
        TimestampMs(timestamp.0 + jitter)
    })
}

/// Returns the offset and timestamp of every readable record.
fn records(ledger: &LogLedger) -> impl Iterator<Item = (Offset, TimestampMs)> {
    let start = ledger.log_start;
    ledger
        .batches
        .iter()
        .flat_map(|(base, batch)| {
            let offsets = (0_i64..).map(|delta| base.plus(delta));
            offsets.zip(batch.timestamps.iter().copied())
        })
        .filter(move |(offset, _)| *offset >= start)
}

fn first_not_older(ledger: &LogLedger, target: TimestampMs) -> Option<(Offset, TimestampMs)> {
    records(ledger).find(|(_, timestamp)| *timestamp >= target)
}

fn largest(ledger: &LogLedger) -> Option<(Offset, TimestampMs)> {
    let max = records(ledger).map(|(_, timestamp)| timestamp).max()?;
    records(ledger).find(|(_, timestamp)| *timestamp == max)
}
