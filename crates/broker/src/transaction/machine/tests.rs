//! Answers to producers, step by step; no identity is ever given twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::transaction::state::Entry;

const TIMEOUT_MS: i32 = 60_000;

/// A transactional id whose changes reach the log at once.
struct Id(Transaction);

impl Id {
    fn new() -> Self {
        Self(Transaction::unused(ProducerId(7), TIMEOUT_MS, 0))
    }

    fn at(entry: Entry) -> Self {
        Self(Transaction::loaded(entry))
    }

    fn stored(&mut self, entry: Entry) -> (i64, i16) {
        let identity = (entry.producer_id.0, entry.epoch);
        // Through the log and back.
        let (_, value) = entry.record("id", 2);
        let mut read = Entry::from_record(&value.unwrap()).unwrap().unwrap();
        read.last_epoch = entry.last_epoch;
        assert_eq!(read, entry);
        self.0.settle(Some(entry));
        identity
    }

    fn begin(&mut self, expected: Option<(i64, i16)>) -> Result<(i64, i16), ErrorCode> {
        let expected = expected.map(|(id, epoch)| (ProducerId(id), epoch));
        match self.0.begin(TIMEOUT_MS, expected, Some(ProducerId(8)), 1)? {
            Begin::Store(entry) => Ok(self.stored(entry)),
            Begin::Abort(entry) => {
                self.stored(entry);
                Err(ConcurrentTransactions)
            }
        }
    }

    fn add(&mut self, producer: (i64, i16), partition: i32, version: i16) -> Result<(), ErrorCode> {
        let producer = (ProducerId(producer.0), producer.1);
        let added = self
            .0
            .add(producer, &[("t".to_owned(), partition)], version, 10)?;
        if let Add::Store(entry) = added {
            self.stored(entry);
        }
        Ok(())
    }

    fn end(
        &mut self,
        (id, epoch): (i64, i16),
        commit: bool,
        client_version: i16,
    ) -> Result<(i64, i16), ErrorCode> {
        let request = EndRequest {
            producer_id: ProducerId(id),
            epoch,
            commit,
            client_version,
            fresh: Some(ProducerId(9)),
        };
        match self.0.end(request, 20)? {
            End::Already { producer_id, epoch } => Ok((producer_id.0, epoch)),
            End::Store(entry) => {
                let next = entry.next_producer_id;
                let given = self.stored(entry);
                Ok(if next == ProducerId::NONE {
                    given
                } else {
                    (next.0, 0)
                })
            }
        }
    }

    fn complete(&mut self) {
        let entry = self.0.complete(30).expect("a decision to carry out");
        self.stored(entry);
    }

    fn state(&self) -> TransactionState {
        self.0.entry().state
    }
}

use ErrorCode::{
    ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced,
};

#[test]
fn a_producer_that_ends_its_own_transactions_keeps_its_epoch_in_version_1() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    assert_eq!(me, (7, 0));
    assert_eq!(id.end(me, true, 0), Err(InvalidTxnState), "none has begun");
    id.add(me, 0, 0).unwrap();
    id.add(me, 1, 0).unwrap();
    assert_eq!(id.end(me, true, 0), Ok(me));
    assert_eq!(
        id.end(me, true, 0),
        Err(ConcurrentTransactions),
        "not everywhere"
    );
    assert_eq!(id.end(me, false, 0), Err(InvalidTxnState));
    assert_eq!(id.add(me, 2, 0), Err(ConcurrentTransactions));
    id.complete();
    assert_eq!(id.state(), TransactionState::CompleteCommit);
    assert_eq!(id.end(me, true, 0), Ok(me), "sent again");
    assert_eq!(id.end(me, false, 0), Err(InvalidTxnState));
    id.add(me, 0, 0).unwrap();
    assert_eq!(id.0.entry().partitions.len(), 1, "of this transaction only");
}

#[test]
fn ending_raises_the_epoch_in_version_2() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    id.add(me, 0, 2).unwrap();
    let next = id.end(me, true, 2).unwrap();
    assert_eq!(next, (7, 1));
    assert_eq!(
        id.end(me, true, 2),
        Err(ConcurrentTransactions),
        "sent again too soon"
    );
    id.complete();
    assert_eq!(
        id.end(me, true, 2),
        Ok(next),
        "sent again: the answer was lost"
    );
    assert_eq!(id.end(me, false, 2), Err(InvalidTxnState));
    assert_eq!(
        id.add(me, 0, 2),
        Err(ProducerFenced),
        "a batch that comes late"
    );
    id.add(next, 0, 2).unwrap();
    let third = id.end(next, false, 2).unwrap();
    id.complete();
    assert_eq!(
        id.end(third, false, 2),
        Ok((7, 3)),
        "nothing arrived of it: aborted all the same"
    );
    id.complete();
    assert_eq!(
        id.end((7, 3), true, 2),
        Err(InvalidTxnState),
        "nothing to commit"
    );
}

