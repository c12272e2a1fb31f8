//! Reading ahead of sequential readers: what they want is in memory when they come for it, it is
//! what was written, and whatever goes wrong with it is no error of those who did not need it.

use std::path::{Path, PathBuf};

use crate::world::*;
use bytes::Bytes;
use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use storage::{FailureKind, LogOptions, Metrics, Store, StoreOptions};
use wire::types::Offset;

const BATCHES: i64 = 60;

fn log_file() -> PathBuf {
    Path::new(FOLDER).join("00000000000000000000.log")
}

fn one_segment() -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 20,
        ..options()
    }
}

fn blocks_of_16_kib() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 1 << 20,
        chunk_bytes: 16 << 10,
        read_ahead_bytes_max: 64 << 10,
        ..store_options()
    }
}

/// A process that was just started on a log of batches of one record; nothing of it is in memory.
struct ColdStart {
    world: World,
    log: SimLog,
    metrics: Metrics,
}

impl ColdStart {
    async fn start(batches: i64, bytes: usize, log_options: LogOptions) -> Self {
        Self::start_with(batches, bytes, log_options, blocks_of_16_kib()).await
    }

    async fn start_with(
        batches: i64,
        bytes: usize,
        log_options: LogOptions,
        store_options: StoreOptions,
    ) -> Self {
        let before = World::on(SimPlatform::new(3), blocks_of_16_kib());
        let log = before.open(log_options.clone()).await;
        for _ in 0..batches {
            append(&log, 1, bytes);
        }
        log.flush().await.unwrap();
        log.close().await.unwrap();
        let platform = SimPlatform::on(before.disk().crash(1), before.platform.clock().clone(), 7);
        let metrics = Metrics::unregistered();
        let store = Store::new(platform.clone(), store_options, metrics.clone());
        let world = World { platform, store };
        let log = world.try_open(log_options, true, batches, 0).await.unwrap();
        Self {
            world,
            log,
            metrics,
        }
    }

    async fn read(&self, from: i64, max: usize) -> Result<Vec<(i64, i64)>, storage::Error> {
        let end = self.log.log_end_offset();
        let slices = self.log.read(Offset(from), end, max, true).await?;
        Ok(decode(&Bytes::from(slices.concat())))
    }

    /// Reads on from `from` until `below` is reached; the records are those that were written.
    async fn read_on(&self, mut from: i64, below: i64, max: usize) -> i64 {
        while from < below {
            for (offset, name) in self.read(from, max).await.unwrap() {
                assert_eq!((offset, name), (from, from));
                from += 1;
            }
        }
        from
    }

    /// Lets reads ahead come to their end.
    async fn settle(&self) {
        let a_moment = std::time::Duration::from_millis(10);
        self.world.store.logs();
        platform::task::timeout(a_moment, std::future::pending::<()>())
            .await
            .unwrap_err();
    }

    fn operations(&self) -> u64 {
        self.world.disk().operations()
    }
}

#[test]
fn a_sequential_reader_finds_its_bytes_in_memory() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
        let mut next = cold.read_on(0, 1, 10_000).await;
        while next < BATCHES {
            cold.settle().await;
            let operations = cold.operations();
            let read = cold.read(next, 10_000).await.unwrap();
            assert!(!read.is_empty());
            let waited_for = cold.operations() - operations;
            assert_eq!(
                waited_for, 0,
                "the disk was asked while the reader at {next} waited"
            );
            next += i64::try_from(read.len()).unwrap();
        }
        let read = cold.metrics.read_bytes.get();
        assert!(
            read < cold.log.size_bytes() * 11 / 10,
            "{read} bytes were read of {}",
            cold.log.size_bytes()
        );
    });
}

#[test]
fn mapped_files_are_read_where_they_lie() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
        cold.world.disk().use_dax(Path::new(DIR));
        cold.read_on(0, BATCHES, 10_000).await;
        cold.settle().await;
        assert_eq!(cold.metrics.read_ahead_bytes.get(), 0, "a copy was made");
    });
}

