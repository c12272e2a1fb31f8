//! Indexes that point between batches, and leader epochs that are wrong: readers who meet them are
//! served all the same, however many of them go while it is found out, and whatever the disk
//! refuses meanwhile.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::world::*;
use platform::Platform;
use platform::disk::Disk;
use platform::sim::{Effect, Fault, OpKind};
use storage::{FailureKind, StoreOptions};
use wire::types::Offset;

const RECORDS: i64 = 60;
/// How long a disk that failed is not asked again, and a little.
const LATER: Duration = Duration::from_secs(6);

fn index() -> std::path::PathBuf {
    Path::new(FOLDER).join("00000000000000000000.index")
}

/// A log whose first segment has an index with wrong positions only.
async fn misled() -> World {
    let world = World::new();
    let log = world.open(options()).await;
    for _ in 0..RECORDS {
        produce(&log, 1, 3000).await;
    }
    log.close().await.unwrap();
    let disk = world.disk().kill(1);
    let mut bytes = disk.contents(&index()).unwrap();
    for entry in bytes.chunks_mut(8) {
        entry[7] ^= 1;
    }
    disk.put(&index(), &bytes).unwrap();
    world.successor(disk)
}

async fn opened(world: &World) -> SimLog {
    world.try_open(options(), true, RECORDS, 0).await.unwrap()
}

async fn read_at(log: &SimLog, offset: i64) -> storage::Result<()> {
    let read = log.read(Offset(offset), Offset(offset + 1), 1, true).await;
    read.map(|slices| assert!(!slices.concat().is_empty()))
}

#[test]
fn a_reader_who_goes_while_an_index_is_built_anew_leaves_it_to_the_next() {
    simulate(async {
        let mut went = 0;
        for polls in 1.. {
            let world = misled().await;
            let log = opened(&world).await;
            if polled(read_at(&log, 15), polls).await {
                break;
            }
            went += 1;
            let read = read_at(&log, 15).await;
            read.unwrap_or_else(|error| panic!("gone after {polls} polls: {error}"));
        }
        assert!(went > 5, "it has not waited for anything");
    });
}

#[test]
fn readers_who_all_go_early_are_served_in_the_end() {
    simulate(async {
        let world = misled().await;
        let log = opened(&world).await;
        for _ in 0..1000 {
            if polled(read_at(&log, 15), 5).await {
                return;
            }
        }
        panic!("each has begun anew");
    });
}

#[test]
fn records_are_found_by_time_although_an_index_points_between_batches() {
    simulate(async {
        let world = misled().await;
        let log = opened(&world).await;
        for at in [15, 3] {
            let timestamp = wire::types::TimestampMs(NOW_MS + at);
            let found = log.offset_for_timestamp(timestamp, Offset(RECORDS)).await;
            assert_eq!(found.unwrap().map(|found| found.offset), Some(Offset(at)));
        }
    });
}

#[test]
fn an_index_is_built_anew_later_when_the_disk_refuses_for_a_moment() {
    const EMFILE: i32 = 24;
    const EIO: i32 = 5;
    simulate(async {
        for effect in [Effect::Errno(EMFILE), Effect::Errno(EIO)] {
            let mut spared = 0;
            for k in 0.. {
                let world = misled().await;
                let log = opened(&world).await;
                let disk = world.disk();
                disk.inject(Fault::at(k, effect));
                let not_corrupt = |read: &storage::Result<()>| {
                    let kind = read.as_ref().err().map(storage::Error::kind);
                    assert_ne!(kind, Some(FailureKind::Corrupt), "{effect:?} {k}");
                };
                not_corrupt(&read_at(&log, 15).await);
                if disk.faults_left() > 0 {
                    assert!(k > 5, "nothing was asked of the disk");
                    break;
                }
                let before = disk.operations();
                let read = read_at(&log, 15).await;
                not_corrupt(&read);
                if read.is_err() {
                    assert!(disk.operations() - before < 5, "it is asked again at once");
                    spared += 1;
                }
                world.platform.clock().sleep(LATER).await;
                let read = read_at(&log, 15).await;
                read.unwrap_or_else(|error| panic!("{effect:?} {k}: {error}"));
            }
            assert_eq!(spared > 0, effect == Effect::Errno(EIO), "{effect:?}");
        }
    });
}