#[test]
fn a_successor_shuts_its_predecessor_out() {
    let mut id = Id::new();
    let old = id.begin(None).unwrap();
    id.add(old, 0, 0).unwrap();
    assert_eq!(id.begin(None), Err(ConcurrentTransactions), "aborted first");
    assert_eq!(id.state(), TransactionState::PrepareAbort);
    assert_eq!(id.end(old, true, 0), Err(ProducerFenced));
    assert_eq!(id.begin(None), Err(ConcurrentTransactions), "being aborted");
    id.complete();
    let new = id.begin(None).unwrap();
    assert_eq!(
        new,
        (7, 2),
        "one epoch shut the old one out, which did not ask for it"
    );
    id.add(new, 0, 2).unwrap();
    assert_eq!(id.begin(None), Err(ConcurrentTransactions));
    id.complete();
    assert_eq!(
        id.end(new, false, 2),
        Ok((7, 3)),
        "its late abort is one that was sent again"
    );
    let newest = id.begin(None).unwrap();
    assert_eq!(newest, (7, 4));
    assert_eq!(id.end(new, false, 2), Err(ProducerFenced));
    assert_eq!(id.add((7, 3), 0, 2), Err(ProducerFenced));
    let new = newest;
    assert_eq!(id.add(old, 0, 0), Err(ProducerFenced));
    assert_eq!(id.add((6, new.1), 0, 0), Err(InvalidProducerIdMapping));
}

#[test]
fn a_producer_goes_on_after_an_error_and_after_a_lost_answer() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    let next = id.begin(Some(me)).unwrap();
    assert_eq!(next, (7, 1));
    assert_eq!(id.begin(Some(me)), Ok(next), "it did not hear of it");
    let other = id.begin(None).unwrap();
    assert_eq!(id.begin(Some(next)), Err(ProducerFenced));
    assert_eq!(id.begin(Some((5, 0))), Err(ProducerFenced));
    assert_eq!(id.begin(Some(other)), Ok((7, 3)));
}

#[test]
fn when_epochs_run_out_another_producer_id_takes_over() {
    let worn = |state| Entry {
        state,
        epoch: i16::MAX - 1,
        partitions: [("t".to_owned(), 0)].into(),
        start_ms: 0,
        ..Entry::unused(ProducerId(7), TIMEOUT_MS, 0)
    };
    let mut id = Id::at(worn(TransactionState::CompleteCommit));
    assert_eq!(id.begin(None), Ok((8, 0)));
    let mut id = Id::at(worn(TransactionState::Ongoing));
    let me = (7, i16::MAX - 1);
    assert_eq!(id.end(me, true, 2), Ok((9, 0)));
    assert_eq!(
        id.0.entry().epoch,
        i16::MAX,
        "the markers shut the old id out"
    );
    id.complete();
    assert_eq!(
        (id.0.entry().producer_id, id.0.entry().epoch),
        (ProducerId(9), 0)
    );
    assert_eq!(id.end(me, true, 2), Ok((9, 0)), "sent again");
    let mut id = Id::at(worn(TransactionState::Ongoing));
    assert_eq!(id.begin(None), Err(ConcurrentTransactions));
    id.complete();
    assert_eq!(id.begin(None), Ok((8, 0)));
}

#[test]
fn what_takes_too_long_is_aborted_and_what_nobody_uses_goes() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    id.add(me, 0, 0).unwrap();
    let last = 10 + i64::from(TIMEOUT_MS);
    assert_eq!(id.0.time_out(last, last), None);
    let aborted = id.0.time_out(last + 1, last + 1).unwrap();
    assert_eq!(id.0.time_out(last + 1, last + 1), None, "it is on its way");
    id.stored(aborted);
    assert!(!id.0.expire(0, 1_000_000), "it is not carried out yet");
    id.complete();
    assert_eq!(id.end(me, true, 0), Err(ProducerFenced));
    assert!(!id.0.expire(1000, 1029));
    assert!(id.0.expire(1000, 1030));
    assert_eq!(id.begin(None), Err(ConcurrentTransactions), "it is going");
}

