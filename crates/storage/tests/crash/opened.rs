//! A start that looks once at the folder of a log finds and leaves what one does that reads file by
//! file, whatever a life that ended at any operation has left there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use platform::{Disk, Platform};
use storage::LogPoints;
use wire::types::{LeaderEpoch, Offset};

use super::{Ledger, MEDIA, crash_options, crash_store, fresh, live_until, operations_of_a_life};
use crate::world::*;

/// What opening a log finds and leaves.
#[derive(PartialEq, Debug)]
struct Opened {
    outcome: Result<OpenedLog, String>,
    files: BTreeMap<String, Vec<u8>>,
}

/// What there is to see of a log.
#[derive(PartialEq, Debug)]
struct OpenedLog {
    offsets: [Offset; 3],
    points: Vec<LogPoints>,
    producers: usize,
    epochs: Vec<(LeaderEpoch, Offset)>,
    records: Vec<(i64, i64)>,
}

fn points_of(world: &World) -> Vec<LogPoints> {
    let mut points = world.store.points(Path::new(DIR));
    points.retain(|of| of.topic_partition == partition());
    points
}

async fn opened(world: &World, known: &Ledger) -> Opened {
    let (clean, point) = (known.clean, known.recovery_point);
    let log = world
        .try_open(crash_options(), clean, point, known.log_start)
        .await;
    // What a start goes on with in the background has its time.
    world.platform.clock().sleep(Duration::from_secs(3)).await;
    let outcome = match log {
        Ok(log) => {
            let (start, end) = (log.log_start_offset(), log.log_end_offset());
            let epochs = (0..3).map(|epoch| log.epoch_end(LeaderEpoch(epoch)));
            Ok(OpenedLog {
                offsets: [start, end, log.durable_offset()],
                points: points_of(world),
                producers: log.producers().len(),
                epochs: epochs.collect(),
                records: names_between(&log, start.0, end.0, 10_000).await,
            })
        }
        Err(error) => Err(error.to_string()),
    };
    let mut files = BTreeMap::new();
    for entry in world
        .disk()
        .list(Path::new(FOLDER))
        .await
        .unwrap_or_default()
    {
        let bytes = world.disk().contents(&Path::new(FOLDER).join(&entry.name));
        files.insert(without_time(&entry.name), without_room(bytes.unwrap()));
    }
    Opened { outcome, files }
}

/// Room is reserved when a file is opened: an empty one is opened by its first append.
fn without_room(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(len.map_or(0, |last| last + 1));
    bytes
}

/// What is set aside has the time in its name.
fn without_time(name: &str) -> String {
    let is_time = |part: &str| part.len() == 13 && part.bytes().all(|digit| digit.is_ascii_digit());
    let parts = name.split('.');
    let parts: Vec<_> = parts
        .map(|part| if is_time(part) { "time" } else { part })
        .collect();
    parts.join(".")
}

#[test]
fn one_look_at_a_log_finds_what_its_files_say_one_by_one() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for k in 0..=operations {
            for is_power_cut in [false, true] {
                simulate(async {
                    let (world, known) = fresh(on);
                    live_until(&world, &known, k).await;
                    let known = known.borrow().clone();
                    let mut seen = Vec::new();
                    for is_reference in [true, false] {
                        // Both images are the same.
                        let disk = if is_power_cut {
                            world.disk().crash(k)
                        } else {
                            world.disk().kill(k)
                        };
                        let next = world.successor_with(disk, crash_store());
                        // Another log of the directory was opened before: its names are durable.
                        let dir = Path::new(DIR);
                        next.disk().create_dir(dir).await.unwrap();
                        if is_reference {
                            next.store.open_step_by_step();
                        } else {
                            next.open_another().await;
                        }
                        seen.push(opened(&next, &known).await);
                    }
                    let (found, reference) = (seen.pop(), seen.pop());
                    assert_eq!(found, reference, "after {k} operations");
                });
            }
        }
    }
}