#[test]
fn an_index_that_cannot_be_saved_is_built_anew_as_often_as_it_is_let_go_of() {
    simulate(async {
        let few = StoreOptions {
            open_segments_max: 1,
            ..store_options()
        };
        let world = misled().await;
        let world = world.successor_with(world.disk().kill(1), few);
        let log = opened(&world).await;
        let wrong = world.disk().contents(&index()).unwrap();
        world.disk().set_read_only(true);
        for _ in 0..3 {
            for offset in [15, 30] {
                let read = read_at(&log, offset).await;
                read.unwrap_or_else(|error| panic!("at {offset}: {error}"));
            }
        }
        assert_eq!(world.disk().contents(&index()).unwrap(), wrong);
        world.disk().set_read_only(false);
        read_at(&log, 15).await.unwrap();
        read_at(&log, 30).await.unwrap();
        // The names of the files are free meanwhile: the log can roll.
        log.roll().await.unwrap();
        assert_ne!(world.disk().contents(&index()).unwrap(), wrong);
    });
}

/// What may be done to a log while an index of it is rebuilt.
#[derive(Clone, Copy, Debug)]
enum Change {
    Cut,
    Delete,
    Close,
}

#[test]
fn a_log_is_cut_closed_or_deleted_while_an_index_is_built_anew() {
    simulate(async {
        for change in [Change::Cut, Change::Delete, Change::Close] {
            for polls in (1..).step_by(5) {
                let world = misled().await;
                let log = opened(&world).await;
                let is_done = polled(read_at(&log, 15), polls).await;
                let end = match change {
                    Change::Cut => {
                        log.truncate_to(Offset(10)).await.unwrap();
                        for at in 0..12 {
                            produce(&log, 1, 1000 + 300 * at).await;
                        }
                        assert_holds(&log, 0, 22).await;
                        22
                    }
                    Change::Delete => {
                        log.delete().await.unwrap();
                        0
                    }
                    Change::Close => RECORDS,
                };
                if end > 0 {
                    log.close().await.unwrap();
                }
                let left = Rc::downgrade(&log);
                drop(log);
                for _ in 0..100 {
                    platform::task::yield_now().await;
                }
                assert!(left.upgrade().is_none(), "{change:?} {polls}: held");
                if end == 0 {
                    let found = world.disk().list(Path::new(FOLDER)).await;
                    found.expect_err("the folder is back");
                } else {
                    let next = world.successor(world.disk().kill(2));
                    let log = next.try_open(options(), true, end, 0).await.unwrap();
                    for offset in (0..end).rev() {
                        assert_holds(&log, offset, offset + 1).await;
                    }
                }
                if is_done {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_log_whose_disk_hangs_while_an_index_is_built_anew_is_closed_and_let_go_of() {
    simulate(async {
        let hours = Duration::from_hours(10);
        let mut hung = 0;
        for k in 0.. {
            let world = misled().await;
            let log = opened(&world).await;
            let fault = Fault::at_kind(k, OpKind::Read, Effect::Slow(hours));
            world.disk().inject(fault);
            if polled(read_at(&log, 15), 200).await {
                break;
            }
            hung += 1;
            let closed = platform::task::timeout(LATER, log.close()).await;
            closed.expect("it waits for the disk").unwrap();
            let left = Rc::downgrade(&log);
            drop(log);
            for _ in 0..100 {
                platform::task::yield_now().await;
            }
            assert!(left.upgrade().is_none(), "held after {k} reads");
        }
        assert!(hung > 2, "nothing was read");
    });
}
