//! Moves of a log from one log directory to another and back, one after the other.

use std::path::Path;
use std::sync::Arc;

use platform::Platform;
use platform::disk::Disk;
use platform::sim::SimPlatform;
use storage::tier::MoveRate;
use storage::{OpenAs, Relocation};
use wire::types::{Offset, Uuid};

use crate::world::*;

const OTHER: &str = "/other";

async fn open_in(world: &World, dir: &str) -> SimLog {
    let how = OpenAs {
        clean: true,
        recovery_point: Offset(3),
        log_start: Offset::ZERO,
        compacted: None,
    };
    let opened = world
        .store
        .open_log(Path::new(dir), partition(), topic_id(), options(), how);
    opened.await.unwrap()
}

/// Moves a log, and opens it there. The directory that it leaves is known by the number `from`.
async fn moved(log: &SimLog, to: &str, from: u128) -> Relocation<SimPlatform> {
    let rate = Arc::new(MoveRate::default());
    let relocation = Relocation::begin(log, Path::new(to), rate).await.unwrap();
    relocation.catch_up().await.unwrap();
    log.close().await.unwrap();
    relocation.switch(Uuid::from_u128(from)).await.unwrap();
    relocation
}

/// The checkpoint after the first move took so long that the log has gone back and come again: the
/// note of the third move has to stay until its own old folder is gone.
#[test]
fn a_late_end_of_a_move_leaves_the_note_of_another_one() {
    simulate(async {
        let world = World::new();
        let disk = world.platform.disk();
        for dir in [DIR, OTHER] {
            disk.create_dir(Path::new(dir)).await.unwrap();
        }
        let log = open_in(&world, DIR).await;
        produce(&log, 3, 100).await;
        let first = moved(&log, OTHER, 1).await;
        first.retire().await.unwrap();
        let log = open_in(&world, OTHER).await;
        let back = moved(&log, DIR, 2).await;
        back.retire().await.unwrap();
        let log = open_in(&world, DIR).await;
        let third = moved(&log, OTHER, 1).await;

        let note = Path::new(OTHER).join("orders-0/moved.metadata");
        let before = disk.contents(&note).unwrap();
        first.settle().await.unwrap();
        assert_eq!(disk.contents(&note).unwrap(), before, "of the third move");
        third.retire().await.unwrap();
        third.settle().await.unwrap();
        assert!(disk.contents(&note).is_err(), "what it said is done");
        third.settle().await.unwrap();
        assert_holds(&open_in(&world, OTHER).await, 0, 3).await;
    });
}
