//! A session against a broker that keeps what it was told.

use proptest::prelude::*;
use wire::types::Uuid;

use super::*;

fn place(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: "t".into(),
        partition,
    }
}

fn ask(offset: i64, topic: u128) -> PartitionAsk {
    PartitionAsk {
        topic_id: TopicId(Uuid::from_u128(topic)),
        offset,
        leader_epoch: 0,
        last_epoch: -1,
        bytes_max: 100,
    }
}

#[test]
fn only_what_changed_is_said() {
    let mut session = FetchSession::default();
    let first = session.ask(vec![(place(0), ask(5, 1)), (place(1), ask(6, 1))]);
    assert_eq!((first.id, first.epoch, first.asked.len()), (0, 0, 2));
    assert!(session.answered(None, 77));
    let second = session.ask(vec![(place(0), ask(9, 1)), (place(1), ask(6, 1))]);
    assert_eq!((second.id, second.epoch), (77, 1));
    assert_eq!(second.asked, [(place(0), ask(9, 1))]);
    assert!(session.answered(None, 77));
    let third = session.ask(vec![(place(1), ask(6, 1)), (place(2), ask(0, 1))]);
    assert_eq!(third.epoch, 2);
    assert_eq!(third.asked, [(place(2), ask(0, 1))]);
    let topic_id = TopicId(Uuid::from_u128(1));
    assert_eq!(third.forgotten, [(place(0), topic_id)]);
    let end = session.end().unwrap();
    assert_eq!((end.id, end.epoch), (77, -1));
    assert_eq!(session.end(), None);
}

#[test]
fn a_topic_that_was_made_anew_is_forgotten_and_asked_for() {
    let mut session = FetchSession::default();
    session.ask(vec![(place(0), ask(5, 1))]);
    session.answered(None, 3);
    let next = session.ask(vec![(place(0), ask(0, 2))]);
    assert_eq!(next.asked, [(place(0), ask(0, 2))]);
    assert_eq!(next.forgotten, [(place(0), TopicId(Uuid::from_u128(1)))]);
}

#[test]
fn errors_begin_a_new_session() {
    for (error, names) in [
        (ErrorCode::FetchSessionIdNotFound, 0),
        (ErrorCode::InvalidFetchSessionEpoch, 9),
    ] {
        let mut session = FetchSession::default();
        session.ask(vec![(place(0), ask(5, 1))]);
        session.answered(None, 9);
        session.ask(vec![(place(0), ask(5, 1))]);
        assert!(!session.answered(Some(error), 0));
        let next = session.ask(vec![(place(0), ask(5, 1))]);
        assert_eq!((next.id, next.epoch, next.asked.len()), (names, 0, 1));
    }
}

#[test]
fn a_broker_without_sessions_is_told_everything_each_time() {
    let mut session = FetchSession::default();
    for _ in 0..3 {
        let next = session.ask(vec![(place(0), ask(5, 1))]);
        assert_eq!((next.id, next.epoch, next.asked.len()), (0, 0, 1));
        assert!(session.answered(None, 0));
    }
}

#[test]
fn a_topic_without_an_id_makes_it_a_session_by_name() {
    let mut session = FetchSession::default();
    assert!(session.ask(vec![(place(0), ask(5, 1))]).by_id);
    session.answered(None, 9);
    let next = session.ask(vec![(place(0), ask(5, 1)), (place(1), ask(5, 0))]);
    assert_eq!(
        (next.by_id, next.epoch, next.id, next.asked.len()),
        (false, 0, 9, 2)
    );
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    Refused,
    Unknown,
    Lost,
    Evicted,
}

proptest! {
    /// Whatever gets lost, a broker reads what is wanted.
    #[test]
    fn the_broker_reads_what_is_wanted(
        steps in proptest::collection::vec(
            (
                proptest::collection::btree_map(0i32..5, (0i64..4, 1u128..3), 1..5),
                prop::sample::select(vec![
                    Fate::Answered, Fate::Answered, Fate::Answered, Fate::Refused, Fate::Unknown,
                    Fate::Lost, Fate::Evicted,
                ]),
            ),
            1..30,
        ),
    ) {
        let mut session = FetchSession::default();
        // The broker's side: partitions by topic id and index, and the epoch it expects.
        let mut theirs: BTreeMap<(u128, i32), i64> = BTreeMap::new();
        let mut expected = 0;
        for (wanted, fate) in steps {
            let wanted: Vec<_> = wanted
                .into_iter()
                .map(|(index, (offset, topic))| (place(index), ask(offset, topic)))
                .collect();
            let request = session.ask(wanted.clone());
            if matches!(fate, Fate::Lost) {
                session.lost();
                continue;
            }
            if request.epoch != 0 && request.epoch != expected {
                prop_assert!(!session.answered(Some(ErrorCode::InvalidFetchSessionEpoch), 0));
                continue;
            }
            if matches!(fate, Fate::Refused | Fate::Unknown) && request.epoch != 0 {
                let code = match fate {
                    Fate::Unknown => ErrorCode::FetchSessionIdNotFound,
                    _ => ErrorCode::InvalidFetchSessionEpoch,
                };
                prop_assert!(!session.answered(Some(code), 0));
                continue;
            }
            if request.epoch == 0 {
                theirs.clear();
            }
            for (place, id) in &request.forgotten {
                theirs.remove(&(id.0.as_u128(), place.partition));
            }
            for (place, ask) in &request.asked {
                theirs.insert((ask.topic_id.0.as_u128(), place.partition), ask.offset);
            }
            let ours: BTreeMap<_, _> = wanted
                .iter()
                .map(|(place, ask)| ((ask.topic_id.0.as_u128(), place.partition), ask.offset))
                .collect();
            prop_assert_eq!(&theirs, &ours);
            expected = if request.epoch == 0 { 1 } else { request.epoch + 1 };
            let id = if matches!(fate, Fate::Evicted) { 0 } else { 5 };
            prop_assert!(session.answered(None, id));
        }
    }
}
