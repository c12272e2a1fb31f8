//! Sessions processed in pieces and at once: the same results, and no turn of more than a piece.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use platform::clock::Instant;
use proptest::prelude::*;
use wire::types::{LeaderEpoch, Offset};

use super::*;
use crate::fetch_session::{TopicKey, bytes_of};

/// Returns a future's output, and how often the future yielded.
fn turns<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for turns in 0.. {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return (output, turns);
        }
    }
    unreachable!("it ends")
}

fn key(partition: i32) -> Key {
    let topic = ["cars", "trams", "trains"][usize::try_from(partition).unwrap() % 3];
    (TopicKey::Name(topic.into()), partition / 3)
}

fn wanted(offset: i64) -> PartitionFetch {
    PartitionFetch {
        current_leader_epoch: LeaderEpoch::NONE,
        fetch_offset: Offset(offset),
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset(-1),
        max_bytes: 1 << 20,
    }
}

fn asked(
    id: i32,
    epoch: i32,
    named: impl Iterator<Item = i32>,
    forgotten: Vec<Key>,
) -> SessionRequest {
    SessionRequest {
        claim: SessionClaim { id, epoch },
        by_id: false,
        named: named.map(|one| (key(one), wanted(epoch.into()))).collect(),
        forgotten,
    }
}

fn told(mark: u8) -> AnswerState {
    AnswerState {
        high_watermark: Offset((mark / 2).into()),
        log_start_offset: Offset::ZERO,
        urgent: mark.is_multiple_of(2),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Tests any sequence of fetches in a session, some with many partitions and some with few.
    #[test]
    fn a_session_in_turns_answers_as_one_at_once(
        first in 1..3000_i32,
        steps in prop::collection::vec((0..3000_i32, 0..600_i32, 0..2000_i32, any::<u8>()), 1..6),
    ) {
        let now = Instant::now();
        let whole = RefCell::new(FetchSessions::new(10, 0, 1));
        let pieces = RefCell::new(FetchSessions::new(10, 0, 1));
        let (mut id, mut epoch) = (0, 0);
        let steps = std::iter::once((0, first, 0, 1)).chain(steps);
        for (from, count, forgets, mark) in steps {
            let forgotten: Vec<Key> = (from..from + forgets).map(key).collect();
            let ask = || asked(id, epoch, from..from + count, forgotten.clone());
            let at_once = {
                let SessionRequest { claim, by_id, named, forgotten } = ask();
                whole.borrow_mut().resolve(claim, by_id, named, &forgotten, now, 7)
            };
            // In pieces, however few partitions there are.
            let (in_turns, _) = turns(resolve_many(&pieces, ask(), now, 7));
            prop_assert_eq!(&at_once, &in_turns);
            let Ok(mut resolved) = at_once else { break };
            let mut of_pieces = resolved.clone();
            let tell: Vec<AnswerState> = (0..resolved.partitions.len())
                .map(|index| told(mark.wrapping_mul(u8::try_from(index % 251).unwrap())))
                .collect();
            let mentioned = whole.borrow_mut().answer(&mut resolved, &tell);
            prop_assert_eq!(mentioned, turns(answer_many(&pieces, &mut of_pieces, &tell)).0);
            prop_assert_eq!(whole.borrow().bytes(), pieces.borrow().bytes());
            prop_assert_eq!(whole.borrow().count(), pieces.borrow().count());
            id = resolved.id;
            epoch += 1;
        }
    }
}

#[test]
fn a_large_session_is_never_worked_on_for_more_than_a_piece_at_a_time() {
    const COUNT: i32 = 50_000;
    let sessions = RefCell::new(FetchSessions::new(10, 0, 1));
    let now = Instant::now();
    let least = usize::try_from(COUNT).unwrap() / PIECE;
    let (first, rested) = turns(resolve(&sessions, asked(0, 0, 0..COUNT, vec![]), now, 7));
    let mut first = first.unwrap();
    assert!(first.id > 0 && rested >= least, "{rested} turns");
    let tell: Vec<AnswerState> = (0..COUNT).map(|one| told(u8::from(one == 7))).collect();
    let (mentioned, rested) = turns(answer(&sessions, &mut first, &tell));
    assert_eq!(mentioned.len(), tell.len());
    assert!(rested >= least, "{rested} turns to tell");
    // A request of a few bytes.
    let (next, rested) = turns(resolve(&sessions, asked(first.id, 1, 0..0, vec![]), now, 7));
    assert_eq!(next.unwrap().partitions.len(), tell.len());
    assert!(rested >= least, "{rested} turns to list");
    let forgotten = (0..COUNT).map(key).collect();
    let (last, rested) = turns(resolve(
        &sessions,
        asked(first.id, 2, 0..0, forgotten),
        now,
        7,
    ));
    assert_eq!((last.unwrap().id, sessions.borrow().bytes()), (0, 0));
    assert!(rested >= 2 * least, "{rested} turns to forget");
    // A session of few partitions does not yield.
    let few = asked(0, 0, 0..3, vec![]);
    assert_eq!(turns(resolve(&sessions, few, now, 7)).1, 0);
}

#[test]
fn a_session_that_is_worked_on_refuses_others_and_goes_with_who_gives_up() {
    let sessions = RefCell::new(FetchSessions::new(10, 0, 1));
    let now = Instant::now();
    let (first, _) = turns(resolve(&sessions, asked(0, 0, 0..5000, vec![]), now, 7));
    let id = first.unwrap().id;
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut working = pin!(resolve(&sessions, asked(id, 1, 0..0, vec![]), now, 7));
        assert!(working.as_mut().poll(&mut context).is_pending());
        for epoch in [1, 2] {
            let (other, _) = turns(resolve(&sessions, asked(id, epoch, 0..3, vec![]), now, 7));
            assert_eq!(other, Err(ErrorCode::InvalidFetchSessionEpoch));
        }
        let held = sessions.borrow().bytes();
        assert!(held > 0, "what is out is counted");
    }
    assert_eq!(
        (sessions.borrow().count(), sessions.borrow().bytes()),
        (0, 0)
    );
    let (gone, _) = turns(resolve(&sessions, asked(id, 2, 0..3, vec![]), now, 7));
    assert_eq!(gone, Err(ErrorCode::FetchSessionIdNotFound));
}

