//! The account of a ring, step by step: who is refused, what is durable, what holds the head.

use super::*;
use crate::journal::ring::IN_FLIGHT_MAX;

const START: Sequence = Sequence::FIRST;

fn sequence(number: u64) -> Sequence {
    Sequence(START.0 + number)
}

/// Reserves a block with a part of each of these logs.
fn block(ring: &mut Ring, logs: &[LogId]) -> Result<ReservedRoom, Refusal> {
    let bytes = logs.iter().map(|log| WrittenPart::bytes(*log, 0, vec![1]));
    reserve(ring, &bytes.collect::<Vec<_>>())
}

/// Commits a block for each list of logs; all are durable but the last `in_flight`.
fn ring_of(commits: &[&[LogId]], in_flight: usize) -> Ring {
    let (mut ring, _) = opened(Head::START);
    for logs in commits {
        block(&mut ring, logs).unwrap();
    }
    for number in 0..commits.len() - in_flight {
        ring.synced(sequence(number as u64));
    }
    ring
}

/// Writes both headers; returns what is released then.
fn write_headers(ring: &mut Ring) -> Sequence {
    while ring.begin_header().is_some() {
        assert_eq!(ring.begin_header(), None, "one is written at a time");
        ring.header_synced();
    }
    ring.released().expect("it is open")
}

#[test]
fn nothing_is_given_before_both_headers_are_synced() {
    let mut ring = Ring::after(&found(small(), Head::START, 41), 3, Head::START).unwrap();
    for generation in [42, 43] {
        assert_eq!(block(&mut ring, &[log(1)]), Err(Refusal::Opening));
        assert_eq!(ring.begin_header().unwrap().generation, generation);
        assert_eq!(block(&mut ring, &[log(1)]), Err(Refusal::Opening));
        ring.header_synced();
    }
    assert_eq!(ring.begin_header(), None);
    assert!(block(&mut ring, &[log(1)]).is_ok());
}

#[test]
fn nothing_is_released_before_both_headers_have_passed_what_was_read() {
    let head = Head::START;
    let end = Head {
        position: Position(3 * BLOCK),
        sequence: sequence(2),
    };
    let mut ring = Ring::after(&found(small(), head, 4), 3, end).unwrap();
    // Either header of before still leads a scan to the old head.
    for _ in 0..2 {
        assert_eq!(ring.released(), None);
        ring.begin_header().unwrap();
        assert_eq!(ring.released(), None);
        ring.header_synced();
    }
    assert_eq!(ring.released(), Some(sequence(2)));
}

#[test]
fn the_first_use_of_a_file_begins_at_its_start() {
    let mut ring = Ring::new(ring_id(), small(), 3);
    for generation in [1, 2] {
        let header = ring.begin_header().unwrap();
        assert_eq!((header.generation, header.head), (generation, Head::START));
        ring.header_synced();
    }
    let reserved = block(&mut ring, &[log(1)]).unwrap();
    assert_eq!(reserved.stamp.sequence, Sequence::FIRST);
    assert_eq!(reserved.stamp.position, Position::ZERO);
}

#[test]
fn each_use_has_another_incarnation() {
    let found = found(small(), Head::START, 4);
    for random in [6, 0, u64::MAX] {
        let mut ring = Ring::after(&found, random, Head::START).unwrap();
        let header = ring.begin_header().unwrap();
        assert!(header.incarnation != found.incarnation, "{random}");
    }
}

#[test]
#[should_panic(expected = "a scan does not end before its head")]
fn a_use_begins_where_the_scan_ended() {
    let head = Head {
        position: Position(BLOCK),
        sequence: sequence(1),
    };
    Ring::after(&found(small(), head, 4), 3, Head::START);
}

#[test]
fn what_fits_nowhere_is_refused() {
    let (mut ring, _) = opened(Head::START);
    let longest = index_of(small().commit_bytes_max()) - 96;
    for bytes in [longest + 1, index_of(COMMIT_BYTES_MAX)] {
        let written = [WrittenPart::bytes(log(1), 0, vec![1; bytes])];
        assert_eq!(reserve(&mut ring, &written), Err(Refusal::Unfit));
    }
    assert_eq!(reserve(&mut ring, &[]), Err(Refusal::Unfit));
    reserve(
        &mut ring,
        &[WrittenPart::bytes(log(1), 0, vec![1; longest])],
    )
    .unwrap();
    for _ in 4..16 {
        block(&mut ring, &[log(1)]).unwrap();
    }
    assert_eq!((ring.free_bytes(), ring.in_flight()), (0, 13));
    assert_eq!(
        block(&mut ring, &[log(1)]),
        Err(Refusal::Full { lacking: BLOCK })
    );
}

