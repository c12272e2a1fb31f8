//! Files that no crash leaves: a start tells damage from an end, and does not use a damaged ring
//! again.

use platform::sim::Rng;

use super::device::below;
use super::file::{File, bytes_of};
use super::*;

const LENGTH: StopReason = StopReason::Impossible("its length");

/// A part that makes a commit of this number of blocks.
fn blocks_of(blocks: u64) -> [WrittenPart; 1] {
    [bytes_of(1, 0, index_of(blocks * BLOCK) - 96)]
}

/// A ring that begins at this block of the first lap.
fn file_at(block: u64) -> File {
    File::new(head_at(block))
}

fn head_at(block: u64) -> Head {
    Head {
        position: Position(block * BLOCK),
        sequence: Sequence(50),
    }
}

#[test]
fn damage_before_a_commit_that_was_acknowledged_is_not_taken_for_a_crash() {
    let mut file = File::new(Head::START);
    let mut places = Vec::new();
    for number in 0..6 {
        places.push(file.commit(&[bytes_of(1, number * 5000, 5000)]).unwrap().1);
    }
    let mut rng = Rng::new(1);
    for (at, place) in places.iter().enumerate() {
        for byte in [0, 3, 9, 17, 25, 33, 41, 45, 100, below(&mut rng, 8192)] {
            let mut rotten = file.bytes.clone();
            rotten[place + byte] ^= 0x20;
            let mut found = read_back(&rotten, file.newest());
            assert_eq!(found.commits.len(), at, "byte {byte}");
            // The last one may as well never have been acknowledged.
            let is_seen = found.stopped.is_damage() || proves_loss(&rotten, &mut found.scan);
            assert!(is_seen || at + 1 == places.len(), "byte {byte}");
            assert_eq!(found.scan.end().is_none(), is_seen, "byte {byte}");
        }
    }
}

#[test]
fn headers_that_are_too_old_lead_to_a_later_lap() {
    let mut file = File::new(Head::START);
    let old = file.newest().clone();
    for _ in 0..2 {
        file.land_all();
        for number in 0..6 {
            file.commit(&[bytes_of(1, number * 5000, 5000)]).unwrap();
        }
    }
    let found = read_back(&file.bytes, &old);
    assert!(found.stopped.is_damage(), "{:?}", found.stopped);
}

#[test]
fn headers_that_are_too_old_are_found_where_no_commit_begins() {
    for reserve in 8..=16 {
        let mut file = File::reserving(head_at(1), reserve * BLOCK);
        let old = file.newest().clone();
        for _ in 0..2 {
            for _ in 0..5 {
                file.commit(&blocks_of(3)).unwrap();
            }
            file.land_all();
        }
        // The old head leads into the middle of the first of these.
        for _ in 0..6 {
            file.commit(&blocks_of(2)).unwrap();
        }
        let mut found = read_back(&file.bytes, &old);
        assert_eq!((found.commits.len(), found.stopped), (0, StopReason::End));
        assert!(proves_loss(&file.bytes, &mut found.scan), "{reserve}");
        assert_eq!(found.scan.stopped(), Some(StopReason::Lost));
        assert_eq!(found.scan.end(), None, "such a ring is not used");
    }
}

#[test]
fn a_head_that_was_written_over_is_found_by_what_begins_before_it() {
    for longest in 2..=4 {
        let mut file = File::reserving(head_at(0), 8 * BLOCK);
        file.commit(&blocks_of(3)).unwrap();
        file.land_all();
        // From here on the headers get lost.
        let old = file.newest().clone();
        assert_eq!(old.head.position, Position(3 * BLOCK));
        for _ in 0..3 {
            file.commit(&blocks_of(4)).unwrap();
        }
        file.land_all();
        file.commit(&blocks_of(1)).unwrap();
        file.land_all();
        file.commit(&blocks_of(4 - longest.min(3))).unwrap();
        let (_, place) = file.commit(&blocks_of(longest)).unwrap();
        assert!(place < index_of(small().place(old.head.position)));
        let mut found = read_back(&file.bytes, &old);
        assert_eq!((found.commits.len(), found.stopped), (0, StopReason::End));
        assert!(proves_loss(&file.bytes, &mut found.scan), "{longest}");
    }
}

#[test]
fn headers_that_are_older_than_commits_beyond_their_reserve_are_damage() {
    let mut file = File::reserving(head_at(3), 8 * BLOCK);
    let old = file.newest().clone();
    let mut places = Vec::new();
    while let Ok((_, place)) = file.commit(&blocks_of(2)) {
        places.push(place);
    }
    assert_ne!(&old, file.newest(), "a header was needed");
    let whole = read_back(&file.bytes, file.newest());
    assert_eq!(whole.stopped, StopReason::End);
    let found = read_back(&file.bytes, &old);
    let beyond = StopReason::Impossible("a commit beyond what the headers reserve");
    assert_eq!((found.commits.len(), found.stopped), (4, beyond));
    assert_eq!(found.scan.end(), None, "such a ring is not used");
    // The same where one before that is missing.
    for place in &places[..4] {
        let mut rotten = file.bytes.clone();
        rotten[place + 5000] ^= 1;
        let mut found = read_back(&rotten, &old);
        assert_eq!(found.stopped, StopReason::Torn);
        assert!(proves_loss(&rotten, &mut found.scan));
    }
}

