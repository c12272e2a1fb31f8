//! Batches for tests.

use bytes::Bytes;
use wire::batch::{BatchBuilder, Compression};
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

/// Returns a batch of records whose values are their offsets.
pub(crate) fn batch(base: i64, count: i64, epoch: i32) -> Bytes {
    compressed(base, count, epoch, Compression::None)
}

pub(crate) fn compressed(base: i64, count: i64, epoch: i32, codec: Compression) -> Bytes {
    let builder = BatchBuilder::new(Offset(base), LeaderEpoch(epoch)).compression(codec);
    filled(builder, base, count)
}

/// Returns a batch of a transaction.
pub(crate) fn transactional(base: i64, count: i64, producer: i64) -> Bytes {
    let builder = BatchBuilder::new(Offset(base), LeaderEpoch(0))
        .transactional(true)
        .producer(ProducerId(producer), 0, 0);
    filled(builder, base, count)
}

/// Returns the marker that ends a transaction.
pub(crate) fn marker(at: i64, producer: i64, committed: bool) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(at), LeaderEpoch(0))
        .transactional(true)
        .control(true)
        .producer(ProducerId(producer), 0, -1);
    let key = [0, 0, 0, u8::from(committed)];
    builder.add(TimestampMs(7), Some(&key), Some(&[0; 6]), &[]);
    builder.finish().unwrap()
}

fn filled(mut builder: BatchBuilder, base: i64, count: i64) -> Bytes {
    for offset in base..base + count {
        let value = offset.to_string();
        let headers = [("h", Some(&b"x"[..])), ("none", None)];
        builder.add(
            TimestampMs(1000 + offset),
            None,
            Some(value.as_bytes()),
            &headers,
        );
    }
    builder.finish().unwrap()
}
