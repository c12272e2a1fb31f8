//! A log on a simulated disk, and batches whose records say where they were meant to be.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use platform::Platform;
use platform::sim::{SimDisk, SimPlatform};
use storage::{
    Durability, Log, LogAppendInfo, LogOptions, Metrics, OpenAs, Result, Stamp, Store, StoreOptions,
};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, TopicPartition, Uuid};

pub(crate) const DIR: &str = "/logs";
pub(crate) const FOLDER: &str = "/logs/orders-0";
pub(crate) const EPOCH: Stamp = Stamp {
    leader_epoch: LeaderEpoch(1),
    log_append_time: None,
};
pub(crate) const NOW_MS: i64 = 1_767_225_600_000;

pub(crate) type SimLog = Rc<Log<SimPlatform>>;

pub(crate) fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 64 << 10,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 4096,
        index_bytes_max: 1 << 20,
        retention_ms: None,
        retention_bytes: None,
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        max_batch_bytes: 1 << 20,
        delete: true,
        compact: false,
        durability: Durability::Synced,
        preallocate: true,
        reserve_bytes: 0,
        file_delete_delay_ms: 60_000,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

pub(crate) fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 1 << 20,
        cache_bytes_start: 1 << 20,
        unwritten_bytes_max: 8 << 20,
        chunk_bytes: 64 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 32 << 10,
        save_interval_bytes: 1 << 30,
        read_ahead_bytes_max: 64 << 10,
        open_segments_max: 64,
    }
}

/// A shard on a simulated disk.
pub(crate) struct World {
    pub(crate) platform: SimPlatform,
    pub(crate) store: Store<SimPlatform>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(SimPlatform::new(1), store_options())
    }

    pub(crate) fn on(platform: SimPlatform, options: StoreOptions) -> Self {
        let store = Store::new(platform.clone(), options, Metrics::unregistered());
        Self { platform, store }
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.platform.disk()
    }

    /// A process that starts on `disk` at this world's time.
    pub(crate) fn successor(&self, disk: SimDisk) -> Self {
        self.successor_with(disk, store_options())
    }

    pub(crate) fn successor_with(&self, disk: SimDisk, options: StoreOptions) -> Self {
        Self::on(
            SimPlatform::on(disk, self.platform.clock().clone(), 7),
            options,
        )
    }

    pub(crate) async fn open(&self, options: LogOptions) -> SimLog {
        self.try_open(options, false, 0, 0).await.unwrap()
    }

    pub(crate) async fn try_open(
        &self,
        options: LogOptions,
        clean: bool,
        recovery_point: i64,
        log_start: i64,
    ) -> Result<SimLog> {
        let how = OpenAs {
            clean,
            recovery_point: Offset(recovery_point),
            log_start: Offset(log_start),
            compacted: None,
        };
        self.store
            .open_log(Path::new(DIR), partition(), topic_id(), options, how)
            .await
    }

    /// Opens another log of the directory and closes it: the names of the directory are durable.
    pub(crate) async fn open_another(&self) {
        let name = TopicPartition {
            topic: Arc::from("another"),
            partition: 0,
        };
        let how = OpenAs {
            clean: true,
            recovery_point: Offset::ZERO,
            log_start: Offset::ZERO,
            compacted: None,
        };
        let dir = Path::new(DIR);
        let opened = self.store.open_log(dir, name, topic_id(), options(), how);
        opened.await.unwrap().close().await.unwrap();
    }

    pub(crate) fn names(&self) -> Vec<String> {
        // Listing is an operation like any other, so it is asked for outside of the runtime's turn.
        let disk = self.disk().clone();
        let mut names = Vec::new();
        for base in 0..2000_i64 {
            for suffix in [
                "log",
                "index",
                "timeindex",
                "txnindex",
                "snapshot",
                "log.deleted",
            ] {
                let name = format!("{base:020}.{suffix}");
                if disk.contents(&Path::new(FOLDER).join(&name)).is_ok() {
                    names.push(name);
                }
            }
        }
        names
    }
}

