//! Chunks share memory without changing it under a reader, and return it.

use super::*;
use crate::disk::BLOCK_BYTES;

fn pool(chunk_bytes: usize, count_max: usize) -> ChunkPool {
    ChunkPool::new(PoolOptions {
        chunk_bytes,
        bytes_max: chunk_bytes * count_max,
        reserve_chunks: 1,
    })
}

#[test]
fn appended_bytes_stay_while_the_chunk_grows() {
    let pool = pool(2 * BLOCK_BYTES, 4);
    let mut chunk = pool.take().unwrap();
    assert_eq!(chunk.append(b"first"), 5);
    let first = chunk.slice(0..5);
    chunk.append(b"second");
    assert_eq!(&first[..], b"first");
    assert_eq!(&chunk.slice(3..11)[..], b"stsecond");
    chunk.append(&first);
    assert_eq!(&chunk.slice(11..16)[..], b"first");
}

#[test]
fn append_takes_what_fits() {
    let pool = pool(BLOCK_BYTES, 1);
    let mut chunk = pool.take().unwrap();
    assert_eq!(chunk.append(&[1; 5000]), BLOCK_BYTES);
    assert_eq!(chunk.remaining(), 0);
    assert_eq!(chunk.append(&[1]), 0);
}

#[test]
fn memory_is_bounded_and_comes_back_with_the_last_slice() {
    let pool = pool(BLOCK_BYTES, 2);
    let mut one = pool.take().unwrap();
    let two = pool.take().unwrap();
    assert!(pool.take().is_none());
    one.append(b"kept");
    let slice = one.slice(0..4);
    drop(one);
    assert!(pool.take().is_none());
    assert_eq!(pool.used_bytes(), 2 * BLOCK_BYTES);
    let part = slice.slice(1..3);
    drop(slice);
    assert_eq!(&part[..], b"ep");
    std::thread::spawn(move || drop(part)).join().unwrap();
    assert_eq!(pool.used_bytes(), BLOCK_BYTES);
    let again = pool.take().unwrap();
    assert!(again.is_empty());
    drop((two, again));
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn slices_outlive_the_pool() {
    let pool = pool(BLOCK_BYTES, 2);
    let mut chunk = pool.take().unwrap();
    chunk.append(b"still here");
    let slice = chunk.slice(0..10);
    drop((pool, chunk));
    assert_eq!(&slice[..], b"still here");
}

#[test]
fn blocks_and_padded_tail_cover_what_was_appended() {
    let pool = pool(4 * BLOCK_BYTES, 1);
    let mut chunk = pool.take().unwrap();
    chunk.append(&[7; BLOCK_BYTES + 100]);
    let blocks = chunk.aligned_slice(0);
    let tail = chunk.tail_block();
    assert_eq!((blocks.len(), tail.len()), (BLOCK_BYTES, BLOCK_BYTES));
    assert!(blocks.iter().all(|byte| *byte == 7));
    assert!(tail[..100].iter().all(|byte| *byte == 7));
    assert!(tail[100..].iter().all(|byte| *byte == 0));
    assert_eq!(tail.as_ptr().align_offset(BLOCK_BYTES), 0);
    assert_eq!(blocks.as_ptr().align_offset(BLOCK_BYTES), 0);
    assert!(chunk.aligned_slice(BLOCK_BYTES).is_empty());
    chunk.append(&[7; BLOCK_BYTES - 100]);
    assert!(chunk.tail_block().is_empty());
    assert_eq!(chunk.aligned_slice(BLOCK_BYTES).len(), BLOCK_BYTES);
}

#[test]
fn a_reader_on_another_thread_sees_its_bytes_while_the_writer_appends() {
    let rounds: u8 = if cfg!(miri) { 50 } else { 250 };
    let pool = pool(4 * BLOCK_BYTES, 1);
    let mut chunk = pool.take().unwrap();
    let (sender, slices) = std::sync::mpsc::channel::<bytes::Bytes>();
    let reader = std::thread::spawn(move || {
        slices
            .iter()
            .all(|slice| slice.iter().all(|byte| *byte == slice[0]))
    });
    for round in 0..rounds {
        let start = chunk.len();
        chunk.append(&[round; 64]);
        sender.send(chunk.slice(start..start + 64)).unwrap();
    }
    drop(sender);
    assert!(reader.join().unwrap());
}

#[test]
#[should_panic(expected = "not appended")]
fn no_view_of_bytes_that_were_not_appended() {
    let pool = pool(BLOCK_BYTES, 1);
    let mut chunk = pool.take().unwrap();
    chunk.append(b"abc");
    chunk.slice(0..4);
}

#[test]
#[cfg(not(miri))]
fn the_reserve_is_prepared_in_the_background() {
    let pool = ChunkPool::new(PoolOptions {
        chunk_bytes: 1 << 20,
        bytes_max: 8 << 20,
        reserve_chunks: 3,
    });
    while pool.resident_bytes() < 3 << 20 {
        std::thread::yield_now();
    }
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(taken.len(), 8);
}

#[test]
#[cfg(not(miri))]
fn ready_chunks_are_not_first_touched_by_the_append() {
    let pool = ChunkPool::new(PoolOptions {
        chunk_bytes: 1 << 20,
        bytes_max: 4 << 20,
        reserve_chunks: 1,
    });
    let mut taken = Vec::new();
    while taken.len() < 4 {
        let ready = pool.resident_bytes() - pool.used_bytes();
        let chunk = pool.take_ready();
        assert!(chunk.is_some() || ready == 0);
        taken.extend(chunk);
        std::thread::yield_now();
    }
    assert!(pool.take_ready().is_none());
    taken.pop();
    assert!(pool.take_ready().is_some());
}

#[test]
fn without_a_reserve_every_chunk_counts_as_ready() {
    let pool = ChunkPool::new(PoolOptions {
        chunk_bytes: BLOCK_BYTES,
        bytes_max: 2 * BLOCK_BYTES,
        reserve_chunks: 0,
    });
    assert!(pool.take_ready().is_some());
}

#[test]
fn read_buffers_are_aligned_and_reused_within_the_bound() {
    let pool = BufPool::new(3 * BLOCK_BYTES);
    let mut one = pool.take(5000);
    assert_eq!(one.as_ptr().align_offset(BLOCK_BYTES), 0);
    assert!(one.is_new(), "its pages must still be found");
    one.fill(9);
    one.truncate(4);
    let address = one.as_ptr();
    let bytes = one.freeze();
    assert_eq!(&bytes[..], [9; 4]);
    drop(bytes);
    assert_eq!(pool.kept_bytes(), 2 * BLOCK_BYTES);
    let again = pool.take(2 * BLOCK_BYTES);
    assert_eq!(again.as_ptr(), address);
    assert!(!again.is_new());
    let other = pool.take(2 * BLOCK_BYTES);
    assert!(other.is_new());
    drop((again, other));
    assert_eq!(pool.kept_bytes(), 2 * BLOCK_BYTES);
    assert!(AlignedBuf::zeroed(10).iter().all(|byte| *byte == 0));
}