#[test]
fn what_the_headers_reserve_has_every_proof_that_the_whole_ring_has() {
    let mut rng = Rng::new(7);
    let (mut proofs, mut looked_at, mut all) = (0, 0, 0);
    for reserve in 8..=16 {
        let mut file = File::reserving(head_at(5), reserve * BLOCK);
        for _ in 0..40 {
            if rng.chance(30) {
                file.land_all();
            }
            let blocks = 1 + rng.below(3);
            let _ = file.commit(&blocks_of(blocks));
            let whole = read_back(&file.bytes, file.newest());
            assert_eq!(whole.stopped, StopReason::End);
            let ends = whole.commits.len();
            for missing in 0..ends {
                let rotten = without(&file, missing);
                let mut found = read_back(&rotten, file.newest());
                let mut same = found.scan.clone();
                let is_seen = proves_loss(&rotten, &mut found.scan);
                assert_eq!(is_seen, any_proves_loss(&rotten, &mut same));
                // The last one has no witness, nor has a skip mark right before it.
                assert!(is_seen || missing + 2 >= ends, "{missing} of {ends}");
                proofs += u32::from(is_seen);
                looked_at += suspects(&rotten, &found.scan).len();
                all += index_of(small().bytes() / BLOCK);
            }
        }
    }
    assert!(proofs > 300, "{proofs}");
    assert!(looked_at * 5 < all * 4, "{looked_at} of {all}");
}

/// Returns a file in which the commit or skip mark with this number, from the head on, has rotted.
fn without(file: &File, number: usize) -> Vec<u8> {
    let mut scan = Scan::new(file.newest());
    for _ in 0..number {
        let place = index_of(scan.wanted().unwrap().place);
        let longest = index_of(small().commit_bytes_max());
        let end = file.bytes.len().min(place + longest);
        scan.take(&file.bytes[place..end]);
    }
    let mut rotten = file.bytes.clone();
    rotten[index_of(scan.wanted().unwrap().place) + 100] ^= 1;
    rotten
}

#[test]
fn a_file_that_ends_within_its_ring_is_damage() {
    let mut file = File::new(Head::START);
    for _ in 0..3 {
        file.commit(&blocks_of(2)).unwrap();
    }
    // Three commits, and the block in which the end is seen.
    let needed = RING_START + 7 * BLOCK;
    for len in (RING_START..=small().file_bytes()).step_by(512) {
        let found = read_back(&file.bytes[..index_of(len)], file.newest());
        let expect = if len < needed {
            StopReason::Impossible("the file ends within its ring")
        } else {
            StopReason::End
        };
        assert_eq!(found.stopped, expect, "{len}");
        assert_eq!(found.scan.end().is_some(), len >= needed);
    }
}

#[test]
fn a_length_that_was_never_written_is_no_tear() {
    let over_the_longest = 4 * 4096 + 1;
    let past_the_lap = 2 * 4096 + 1;
    // The second commit begins one block later.
    for (start, length) in [(1, over_the_longest), (13, past_the_lap)] {
        let mut file = file_at(start);
        file.commit(&blocks_of(1)).unwrap();
        let (_, place) = file.commit(&[WrittenPart::cut(log(1), 5)]).unwrap();
        let lengths = [0, 48, 95, length, u32::MAX].map(|length| (40, length));
        // Without parts it is a skip mark; more of them need a longer commit.
        for (at, number) in lengths.into_iter().chain([(44, 0), (44, 2)]) {
            let mut bytes = file.bytes.clone();
            bytes[place + at..place + at + 4].copy_from_slice(&number.to_be_bytes());
            let found = read_back(&bytes, file.newest());
            assert_eq!(found.commits.len(), 1);
            assert_eq!(found.stopped, LENGTH, "{number} at {at}");
        }
    }
}

#[test]
fn a_skip_mark_leads_to_the_start_of_the_ring_and_nowhere_else() {
    let mut file = file_at(8);
    for _ in 0..7 {
        file.commit(&blocks_of(2)).unwrap();
    }
    // Two blocks before the head, in the middle of the next lap.
    let stamp = Stamp {
        incarnation: file.newest().incarnation,
        sequence: Sequence(57),
        position: Position(22 * BLOCK),
        synced_below: Sequence(57),
    };
    for skipped in [1, 2, 3, 10] {
        file.put(
            index_of(small().place(stamp.position)),
            &skip_block(stamp, skipped * BLOCK),
        );
        let found = read_back(&file.bytes, file.newest());
        assert_eq!((found.commits.len(), found.stopped), (7, LENGTH));
    }
}