pub(crate) fn partition() -> TopicPartition {
    TopicPartition {
        topic: Arc::from("orders"),
        partition: 0,
    }
}

pub(crate) fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(42))
}

/// A batch of `count` records of about `bytes` bytes each, the first named `first`.
pub(crate) fn batch(first: i64, count: i64, bytes: usize) -> Bytes {
    batch_at(first, count, bytes, NOW_MS + first)
}

/// The same with the timestamp of its first record; each further record is a millisecond later.
pub(crate) fn batch_at(first: i64, count: i64, bytes: usize, timestamp: i64) -> Bytes {
    let builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    filled(builder, first, count, bytes, timestamp)
}

/// A batch of an idempotent producer.
pub(crate) fn produced(id: i64, sequence: i32, first: i64, count: i64) -> Bytes {
    let builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    filled(
        builder.producer(ProducerId(id), 0, sequence),
        first,
        count,
        100,
        NOW_MS,
    )
}

pub(crate) fn filled(
    mut builder: BatchBuilder,
    first: i64,
    count: i64,
    bytes: usize,
    timestamp: i64,
) -> Bytes {
    for at in 0..count {
        let name = (first + at).to_string();
        let value = vec![b'a' + u8::try_from((first + at) % 26).unwrap(); bytes];
        builder.add(
            TimestampMs(timestamp + at),
            Some(name.as_bytes()),
            Some(&value),
            &[],
        );
    }
    builder.finish().unwrap()
}

/// Appends a batch whose records are named by the offsets they will get.
pub(crate) fn append(log: &SimLog, count: i64, bytes: usize) -> LogAppendInfo {
    let first = log.log_end_offset().0;
    log.append(&batch(first, count, bytes), EPOCH, NOW_MS)
        .unwrap()
}

/// Appends and waits until it is durable.
pub(crate) async fn produce(log: &SimLog, count: i64, bytes: usize) -> LogAppendInfo {
    let appended = append(log, count, bytes);
    log.flush().await.unwrap();
    appended
}

/// All records between two offsets, as (offset, name).
pub(crate) async fn names_between(
    log: &SimLog,
    from: i64,
    below: i64,
    max: usize,
) -> Vec<(i64, i64)> {
    let mut at = from;
    let mut found = Vec::new();
    while at < below {
        let slices = log
            .read(Offset(at), Offset(below), max, true)
            .await
            .unwrap();
        let bytes: Bytes = slices.concat().into();
        assert!(!bytes.is_empty(), "nothing at {at} below {below}");
        for (offset, name) in decode(&bytes) {
            if offset >= at {
                found.push((offset, name));
            }
        }
        at = found.last().map_or(at, |(offset, _)| offset + 1);
    }
    found
}

/// The records in a run of batches; each is verified.
pub(crate) fn decode(bytes: &Bytes) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        let header = BatchHeader::parse(&rest).expect("a whole batch");
        let batch = rest.split_to(header.size_bytes);
        assert_eq!(wire::batch::crc_of(&batch), header.crc, "the CRC is right");
        for record in records(&batch).unwrap() {
            let record = record.unwrap();
            let name = record
                .key
                .map(|key| String::from_utf8(key.to_vec()).unwrap());
            found.push((
                record.offset.0,
                name.map_or(-1, |name| name.parse().unwrap()),
            ));
        }
    }
    found
}

/// Asserts that the records from `from` on are there, each at the offset that it is named by.
pub(crate) async fn assert_holds(log: &SimLog, from: i64, below: i64) {
    let found = names_between(log, from, below, 10_000).await;
    let expected: Vec<_> = (from..below).map(|offset| (offset, offset)).collect();
    assert_eq!(found, expected);
}

pub(crate) fn simulate<F: Future>(future: F) -> F::Output {
    platform::runtime::run_simulated(future).unwrap()
}

/// Polls a future so often, as the disk goes on; true when it is done before it is dropped.
pub(crate) async fn polled<F: Future>(future: F, polls: usize) -> bool {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        let done =
            std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if done {
            return true;
        }
        platform::task::yield_now().await;
    }
    false
}
