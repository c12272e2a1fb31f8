//! Every way in which one write of a header or a commit is torn; every place at which a commit may
//! begin.

use platform::sim::Rng;

use super::device::SECTOR;
use super::file::{File, bytes_of};
use super::*;
use crate::journal::header::choose;

#[test]
fn a_header_torn_anywhere_leaves_the_old_or_the_new_one() {
    let mut file = File::new(Head::START);
    file.commit(&[bytes_of(1, 0, 5000)]).unwrap();
    let [older, newer] = file.headers.clone();
    file.land_all();
    let next = Header {
        generation: newer.generation + 1,
        head: file.ring.head(),
        ..newer.clone()
    };
    let (kept, old, new) = (
        header_block(&newer),
        header_block(&older),
        header_block(&next),
    );
    assert_eq!(
        Header::place_of(newer.generation),
        0,
        "the newer one is in the first block"
    );
    // Bytes that are not of one sector, too: a header relies on its CRC alone.
    for at in 0..=new.len() {
        for torn in [[&new[..at], &old[at..]], [&old[..at], &new[at..]]] {
            let torn = torn.concat();
            let chosen = choose([&kept, &torn]).unwrap();
            let is_whole = torn == new || torn == old;
            let expect = if torn == new { &next } else { &newer };
            assert_eq!(&chosen.header, expect, "at {at}");
            assert_eq!(chosen.other.is_none(), is_whole, "at {at}");
        }
    }
}

#[test]
fn a_commit_torn_anywhere_over_an_earlier_lap_is_no_commit() {
    let mut rng = Rng::new(5);
    let mut file = File::new(Head::START);
    // Laps of commits as long as the one that is torn, so that fronts lie over fronts.
    let written = |number: u128| {
        vec![
            bytes_of(number, 0, 3 * 4096 - 96),
            WrittenPart::cut(log(9), 7),
        ]
    };
    let mut before = Sequence::FIRST;
    for number in 1..40 {
        file.land_all();
        before = file.commit(&written(number)).unwrap().0;
    }
    let (sequence, place, blocks) = file.reserve(&written(40)).unwrap();
    let old = file.bytes.clone();
    let sectors = blocks.len() / SECTOR;
    let mut subsets: Vec<Vec<bool>> = (0..=sectors)
        .map(|whole| (0..sectors).map(|at| at < whole).collect())
        .collect();
    subsets.extend((0..sectors).map(|lost| (0..sectors).map(|at| at != lost).collect()));
    subsets.extend((0..sectors).map(|kept| (0..sectors).map(|at| at == kept).collect()));
    subsets.extend((0..300).map(|_| (0..sectors).map(|_| rng.chance(50)).collect()));
    for survives in subsets {
        file.bytes.clone_from(&old);
        for (at, _) in survives
            .iter()
            .enumerate()
            .filter(|(_, survives)| **survives)
        {
            file.put(place + at * SECTOR, &blocks[at * SECTOR..(at + 1) * SECTOR]);
        }
        let whole = file.bytes[place..place + blocks.len()] == blocks;
        let mut found = read_back(&file.bytes, file.newest());
        let last = if whole { sequence } else { before };
        assert_eq!(found.commits.last().map(|commit| commit.0), Some(last));
        let expect = if survives[0] && !whole {
            StopReason::Torn
        } else {
            StopReason::End
        };
        assert_eq!(found.stopped, expect, "{survives:?}");
        assert!(!proves_loss(&file.bytes, &mut found.scan));
    }
}

#[test]
fn commits_of_every_length_begin_at_every_place() {
    let blocks = small().bytes() / BLOCK;
    for start in 0..2 * blocks {
        for len in 1..=small().commit_bytes_max() / BLOCK {
            let mut file = File::new(Head {
                position: Position(start * BLOCK),
                sequence: Sequence(50),
            });
            let mut expect = Vec::new();
            let refusal = loop {
                let fill = index_of(len * BLOCK) - 96;
                let written = vec![bytes_of(1, 0, fill)];
                match file.commit(&written) {
                    Ok((sequence, _)) => expect.push((sequence, written)),
                    Err(refusal) => break refusal,
                }
            };
            assert!(matches!(refusal, Refusal::Full { lacking } if lacking <= 2 * len * BLOCK));
            let found = read_back(&file.bytes, file.newest());
            let commits = found.commits.into_iter();
            let commits: Vec<_> = commits
                .filter_map(|(at, parts)| Some((at, parts?)))
                .collect();
            assert_eq!(commits, expect, "{len} blocks each from block {start} on");
            assert_eq!(found.stopped, StopReason::End);
            // The same after another lap, which ends where its last commit does.
            file.land_all();
            let written = [bytes_of(2, 0, index_of(len * BLOCK) - 96)];
            let (sequence, _) = file.commit(&written).unwrap();
            let found = read_back(&file.bytes, file.newest());
            assert_eq!(
                found.commits.last(),
                Some(&(sequence, Some(written.to_vec())))
            );
        }
    }
}

#[test]
fn nothing_of_an_earlier_use_counts() {
    let mut file = File::new(Head::START);
    file.commit(&[bytes_of(1, 0, 100)]).unwrap();
    file.commit(&[bytes_of(1, 100, 100)]).unwrap();
    let mut lost = file.newest().clone();
    lost.incarnation = incarnation(8);
    let mut found = read_back(&file.bytes, &lost);
    assert!(found.commits.is_empty());
    assert_eq!(found.stopped, StopReason::OtherIncarnation);
    assert!(!proves_loss(&file.bytes, &mut found.scan));
}
