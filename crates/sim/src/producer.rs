//! Producers: they send batches and send them again, even across restarts, and remember the
//! acknowledgements.
//!
//! An idempotent producer has up to five batches in flight and keeps its identity over the lives of
//! a run; it sends again every batch that was not acknowledged as safe. A plain producer sends a
//! few batches at a time and forgets them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use platform::sim::Rng;
use storage::log::producer_state::{Origin, ProducerCheck, ProducerError};
use storage::{FailureKind, LogAppendInfo, Stamp};
use wire::batch::{self, BatchBuilder, BatchHeader, CRC_START, HEADER_BYTES, sequence_plus};
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

use crate::actor::Actor;
use crate::ledger::{BatchId, LedgerBatch};
use crate::planted;
use crate::world::{PlantedBug, World};

const IN_FLIGHT_MAX: u64 = 5;

/// The state of an idempotent producer that is kept between lives.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The source of the next unused id, shared by all producers of a run.
    ids: Rc<std::cell::Cell<i64>>,
    id: i64,
    epoch: i16,
    next_sequence: i32,
    unacknowledged: VecDeque<SentBatch>,
}

/// A batch that was not acknowledged.
#[derive(Clone, Debug)]
struct SentBatch {
    batch: Bytes,
    timestamps: Vec<TimestampMs>,
    id: Option<BatchId>,
    /// Its place and the generation of the log, if the log took it in this life.
    taken: Option<TakenBatch>,
}

#[derive(Clone, Copy, Debug)]
struct TakenBatch {
    base: Offset,
    next: Offset,
    generation: u64,
}

/// The result of waiting.
enum WaitOutcome {
    Safe,
    Cut,
    Over,
}

impl Identity {
    pub(crate) fn fresh(ids: &Rc<std::cell::Cell<i64>>, rng: &mut Rng) -> Self {
        let id = ids.get();
        ids.set(id + 1);
        // Some begin near the end of the sequence numbers, so that they wrap.
        let next_sequence = if rng.chance(20) { i32::MAX - 20 } else { 0 };
        Self {
            ids: Rc::clone(ids),
            id,
            epoch: 0,
            next_sequence,
            unacknowledged: VecDeque::new(),
        }
    }

    /// Begins another life with no batch in flight.
    pub(crate) fn restart(&mut self) {
        for sent in &mut self.unacknowledged {
            sent.taken = None;
        }
    }
}

/// Runs an idempotent producer until it is time to stop.
pub(crate) async fn idempotent<W: World>(
    actor: Actor<W>,
    identity: Rc<RefCell<Identity>>,
    mut rng: Rng,
) {
    let in_flight_max = 1 + rng.below(IN_FLIGHT_MAX);
    while !actor.is_over() {
        let under_way = identity.borrow().unacknowledged.len() as u64;
        if actor.is_stopping() && under_way == 0 {
            return;
        }
        if under_way < in_flight_max && !actor.is_stopping() {
            let sent = next_batch(&actor, &mut identity.borrow_mut(), &mut rng);
            identity.borrow_mut().unacknowledged.push_back(sent);
        }
        if !send_all(&actor, &identity, &mut rng) {
            actor.pause(&mut rng, 20).await;
            continue;
        }
        if rng.chance(60) {
            wait_for_first(&actor, &identity).await;
        }
        actor.pause(&mut rng, 30).await;
    }
}

/// Runs a producer without an identity until it is time to stop.
pub(crate) async fn plain<W: World>(actor: Actor<W>, mut rng: Rng) {
    while !actor.is_over() && !actor.is_stopping() {
        let batches: Vec<SentBatch> = (0..=rng.below(2))
            .map(|_| {
                let (builder, timestamps) = records(&actor, &mut rng, "plain");
                finished(builder, timestamps, None)
            })
            .collect();
        let joined: Vec<u8> = batches
            .iter()
            .flat_map(|sent| sent.batch.to_vec())
            .collect();
        if let Some(appended) = append(&actor, &joined.into(), &batches) {
            let taken = TakenBatch {
                base: appended.base_offset,
                next: appended.last_offset.plus(1),
                generation: actor.ledger.borrow().generation,
            };
            if let WaitOutcome::Safe = wait(&actor, taken).await {
                acknowledge(&actor, taken);
            }
        }
        actor.pause(&mut rng, 60).await;
    }
}

fn next_batch<W: World>(actor: &Actor<W>, identity: &mut Identity, rng: &mut Rng) -> SentBatch {
    let label = format!(
        "producer {} sequence {}",
        identity.id, identity.next_sequence
    );
    let (builder, timestamps) = records(actor, rng, &label);
    let id = (identity.id, identity.epoch, identity.next_sequence);
    identity.next_sequence = sequence_plus(identity.next_sequence, builder.record_count());
    let builder = builder.producer(ProducerId(id.0), id.1, id.2);
    finished(builder, timestamps, Some(id))
}