#[test]
fn readers_of_the_same_bytes_share_what_was_read() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
        let mut next = [0; 3];
        while next[0] < BATCHES {
            for reader in &mut next {
                *reader = cold.read_on(*reader, *reader + 1, 10_000).await;
            }
        }
        assert_eq!(next, [BATCHES; 3]);
        let read = cold.metrics.read_bytes.get();
        assert!(
            read < cold.log.size_bytes() * 11 / 10,
            "{read} bytes were read of {}, by three readers",
            cold.log.size_bytes()
        );
    });
}

#[test]
fn readers_that_wait_for_the_same_block_wait_for_one_read() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
        let ms = std::time::Duration::from_millis;
        cold.world.disk().set_latency(ms(5), ms(5));
        let (one, two) = (cold.read(0, 10_000), cold.read(0, 10_000));
        let mut two = std::pin::pin!(two);
        let mut one = std::pin::pin!(one);
        let mut both = (None, None);
        std::future::poll_fn(|cx| {
            use std::future::Future;
            use std::task::Poll;
            if both.0.is_none()
                && let Poll::Ready(read) = one.as_mut().poll(cx)
            {
                both.0 = Some(read.unwrap());
            }
            if both.1.is_none()
                && let Poll::Ready(read) = two.as_mut().poll(cx)
            {
                both.1 = Some(read.unwrap());
            }
            if both.0.is_some() && both.1.is_some() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        assert_eq!(both.0, both.1);
        cold.settle().await;
        cold.settle().await;
        let ahead = cold.metrics.read_ahead_bytes.get();
        assert_eq!(
            cold.metrics.read_bytes.get(),
            ahead,
            "nobody read for himself"
        );
    });
}

#[test]
fn batches_of_any_size_come_whole_and_in_order() {
    simulate(async {
        // Blocks are of 16 KiB: many batches in one, one over two, one over several, and more than
        // blocks will hold.
        for (bytes, batches) in [(10, 3000), (5000, 100), (40_000, 40), (300_000, 6)] {
            let cold = ColdStart::start(batches, bytes, one_segment()).await;
            for max in [1, 700, 20_000, 1 << 20] {
                let below = if max == 1 { batches.min(50) } else { batches };
                cold.read_on(0, below, max).await;
            }
        }
    });
}

#[test]
fn limits_hold_for_what_was_read_ahead() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 1000, one_segment()).await;
        let size = batch(0, 1, 1000).len();
        cold.read_on(0, 1, size).await;
        cold.settle().await;
        assert_eq!(cold.read(1, 3 * size).await.unwrap().len(), 3);
        assert_eq!(cold.read(4, 3 * size - 1).await.unwrap().len(), 2);
        assert_eq!(cold.read(6, 1).await.unwrap().len(), 1, "one at least");
        let read = |from, below, max| cold.log.read(Offset(from), Offset(below), max, false);
        assert!(read(7, 60, size - 1).await.unwrap().is_empty());
        let below = read(7, 9, 1 << 20).await.unwrap();
        assert_eq!(decode(&below.concat().into()).len(), 2);
    });
}

#[test]
fn the_end_of_a_segment_does_not_stop_the_reading_ahead() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, options()).await;
        assert!(cold.log.segment_count() > 3);
        let mut next = cold.read_on(0, 1, 10_000).await;
        let mut waits = 0;
        while next < BATCHES {
            cold.settle().await;
            let operations = cold.operations();
            next = cold.read_on(next, next + 1, 10_000).await;
            waits += i32::from(cold.operations() > operations);
        }
        assert!(waits <= 5, "{waits} reads had to wait for the disk");
    });
}

#[test]
fn segments_may_be_fewer_open_than_are_read_ahead() {
    simulate(async {
        for open_segments_max in [1, 2, 3] {
            let store = StoreOptions {
                open_segments_max,
                ..blocks_of_16_kib()
            };
            let cold = ColdStart::start_with(BATCHES, 5000, options(), store).await;
            for from in (0..40).step_by(10) {
                // To near the end of a segment, then into the one that is being read ahead.
                cold.read_on(from, from + 10, 5500).await;
                cold.settle().await;
                let read = cold.read(from + 17, 5500);
                let a_minute = std::time::Duration::from_mins(1);
                let read = platform::task::timeout(a_minute, read).await;
                let read = read.expect("it ends").unwrap();
                assert_eq!(read, [(from + 17, from + 17)]);
            }
        }
    });
}

