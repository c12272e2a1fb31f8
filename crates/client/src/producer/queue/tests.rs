//! A partition's batches against a broker that is pure, too: it checks sequences as Kafka does, and
//! loses answers, leaders and state. Nothing is lost, doubled or reordered without being told.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;
use wire::batch::BatchHeader;
use wire::types::ErrorCode;

use super::*;
use crate::producer::record::Record;
use crate::settings::Acks;

const MS: Duration = Duration::from_millis(1);

fn settings() -> ProducerSettings {
    ProducerSettings {
        batch_records: 2,
        linger: Duration::ZERO,
        delivery_timeout: 1000 * MS,
        ..ProducerSettings::default()
    }
}

fn backoff() -> Backoff {
    Backoff::new(10 * MS, 100 * MS)
}

type Results = Rc<RefCell<BTreeMap<u32, Result<Option<i64>, ClientError>>>>;

/// A queue, with what became of its records by their numbers.
struct Bench {
    queue: Queue,
    settings: ProducerSettings,
    now: Instant,
    results: Results,
    added: u32,
    identity: Identity,
}

impl Bench {
    fn new(settings: ProducerSettings) -> Self {
        Self {
            queue: Queue::new(0, false),
            settings,
            now: Instant::now(),
            results: Rc::default(),
            added: 0,
            identity: Identity { id: 7, epoch: 0 },
        }
    }

    fn add(&mut self, records: u32) {
        for _ in 0..records {
            let number = self.added;
            self.added += 1;
            let value = Bytes::copy_from_slice(&number.to_be_bytes());
            let results = Rc::clone(&self.results);
            let done = move |report: Report| {
                let result = report.result.map(|receipt| receipt.offset);
                let before = results.borrow_mut().insert(number, result);
                assert_eq!(before, None, "a report comes once");
            };
            let record = Record::new("t".into(), Some(value));
            let batch = self.queue.open(20, &self.settings, self.now);
            batch.add(&record, 0, Box::new(done), None);
        }
    }

    fn is_due(&self) -> bool {
        self.queue.due(&self.settings, true, self.now) == Due::Now
    }

    fn take(&mut self) -> TakenBatch {
        assert!(self.is_due());
        let identity = self.settings.idempotent.then_some(self.identity);
        self.queue.take(identity).unwrap()
    }

    fn answer(&mut self, number: u64, answered: BatchAnswer) {
        let at = (self.now, 20);
        let settled = self
            .queue
            .answered(number, answered, &self.settings, backoff(), at);
        self.tell(settled);
    }

    fn expire(&mut self) {
        let settled = self.queue.expire(&self.settings, None, self.now);
        self.tell(settled);
    }

    fn tell(&mut self, settled: SettledRecords) {
        if settled.used_up == Some(self.identity.id) {
            self.identity.id += 1;
        }
        settled
            .reports
            .into_iter()
            .for_each(|(done, report)| done(report));
    }

    fn result(&self, number: u32) -> Option<Result<Option<i64>, ClientError>> {
        self.results.borrow().get(&number).cloned()
    }
}

fn written(offset: i64) -> BatchAnswer {
    BatchAnswer::Written {
        offset: Some(offset),
        append_time: None,
    }
}

fn refused(code: ErrorCode) -> BatchAnswer {
    BatchAnswer::Refused(code.into())
}

fn unknown() -> BatchAnswer {
    BatchAnswer::Unknown(ClientError::timed_out("a:1", "Produce"))
}

/// Epoch and first sequence.
fn stamp_of(taken: &TakenBatch) -> (i16, i32) {
    let header = BatchHeader::parse(&taken.bytes).unwrap();
    (header.producer_epoch, header.base_sequence)
}

#[test]
fn five_batches_are_on_their_way_and_no_more() {
    let mut bench = Bench::new(settings());
    bench.add(14);
    let taken: Vec<_> = (0..5).map(|_| bench.take()).collect();
    let stamps: Vec<_> = taken.iter().map(stamp_of).collect();
    assert_eq!(stamps, [(0, 0), (0, 2), (0, 4), (0, 6), (0, 8)]);
    assert!(!bench.is_due());
    bench.answer(taken[0].number, written(100));
    assert_eq!(bench.result(1), Some(Ok(Some(101))));
    assert_eq!(stamp_of(&bench.take()), (0, 10));
}

#[test]
fn without_sequences_one_batch_is_on_its_way() {
    let mut leader = settings();
    (leader.idempotent, leader.acks) = (false, Acks::Leader);
    let mut bench = Bench::new(leader);
    bench.add(4);
    let first = bench.take();
    assert!(!bench.is_due());
    bench.answer(first.number, refused(ErrorCode::NotLeaderOrFollower));
    bench.now += 100 * MS;
    assert_eq!(bench.take(), first, "it is sent again before the next");
}

