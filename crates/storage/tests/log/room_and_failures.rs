//! A disk without room, a disk that fails, memory that runs short: what is refused, what goes on,
//! what comes back.

use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use crate::world::*;
use platform::sim::{Effect, Fault, OpKind};
use storage::{FailureKind, LogOptions, Observer, StoreOptions};
use wire::types::Offset;

async fn pass(seconds: u64) {
    let never = std::future::pending::<()>();
    let _ = platform::task::timeout(Duration::from_secs(seconds), never).await;
}

#[derive(Default)]
struct ProgressCount(Cell<u32>);

impl Observer for ProgressCount {
    fn progressed(&self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_full_disk_refuses_appends_and_takes_them_again_when_there_is_room() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..30 {
            produce(&log, 1, 3000).await;
        }
        world.disk().set_capacity_bytes(Some(140_000));
        let told = Rc::new(ProgressCount::default());
        let observer: Rc<dyn Observer> = told.clone();
        log.observe(Rc::downgrade(&observer));
        let mut acknowledged = 30;
        while log.failed().is_none() {
            log.append(&batch(log.log_end_offset().0, 1, 3000), EPOCH, NOW_MS)
                .unwrap();
            match log.flush().await {
                Ok(()) => acknowledged += 1,
                Err(error) => assert_eq!(error.kind(), FailureKind::Full),
            }
        }
        assert!(told.0.get() > 0, "those who wait are told");
        let refused = log.append(&batch(0, 1, 1), EPOCH, NOW_MS).unwrap_err();
        assert_eq!(refused.kind(), FailureKind::Full);
        assert_holds(&log, 0, acknowledged).await;
        // Retention makes room.
        log.set_high_watermark(log.durable_offset());
        let bounded = LogOptions {
            retention_bytes: Some(1),
            file_delete_delay_ms: 10,
            ..options()
        };
        log.set_options(bounded);
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        pass(5).await;
        assert!(log.failed().is_none());
        // What could not be written has been written meanwhile, at the offsets that it was given.
        let end = log.log_end_offset().0;
        assert_eq!(log.durable_offset().0, end);
        produce(&log, 1, 3000).await;
        assert_holds(&log, log.log_start_offset().0, end + 1).await;
        let next = world.successor(world.disk().crash(1));
        let reopened = next.open(options()).await;
        assert_eq!(reopened.log_end_offset(), Offset(end + 1));
        assert_holds(&reopened, reopened.log_start_offset().0, end + 1).await;
    });
}

#[test]
fn a_failed_sync_or_write_latches_the_log_and_reads_go_on() {
    simulate(async {
        for kind in [OpKind::Sync, OpKind::Write] {
            let world = World::new();
            let log = world.open(options()).await;
            for _ in 0..5 {
                produce(&log, 1, 3000).await;
            }
            let fault = Fault::at_kind(0, kind, Effect::Fail(ErrorKind::Other));
            world.disk().inject(fault);
            append(&log, 1, 3000);
            assert_eq!(log.flush().await.unwrap_err().kind(), FailureKind::Failed);
            assert_eq!(log.durable_offset(), Offset(5));
            let refused = log.append(&batch(0, 1, 1), EPOCH, NOW_MS).unwrap_err();
            assert_eq!(refused.kind(), FailureKind::Failed);
            assert!(refused.to_string().contains("simulated fault"), "{refused}");
            assert_holds(&log, 0, 5).await;
            assert_eq!(
                log.flush().await.unwrap_err().kind(),
                FailureKind::Failed,
                "nothing is retried"
            );
            assert_eq!(log.close().await.unwrap_err().kind(), FailureKind::Failed);
            let next = world.successor(world.disk().crash(9));
            let reopened = next.open(options()).await;
            assert_holds(&reopened, 0, 5).await;
        }
    });
}

