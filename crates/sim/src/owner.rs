//! The owner of a log: sets the high watermark, deletes, truncates, rolls and saves, and checks the
//! offsets.

use platform::sim::Rng;
use storage::{FailureKind, Log};
use wire::types::{LeaderEpoch, Offset};

use crate::actor::Actor;
use crate::planted;
use crate::world::World;

/// The offsets of a log at one moment.
#[derive(Clone, Copy, Debug)]
struct Marks {
    generation: u64,
    start: Offset,
    high_watermark: Offset,
    durable: Offset,
    written: Offset,
    end: Offset,
}

impl Marks {
    fn of<W: World>(log: &Log<W>, generation: u64) -> Self {
        Self {
            generation,
            start: log.log_start_offset(),
            high_watermark: log.high_watermark(),
            durable: log.durable_offset(),
            written: log.written_offset(),
            end: log.log_end_offset(),
        }
    }

    fn follows(&self, before: &Self) -> bool {
        let ordered = self.durable <= self.written
            && self.written <= self.end
            && self.start <= self.end
            && self.high_watermark <= self.end;
        let grown = self.start >= before.start
            && self.high_watermark >= before.high_watermark
            && self.durable >= before.durable
            && self.written >= before.written
            && self.end >= before.end;
        ordered && (grown || self.generation != before.generation)
    }
}

/// Sets the high watermark as the log progresses, and checks that no offset falls.
pub(crate) async fn watch<W: World>(actor: Actor<W>) {
    let generation = || actor.ledger.borrow().generation;
    let mut before = Marks::of(&actor.log, generation());
    let mut last_ms = actor.now_ms();
    while !actor.is_over() {
        if !planted::waits_for_the_clock(&actor, &mut last_ms) {
            actor.log.set_high_watermark(actor.log.committed_offset());
        }
        let cutting = actor.ledger.borrow().truncating.is_some();
        let now = Marks::of(&actor.log, generation());
        if !cutting {
            actor.check(now.follows(&before), || {
                format!("offsets went from {before:?} to {now:?}")
            });
            // Records that can be read now must not change later.
            let mut ledger = actor.ledger.borrow_mut();
            ledger.acknowledge(now.high_watermark);
            ledger.starts_at(now.start);
            drop(ledger);
            before = now;
        }
        if actor.is_stopping() && now.high_watermark == now.end {
            return;
        }
        actor.progressed().await;
    }
}

/// Runs the owner's operations until it is time to stop.
pub(crate) async fn run<W: World>(actor: Actor<W>, mut rng: Rng) {
    while !actor.is_stopping() && !actor.is_over() {
        actor.pause(&mut rng, 400).await;
        match rng.below(100) {
            0..40 => retain(&actor).await,
            40..50 => delete_records(&actor, &mut rng),
            50..60 => note("roll", &actor, actor.log.roll().await),
            60..75 => note("save", &actor, actor.log.save().await),
            75..80 => raise_epoch(&actor),
            80..85 if actor.plan.truncated => truncate(&actor, &mut rng).await,
            _ => {}
        }
    }
}

fn note<W: World>(doing: &str, actor: &Actor<W>, result: storage::Result<()>) {
    if let Err(error) = result {
        actor.check_error(doing, &error);
    }
}

async fn retain<W: World>(actor: &Actor<W>) {
    match actor.log.retain(actor.now_ms()).await {
        Ok(deleted) => {
            actor
                .journal
                .count(|counts| counts.retained += deleted as u64);
            let mut ledger = actor.ledger.borrow_mut();
            let first = actor.log.tiers().sealed_bases().first().copied();
            if let Some(first) = first.filter(|_| ledger.truncating.is_none()) {
                ledger.gone_below = ledger.gone_below.max(first);
            }
        }
        Err(error) => actor.check_error("retain", &error),
    }
}

fn delete_records<W: World>(actor: &Actor<W>, rng: &mut Rng) {
    let (start, end) = (actor.log.log_start_offset(), actor.log.high_watermark());
    let span = u64::try_from(end.since(start)).unwrap_or(0);
    let offset = start.plus(i64::try_from(rng.below(span / 2 + 1)).unwrap_or(0));
    note("set log start", actor, actor.log.set_log_start(offset));
    let now = actor.log.log_start_offset();
    actor.check(now == offset, || {
        format!("the log starts at {now}, not {offset}")
    });
}

fn raise_epoch<W: World>(actor: &Actor<W>) {
    let epoch = actor.epoch.get() + 1;
    actor.epoch.set(epoch);
    actor.log.start_epoch(LeaderEpoch(epoch));
}

async fn truncate<W: World>(actor: &Actor<W>, rng: &mut Rng) {
    let (start, end) = (actor.log.log_start_offset(), actor.log.log_end_offset());
    let span = u64::try_from(end.since(start)).unwrap_or(0);
    let back = if rng.chance(70) {
        rng.below(span.min(30) + 1)
    } else {
        rng.below(span + 1)
    };
    let target = end.plus(-i64::try_from(back).unwrap_or(0));
    {
        // `watch` does not record the log start during a truncation, and it may have moved since
        // the last record.
        let mut ledger = actor.ledger.borrow_mut();
        ledger.starts_at(start);
        ledger.truncating = Some(target);
    }
    let result = actor.log.truncate_to(target).await;
    let end = actor.log.log_end_offset();
    let mut ledger = actor.ledger.borrow_mut();
    match result {
        Ok(()) => {
            let expected = match ledger.batch_at(target) {
                Some((base, _)) => base,
                None => target.min(ledger.end()),
            };
            let name = ledger.name.clone();
            actor.journal.check(end == expected, || {
                format!("{name}: cut at {target}, the log ends at {end}, not {expected}")
            });
            ledger.truncated(end);
            actor.journal.count(|counts| counts.truncated += 1);
            drop(ledger);
            actor.progress.wake();
        }
        Err(error) => {
            if !actor.is_over() {
                // Nothing was truncated: a failed truncation would have latched the log.
                ledger.truncating = None;
            }
            drop(ledger);
            if error.kind() != FailureKind::Retry {
                actor.check_error("truncate", &error);
            }
        }
    }
}