#[test]
fn a_batch_whose_fate_is_unknown_is_sent_again_as_it_was_and_alone() {
    let mut bench = Bench::new(settings());
    bench.add(6);
    let taken: Vec<_> = (0..3).map(|_| bench.take()).collect();
    for one in &taken {
        bench.answer(one.number, unknown());
    }
    assert!(!bench.is_due(), "there is a pause");
    bench.now += 100 * MS;
    for one in &taken {
        assert_eq!(bench.take(), *one);
        assert!(!bench.is_due(), "those after it wait for it");
        bench.answer(one.number, written(0));
    }
    assert!(bench.queue.is_empty());
}

#[test]
fn later_batches_that_are_out_of_order_wait_for_the_first() {
    let mut bench = Bench::new(settings());
    bench.add(4);
    let (first, second) = (bench.take(), bench.take());
    bench.answer(first.number, refused(ErrorCode::NotEnoughReplicas));
    bench.answer(second.number, refused(ErrorCode::OutOfOrderSequenceNumber));
    bench.now += 100 * MS;
    assert_eq!(bench.take(), first);
    bench.answer(first.number, written(0));
    assert_eq!(bench.take(), second);
}

#[test]
fn the_first_batch_that_is_out_of_order_begins_anew_when_nothing_is_on_its_way() {
    let mut bench = Bench::new(settings());
    bench.add(4);
    let (first, second) = (bench.take(), bench.take());
    bench.answer(first.number, refused(ErrorCode::UnknownProducerId));
    bench.now += 100 * MS;
    assert!(!bench.is_due(), "the second is on its way");
    bench.answer(second.number, unknown());
    bench.now += 100 * MS;
    let again = bench.take();
    assert_eq!((again.number, stamp_of(&again)), (first.number, (1, 0)));
    bench.answer(again.number, written(0));
    assert_eq!(stamp_of(&bench.take()), (1, 2));
}

#[test]
fn after_a_batch_whose_time_was_over_the_next_one_shows_whether_it_is_there() {
    for is_there in [true, false] {
        let mut bench = Bench::new(settings());
        bench.add(4);
        let (first, second) = (bench.take(), bench.take());
        bench.answer(first.number, unknown());
        bench.answer(second.number, unknown());
        bench.now += 2000 * MS;
        // The second batch is as old; only the first one fails in this story.
        let second_since = bench.now;
        bench.queue.batches[1].since = second_since;
        bench.expire();
        assert!(bench.result(0).unwrap().is_err() && bench.result(2).is_none());
        bench.add(2);
        let again = bench.take();
        assert_eq!(again, second, "as it was");
        assert!(!bench.is_due(), "no new sequence before that is known");
        if is_there {
            bench.answer(again.number, written(2));
            assert_eq!(stamp_of(&bench.take()), (0, 4));
        } else {
            let lost = refused(ErrorCode::OutOfOrderSequenceNumber);
            bench.answer(again.number, lost);
            bench.now += 100 * MS;
            assert_eq!(stamp_of(&bench.take()), (1, 0));
        }
    }
}

#[test]
fn a_batch_that_fails_alone_begins_anew() {
    let mut bench = Bench::new(settings());
    bench.add(2);
    let first = bench.take();
    bench.answer(first.number, refused(ErrorCode::InvalidRecord));
    assert!(bench.result(0).unwrap().is_err());
    bench.add(2);
    assert_eq!(stamp_of(&bench.take()), (1, 0));
}

#[test]
fn an_earlier_batch_that_is_written_does_not_show_that_a_later_one_is() {
    let mut bench = Bench::new(settings());
    bench.add(4);
    let (first, second) = (bench.take(), bench.take());
    bench.answer(second.number, refused(ErrorCode::InvalidRecord));
    bench.answer(first.number, written(0));
    bench.add(2);
    assert_eq!(stamp_of(&bench.take()), (1, 0));
}