#[test]
fn damage_in_what_was_read_ahead_is_told_to_who_reads_it_and_to_nobody_else() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
        let size = batch(0, 1, 5000).len() as u64;
        cold.world
            .disk()
            .flip(&log_file(), 9 * size + 4000, 2)
            .unwrap();
        let next = cold.read_on(0, 9, 2 * batch(0, 1, 5000).len()).await;
        assert_eq!(next, 9, "what comes before is served");
        cold.settle().await;
        for _ in 0..2 {
            let error = cold.read(9, 1 << 20).await.unwrap_err();
            assert_eq!(error.kind(), FailureKind::Corrupt);
            let text = error.to_string();
            assert!(text.contains("00000000000000000000.log"), "{text}");
            assert!(text.contains(&(9 * size).to_string()), "{text}");
        }
        assert_eq!(cold.read_on(10, BATCHES, 20_000).await, BATCHES);
        let end = Offset(BATCHES);
        let all = cold.log.read(Offset(8), end, 1 << 20, true).await.unwrap();
        assert_eq!(decode(&all.concat().into()), [(8, 8)]);
    });
}

#[test]
fn a_read_ahead_that_fails_is_no_error_of_the_reader() {
    simulate(async {
        for failing in 0..12 {
            let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
            let next = cold.read_on(0, 2, 10_000).await;
            cold.settle().await;
            let effect = Effect::Fail(std::io::ErrorKind::Other);
            cold.world
                .disk()
                .inject(Fault::at_kind(failing, OpKind::Read, effect));
            let mut from = next;
            while from < BATCHES {
                // A reader that needs the bytes at once may meet the fault itself; it is gone when
                // it tries again.
                match cold.read(from, 10_000).await {
                    Ok(read) => from += i64::try_from(read.len()).unwrap(),
                    Err(error) => panic!("reading at {from}, fault {failing}: {error}"),
                }
                cold.settle().await;
            }
        }
    });
}

#[test]
fn what_was_cut_off_is_not_served_from_memory() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 1000, one_segment()).await;
        cold.read_on(0, 10, 2000).await;
        cold.settle().await;
        cold.log.truncate_to(Offset(15)).await.unwrap();
        for name in 100..140 {
            let others = batch(name, 1, 900);
            cold.log.append(&others, EPOCH, NOW_MS).unwrap();
        }
        cold.log.flush().await.unwrap();
        let mut from = 10;
        let mut names = Vec::new();
        while from < 55 {
            for (offset, name) in cold.read(from, 2000).await.unwrap() {
                assert_eq!(offset, from);
                names.push(name);
                from += 1;
            }
        }
        let expected: Vec<i64> = (10..15).chain(100..140).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn memory_of_readers_that_went_away_is_given_back() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 5000, one_segment()).await;
        cold.read_on(0, 10, 20_000).await;
        cold.settle().await;
        let before = cold.metrics.read_bytes.get();
        let a_while = std::time::Duration::from_secs(20);
        let _ = platform::task::timeout(a_while, std::future::pending::<()>()).await;
        assert!(cold.metrics.read_ahead_unused_bytes.get() > 0);
        cold.read_on(10, 20, 20_000).await;
        assert!(cold.metrics.read_bytes.get() > before, "it was let go");
    });
}

#[test]
fn many_readers_at_once_all_get_on() {
    simulate(async {
        let cold = ColdStart::start(300, 5000, one_segment()).await;
        let mut readers: Vec<i64> = (0..30).map(|at| at * 9).collect();
        while readers.iter().any(|next| *next < 300) {
            for next in &mut readers {
                if *next < 300 {
                    *next = cold.read_on(*next, *next + 1, 20_000).await;
                }
            }
        }
    });
}

#[test]
fn the_estimate_of_a_cold_range_is_not_too_low() {
    simulate(async {
        let cold = ColdStart::start(BATCHES, 1000, one_segment()).await;
        let size = batch(0, 1, 1000).len();
        for from in 0..BATCHES {
            for below in from + 1..=BATCHES {
                let exact = size * usize::try_from(below - from).unwrap();
                let told = cold
                    .log
                    .available_bytes(Offset(from), Offset(below), 1 << 30);
                let interval = 2 * (4096 + 2 * size);
                assert!(
                    (exact..=exact + interval).contains(&told),
                    "{from}..{below}: {told} instead of {exact}"
                );
            }
        }
    });
}
