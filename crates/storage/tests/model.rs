//! Random operations on a log, held against a list of batches after each of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

use bytes::Bytes;
use platform::sim::SimPlatform;
use proptest::prelude::*;
use storage::{LogOptions, StoreOptions};
use wire::types::{Offset, TimestampMs};
use world::*;

#[derive(Clone, Debug)]
enum Op {
    Append {
        count: i64,
        bytes: usize,
        flush: bool,
    },
    Roll,
    Save,
    Retain {
        keep_bytes: u64,
    },
    DeleteRecords {
        part: u8,
    },
    Truncate {
        part: u8,
    },
    StartAnew {
        ahead: i64,
    },
    Stop,
    Crash {
        seed: u64,
    },
    Read {
        part: u8,
        max: usize,
    },
    ReadPart {
        part: u8,
        max: usize,
    },
    FindTimestamp {
        part: u8,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1..6_i64, 0..6000_usize, any::<bool>())
            .prop_map(|(count, bytes, flush)| Op::Append { count, bytes, flush }),
        1 => Just(Op::Roll),
        1 => Just(Op::Save),
        1 => (0..200_000_u64).prop_map(|keep_bytes| Op::Retain { keep_bytes }),
        1 => any::<u8>().prop_map(|part| Op::DeleteRecords { part }),
        1 => any::<u8>().prop_map(|part| Op::Truncate { part }),
        1 => (0..50_i64).prop_map(|ahead| Op::StartAnew { ahead }),
        1 => Just(Op::Stop),
        1 => any::<u64>().prop_map(|seed| Op::Crash { seed }),
        4 => (any::<u8>(), 1..40_000_usize).prop_map(|(part, max)| Op::Read { part, max }),
        4 => (any::<u8>(), 1..40_000_usize).prop_map(|(part, max)| Op::ReadPart { part, max }),
        1 => any::<u8>().prop_map(|part| Op::FindTimestamp { part }),
    ]
}

/// A batch: its first offset, how many records, and the name of the first one.
#[derive(Clone, Copy, Debug)]
struct Batch {
    base: i64,
    count: i64,
    name: i64,
}

#[derive(Default)]
struct Model {
    batches: Vec<Batch>,
    start: i64,
    end: i64,
    names: i64,
}

impl Model {
    fn records(&self, from: i64) -> Vec<(i64, i64)> {
        let all = self.batches.iter();
        let all =
            all.flat_map(|batch| (0..batch.count).map(|at| (batch.base + at, batch.name + at)));
        all.filter(|(offset, _)| *offset >= from.max(self.start))
            .collect()
    }

    /// An offset between start and end.
    fn at(&self, part: u8) -> i64 {
        self.start + (self.end - self.start) * i64::from(part) / 255
    }
}

fn options_for(compressed_segments: bool) -> LogOptions {
    let segment_bytes = if compressed_segments {
        16 << 10
    } else {
        64 << 10
    };
    LogOptions {
        segment_bytes,
        file_delete_delay_ms: 5,
        ..options()
    }
}

fn store_for(cache: usize) -> StoreOptions {
    StoreOptions {
        cache_bytes_max: cache,
        chunk_bytes: 16 << 10,
        save_interval_bytes: 20_000,
        open_segments_max: 2,
        read_ahead_bytes_max: 8000,
        ..store_options()
    }
}

