//! Any bytes as a file: a value or a reason, never a panic, never more than a commit at a time.

use proptest::prelude::*;

use super::*;
use crate::journal::commit::Front;
use crate::journal::header::choose;

/// Reads a file as a start does, and what a front says of it.
fn read(file: &[u8]) -> Option<usize> {
    let block = |number: usize| file.chunks(index_of(BLOCK)).nth(number).unwrap_or_default();
    let header = choose([block(0), block(1)]).ok()?.header;
    // Its length is a size of a ring, whatever the file has.
    let found = read_back(file, &header);
    proves_loss(file, &found.scan);
    reopen(&header, found.scan.end());
    Some(found.commits.len())
}

/// Opens the ring for its next use, as a start does.
fn reopen(header: &Header, end: Head) {
    let incarnation = Incarnation::new(5, Some(header.incarnation));
    let generation = header.generation;
    let ring = Ring::new(header.id.clone(), header.size, incarnation, end, generation);
    let Some(mut ring) = ring else {
        let largest = generation.max(end.position.0).max(end.sequence.0);
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
            Written::Cut(log(2), 5),
            Written::Bytes(log(1), 0, vec![7; len]),
        ];
        let parts = written.each_ref().map(Written::part);
        let reserved = ring
            .reserve(size_of(&parts).unwrap(), &[log(1), log(2)])
            .unwrap();
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
    assert_eq!(read(&whole_file()), Some(4), "with a skip mark");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_that_are_changed_and_cut_off(
        changes in prop::collection::vec((0_usize..40_000, any::<u8>()), 0..20),
        len in 0_usize..=73_728,
        repaired in any::<bool>(),
    ) {
        let mut file = whole_file();
        for (at, byte) in changes {
            file[at] = byte;
        }
        if repaired {
            repair(&mut file);
        }
        file.truncate(len);
        read(&file);
    }

    #[test]
    fn fronts_of_any_numbers(
        numbers in prop::collection::vec(any::<u32>(), 24),
        length in 0_u32..20_000,
        parts in 0_u32..300,
        kinds in prop::collection::vec(0_u8..4, 300),
    ) {
        let mut bytes = vec![0; 20_480];
        for (to, number) in bytes.chunks_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_be_bytes());
        }
        bytes[..4].copy_from_slice(b"FBJc");
        for at in [16, 24, 32] {
            bytes[at] = 0;
        }
        bytes[40..44].copy_from_slice(&length.to_be_bytes());
        bytes[44..48].copy_from_slice(&parts.to_be_bytes());
        for (entry, kind) in bytes[48..].chunks_mut(48).zip(kinds) {
            entry[0] = kind;
        }
        let covered = length.next_multiple_of(4096) as usize;
        if covered > 8 {
            let crc = wire::crc::crc32c(&bytes[8..covered]);
            bytes[4..8].copy_from_slice(&crc.to_be_bytes());
        }
        if let Some(front) = Front::parse(&bytes) && let Ok(commit) = front.decode(&bytes) {
            let total: usize = commit.parts().map(|part| match part.change {
                Change::Bytes { bytes, .. } => bytes.len(),
                Change::Cut { .. } => 0,
            }).sum();
            prop_assert!(front.is_skip() || total <= length as usize);
            prop_assert_eq!(commit.parts().count(), parts as usize);
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
