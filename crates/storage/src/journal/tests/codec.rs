//! What is encoded is decoded, byte for byte as the page on the format has it; what is refused is
//! refused by name.

use proptest::prelude::*;

use super::*;
use crate::journal::commit::{Front, PART_BYTES};
use crate::journal::header::{HeaderError, choose};

fn header(generation: u64) -> Header {
    Header {
        id: RingId {
            cluster_id: "5L6g3nShT-eMCtK--X86sw".to_owned(),
            directory_id: Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
            shard: 1,
        },
        size: RingSize::new(512 << 20).unwrap(),
        generation,
        incarnation: incarnation(0x0123_4567_89ab_cdef),
        head: Head {
            position: Position(0x2000_3000),
            sequence: Sequence(1234),
        },
        reserved: Position(0x2180_5000),
    }
}

#[test]
fn a_header_is_the_one_on_the_page() {
    let mut expect = hex(
        "464f52454241594a 00000002 2b5360bd 0000000000000007 0123456789abcdef
         0000000020003000 00000000000004d2 0000000021805000 0000000020000000
         00112233445566778899aabbccddeeff 00000001
         00000016 354c3667336e5368542d654d43744b2d2d5838367377",
    );
    expect.resize(4096, 0);
    assert_eq!(header_block(&header(7)), expect);
    assert_eq!(Header::decode(&expect), Ok(header(7)));
}

#[test]
fn a_commit_is_the_one_on_the_page() {
    let stamp = Stamp {
        incarnation: incarnation(0x0123_4567_89ab_cdef),
        sequence: Sequence(1234),
        position: Position(0x2000_3000),
        synced_below: Sequence(1230),
    };
    // Every field has a number of its own.
    let parts = [
        Part {
            log: LogId {
                topic_id: TopicId(Uuid::from_u128(0x0a)),
                partition: 5,
            },
            segment: Offset(1000),
            position: 4096,
            change: Change::Bytes {
                leader_epoch: LeaderEpoch(3),
                bytes: b"records",
            },
        },
        Part {
            log: LogId {
                topic_id: TopicId(Uuid::from_u128(0x0b)),
                partition: 6,
            },
            segment: Offset(2000),
            position: 300,
            change: Change::Cut {
                offset: Offset(2017),
            },
        },
    ];
    let mut expect = hex(
        "46424a63 82673472 0123456789abcdef 00000000000004d2 0000000020003000
         00000000000004ce 00000097 00000002
         01000000 00000005 0000000000000000000000000000000a
         00000000000003e8 00001000 00000007 0000000000000003
         02000000 00000006 0000000000000000000000000000000b
         00000000000007d0 0000012c 00000000 00000000000007e1
         7265636f726473",
    );
    expect.resize(4096, 0);
    let mut blocks = vec![0xee; 4096];
    encode_into(stamp, &parts, &mut blocks);
    assert_eq!(blocks, expect);
    let front = Front::parse(&expect).unwrap();
    assert_eq!(front.stamp, stamp);
    assert!(front.decode(&expect).unwrap().parts().eq(parts));
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    let pairs = digits.as_chunks::<2>().0.iter();
    pairs
        .map(|[high, low]| u8::try_from(16 * high + low).unwrap())
        .collect()
}

/// Returns why a pair of blocks is refused.
fn refused(first: &[u8], second: &[u8]) -> String {
    choose([first, second])
        .expect_err("it is refused")
        .to_string()
}

#[test]
fn a_ring_is_refused_by_name() {
    let (older, newer) = (header_block(&header(6)), header_block(&header(7)));
    assert_eq!(choose([&older, &newer]).unwrap().header, header(7));
    let zeros = vec![0; 4096];
    let mut rotten = newer.clone();
    rotten[100] ^= 1;
    let choice = choose([&older, &rotten]).unwrap();
    assert_eq!(
        (choice.header, choice.other),
        (header(6), Some(HeaderError::Damaged))
    );
    assert_eq!(refused(&zeros, &rotten), "its header has a wrong CRC");
    assert_eq!(
        refused(&zeros, &zeros),
        "it does not begin as a journal does"
    );
    assert_eq!(refused(&zeros, &[]), "it does not begin as a journal does");

    let mut later = newer.clone();
    later[11] = 3;
    let crc = wire::crc::crc32c_append(wire::crc::crc32c(&later[..12]), &later[16..]);
    later[12..16].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(
        refused(&older, &later),
        "its version is 3, of which only 1 and 2 are known"
    );
    assert_eq!(
        refused(&zeros, &older),
        "its header is impossible: it is in the other's block"
    );

    let mut of_another = header(7);
    of_another.id.shard = 2;
    let text = "its header is impossible: its two headers are of two rings";
    assert_eq!(refused(&older, &header_block(&of_another)), text);
    let mut back = header(7);
    back.head.sequence = Sequence(1);
    let text = "its header is impossible: its head went back";
    assert_eq!(refused(&older, &header_block(&back)), text);
}