#[test]
fn no_commit_reaches_beyond_what_both_headers_reserve() {
    let (mut ring, headers) = opened_reserving(Head::START, 8 * BLOCK);
    let end_of = |blocks| Position(blocks * BLOCK);
    assert!(headers.iter().all(|header| header.reserved == end_of(8)));
    for _ in 0..8 {
        block(&mut ring, &[log(1)]).unwrap();
    }
    let refused = |ring: &mut Ring| block(ring, &[log(1)]) == Err(Refusal::Unreserved);
    assert!(refused(&mut ring) && ring.room_bytes() == 0);
    assert_eq!(ring.room_bytes_when_reserved(), 4 * BLOCK, "the longest");
    assert_eq!(
        (ring.reserved_bytes(), ring.reservable_bytes()),
        (0, 8 * BLOCK)
    );
    // Either of them alone has to bound all commits.
    for _ in 0..2 {
        let header = ring.begin_header().unwrap();
        assert_eq!(header.reserved, end_of(16));
        assert!(
            refused(&mut ring),
            "it is not synced, or it is the only one"
        );
        ring.header_synced();
    }
    for _ in 8..16 {
        block(&mut ring, &[log(1)]).unwrap();
    }
    let full = Refusal::Full { lacking: BLOCK };
    assert_eq!(block(&mut ring, &[log(1)]), Err(full));
    assert_eq!(ring.begin_header(), None, "there is no room to be reserved");
}

#[test]
fn what_was_reserved_stays_reserved() {
    let (mut ring, _) = opened_reserving(Head::START, 16 * BLOCK);
    ring.reserve_at_most(8 * BLOCK);
    assert_eq!(ring.begin_header(), None);
    block(&mut ring, &[log(1)]).unwrap();
    ring.synced(START);
    let landing = ring.begin_landing(log(1)).unwrap();
    ring.end_landing(landing);
    let header = ring.begin_header().unwrap();
    assert_eq!(header.reserved, Position(16 * BLOCK));
}

#[test]
fn the_number_in_flight_is_bounded() {
    let size = RingSize::new(1 << 20).unwrap();
    let mut ring = Ring::new(ring_id(), size, 3);
    write_headers(&mut ring);
    let mut given = 0;
    while block(&mut ring, &[log(1)]).is_ok() {
        given += 1;
    }
    assert_eq!(given, IN_FLIGHT_MAX - 1);
    assert_eq!(block(&mut ring, &[log(1)]), Err(Refusal::Busy));
    // One that is late holds all others.
    for number in 1..given {
        assert_eq!(ring.synced(sequence(number as u64)), START);
    }
    assert_eq!(block(&mut ring, &[log(1)]), Err(Refusal::Busy));
    assert_eq!(ring.synced(START), sequence(given as u64));
    assert!(block(&mut ring, &[log(1)]).is_ok());
}

#[test]
fn the_oldest_part_of_any_log_holds_the_head() {
    let mut ring = ring_of(&[&[log(1)], &[log(2)], &[log(1), log(3)]], 0);
    let heads = [(1, 1), (2, 2), (3, 3)];
    for (id, head) in heads {
        assert_eq!(ring.next_to_land(), Some(log(id)));
        let landing = ring.begin_landing(log(id)).unwrap();
        assert_ne!(ring.next_to_land(), Some(log(id)), "it is landing");
        assert_eq!(ring.head().sequence, sequence(head - 1));
        ring.end_landing(landing);
        assert_eq!(ring.head().sequence, sequence(head));
        assert_eq!(write_headers(&mut ring), sequence(head));
    }
    assert_eq!((ring.next_to_land(), ring.used_bytes()), (None, 0));
}