async fn run(ops: Vec<Op>, small_segments: bool, cache: usize) {
    let mut world = World::on(SimPlatform::new(5), store_for(cache));
    let mut log = world.open(options_for(small_segments)).await;
    let mut model = Model::default();
    for op in ops {
        match op {
            Op::Append {
                count,
                bytes,
                flush,
            } => {
                let batch = batch_at(model.names, count, bytes, NOW_MS + model.names);
                let appended = log.append(&batch, EPOCH, NOW_MS).unwrap();
                assert_eq!(appended.base_offset.0, model.end);
                model.batches.push(Batch {
                    base: model.end,
                    count,
                    name: model.names,
                });
                model.end += count;
                model.names += count;
                if flush {
                    log.flush().await.unwrap();
                    assert_eq!(log.durable_offset().0, model.end);
                }
            }
            Op::Roll => log.roll().await.unwrap(),
            Op::Save => log.save().await.unwrap(),
            Op::Retain { keep_bytes } => {
                log.flush().await.unwrap();
                log.set_high_watermark(log.log_end_offset());
                let retention_bytes = Some(keep_bytes);
                log.set_options(LogOptions {
                    retention_bytes,
                    ..options_for(small_segments)
                });
                log.retain(NOW_MS).await.unwrap();
                assert!(log.log_start_offset().0 >= model.start);
                model.start = log.log_start_offset().0;
            }
            Op::DeleteRecords { part } => {
                log.flush().await.unwrap();
                log.set_high_watermark(log.log_end_offset());
                model.start = model.at(part);
                log.set_log_start(Offset(model.start)).unwrap();
            }
            Op::Truncate { part } => {
                let cut = model.at(part);
                log.truncate_to(Offset(cut)).await.unwrap();
                model
                    .batches
                    .retain(|batch| batch.base + batch.count <= cut);
                let last = model.batches.last().map(|batch| batch.base + batch.count);
                let end = log.log_end_offset().0;
                if cut < model.end {
                    assert_eq!(end, last.unwrap_or(end), "cut at {cut}");
                }
                assert!(end <= cut.max(model.start), "cut at {cut}, ends at {end}");
                model.end = end;
                model.start = model.start.min(end);
                assert_eq!(log.log_start_offset().0, model.start);
            }
            Op::StartAnew { ahead } => {
                (model.start, model.end) = (model.end + ahead, model.end + ahead);
                model.batches.clear();
                log.truncate_fully_and_start_at(Offset(model.end))
                    .await
                    .unwrap();
            }
            Op::Stop => {
                log.close().await.unwrap();
                world = world.successor_with(world.disk().crash(3), store_for(cache));
                let options = options_for(small_segments);
                log = world
                    .try_open(options, true, model.end, model.start)
                    .await
                    .unwrap();
            }
            Op::Crash { seed } => {
                log.flush().await.unwrap();
                // The owner's part: it writes the checkpoints, and tells the log.
                let points = world.store.points(std::path::Path::new(DIR));
                world.store.checkpointed(&points, true).await;
                let point = points[0].recovery_point.0;
                world = world.successor_with(world.disk().crash(seed), store_for(cache));
                let options = options_for(small_segments);
                log = world
                    .try_open(options, false, point, model.start)
                    .await
                    .unwrap();
            }
            Op::Read { part, max } => {
                let from = model.at(part);
                let found = names_between(&log, from, model.end, max).await;
                assert_eq!(found, model.records(from));
            }
            Op::ReadPart { part, max } => {
                let from = model.at(part);
                let end = Offset(model.end);
                let whole = log.read(Offset(from), end, 1, true).await.unwrap();
                let size = whole.concat().len();
                let read = log.read(Offset(from), end, max, false).await.unwrap();
                let read: Bytes = read.concat().into();
                assert!(read.len() <= max, "{} bytes of {max}", read.len());
                let found = decode(&read);
                let found: Vec<_> = found.into_iter().filter(|(at, _)| *at >= from).collect();
                assert_eq!(
                    !found.is_empty(),
                    size > 0 && size <= max,
                    "{max} bytes, {size}"
                );
                assert!(model.records(from).starts_with(&found));
            }
            Op::FindTimestamp { part } => {
                let records = model.records(model.at(part));
                if let Some(&(offset, name)) = records.first() {
                    let timestamp = TimestampMs(NOW_MS + name);
                    let found = log.offset_for_timestamp(timestamp, Offset(model.end)).await;
                    let found = found.unwrap().unwrap();
                    assert_eq!((found.offset.0, found.timestamp), (offset, timestamp));
                }
            }
        }
        assert_eq!(log.log_end_offset().0, model.end);
        assert_eq!(log.log_start_offset().0, model.start);
        log.check_invariants();
        let available = log.available_bytes(Offset(model.start), Offset(model.end), 1 << 30);
        assert_eq!(available > 0, model.end > model.start);
    }
    let found = names_between(&log, model.start, model.end, 100_000).await;
    assert_eq!(found, model.records(model.start));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_does_what_a_list_of_batches_does(
        ops in prop::collection::vec(op(), 1..60),
        small_segments: bool,
        cached: bool,
    ) {
        let cache = if cached { 1 << 20 } else { 0 };
        simulate(run(ops, small_segments, cache));
    }
}
