//! Any bytes as a file: a value or a reason, never a panic, never more than a commit at a time.

use platform::sim::Rng;
use proptest::prelude::*;

use super::device::below;
use super::*;
use crate::journal::commit::{CommitError, Front};
use crate::journal::header::choose;

/// Commits and skip marks, which have no parts.
type Commits = Vec<(Sequence, Option<Vec<WrittenPart>>)>;

/// Reads a file as a start does, and begins the next use of its ring.
fn read(file: &[u8]) -> Option<Commits> {
    let block = |number: usize| file.chunks(index_of(BLOCK)).nth(number).unwrap_or_default();
    let header = choose([block(0), block(1)]).ok()?.header;
    // Its length is a size of a ring, whatever the file has.
    let mut found = read_back(file, &header);
    let is_damage = found.stopped.is_damage() || proves_loss(file, &mut found.scan);
    match found.scan.end() {
        Some(end) => reopen(&header, end),
        None => assert!(is_damage, "an end is a place to go on"),
    }
    Some(found.commits)
}

/// Opens the ring for its next use, as a start does.
fn reopen(header: &Header, end: Head) {
    let Some(mut ring) = Ring::after(header, 5, end) else {
        let largest = header.generation.max(end.position.0).max(end.sequence.0);
        assert!(largest > 1 << 61);
        return;
    };
    while let Some(header) = ring.begin_header() {
        assert_eq!(Header::decode(&header_block(&header)), Ok(header));
        ring.header_synced();
    }
    assert_eq!(ring.used_bytes(), 0);
}

/// Returns a file with three commits and a right header.
fn whole_file() -> Vec<u8> {
    let (mut ring, headers) = opened(Head {
        position: Position(small().bytes() - 2 * BLOCK),
        sequence: Sequence(9),
    });
    let mut file = vec![0; index_of(small().file_bytes())];
    for header in headers {
        let place = index_of(Header::place_of(header.generation));
        file[place..place + index_of(BLOCK)].copy_from_slice(&header_block(&header));
    }
    for len in [100, 9000, 4000] {
        let written = [
            WrittenPart::cut(log(2), 5),
            WrittenPart::bytes(log(1), 0, vec![7; len]),
        ];
        let reserved = reserve(&mut ring, &written).unwrap();
        let skip = reserved
            .skip
            .map(|(stamp, skipped)| (stamp, skip_block(stamp, skipped)));
        let commit = (reserved.stamp, blocks(reserved.stamp, &written));
        for (stamp, blocks) in skip.into_iter().chain([commit]) {
            let place = index_of(small().place(stamp.position));
            file[place..place + blocks.len()].copy_from_slice(&blocks);
        }
    }
    file
}

#[test]
fn the_whole_file_is_read() {
    let commits = read(&whole_file()).unwrap();
    let are_skips: Vec<_> = commits.iter().map(|(_, parts)| parts.is_none()).collect();
    assert_eq!(are_skips, [false, true, false, false]);
}

#[test]
fn fronts_and_entries_of_any_numbers_hold_together() {
    let stamp = Stamp {
        incarnation: incarnation(7),
        sequence: Sequence(9),
        position: Position(BLOCK),
        synced_below: Sequence(8),
    };
    let written: Vec<_> = (1_u32..=20)
        .map(|number| match number % 3 {
            0 => WrittenPart::cut(log(u128::from(number)), number),
            _ => WrittenPart::bytes(log(u128::from(number)), number, vec![7; 300]),
        })
        .collect();
    let commit = blocks(stamp, &written);
    let (mut rng, mut decoded, mut impossible) = (Rng::new(3), 0, 0);
    for _ in 0..20_000 {
        let mut bytes = commit.clone();
        // A field of the front behind the incarnation, or of an entry.
        let field = 4 * (4 + below(&mut rng, 8 + 12 * written.len()));
        let number = match below(&mut rng, 4) {
            0 => u32::try_from(rng.below(1 << 32)).unwrap(),
            1 => u32::try_from(rng.below(1 << 14)).unwrap(),
            _ => u32::from_be_bytes(bytes[field..field + 4].try_into().unwrap()),
        };
        let number = number.wrapping_add_signed([-48, -1, 0, 1, 48][below(&mut rng, 5)]);
        bytes[field..field + 4].copy_from_slice(&number.to_be_bytes());
        let Some(front) = Front::parse(&bytes) else {
            continue;
        };
        let size = index_of(front.size()).min(bytes.len()).max(8);
        let crc = wire::crc::crc32c(&bytes[8..size]);
        bytes[4..8].copy_from_slice(&crc.to_be_bytes());
        let front = Front::parse(&bytes).expect("only its CRC is another");
        match front.decode(&bytes) {
            Ok(commit) => {
                decoded += 1;
                let parts = owned(&commit);
                assert_eq!(front.is_skip(), parts.is_empty());
                if !front.is_skip() {
                    // What was taken for a commit is one: it is written the same.
                    let again = blocks(front.stamp, &parts);
                    assert_eq!(again.len(), size);
                    let length = parts.iter().map(|part| 48 + part.part().bytes().len());
                    let length = 48 + length.sum::<usize>();
                    assert_eq!(again[8..length], bytes[8..length]);
                }
            }
            Err(CommitError::Impossible(_)) => impossible += 1,
            Err(CommitError::Torn) => assert!(index_of(front.size()) > bytes.len() || size == 8),
        }
    }
    assert!(
        decoded > 1000 && impossible > 1000,
        "{decoded}, {impossible}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_that_are_changed_and_cut_off(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        len in prop_oneof![Just(73_728), 8_192_usize..=73_728, 0_usize..=73_728],
        headers in any::<bool>(),
    ) {
        let whole = whole_file();
        prop_assert_eq!(whole.len(), 73_728);
        let mut file = whole.clone();
        let from = if headers { 0 } else { 8_192 };
        for (at, byte) in changes {
            file[from + at.index(73_728 - from)] = byte;
        }
        if headers {
            repair(&mut file);
        }
        file.truncate(len);
        let found = read(&file);
        if file.get(..8_192) == Some(&whole[..8_192]) {
            let (found, all) = (found.unwrap(), read(&whole).unwrap());
            prop_assert!(all.starts_with(&found), "{:?}", found);
        }
    }

    #[test]
    fn numbers_of_a_header_at_their_limits(
        fields in prop::collection::vec((0_usize..8, prop::sample::select(vec![
            0, 1, u64::MAX, 1 << 61, (1 << 61) + 1, 1 << 62, BLOCK, 64 << 30, 1 << 63,
        ])), 1..4),
    ) {
        let mut file = whole_file();
        for (field, number) in fields {
            for block in [0, 4096] {
                // The two are neighbours.
                let number = if field == 0 && block == 0 { number & !1 } else { number };
                let number = if field == 0 && block == 4096 { number | 1 } else { number };
                let at = block + 16 + 8 * field;
                file[at..at + 8].copy_from_slice(&number.to_be_bytes());
            }
        }
        repair(&mut file);
        read(&file);
    }
}

/// Makes the CRCs of both headers right.
fn repair(file: &mut [u8]) {
    for block in file.chunks_mut(index_of(BLOCK)).take(2) {
        let crc = wire::crc::crc32c_append(wire::crc::crc32c(&block[..12]), &block[16..]);
        block[12..16].copy_from_slice(&crc.to_be_bytes());
    }
}