#[test]
fn who_took_too_long_may_still_abort_and_go_on() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    id.add(me, 0, 2).unwrap();
    let aborted = id.0.time_out(1 << 40, 1 << 40).unwrap();
    id.stored(aborted);
    assert_eq!(id.end(me, true, 2), Err(InvalidTxnState));
    assert_eq!(id.end(me, false, 2), Err(ConcurrentTransactions));
    id.complete();
    assert_eq!(id.end(me, true, 2), Err(InvalidTxnState));
    let next = id.end(me, false, 2).unwrap();
    assert_eq!(next, (me.0, me.1 + 1));
    id.add(next, 0, 2).unwrap();
    assert_eq!(id.add(me, 0, 2), Err(ProducerFenced));
    id.end(next, true, 2).unwrap();
}

#[test]
fn whose_transaction_took_too_long_goes_on_with_the_epoch_that_shut_it_out() {
    for version in [0, 2] {
        let mut id = Id::new();
        let me = id.begin(None).unwrap();
        id.add(me, 0, version).unwrap();
        let aborted = id.0.time_out(1 << 40, 1 << 40).unwrap();
        assert_eq!((aborted.epoch, aborted.last_epoch), (me.1 + 1, me.1));
        id.stored(aborted);
        id.complete();
        let late = (id.end(me, true, version), id.end(me, false, version));
        let next = (me.0, me.1 + 1);
        if version == 2 {
            assert_eq!(late, (Err(InvalidTxnState), Ok(next)));
        } else {
            assert_eq!(late, (Err(ProducerFenced), Err(ProducerFenced)));
        }
        assert_eq!(id.begin(Some(me)), Ok(next), "{version}");
        assert_eq!(id.begin(None), Ok((me.0, me.1 + 2)), "a successor");
        assert_eq!(id.begin(Some(me)), Err(ProducerFenced), "then it is out");
    }
}

#[test]
fn the_last_epoch_is_given_to_nobody() {
    let mut id = Id::at(Entry {
        epoch: i16::MAX - 1,
        ..Entry::unused(ProducerId(7), TIMEOUT_MS, 0)
    });
    let me = (7, i16::MAX - 1);
    id.add(me, 0, 2).unwrap();
    let aborted = id.0.time_out(1 << 40, 1 << 40).unwrap();
    id.stored(aborted);
    id.complete();
    assert_eq!(id.end(me, false, 2), Err(ProducerFenced));
    assert_eq!(id.begin(Some(me)), Err(ProducerFenced));
    assert_eq!(id.begin(None), Ok((8, 0)));
}

#[test]
fn an_epoch_that_the_log_refused_is_not_raised_twice() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    id.add(me, 0, 0).unwrap();
    let refused = id.0.time_out(1 << 40, 1 << 40).unwrap();
    id.0.settle(None);
    id.0.fencing_failed(refused.epoch);
    assert_eq!(
        id.0.time_out(1 << 40, 1 << 40).unwrap().epoch,
        refused.epoch
    );
}