fn records<W: World>(
    actor: &Actor<W>,
    rng: &mut Rng,
    label: &str,
) -> (BatchBuilder, Vec<TimestampMs>) {
    let mut builder = BatchBuilder::new(Offset::ZERO, LeaderEpoch::NONE);
    let mut timestamps = Vec::new();
    let value_bytes_max = if rng.chance(5) { 20_000 } else { 600 };
    for _ in 0..=rng.below(5) {
        let timestamp = TimestampMs(actor.now_ms() - i64::try_from(rng.below(300)).unwrap_or(0));
        let len = usize::try_from(rng.below(value_bytes_max)).unwrap_or(0);
        let mut value = format!("{label}, {:x} ", rng.next_u64()).into_bytes();
        value.resize(value.len() + len, b'.');
        builder.add(timestamp, None, Some(&value), &[]);
        timestamps.push(timestamp);
    }
    (builder, timestamps)
}

fn finished(builder: BatchBuilder, timestamps: Vec<TimestampMs>, id: Option<BatchId>) -> SentBatch {
    SentBatch {
        batch: builder
            .finish()
            .expect("uncompressed batches are always built"),
        timestamps,
        id,
        taken: None,
    }
}

/// Sends every batch that is not in flight, in order, and occasionally one that is.
///
/// Returns false when the log refuses a batch.
fn send_all<W: World>(actor: &Actor<W>, identity: &Rc<RefCell<Identity>>, rng: &mut Rng) -> bool {
    let generation = actor.ledger.borrow().generation;
    let mut identity = identity.borrow_mut();
    let mut at = 0;
    while let Some(sent) = identity.unacknowledged.get(at).cloned() {
        let under_way = sent
            .taken
            .is_some_and(|taken| taken.generation == generation);
        if !under_way || rng.chance(5) {
            match send(actor, &sent) {
                SendOutcome::Taken(taken) => {
                    if let Some(sent) = identity.unacknowledged.get_mut(at) {
                        sent.taken = Some(taken);
                    }
                }
                SendOutcome::Known => {
                    identity.unacknowledged.remove(at);
                    continue;
                }
                SendOutcome::Refused => return false,
                SendOutcome::Lost => {
                    let ids = Rc::clone(&identity.ids);
                    *identity = Identity::fresh(&ids, rng);
                    return false;
                }
            }
        }
        at += 1;
    }
    true
}

enum SendOutcome {
    /// The log has the batch.
    Taken(TakenBatch),
    /// The log has the batch, but it is too old to be recognised exactly.
    Known,
    /// The log refuses the batch for now.
    Refused,
    /// Earlier batches were lost legitimately.
    Lost,
}

fn send<W: World>(actor: &Actor<W>, sent: &SentBatch) -> SendOutcome {
    let header = BatchHeader::parse(&sent.batch).expect("a batch of ours");
    let ledger = actor.ledger.borrow();
    let stored = sent.id.and_then(|id| ledger.find(id));
    let generation = ledger.generation;
    let unsure = ledger.truncating.is_some() || ledger.rotten;
    let deleted_below = ledger.log_start_saved;
    let may_be_lost = unsure || ledger.has_lost;
    let was_stored = stored.is_some() || sent.id.is_some_and(|id| ledger.had(id));
    drop(ledger);
    match actor.log.check_producer(&header, Origin::Client) {
        Ok(ProducerCheck::New) => {
            actor.check(stored.is_none() || unsure || actor.is_over(), || {
                format!(
                    "batch {:?}, stored at {stored:?}, is taken for a new one",
                    sent.id
                )
            });
            match append(actor, &sent.batch, std::slice::from_ref(sent)) {
                None => SendOutcome::Refused,
                Some(appended) => SendOutcome::Taken(TakenBatch {
                    base: appended.base_offset,
                    next: appended.last_offset.plus(1),
                    generation,
                }),
            }
        }
        Ok(ProducerCheck::Duplicate(first)) => {
            actor.journal.count(|counts| counts.duplicates += 1);
            let base = first.base_offset();
            let deleted = stored.is_none() && base < deleted_below;
            actor.check(stored == Some(base) || deleted || unsure, || {
                format!(
                    "batch {:?}, stored at {stored:?}, is answered with {base}",
                    sent.id
                )
            });
            SendOutcome::Taken(TakenBatch {
                base,
                next: first.last_offset.plus(1),
                generation,
            })
        }
        Err(ProducerError::OutOfOrderSequence { .. }) if was_stored => SendOutcome::Known,
        Err(error) => {
            actor.check(may_be_lost, || {
                format!("batch {:?} is refused: {error}", sent.id)
            });
            SendOutcome::Lost
        }
    }
}

