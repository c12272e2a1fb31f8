//! Sessions as a client sees them.

use super::*;

fn key(partition: i32) -> Key {
    (TopicKey::Name("cars".into()), partition)
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

fn told(high_watermark: i64, urgent: bool) -> AnswerState {
    AnswerState {
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset::ZERO,
        urgent,
    }
}

fn claim(id: i32, epoch: i32) -> SessionClaim {
    SessionClaim { id, epoch }
}

fn open(sessions: &mut FetchSessions, partitions: &[i32], now: Instant) -> ResolvedFetch {
    let named = partitions.iter().map(|p| (key(*p), wanted(0))).collect();
    sessions
        .resolve(claim(0, 0), false, named, &[], now, 0x1234_5678_9abc_def0)
        .unwrap()
}

#[test]
fn an_incremental_fetch_is_told_only_what_changed() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(10, 0, 1);
    let mut first = open(&mut sessions, &[0, 1], now);
    assert!(first.id > 0 && !first.incremental);
    assert_eq!(
        sessions.answer(&mut first, &[told(5, false), told(7, false)]),
        [true, true]
    );

    let mut second = sessions
        .resolve(claim(first.id, 1), false, vec![], &[], now, 0)
        .unwrap();
    assert_eq!(second.partitions.len(), 2);
    assert_eq!(
        sessions.answer(&mut second, &[told(5, false), told(8, false)]),
        [false, true]
    );

    let mut third = sessions
        .resolve(claim(first.id, 2), false, vec![], &[], now, 0)
        .unwrap();
    assert_eq!(
        sessions.answer(&mut third, &[told(5, true), told(8, false)]),
        [true, false]
    );
}

#[test]
fn partitions_with_data_come_last_the_next_time() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(10, 0, 1);
    let mut first = open(&mut sessions, &[0, 1, 2], now);
    sessions.answer(&mut first, &[told(1, true), told(1, false), told(1, false)]);
    let second = sessions
        .resolve(claim(first.id, 1), false, vec![], &[], now, 0)
        .unwrap();
    let order: Vec<i32> = second.partitions.iter().map(|((_, p), _)| *p).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn a_session_takes_new_partitions_and_forgets_old_ones() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(10, 0, 1);
    let first = open(&mut sessions, &[0, 1], now);
    let named = vec![(key(2), wanted(9)), (key(1), wanted(4))];
    let next = sessions
        .resolve(claim(first.id, 1), false, named, &[key(0)], now, 0)
        .unwrap();
    assert_eq!(next.partitions, [(key(1), wanted(4)), (key(2), wanted(9))]);

    let end = sessions
        .resolve(claim(first.id, 2), false, vec![], &[key(1), key(2)], now, 0)
        .unwrap();
    assert_eq!((end.id, sessions.count()), (0, 0));
}

#[test]
fn wrong_claims_get_kafkas_errors() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(10, 0, 1);
    let id = open(&mut sessions, &[0], now).id;
    let mut ask = |claim, by_id| {
        sessions
            .resolve(claim, by_id, vec![], &[], now, 0)
            .unwrap_err()
    };
    assert_eq!(
        ask(claim(id + 1, 1), false),
        ErrorCode::FetchSessionIdNotFound
    );
    assert_eq!(
        ask(claim(id, 2), false),
        ErrorCode::InvalidFetchSessionEpoch
    );
    assert_eq!(ask(claim(id, 1), true), ErrorCode::FetchSessionTopicIdError);
}

#[test]
fn slots_are_bounded_and_only_idle_sessions_are_evicted() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(1, 0, 1);
    assert!(open(&mut sessions, &[0], now).id > 0);
    assert_eq!(
        open(&mut sessions, &[1], now).id,
        0,
        "no slot: served without a session"
    );
    let later = now + EVICTABLE_AFTER;
    assert!(open(&mut sessions, &[1], later).id > 0);
    assert_eq!((sessions.count(), sessions.evictions()), (1, 1));
}

#[test]
fn ids_name_the_shard() {
    for shard in 0..3 {
        let mut sessions = FetchSessions::new(10, shard, 3);
        let id = open(&mut sessions, &[0], Instant::now()).id;
        assert_eq!(usize::try_from(id).unwrap() % 3, shard);
    }
}

#[test]
fn partitions_that_do_not_exist_cannot_fill_the_memory() {
    let start = Instant::now();
    let mut sessions = FetchSessions::new(1000, 0, 1);
    let many: Vec<i32> = (0..50_000).collect();
    let mut begun = 0;
    let mut ids = Vec::new();
    for number in 0..40 {
        let named = many.iter().map(|p| (key(*p), wanted(0))).collect();
        let random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number + 1);
        let resolved = sessions.resolve(claim(0, 0), false, named, &[], start, random);
        let resolved = resolved.unwrap();
        assert_eq!(
            resolved.partitions.len(),
            many.len(),
            "it is answered all the same"
        );
        if resolved.id != 0 {
            begun += 1;
            ids.push(resolved.id);
        }
    }
    assert!(begun > 0 && begun < 40, "{begun}");
    assert!(sessions.bytes() <= BYTES_MAX);

    // A session that grows beyond the limit gets a last response and ends.
    let more = (50_000..200_000).map(|p| (key(p), wanted(0))).collect();
    let grown = sessions.resolve(claim(ids[0], 1), false, more, &[], start, 0);
    let grown = grown.unwrap();
    assert_eq!((grown.id, grown.partitions.len()), (0, 200_000));
    let gone = sessions.resolve(claim(ids[0], 2), false, vec![], &[], start, 0);
    assert_eq!(gone, Err(ErrorCode::FetchSessionIdNotFound));

    // Idle sessions make room.
    let later = start + EVICTABLE_AFTER;
    assert!(open(&mut sessions, &many, later).id > 0);
    for id in ids {
        sessions.remove(id);
    }
    assert!(sessions.bytes() <= bytes_of(&key(0)) * many.len());
}