#[test]
fn only_what_was_added_is_verified() {
    let mut id = Id::new();
    let me = id.begin(None).unwrap();
    id.add(me, 0, 0).unwrap();
    let verify = |id: &Id, (pid, epoch): (i64, i16), partition| {
        let name = ("t".to_owned(), partition);
        id.0.verify((ProducerId(pid), epoch), &name)
    };
    assert_eq!(verify(&id, me, 0), Ok(()));
    assert_eq!(verify(&id, me, 1), Err(ErrorCode::TransactionAbortable));
    assert_eq!(verify(&id, (7, 9), 0), Err(ProducerFenced));
    id.end(me, true, 0).unwrap();
    assert_eq!(verify(&id, me, 0), Err(ConcurrentTransactions));
    id.complete();
    assert_eq!(verify(&id, me, 0), Err(ErrorCode::TransactionAbortable));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(bool),
    Add(bool),
    End { commit: bool, newer: bool },
    Complete,
    TimeOut,
    Refuse,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<bool>().prop_map(Step::Begin),
        any::<bool>().prop_map(Step::Add),
        (any::<bool>(), any::<bool>()).prop_map(|(commit, newer)| Step::End { commit, newer }),
        Just(Step::Complete),
        Just(Step::TimeOut),
        Just(Step::Refuse),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Every `InitProducerId` gets a new identity, the newest of all; a decided transaction never
    /// reverts.
    #[test]
    fn identities_are_new_and_decisions_stand(steps in steps(), worn: bool) {
        let mut id = if worn {
            let epoch = i16::MAX - 4;
            Id::at(Entry { epoch, ..Entry::unused(ProducerId(7), TIMEOUT_MS, 0) })
        } else {
            Id::new()
        };
        let mut given = BTreeSet::new();
        let mut me = None;
        let mut fresh = 100;
        for step in steps {
            let before = id.0.entry().clone();
            match step {
                Step::Begin(again) => {
                    fresh += 1;
                    let expected = me.filter(|_| again);
                    let begun = id.0.begin(TIMEOUT_MS, expected, Some(ProducerId(fresh)), 1);
                    match begun {
                        Ok(Begin::Store(entry)) => {
                            let identity = (entry.producer_id, entry.epoch);
                            id.stored(entry);
                            let repeated = expected.is_some() && before.last_epoch != -1
                                && identity == (before.producer_id, before.epoch);
                            prop_assert!(given.insert(identity) || repeated, "{:?}", identity);
                            me = Some(identity);
                        }
                        Ok(Begin::Abort(entry)) => { id.stored(entry); }
                        Err(_) => {}
                    }
                }
                Step::Add(v2) => if let Some((pid, epoch)) = me {
                    let _ = id.add((pid.0, epoch), 0, if v2 { 2 } else { 0 });
                },
                Step::End { commit, newer } => if let Some((pid, epoch)) = me {
                    let version = if newer { 2 } else { 0 };
                    if let Ok((pid, epoch)) = id.end((pid.0, epoch), commit, version) {
                        me = Some((ProducerId(pid), epoch));
                        given.insert((ProducerId(pid), epoch));
                    }
                },
                Step::Complete => if before.state.is_prepared() { id.complete() },
                Step::TimeOut => if let Some(entry) = id.0.time_out(1 << 40, 1 << 40) {
                    id.stored(entry);
                },
                Step::Refuse => if let Some(entry) = id.0.time_out(1 << 40, 1 << 40) {
                    id.0.settle(None);
                    id.0.fencing_failed(entry.epoch);
                },
            }
            let after = id.0.entry();
            let newer = after.producer_id != before.producer_id || after.epoch >= before.epoch;
            prop_assert!(newer, "an epoch went back");
            if before.state.is_prepared() {
                let stands = after.state == before.state || matches!(
                    (before.state, after.state),
                    (TransactionState::PrepareCommit, TransactionState::CompleteCommit)
                        | (TransactionState::PrepareAbort, TransactionState::CompleteAbort)
                );
                prop_assert!(stands, "{:?} became {:?}", before.state, after.state);
            }
        }
    }
}

/// The clock of the machine is set while a transaction is open.
#[test]
fn setting_the_clock_neither_ends_a_transaction_early_nor_keeps_it_open() {
    const HOUR_MS: i64 = 3_600_000;
    for jump_ms in [-1000 * HOUR_MS, -HOUR_MS, 0, HOUR_MS, 1000 * HOUR_MS] {
        let mut entry = Entry::unused(ProducerId(7), 60_000, 0);
        (entry.state, entry.epoch, entry.start_ms) = (TransactionState::Ongoing, 1, 0);
        let mut open = Transaction::loaded(entry);
        assert_eq!(open.time_out(10_000, 10_000), None);
        for up_ms in (20_000..=60_000).step_by(10_000) {
            let early = open.time_out(up_ms + jump_ms, up_ms);
            assert_eq!(early, None, "{jump_ms} at {up_ms}");
        }
        assert!(
            open.time_out(60_001 + jump_ms, 60_001).is_some(),
            "{jump_ms}"
        );
    }
}

#[test]
fn a_transaction_that_began_in_the_future_has_no_more_time_than_any() {
    for start_ms in [i64::MAX, 1 << 60, -1, i64::MIN] {
        let mut entry = Entry::unused(ProducerId(7), 60_000, 0);
        (entry.state, entry.epoch, entry.start_ms) = (TransactionState::Ongoing, 1, start_ms);
        let mut open = Transaction::loaded(entry);
        let now_ms = 1_700_000_000_000;
        let first = open.time_out(now_ms, 0).is_some();
        assert!(
            first || open.time_out(now_ms, 60_001).is_some(),
            "{start_ms}"
        );
    }
}