#[test]
fn a_batch_that_may_be_there_is_never_told_as_refused() {
    for code in [ErrorCode::NotLeaderOrFollower, ErrorCode::NotEnoughReplicas] {
        let mut bench = Bench::new(settings());
        bench.add(2);
        let first = bench.take();
        bench.answer(first.number, unknown());
        bench.now += 100 * MS;
        assert_eq!(bench.take(), first);
        bench.answer(first.number, refused(code));
        bench.now += 2000 * MS;
        bench.expire();
        let error = bench.result(0).unwrap().unwrap_err();
        assert!(error.is_unknown_outcome(), "{error}");
    }
    // Another batch is why it is not sent again.
    let mut bench = Bench::new(settings());
    bench.add(2);
    let first = bench.take();
    bench.answer(first.number, unknown());
    let settled = bench.queue.fail_waiting(&ErrorCode::ProducerFenced.into());
    bench.tell(settled);
    let error = bench.result(0).unwrap().unwrap_err();
    assert!(error.is_unknown_outcome(), "{error}");
    // The last try is over by its answer.
    let mut bench = Bench::new(settings());
    bench.add(2);
    let first = bench.take();
    bench.answer(first.number, unknown());
    bench.now += 100 * MS;
    assert_eq!(bench.take(), first);
    bench.now += 2000 * MS;
    bench.answer(first.number, refused(ErrorCode::NotLeaderOrFollower));
    let error = bench.result(0).unwrap().unwrap_err();
    assert!(error.is_unknown_outcome(), "{error}");
}

#[test]
fn halves_of_a_batch_that_may_be_there_may_be_there() {
    let mut bench = Bench::new(settings());
    bench.add(2);
    let first = bench.take();
    bench.answer(first.number, unknown());
    bench.now += 100 * MS;
    // What a partition takes may have become less since.
    for code in [ErrorCode::NotEnoughReplicas, ErrorCode::MessageTooLarge] {
        let again = bench.take();
        bench.answer(again.number, refused(code));
        bench.now += 100 * MS;
    }
    bench.now += 2000 * MS;
    bench.expire();
    for record in 0..2 {
        let error = bench.result(record).unwrap().unwrap_err();
        assert!(error.is_unknown_outcome(), "{record}: {error}");
    }
}

#[test]
fn a_batch_that_cannot_be_there_is_told_as_refused() {
    let mut bench = Bench::new(settings());
    bench.add(2);
    let first = bench.take();
    bench.answer(first.number, unknown());
    bench.now += 100 * MS;
    let again = bench.take();
    // It follows what the broker does not have: nothing of it is in the log.
    bench.answer(again.number, refused(ErrorCode::OutOfOrderSequenceNumber));
    bench.now += 100 * MS;
    let anew = bench.take();
    assert_eq!(stamp_of(&anew), (1, 0));
    bench.answer(anew.number, refused(ErrorCode::NotEnoughReplicas));
    bench.now += 2000 * MS;
    bench.expire();
    let error = bench.result(0).unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotEnoughReplicas));
}

#[test]
fn used_up_epochs_need_another_id() {
    let mut bench = Bench::new(settings());
    bench.identity.epoch = i16::MAX;
    bench.add(2);
    let first = bench.take();
    bench.answer(first.number, refused(ErrorCode::UnknownProducerId));
    bench.now += 100 * MS;
    bench.identity.epoch = 0;
    let again = bench.take();
    let header = BatchHeader::parse(&again.bytes).unwrap();
    assert_eq!((header.producer_id.0, header.producer_epoch), (8, 0));
}

#[test]
fn a_batch_that_is_too_large_is_sent_in_parts() {
    let mut bench = Bench::new(settings());
    bench.add(4);
    let (first, second) = (bench.take(), bench.take());
    bench.answer(first.number, refused(ErrorCode::MessageTooLarge));
    bench.answer(second.number, refused(ErrorCode::OutOfOrderSequenceNumber));
    let half = bench.take();
    assert_eq!(stamp_of(&half), (0, 0));
    bench.answer(half.number, written(0));
    let half = bench.take();
    assert_eq!(stamp_of(&half), (0, 1));
    bench.answer(half.number, refused(ErrorCode::MessageTooLarge));
    assert_eq!(bench.result(0), Some(Ok(Some(0))));
    let code = bench.result(1).unwrap().unwrap_err().code();
    assert_eq!(code, Some(ErrorCode::MessageTooLarge));
}

#[test]
fn records_linger_unless_it_is_urgent_or_there_is_a_batch() {
    let mut lingering = settings();
    lingering.linger = 5 * MS;
    let mut bench = Bench::new(lingering);
    bench.add(1);
    let due = |bench: &Bench, urgent| bench.queue.due(&bench.settings, urgent, bench.now);
    assert_eq!(due(&bench, false), Due::At(bench.now + 5 * MS));
    assert_eq!(due(&bench, true), Due::Now);
    bench.add(1);
    assert_eq!(due(&bench, false), Due::Now);
    assert_eq!(
        bench.queue.expires_at(&bench.settings),
        Some(bench.now + 1000 * MS)
    );
}