#[test]
fn a_reserve_that_no_header_has_refuses_the_ring() {
    let older = header_block(&header(6));
    let (head, size) = (header(7).head.position, header(7).size.bytes());
    let reserving = |reserved| {
        let mut newer = header(7);
        newer.reserved = reserved;
        header_block(&newer)
    };
    let before_head = Position(head.0 - BLOCK);
    for impossible in [
        before_head,
        head.plus(size + BLOCK),
        header(7).reserved.plus(1),
    ] {
        let text = "its header is impossible: reserve";
        assert_eq!(refused(&older, &reserving(impossible)), text);
    }
    let back = Position(header(6).reserved.0 - BLOCK);
    let text = "its header is impossible: its reserve went back";
    assert_eq!(refused(&older, &reserving(back)), text);
    for possible in [header(6).reserved, head.plus(size)] {
        assert!(choose([&older, &reserving(possible)]).is_ok());
    }
    // Another use begins anywhere behind the head of the one before.
    let mut of_next_use = header(7);
    of_next_use.incarnation = incarnation(5);
    of_next_use.reserved = head;
    assert!(choose([&older, &header_block(&of_next_use)]).is_ok());
}

#[test]
fn a_header_of_version_1_reserves_the_whole_ring() {
    let mut block = hex(
        "464f52454241594a 00000001 6f1476af 0000000000000007 0123456789abcdef
         0000000020003000 00000000000004d2 0000000020000000
         00112233445566778899aabbccddeeff 00000001
         00000016 354c3667336e5368542d654d43744b2d2d5838367377",
    );
    block.resize(4096, 0);
    let mut whole = header(7);
    whole.reserved = whole.head.position.plus(whole.size.bytes());
    assert_eq!(Header::decode(&block), Ok(whole.clone()));
    // The next use writes its first header beside one of version 1.
    let mut next = header(8);
    next.incarnation = incarnation(5);
    let choice = choose([&header_block(&next), &block]).unwrap();
    assert_eq!((choice.header, choice.other), (next, None));
}

#[test]
fn a_header_in_the_block_of_the_other_refuses_the_ring() {
    // The next header lies over the newer one: what it has released is written over.
    let (older, misled) = (header_block(&header(6)), header_block(&header(8)));
    let text = "its header is impossible: it is in the other's block";
    assert_eq!(refused(&older, &misled), text);
    assert_eq!(
        refused(&header_block(&header(5)), &header_block(&header(7))),
        text
    );
}

#[test]
fn two_headers_are_neighbours() {
    let older = header_block(&header(6));
    let lost = "its header is impossible: a header between its two is lost";
    assert_eq!(refused(&older, &header_block(&header(3))), lost);
    assert_eq!(refused(&older, &header_block(&header(9))), lost);

    let head_at = |position, sequence| {
        let mut newer = header(7);
        newer.head.position = newer.head.position.plus(position);
        newer.head.sequence.0 += sequence;
        newer.reserved = newer.reserved.plus(position);
        newer
    };
    let ring = 512 << 20;
    for (position, sequence) in [(0, 0), (BLOCK, 1), (3 * BLOCK, 1), (ring, ring / BLOCK)] {
        let newer = head_at(position, sequence);
        let choice = choose([&older, &header_block(&newer)]).unwrap();
        assert_eq!((choice.header, choice.other), (newer, None));
    }
    let moved = "its header is impossible: its head moved as none does";
    let impossible = [(0, 1), (BLOCK, 0), (BLOCK, 2), (ring + BLOCK, 1)];
    for (position, sequence) in impossible {
        let newer = header_block(&head_at(position, sequence));
        assert_eq!(refused(&older, &newer), moved, "{position} {sequence}");
    }
}

#[test]
fn a_ring_of_another_place_is_refused_by_name() {
    let header = header(7);
    let id = header.id.directory_id;
    assert_eq!(header.check_owner("5L6g3nShT-eMCtK--X86sw", id), Ok(()));
    let error = header.check_owner("another", id).unwrap_err();
    let text = r#"it belongs to cluster "5L6g3nShT-eMCtK--X86sw", not "another""#;
    assert_eq!(error.to_string(), text);
    let error = header
        .check_owner("5L6g3nShT-eMCtK--X86sw", Uuid::from_u128(0))
        .unwrap_err();
    let text = "it belongs to the log directory ABEiM0RVZneImaq7zN3u_w, not AAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(error.to_string(), text);
}

