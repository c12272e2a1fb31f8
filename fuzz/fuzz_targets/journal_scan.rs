//! Any bytes as a journal: read without a panic, one commit at a time, and none that was not there.
//!
//! The first byte is a choice: whether the header blocks are taken from the input, too, whether
//! stamps and CRCs are made right, and in which block the head is. The rest is a list of pieces (a
//! length, then so many bytes), each at the start of a block and followed by zeros; one of 255
//! bytes is followed by its last byte up to the end of the block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use storage::journal::commit::{self, Change, Part, Stamp};
use storage::journal::header::{self, Header, RingId};
use storage::journal::ring::Ring;
use storage::journal::scan::{Scan, Step};
use storage::journal::{BLOCK, Head, Incarnation, Position, RingSize, Sequence};
use wire::crc;
use wire::types::Uuid;

const BLOCK_BYTES: usize = BLOCK as usize;
const INCARNATION: u64 = 7;

/// Three quarters of the ring.
const RESERVED_BLOCKS: u64 = 12;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, pieces)) = input.split_first() else {
        return;
    };
    let own_headers = choice & 1 != 0;
    let repaired = choice & 2 != 0;
    let mut file = Vec::new();
    if !own_headers {
        let made = made_header(u64::from(choice >> 2));
        for generation in [2, 1] {
            let mut block = vec![0; BLOCK_BYTES];
            let header = Header {
                generation,
                ..made.clone()
            };
            header.encode_into(&mut block);
            file.extend_from_slice(&block);
        }
    }
    lay_out(pieces, &mut file);
    if !own_headers {
        // A shorter one is damage where it ends.
        let whole = usize::try_from(made_header(0).size.file_bytes()).expect("small");
        file.resize(file.len().max(whole), 0);
    }
    if repaired {
        repair_headers(&mut file);
    }
    let block = |number: usize| file.chunks(BLOCK_BYTES).nth(number).unwrap_or_default();
    let Ok(chosen) = header::choose([block(0), block(1)]) else {
        return;
    };
    let header = chosen.header;
    if repaired && header.size == RingSize::new(RingSize::MIN).expect("it is one") {
        repair_commits(&mut file, &header);
    }
    let is_ours = header.id.cluster_id == "fuzz" && header.id.directory_id == Uuid::from_u128(1);
    assert_eq!(
        header.check_owner("fuzz", Uuid::from_u128(1)).is_ok(),
        is_ours
    );
    if let Some(end) = read(&file, &header) {
        reopen(&header, end);
    }
});

fn made_header(first_block: u64) -> Header {
    Header {
        id: RingId {
            cluster_id: "fuzz".to_owned(),
            directory_id: Uuid::from_u128(1),
            shard: 0,
        },
        size: RingSize::new(RingSize::MIN).expect("it is one"),
        generation: 0,
        incarnation: Incarnation::new(INCARNATION, None),
        head: Head {
            position: Position(first_block * BLOCK),
            sequence: Sequence(100),
        },
        reserved: Position((first_block + RESERVED_BLOCKS) * BLOCK),
    }
}

fn lay_out(mut pieces: &[u8], file: &mut Vec<u8>) {
    while let Some((&len, rest)) = pieces.split_first() {
        let (piece, rest) = rest.split_at(usize::from(len).min(rest.len()));
        file.extend_from_slice(piece);
        let fill = piece.last().filter(|_| piece.len() == usize::from(u8::MAX));
        let fill = fill.copied().unwrap_or(0);
        file.resize(file.len().next_multiple_of(BLOCK_BYTES), fill);
        pieces = rest;
    }
}

fn repair_headers(file: &mut [u8]) {
    for block in file.chunks_exact_mut(BLOCK_BYTES).take(2) {
        let crc = crc::crc32c_append(crc::crc32c(&block[..12]), &block[16..]);
        block[12..16].copy_from_slice(&crc.to_be_bytes());
    }
}