/// One client has a large session; another client ends it while it is being processed, and a third
/// client's new session happens to get the same id. `work` then continues with the first session.
fn with_an_id_that_is_given_out_again(work: impl AsyncFnOnce(&Sessions, ResolvedFetch)) {
    let sessions = RefCell::new(FetchSessions::new(10, 0, 1));
    let now = Instant::now();
    let (first, _) = turns(resolve(&sessions, asked(0, 0, 0..5000, vec![]), now, 7));
    let first = first.unwrap();
    let id = first.id;
    let mut context = Context::from_waker(Waker::noop());
    let third = {
        let mut working = Box::pin(work(&sessions, first));
        assert!(working.as_mut().poll(&mut context).is_pending());
        let (ended, _) = turns(resolve(&sessions, asked(id, -1, 0..0, vec![]), now, 7));
        assert_eq!(ended.unwrap().id, 0);
        let (third, _) = turns(resolve(&sessions, asked(0, 0, 0..3, vec![]), now, 7));
        let third = third.unwrap();
        assert_eq!(third.id, id, "the same id");
        turns(working);
        third
    };
    // The session has its own client's partitions, and no answers so far.
    let (next, _) = turns(resolve(&sessions, asked(id, 1, 0..0, vec![]), now, 7));
    let mut next = next.unwrap();
    let keys: Vec<Key> = next.partitions.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!((next.id, keys), (id, (0..3).map(key).collect()));
    let (mentioned, _) = turns(answer(&sessions, &mut next, &[told(9); 3]));
    assert_eq!(mentioned, [true; 3]);
    let bytes = third.partitions.iter().map(|(key, _)| bytes_of(key));
    assert_eq!(sessions.borrow().bytes(), bytes.sum::<usize>());
}

#[test]
fn what_a_session_remembers_never_gets_into_another_that_has_its_id_by_now() {
    let now = Instant::now();
    let go_on = async |sessions: &Sessions, first: ResolvedFetch| {
        let next = resolve(sessions, asked(first.id, 1, 0..0, vec![]), now, 7).await;
        let next = next.unwrap();
        assert_eq!(
            (next.id, next.partitions.len()),
            (0, 5000),
            "told that it is over"
        );
    };
    with_an_id_that_is_given_out_again(go_on);
    // All partitions leave the session.
    let end = async |sessions: &Sessions, first: ResolvedFetch| {
        let all = (0..5000).map(key).collect();
        let last = resolve(sessions, asked(first.id, 1, 0..0, all), now, 7).await;
        assert_eq!(last.unwrap().id, 0);
    };
    with_an_id_that_is_given_out_again(end);
}

#[test]
fn a_client_that_goes_away_takes_no_session_along_that_has_its_id_by_now() {
    let sessions = RefCell::new(FetchSessions::new(10, 0, 1));
    let now = Instant::now();
    let (first, _) = turns(resolve(&sessions, asked(0, 0, 0..5000, vec![]), now, 7));
    let id = first.unwrap().id;
    let mut context = Context::from_waker(Waker::noop());
    let mut working = Box::pin(resolve(&sessions, asked(id, 1, 0..0, vec![]), now, 7));
    assert!(working.as_mut().poll(&mut context).is_pending());
    drop(turns(resolve(
        &sessions,
        asked(id, -1, 0..0, vec![]),
        now,
        7,
    )));
    let (third, _) = turns(resolve(&sessions, asked(0, 0, 0..3, vec![]), now, 7));
    assert_eq!(third.unwrap().id, id, "the same id");
    drop(working);
    let (next, _) = turns(resolve(&sessions, asked(id, 1, 0..0, vec![]), now, 7));
    assert_eq!(next.unwrap().partitions.len(), 3);
}

#[test]
fn an_answer_to_one_client_tells_nothing_to_the_session_that_has_its_id_by_now() {
    // Many and few partitions, answered and withheld.
    for (count, is_told) in [(5000, true), (3, true), (5000, false), (3, false)] {
        let sessions = RefCell::new(FetchSessions::new(10, 0, 1));
        let now = Instant::now();
        let (first, _) = turns(resolve(&sessions, asked(0, 0, 0..count, vec![]), now, 7));
        let mut first = first.unwrap();
        let id = first.id;
        drop(turns(resolve(
            &sessions,
            asked(id, -1, 0..0, vec![]),
            now,
            7,
        )));
        let (third, _) = turns(resolve(&sessions, asked(0, 0, 0..3, vec![]), now, 7));
        assert_eq!(third.unwrap().id, id, "the same id");
        if is_told {
            let tell = vec![told(9); first.partitions.len()];
            let (mentioned, _) = turns(answer(&sessions, &mut first, &tell));
            assert_eq!(mentioned, vec![true; tell.len()]);
            assert_eq!(first.id, 0, "told that it is over");
        } else {
            assert_eq!(sessions.borrow_mut().withhold(&first), 0);
        }
        let (next, _) = turns(resolve(&sessions, asked(id, 1, 0..0, vec![]), now, 7));
        let mut next = next.unwrap();
        let (mentioned, _) = turns(answer(&sessions, &mut next, &[told(9); 3]));
        assert_eq!(mentioned, [true; 3], "{count}, {is_told}");
    }
}