#[test]
fn incarnations_differ_and_are_not_shown() {
    let zero = Incarnation::new(0, None);
    assert!(zero == incarnation(1) && zero != Incarnation::new(0, Some(zero)));
    assert_ne!(
        Incarnation::new(u64::MAX, Some(incarnation(u64::MAX))),
        incarnation(u64::MAX)
    );
    assert_eq!(format!("{:?}", incarnation(77)), "Incarnation");
}

#[test]
fn sizes_have_their_bounds() {
    let max = |bytes| RingSize::new(bytes).map(RingSize::commit_bytes_max);
    assert_eq!(max(RingSize::MIN), Some(4 * BLOCK));
    assert_eq!(max(RingSize::MIN + BLOCK), Some(4 * BLOCK));
    assert_eq!(max(512 << 20), Some(COMMIT_BYTES_MAX));
    for bytes in [0, BLOCK, RingSize::MIN + 1, RingSize::MAX + BLOCK, u64::MAX] {
        assert_eq!(RingSize::new(bytes), None);
    }
    let bytes = vec![1; index_of(COMMIT_BYTES_MAX) - 96];
    let part = |bytes| [WrittenPart::bytes(log(1), 0, bytes)];
    assert_eq!(
        size_of(&part(bytes.clone()).each_ref().map(WrittenPart::part)),
        Some(COMMIT_BYTES_MAX)
    );
    let longer = part([bytes, vec![1]].concat());
    assert_eq!(size_of(&longer.each_ref().map(WrittenPart::part)), None);
    assert_eq!(size_of(&[]), None);
}

fn any_written() -> impl Strategy<Value = WrittenPart> {
    let bytes = (any::<i32>(), prop::collection::vec(any::<u8>(), 1..3000));
    let what = prop_oneof![
        3 => bytes.prop_map(|(epoch, bytes)| PartContent::Bytes(LeaderEpoch(epoch), bytes)),
        1 => (0..=i64::MAX).prop_map(|offset| PartContent::Cut(Offset(offset))),
    ];
    let log = (any::<u128>(), 0..=i32::MAX);
    let place = (0..=i64::MAX, 0_u32..1 << 30);
    (log, place, what).prop_map(|((topic_id, partition), (segment, position), what)| {
        let segment = match what {
            PartContent::Cut(Offset(offset)) => segment.min(offset),
            PartContent::Bytes(..) => segment,
        };
        WrittenPart {
            log: LogId {
                topic_id: TopicId(Uuid::from_u128(topic_id)),
                partition,
            },
            segment: Offset(segment),
            position,
            what,
        }
    })
}

proptest! {
    #[test]
    fn commits_round_trip_and_no_changed_bit_is_missed(
        written in prop::collection::vec(any_written(), 1..20),
        numbers in prop::array::uniform3(0_u64..1 << 62),
        flipped in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let stamp = Stamp {
            incarnation: incarnation(numbers[0]),
            sequence: Sequence(numbers[1]),
            position: Position(numbers[2]),
            synced_below: Sequence(numbers[0]),
        };
        let mut bytes = blocks(stamp, &written);
        let front = Front::parse(&bytes).unwrap();
        prop_assert_eq!(front.stamp, stamp);
        let used: usize = written.iter().map(|part| part.part().bytes().len() + PART_BYTES).sum();
        prop_assert_eq!(bytes.len(), (used + 48).next_multiple_of(4096));
        let commit = front.decode(&bytes).unwrap();
        prop_assert_eq!(owned(&commit), written);
        let at = flipped.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let decoded = Front::parse(&bytes).map(|front| front.decode(&bytes).is_ok());
        prop_assert!(!decoded.unwrap_or(false));
        bytes[at] ^= 1 << bit;
        prop_assert!(front.decode(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn headers_round_trip(
        cluster_id in ".{1,100}",
        numbers in prop::array::uniform4(0_u64..1 << 61),
        size in 16_u64..1 << 24,
        reserved in any::<u64>(),
        directory_id in any::<u128>(),
        shard in any::<u32>(),
    ) {
        let position = Position(numbers[2] / BLOCK * BLOCK);
        let header = Header {
            id: RingId { cluster_id, directory_id: Uuid::from_u128(directory_id), shard },
            size: RingSize::new(size * BLOCK).unwrap(),
            generation: numbers[0],
            incarnation: incarnation(numbers[1]),
            head: Head {
                position,
                sequence: Sequence(numbers[3]),
            },
            reserved: position.plus(reserved % (size + 1) * BLOCK),
        };
        prop_assert_eq!(Header::decode(&header_block(&header)), Ok(header));
    }
}