/// Appends batches and adds them to the ledger.
fn append<W: World>(
    actor: &Actor<W>,
    bytes: &Bytes,
    batches: &[SentBatch],
) -> Option<LogAppendInfo> {
    let (now_ms, epoch) = (actor.now_ms(), actor.epoch());
    let append_time = actor.plan.append_time.then_some(TimestampMs(now_ms));
    let stamp = Stamp {
        leader_epoch: epoch,
        log_append_time: append_time,
    };
    let end = actor.log.log_end_offset();
    let appended = match actor.log.append(bytes, stamp, now_ms) {
        Ok(appended) => appended,
        Err(error) => {
            actor.journal.count(|counts| counts.refused += 1);
            let expected = matches!(
                error.kind(),
                FailureKind::Retry | FailureKind::Full | FailureKind::Failed | FailureKind::Closed
            );
            actor.check(expected, || format!("append failed: {error}"));
            let unchanged = end == actor.log.log_end_offset();
            actor.check(unchanged, || "a refused append moved the end".to_owned());
            return None;
        }
    };
    let mut ledger = actor.ledger.borrow_mut();
    let in_place = appended.base_offset == ledger.end() || ledger.truncating.is_some();
    let (name, expected) = (ledger.name.clone(), ledger.end());
    actor.journal.check(in_place, || {
        format!(
            "{name}: offset {} was given, {expected} was next",
            appended.base_offset
        )
    });
    let mut base = appended.base_offset;
    for sent in batches {
        let accepted = stamped(sent, base, epoch, append_time);
        let next = accepted.next;
        ledger.accept(base, accepted);
        base = next;
    }
    drop(ledger);
    actor.check(base == appended.last_offset.plus(1), || {
        format!(
            "the last offset is said to be {}, not {}",
            appended.last_offset,
            base.plus(-1)
        )
    });
    actor
        .journal
        .count(|counts| counts.appended += batches.len() as u64);
    actor.journal.note(&[1, appended.base_offset.0, now_ms]);
    Some(appended)
}

/// Returns the batch as it must be stored.
fn stamped(
    sent: &SentBatch,
    base: Offset,
    epoch: LeaderEpoch,
    append_time: Option<TimestampMs>,
) -> LedgerBatch {
    let mut bytes = sent.batch.to_vec();
    let mut timestamps = sent.timestamps.clone();
    if let Some(fixed) = bytes.first_chunk_mut::<HEADER_BYTES>() {
        batch::stamp(fixed, base, epoch);
        if let Some(time) = append_time {
            timestamps.fill(time);
            fixed[22] |= 0x08;
            fixed[35..43].copy_from_slice(&time.0.to_be_bytes());
        }
    }
    let crc = batch::crc_of(&bytes);
    bytes[17..CRC_START].copy_from_slice(&crc.to_be_bytes());
    let records = i64::try_from(timestamps.len()).unwrap_or(0);
    LedgerBatch {
        bytes: bytes.into(),
        next: base.plus(records),
        epoch: epoch.0,
        timestamps,
        id: sent.id,
    }
}

async fn wait_for_first<W: World>(actor: &Actor<W>, identity: &Rc<RefCell<Identity>>) {
    let first = identity
        .borrow()
        .unacknowledged
        .front()
        .and_then(|sent| sent.taken);
    let Some(taken) = first else { return };
    match wait(actor, taken).await {
        WaitOutcome::Safe => {
            acknowledge(actor, taken);
            identity.borrow_mut().unacknowledged.pop_front();
        }
        // Sending it again shows whether it is still there.
        WaitOutcome::Cut | WaitOutcome::Over => {}
    }
}

async fn wait<W: World>(actor: &Actor<W>, taken: TakenBatch) -> WaitOutcome {
    loop {
        if actor.ledger.borrow().generation != taken.generation {
            return WaitOutcome::Cut;
        }
        let safe = match actor.planted {
            Some(PlantedBug::EarlyAcknowledgement) => actor.log.log_end_offset(),
            _ => actor.log.committed_offset(),
        };
        if safe >= taken.next {
            return WaitOutcome::Safe;
        }
        if planted::takes_full_for_not_written(actor, taken.base) {
            return WaitOutcome::Cut;
        }
        if actor.is_over() {
            return WaitOutcome::Over;
        }
        actor.progressed().await;
    }
}

fn acknowledge<W: World>(actor: &Actor<W>, taken: TakenBatch) {
    actor.ledger.borrow_mut().acknowledge(taken.next);
    actor.journal.count(|counts| counts.acknowledged += 1);
    actor.journal.note(&[2, taken.base.0, taken.next.0]);
}