#[test]
fn room_is_released_by_the_second_header() {
    let mut ring = ring_of(&[&[log(1)]], 0);
    let landing = ring.begin_landing(log(1)).unwrap();
    ring.end_landing(landing);
    for used in [BLOCK, 0] {
        ring.begin_header().unwrap();
        assert_eq!(ring.used_bytes(), BLOCK);
        ring.header_synced();
        assert_eq!(ring.used_bytes(), used);
    }
}

#[test]
fn parts_that_come_during_a_landing_stay() {
    // The third is not durable when the landing begins, the fourth comes later.
    let mut ring = ring_of(&[&[log(1)], &[log(1)], &[log(1)]], 1);
    let landing = ring.begin_landing(log(1)).unwrap();
    assert_eq!(landing.below, sequence(2));
    assert_eq!(ring.begin_landing(log(1)), None, "one at a time");
    block(&mut ring, &[log(1)]).unwrap();
    ring.synced(sequence(2));
    ring.synced(sequence(3));
    ring.end_landing(landing);
    assert_eq!(ring.head().sequence, sequence(2));
    let landing = ring.begin_landing(log(1)).unwrap();
    ring.end_landing(landing);
    assert_eq!(ring.head().sequence, sequence(4));
}

#[test]
fn a_landing_that_failed_changes_nothing() {
    let mut ring = ring_of(&[&[log(1)], &[log(2)]], 0);
    let failed = ring.begin_landing(log(1)).unwrap();
    assert_eq!(ring.next_to_land(), Some(log(2)));
    ring.give_up_landing(failed);
    assert_eq!(
        (ring.next_to_land(), ring.head().sequence),
        (Some(log(1)), START)
    );
}

#[test]
fn a_part_that_is_not_durable_neither_lands_nor_is_passed() {
    let mut ring = ring_of(&[&[log(1)], &[log(2)]], 2);
    ring.synced(sequence(1));
    assert_eq!(ring.begin_landing(log(2)), None);
    ring.forget(log(1));
    ring.forget(log(2));
    assert_eq!(
        ring.head().sequence,
        START,
        "the first is still being written"
    );
    ring.synced(START);
    assert_eq!(ring.head().sequence, sequence(2));
}

#[test]
fn a_log_that_is_forgotten_while_it_lands_stays_forgotten() {
    let mut ring = ring_of(&[&[log(1)], &[log(2)]], 0);
    let landing = ring.begin_landing(log(1)).unwrap();
    ring.forget(log(1));
    assert_eq!(ring.head().sequence, sequence(1));
    ring.end_landing(landing.clone());
    ring.give_up_landing(landing);
    assert_eq!(ring.next_to_land(), Some(log(2)));
}

#[test]
fn a_landing_that_was_given_up_does_not_end_the_next_one() {
    let mut ring = ring_of(&[&[log(1)]], 0);
    let failed = ring.begin_landing(log(1)).unwrap();
    ring.give_up_landing(failed.clone());
    let again = ring.begin_landing(log(1)).unwrap();
    assert_eq!((failed.log, failed.below), (again.log, again.below));
    ring.end_landing(failed.clone());
    ring.give_up_landing(failed);
    assert_eq!(ring.begin_landing(log(1)), None, "the second one goes on");
    assert_eq!(ring.head().sequence, START);
    ring.end_landing(again);
    assert_eq!(ring.head().sequence, sequence(1));
}

#[test]
fn a_log_does_not_land_before_its_cut_is_durable() {
    let mut ring = ring_of(&[&[log(1)], &[log(2)]], 0);
    let cut = [
        WrittenPart::cut(log(1), 0),
        WrittenPart::bytes(log(1), 0, vec![1; 9]),
    ];
    reserve(&mut ring, &cut).unwrap();
    // Parts after it change nothing.
    block(&mut ring, &[log(1)]).unwrap();
    ring.synced(sequence(3));
    assert_eq!(ring.begin_landing(log(1)), None);
    assert_eq!(ring.next_to_land(), Some(log(2)));
    ring.synced(sequence(2));
    assert_eq!(ring.next_to_land(), Some(log(1)));
    assert!(ring.begin_landing(log(1)).is_some());
}

#[test]
fn what_is_later_has_no_distance() {
    assert_eq!(Position(8).since(Position(5)), Some(3));
    assert_eq!(Position(5).since(Position(8)), None);
}
