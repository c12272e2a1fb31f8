//! Every way in which one write of a header or a commit is torn; every place at which a commit may
//! begin.

use platform::sim::Rng;

use super::device::{SECTOR, below};
use super::*;
use crate::journal::header::choose;
use crate::journal::ring::Refusal;

const BLOCK_SECTORS: usize = 8;

fn bytes_of(number: u128, position: u32, len: usize) -> Written {
    let fill = u8::try_from(number).unwrap();
    Written::Bytes(log(number), position, vec![fill; len])
}

/// A ring's file, written as the broker writes it.
struct File {
    bytes: Vec<u8>,
    ring: Ring,
    headers: [Header; 2],
}

impl File {
    fn new(end: Head) -> Self {
        let (ring, headers) = opened(end);
        Self {
            bytes: vec![0; index_of(small().file_bytes())],
            ring,
            headers,
        }
    }

    fn newest(&self) -> &Header {
        &self.headers[1]
    }

    /// Returns the place and the blocks of a commit, and writes the skip mark before it.
    fn reserve(&mut self, written: &[Written]) -> Result<(Sequence, usize, Vec<u8>), Refusal> {
        let parts: Vec<_> = written.iter().map(Written::part).collect();
        let ids: Vec<_> = written.iter().map(Written::log).collect();
        let reserved = self.ring.reserve(size_of(&parts).unwrap(), &ids)?;
        if let Some((stamp, skipped)) = reserved.skip {
            self.put(
                index_of(small().place(stamp.position)),
                &skip_block(stamp, skipped),
            );
            self.ring.synced(stamp.sequence);
        }
        let place = index_of(small().place(reserved.stamp.position));
        Ok((
            reserved.stamp.sequence,
            place,
            blocks(reserved.stamp, written),
        ))
    }

    fn put(&mut self, place: usize, bytes: &[u8]) {
        self.bytes[place..place + bytes.len()].copy_from_slice(bytes);
    }

    fn commit(&mut self, written: &[Written]) -> Result<(Sequence, usize), Refusal> {
        let (sequence, place, blocks) = self.reserve(written)?;
        self.put(place, &blocks);
        self.ring.synced(sequence);
        Ok((sequence, place))
    }

    fn land_all(&mut self) {
        while let Some(log) = self.ring.next_to_land() {
            let landing = self.ring.begin_landing(log).expect("all is durable");
            self.ring.end_landing(landing);
        }
        while let Some(header) = self.ring.begin_header() {
            self.ring.header_synced();
            self.headers.rotate_left(1);
            self.headers[1] = header;
        }
    }
}

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
    for survivors in 0..1_u32 << BLOCK_SECTORS {
        let mut torn = old.clone();
        for sector in (0..BLOCK_SECTORS).filter(|sector| survivors & (1 << sector) != 0) {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            torn[range.clone()].copy_from_slice(&new[range]);
        }
        let chosen = choose([&kept, &torn]).unwrap();
        let expect = if torn == new { &next } else { &newer };
        assert_eq!(&chosen.header, expect, "{survivors:b}");
    }
}

#[test]
fn a_commit_torn_anywhere_over_an_earlier_lap_is_no_commit() {
    let mut rng = Rng::new(5);
    let mut file = File::new(Head::START);
    // Laps of commits as long as the one that is torn, so that fronts lie over fronts.
    let written = |number: u128| vec![bytes_of(number, 0, 3 * 4096 - 96), Written::Cut(log(9), 7)];
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
        let found = read_back(&file.bytes, file.newest());
        let last = if whole { sequence } else { before };
        assert_eq!(found.commits.last().map(|commit| commit.0), Some(last));
        let expect = if survives[0] && !whole {
            StopReason::Torn
        } else {
            StopReason::End
        };
        assert_eq!(found.stopped, expect, "{survives:?}");
        assert!(!proves_loss(&file.bytes, &found.scan));
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
    let found = read_back(&file.bytes, &lost);
    assert!(found.commits.is_empty());
    assert_eq!(found.stopped, StopReason::OtherIncarnation);
    assert!(!proves_loss(&file.bytes, &found.scan));
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
            let found = read_back(&rotten, file.newest());
            assert_eq!(found.commits.len(), at, "byte {byte}");
            // The last one may as well never have been acknowledged.
            let is_seen = found.stopped.is_damage() || proves_loss(&rotten, &found.scan);
            assert!(is_seen || at + 1 == places.len(), "byte {byte}");
        }
    }
    // Headers that are too old lead to a later lap.
    let old = file.newest().clone();
    file.land_all();
    for number in 0..6 {
        file.commit(&[bytes_of(1, number * 5000, 5000)]).unwrap();
    }
    let found = read_back(&file.bytes, &old);
    assert!(found.stopped.is_damage(), "{:?}", found.stopped);
}