/// Gives what looks like commits, one after the other from the head on, the stamps and CRCs of
/// such.
fn repair_commits(file: &mut Vec<u8>, header: &Header) {
    let chosen = usize::try_from(Header::place_of(header.generation)).expect("small");
    let incarnation = file[chosen + 24..chosen + 32].to_vec();
    let mut head = header.head;
    file.resize(usize::try_from(header.size.file_bytes()).expect("small"), 0);
    for _ in 0..header.size.bytes() / BLOCK {
        let at = usize::try_from(header.size.place(head.position)).expect("small");
        let left = header.size.left(head.position);
        if file[at..at + 4] != *b"FBJc" {
            return;
        }
        let number = |field: usize| {
            let bytes = file[at + field..at + field + 4].try_into();
            u64::from(u32::from_be_bytes(bytes.expect("four bytes")))
        };
        let skip = number(44) == 0;
        let len = if skip {
            BLOCK
        } else {
            number(40).next_multiple_of(BLOCK)
        };
        if len == 0 || len > left {
            return;
        }
        file[at + 8..at + 16].copy_from_slice(&incarnation);
        file[at + 16..at + 24].copy_from_slice(&head.sequence.0.to_be_bytes());
        file[at + 24..at + 32].copy_from_slice(&head.position.0.to_be_bytes());
        let end = at + usize::try_from(len).expect("small");
        let crc = crc::crc32c(&file[at + 8..end]);
        file[at + 4..at + 8].copy_from_slice(&crc.to_be_bytes());
        head = Head {
            position: head.position.plus(if skip { left } else { len }),
            sequence: head.sequence.next(),
        };
    }
}

/// Reads the file as a start does; returns where the next use begins, if there may be one.
fn read(file: &[u8], header: &Header) -> Option<Head> {
    let mut scan = Scan::new(header);
    let mut looks = 0;
    while let Some(wanted) = scan.wanted() {
        looks += 1;
        assert!(looks <= 2 + 2 * header.size.bytes() / BLOCK);
        assert!(wanted.bytes as u64 <= header.size.commit_bytes_max());
        let place = usize::try_from(wanted.place).expect("a ring is small");
        let rest = file.get(place..).unwrap_or_default();
        assert_eq!(scan.end(), None);
        let before = scan.at();
        if let Step::Commit(commit) = scan.take(&rest[..rest.len().min(wanted.bytes)]) {
            assert_eq!(commit.stamp.sequence, before.sequence);
            assert_eq!(commit.stamp.position, before.position);
            assert_eq!(commit.stamp.incarnation, header.incarnation);
            let parts: Vec<_> = commit.parts().collect();
            check_again(commit.stamp, &parts, header);
        }
    }
    let mut is_damage = scan.stopped().expect("it has ended").is_damage();
    let ring = header.size.file_bytes();
    for places in scan.suspect_places() {
        assert!(places.start >= 2 * BLOCK && places.end <= ring);
        let end = places.end.min(file.len() as u64);
        for place in (places.start..end).step_by(BLOCK_BYTES) {
            let block = &file[usize::try_from(place).expect("small")..];
            let block = &block[..block.len().min(BLOCK_BYTES)];
            is_damage |= scan.proves_loss(place, block);
        }
    }
    assert_eq!(scan.end().is_none(), is_damage);
    scan.end()
}

/// What was read can be written, and is read again.
fn check_again(stamp: Stamp, parts: &[Part<'_>], header: &Header) {
    let size = commit::size_of(parts).expect("what was read has a size");
    let mut file = vec![0; usize::try_from(size).expect("small")];
    commit::encode_into(stamp, parts, &mut file);
    let head = Head {
        position: stamp.position,
        sequence: stamp.sequence,
    };
    let mut scan = Scan::new(&Header {
        head,
        reserved: stamp.position.plus(header.size.bytes()),
        ..header.clone()
    });
    let mut step = scan.take(&file);
    if step == Step::More {
        step = scan.take(&file);
    }
    let Step::Commit(commit) = step else {
        panic!("what was written is not read: {step:?}");
    };
    assert!(commit.parts().eq(parts.iter().copied()));
    let bytes = parts.iter().map(|part| match part.change {
        Change::Bytes { bytes, .. } => bytes.len(),
        Change::Cut { .. } => 0,
    });
    assert!(bytes.fold(0, usize::saturating_add) <= file.len());
}

/// The ring can be used again from there.
fn reopen(header: &Header, end: Head) {
    let Some(mut ring) = Ring::after(header, INCARNATION, end) else {
        return;
    };
    let mut block = vec![0; BLOCK_BYTES];
    while let Some(header) = ring.begin_header() {
        header.encode_into(&mut block);
        assert_eq!(Header::decode(&block).as_ref(), Ok(&header));
        ring.header_synced();
    }
}
