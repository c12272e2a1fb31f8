//! Planted bugs whose effect shows in the world around the logs. Each stands for a class of faults
//! found in the field, and a run must find it.
//!
//! Elsewhere: a disk that lies ([`crate::world::LyingPlatform`]) and acknowledgements that are too
//! early (`producer.rs`).

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use platform::disk::Disk;
use platform::sim::{Rng, SimDisk};
use storage::{FailureKind, Log, OpenAs, folder_name};
use wire::types::{Offset, TopicPartition};

use crate::actor::Actor;
use crate::directory::DIR;
use crate::world::{PlantedBug, World};

/// Releases a shard that [`PlantedBug::TimerArmedAtNow`] blocks, so that a test can end.
pub static LET_GO: AtomicBool = AtomicBool::new(false);

/// The state of a planted bug that is kept between lives.
#[derive(Default)]
pub(crate) struct Plants {
    /// A segment as it was at the beginning of the previous life.
    copy: RefCell<Option<(PathBuf, Vec<u8>)>>,
}

impl Plants {
    /// Applies a bug's effect on the directory at the beginning of a life.
    pub(crate) async fn begin(
        &self,
        planted: Option<PlantedBug>,
        disk: &SimDisk,
        log: &TopicPartition,
        missing: &[&Path],
    ) {
        let folder = Path::new(DIR).join(folder_name(log));
        if planted == Some(PlantedBug::NoteGoesFirst) {
            forget(disk, &folder, missing).await;
            return;
        }
        let first = folder.join(format!("{:020}.log", 0));
        let Ok(now) = disk.contents(&first) else {
            return;
        };
        match planted {
            Some(PlantedBug::StaleCopyWins) => {
                if let Some((path, before)) = self.copy.replace(Some((first, now))) {
                    let put = disk.put(&path, &before);
                    put.expect("a healthy disk");
                }
            }
            Some(PlantedBug::AbsentIsGone) => {
                let put = disk.put(&first, &[]);
                put.expect("a healthy disk");
            }
            _ => {}
        }
    }
}

/// Removes the notes of segments on a missing path, as a kill would if a note were removed before
/// the next one is written.
async fn forget(disk: &SimDisk, home: &Path, missing: &[&Path]) {
    let is_missing = |note: &[u8]| {
        let note = String::from_utf8_lossy(note);
        let ends = |dir: &&Path| note.trim_end().ends_with(&format!(" {}", dir.display()));
        missing.iter().any(ends)
    };
    for entry in disk.list(home).await.unwrap_or_default() {
        let note = home.join(&entry.name);
        let is_note = note.extension().is_some_and(|kind| kind == "away");
        if is_note && disk.contents(&note).is_ok_and(|bytes| is_missing(&bytes)) {
            let removed = disk.remove_file(&note).await;
            removed.expect("a healthy disk");
        }
    }
}

/// Returns true if a waiting batch is given up because the disk is full: its memory is released,
/// but the log keeps it.
pub(crate) fn takes_full_for_not_written<W: World>(actor: &Actor<W>, base: Offset) -> bool {
    let full = actor
        .log
        .failed()
        .is_some_and(|error| error.kind() == FailureKind::Full);
    let planted = actor.planted == Some(PlantedBug::FullIsNotWritten);
    if planted && full {
        actor.ledger.borrow_mut().truncated(base);
    }
    planted && full
}

/// Returns true if the high watermark waits because the wall clock has gone back since it was last
/// set, at `last_ms`.
pub(crate) fn waits_for_the_clock<W: World>(actor: &Actor<W>, last_ms: &mut i64) -> bool {
    let now_ms = actor.now_ms();
    let planted = actor.planted == Some(PlantedBug::EarlierIsNotDue);
    let waits = planted && now_ms < *last_ms;
    *last_ms = now_ms.max(*last_ms);
    waits
}

/// Drops what a log that was just opened has beyond its checkpoint, whatever its batches say.
pub(crate) async fn end_at_checkpoint<W: World>(
    planted: Option<PlantedBug>,
    log: &Log<W>,
    how: OpenAs,
) {
    if planted == Some(PlantedBug::CheckpointIsTheEnd) {
        let end = how.recovery_point.max(log.log_start_offset());
        // A disk that fails makes it no bug of this kind.
        let _ = log.truncate_to(end.min(log.log_end_offset())).await;
    }
}

/// Runs a planted bug that acts beside the other actors.
pub(crate) async fn run<W: World>(actor: Actor<W>, mut rng: Rng) {
    match actor.planted {
        Some(PlantedBug::CheckedBeforeWaiting) => {
            while !actor.is_stopping() && !actor.is_over() {
                let checked = actor.log.high_watermark();
                actor.pause(&mut rng, 400).await;
                if let Err(error) = actor.log.set_log_start(checked) {
                    actor.check_error("set log start", &error);
                }
            }
        }
        Some(PlantedBug::TimerArmedAtNow) => {
            let clock = actor.world.clock();
            let due = clock.now();
            while due <= clock.now() && !LET_GO.load(Ordering::Relaxed) {
                clock.sleep(Duration::ZERO).await;
            }
        }
        _ => {}
    }
}