#[test]
fn appends_beyond_the_memory_are_refused_as_a_whole_and_work_later() {
    simulate(async {
        let store = StoreOptions {
            cache_bytes_max: 0,
            unwritten_bytes_max: 256 << 10,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(1), store);
        let log = world
            .open(LogOptions {
                segment_bytes: 1 << 20,
                ..options()
            })
            .await;
        let mut appended = 0;
        let refused = loop {
            let bytes = batch(appended, 1, 20_000);
            match log.append(&bytes, EPOCH, NOW_MS) {
                Ok(_) => appended += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), FailureKind::Retry);
        assert!(appended > 5);
        assert_eq!(log.log_end_offset(), Offset(appended));
        log.flush().await.unwrap();
        produce(&log, 1, 20_000).await;
        assert_holds(&log, 0, appended + 1).await;
    });
}

#[test]
fn readers_that_keep_what_they_read_never_keep_producers_from_appending() {
    simulate(async {
        let store = StoreOptions {
            cache_bytes_max: 256 << 10,
            unwritten_bytes_max: 512 << 10,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(1), store);
        let log = world.open(options()).await;
        let mut kept = Vec::new();
        // Forty times the memory, all of it read at the end of the log and held.
        for offset in 0..1500 {
            produce(&log, 1, 20_000).await;
            let end = Offset(offset + 1);
            let read = log.read(Offset(offset), end, 1 << 20, true).await.unwrap();
            kept.push(read);
        }
        for (offset, read) in kept.iter().enumerate() {
            let offset = i64::try_from(offset).unwrap();
            assert_eq!(decode(&read.concat().into()), [(offset, offset)]);
        }
    });
}

#[test]
fn many_idle_logs_share_little_memory() {
    simulate(async {
        let store = StoreOptions {
            cache_bytes_max: 1 << 20,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(1), store);
        let mut logs = Vec::new();
        for index in 0..100 {
            let partition = wire::types::TopicPartition {
                topic: "t".into(),
                partition: index,
            };
            let how = storage::OpenAs {
                clean: false,
                recovery_point: Offset(0),
                log_start: Offset(0),
                compacted: None,
            };
            let dir = std::path::Path::new(DIR);
            let opened = world
                .store
                .open_log(dir, partition, topic_id(), options(), how)
                .await;
            logs.push(opened.unwrap());
        }
        for _ in 0..10 {
            for log in &logs {
                produce(log, 1, 1000).await;
            }
        }
        for log in &logs {
            assert_holds(log, 0, 10).await;
        }
    });
}

async fn open_named(world: &World, topic: &str) -> SimLog {
    let partition = wire::types::TopicPartition {
        topic: topic.into(),
        partition: 0,
    };
    let how = storage::OpenAs {
        clean: false,
        recovery_point: Offset(0),
        log_start: Offset(0),
        compacted: None,
    };
    let dir = std::path::Path::new(DIR);
    let opened = world
        .store
        .open_log(dir, partition, topic_id(), options(), how);
    opened.await.unwrap()
}

#[test]
fn while_there_are_no_descriptors_nothing_fails_and_all_goes_on_afterwards() {
    simulate(async {
        for errno in [24, 23, 12, 11] {
            let world = World::new();
            let (rolls, other) = (
                open_named(&world, "rolls").await,
                open_named(&world, "other").await,
            );
            for _ in 0..30 {
                produce(&rolls, 1, 3000).await;
                produce(&other, 1, 100).await;
            }
            world.disk().set_exhausted(Some(errno));
            let mut refused = None;
            for _ in 0..40 {
                let first = rolls.log_end_offset().0;
                match rolls.append(&batch(first, 1, 3000), EPOCH, NOW_MS) {
                    Ok(_) => drop(rolls.flush().await),
                    Err(error) => refused = Some(error),
                }
            }
            assert_eq!(
                refused.unwrap().kind(),
                FailureKind::Full,
                "a roll needs a descriptor"
            );
            // A log that has its file goes on.
            produce(&other, 1, 100).await;
            assert!(!world.store.dir_failed(std::path::Path::new(DIR)));
            let durable = rolls.durable_offset().0;
            assert_holds(&rolls, rolls.log_start_offset().0, durable).await;
            world.disk().set_exhausted(None);
            pass(2).await;
            assert!(rolls.failed().is_none());
            produce(&rolls, 1, 3000).await;
            let end = rolls.log_end_offset().0;
            assert_holds(&rolls, 0, end).await;
            rolls.close().await.unwrap();
            let next = world.successor(world.disk().crash(3));
            let log = open_named(&next, "rolls").await;
            assert_eq!(log.log_end_offset(), Offset(end));
            assert_holds(&log, 0, end).await;
        }
    });
}