/// A partition of a broker: what is in the log, and the sequences that it expects.
#[derive(Default)]
struct Log {
    records: Vec<u32>,
    epoch: i16,
    next: Option<i32>,
    /// Base sequence and offset of the last five batches.
    last: VecDeque<(i32, i64)>,
}

impl Log {
    fn append(&mut self, bytes: &Bytes) -> BatchAnswer {
        let header = BatchHeader::parse(bytes).unwrap();
        let sequence = header.base_sequence;
        if header.producer_epoch < self.epoch {
            return refused(ErrorCode::InvalidProducerEpoch);
        }
        if header.producer_epoch > self.epoch {
            if sequence != 0 {
                return refused(ErrorCode::OutOfOrderSequenceNumber);
            }
            (self.epoch, self.next) = (header.producer_epoch, None);
            self.last.clear();
        }
        if let Some((_, offset)) = self.last.iter().find(|(base, _)| *base == sequence) {
            return written(*offset);
        }
        match self.next {
            Some(next) if sequence != next => {
                return refused(ErrorCode::OutOfOrderSequenceNumber);
            }
            None if sequence != 0 => return refused(ErrorCode::UnknownProducerId),
            _ => {}
        }
        let offset = i64::try_from(self.records.len()).unwrap();
        for record in wire::batch::records(bytes).unwrap() {
            let value = record.unwrap().value.unwrap();
            self.records
                .push(u32::from_be_bytes(value[..].try_into().unwrap()));
        }
        self.next = Some(sequence_plus(sequence, header.record_count));
        self.last.push_back((sequence, offset));
        if self.last.len() > 5 {
            self.last.pop_front();
        }
        written(offset)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u32),
    Send,
    /// The broker gets the oldest request; its answer arrives.
    Answer,
    /// The broker gets the oldest request; its answer is lost, and so is the connection.
    LoseAnswers,
    /// The connection is lost before the broker gets anything.
    LoseRequests,
    /// The broker refuses the oldest request for a moment.
    Refuse,
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1_u32..5).prop_map(Step::Add),
        3 => Just(Step::Send),
        3 => Just(Step::Answer),
        1 => Just(Step::LoseAnswers),
        1 => Just(Step::LoseRequests),
        1 => Just(Step::Refuse),
        1 => (1_u32..400).prop_map(Step::Wait),
    ]
}

/// Plays a story, and then lets everything arrive.
fn play(steps: &[Step]) -> (Bench, Log) {
    let (mut bench, mut log) = (Bench::new(settings()), Log::default());
    let mut wire: VecDeque<TakenBatch> = VecDeque::new();
    let calm = [Step::Send, Step::Answer, Step::Wait(30)].repeat(300);
    for step in steps.iter().chain(&calm) {
        match *step {
            Step::Add(records) => bench.add(records),
            Step::Send if bench.is_due() => {
                let taken = bench.take();
                wire.push_back(taken);
            }
            Step::Send => {}
            Step::Answer => {
                if let Some(first) = wire.pop_front() {
                    let answered = log.append(&first.bytes);
                    bench.answer(first.number, answered);
                }
            }
            Step::LoseAnswers => {
                let got = wire.len() / 2 + 1;
                for (index, one) in wire.drain(..).enumerate() {
                    if index < got {
                        log.append(&one.bytes);
                    }
                    bench.answer(one.number, unknown());
                }
            }
            Step::LoseRequests => {
                for one in wire.drain(..) {
                    bench.answer(one.number, unknown());
                }
            }
            Step::Refuse => {
                if let Some(first) = wire.pop_front() {
                    bench.answer(first.number, refused(ErrorCode::NotEnoughReplicas));
                }
            }
            Step::Wait(ms) => {
                bench.now += ms * MS;
                bench.expire();
            }
        }
    }
    (bench, log)
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_reordered_without_being_told(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let (bench, log) = play(&steps);
        prop_assert!(bench.queue.is_empty(), "everything is settled");
        // Each record is there at most once, in order.
        prop_assert!(log.records.is_sorted_by(|a, b| a < b), "{:?}", log.records);
        for number in 0..bench.added {
            let place = log.records.iter().position(|one| *one == number);
            match bench.result(number).expect("each has a report") {
                Ok(Some(offset)) => {
                    let place = place.map(|place| i64::try_from(place).unwrap());
                    prop_assert_eq!(place, Some(offset), "record {}", number);
                }
                Ok(None) => prop_assert!(place.is_some()),
                // The caller that gets the error knows that the record may be in the log.
                Err(_) => {}
            }
        }
    }
}