#[test]
fn logs_that_nobody_writes_to_hold_no_descriptor() {
    simulate(async {
        let world = World::new();
        let _flusher = world.store.spawn_flusher();
        let mut logs = Vec::new();
        for index in 0..20 {
            let log = open_named(&world, &format!("t{index}")).await;
            produce(&log, 1, 40_000).await;
            append(&log, 1, 10);
            logs.push(log);
        }
        pass(3).await;
        assert_eq!(world.store.open_files(), 20);
        for second in 0..60 {
            if second % 5 == 0 {
                produce(&logs[0], 1, 10).await;
            }
            pass(1).await;
        }
        assert_eq!(
            world.store.open_files(),
            1,
            "only the one that is written to"
        );
        for log in &logs {
            let end = log.log_end_offset().0;
            assert_holds(log, 0, end).await;
            produce(log, 1, 2000).await;
            assert_holds(log, 0, end + 1).await;
        }
        let ends: Vec<_> = logs.iter().map(|log| log.log_end_offset()).collect();
        let next = world.successor(world.disk().crash(3));
        for (index, end) in ends.into_iter().enumerate() {
            let log = open_named(&next, &format!("t{index}")).await;
            assert_eq!(log.log_end_offset(), end);
            assert_holds(&log, 0, end.0).await;
        }
    });
}

#[test]
fn a_file_that_only_a_read_has_opened_is_closed_again() {
    simulate(async {
        let store = StoreOptions {
            cache_bytes_max: 0,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(1), store);
        let _flusher = world.store.spawn_flusher();
        let one_segment = LogOptions {
            segment_bytes: 1 << 20,
            ..options()
        };
        let log = world.open(one_segment).await;
        for _ in 0..10 {
            produce(&log, 1, 40_000).await;
        }
        pass(60).await;
        assert_eq!(world.store.open_files(), 0);
        for _ in 0..3 {
            assert_holds(&log, 0, 10).await;
            let mut open = Vec::new();
            for _ in 0..100 {
                pass(1).await;
                open.push(world.store.open_files());
            }
            assert!(open.contains(&1), "the read's");
            assert_eq!(open.last(), Some(&0));
        }
    });
}

#[test]
fn above_the_bound_the_longest_idle_files_are_closed_at_once() {
    simulate(async {
        let store = StoreOptions {
            open_segments_max: 4,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(1), store);
        let _flusher = world.store.spawn_flusher();
        let mut logs = Vec::new();
        for index in 0..30 {
            let log = open_named(&world, &format!("t{index}")).await;
            produce(&log, 1, 100).await;
            logs.push(log);
        }
        pass(4).await;
        assert!(
            world.store.open_files() <= 4,
            "{}",
            world.store.open_files()
        );
        for log in &logs {
            produce(log, 1, 100).await;
            assert_holds(log, 0, 2).await;
        }
    });
}

#[test]
fn segments_that_are_rolled_faster_than_they_are_sealed_are_refused_for_a_while() {
    simulate(async {
        let store = StoreOptions {
            unwritten_bytes_max: 1 << 30,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(1), store);
        let tiny = LogOptions {
            segment_bytes: 100,
            ..options()
        };
        let log = world.open(tiny).await;
        let mut taken = 0;
        for _ in 0..2000 {
            match log.append(&batch(taken, 1, 10), EPOCH, NOW_MS) {
                Ok(_) => taken += 1,
                Err(error) => assert_eq!(error.kind(), FailureKind::Retry),
            }
        }
        assert!((10..600).contains(&taken), "{taken} of 2000");
        assert!(log.segment_count() <= 600);
        log.flush().await.unwrap();
        pass(60).await;
        for _ in 0..200 {
            produce(&log, 1, 10).await;
            taken += 1;
        }
        assert_holds(&log, 0, taken).await;
        let next = world.successor(world.disk().crash(1));
        let reopened = next.open(options()).await;
        assert_holds(&reopened, 0, taken).await;
    });
}
