//! Bugs that are planted where the world around the logs can show what they do: each stands for a class of faults that were
//! found in the field, and a run has to find it.
//!
//! Not here: a disk that lies ([`crate::world::LyingPlatform`]) and what a producer is told too early (`producer.rs`).

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use platform::disk::Disk;
use platform::sim::{Rng, SimDisk};
use storage::{Kind, folder_name};
use wire::types::{Offset, TopicPartition};

use crate::actor::Actor;
use crate::directory::DIR;
use crate::world::{Planted, World};

/// Lets go of a shard that [`Planted::TimerArmedAtNow`] holds, so that a test can end.
pub static LET_GO: AtomicBool = AtomicBool::new(false);

/// What a plant keeps from life to life.
#[derive(Default)]
pub(crate) struct Plants {
    /// A segment as it was when the life before began.
    copy: RefCell<Option<(PathBuf, Vec<u8>)>>,
}

impl Plants {
    /// A life begins: what a bug does to the directory, or reads it as.
    pub(crate) async fn begin(
        &self,
        planted: Option<Planted>,
        disk: &SimDisk,
        log: &TopicPartition,
        missing: &[&Path],
    ) {
        let folder = Path::new(DIR).join(folder_name(log));
        if planted == Some(Planted::NoteGoesFirst) {
            forget(disk, &folder, missing).await;
            return;
        }
        let first = folder.join(format!("{:020}.log", 0));
        let Ok(now) = disk.contents(&first) else {
            return;
        };
        match planted {
            Some(Planted::StaleCopyWins) => {
                if let Some((path, before)) = self.copy.replace(Some((first, now))) {
                    let put = disk.put(&path, &before);
                    put.expect("a healthy disk");
                }
            }
            Some(Planted::AbsentIsGone) => {
                let put = disk.put(&first, &[]);
                put.expect("a healthy disk");
            }
            _ => {}
        }
    }
}

/// Takes away the notes of segments on a path that is missing, as kills leave it where a note goes before the next one comes.
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

/// Whether a batch that waits is given up, because the disk is full: its memory goes back, the log keeps it.
pub(crate) fn takes_full_for_not_written<W: World>(actor: &Actor<W>, base: Offset) -> bool {
    let full = actor
        .log
        .failed()
        .is_some_and(|error| error.kind() == Kind::Full);
    let planted = actor.planted == Some(Planted::FullIsNotWritten);
    if planted && full {
        actor.ledger.borrow_mut().truncated(base);
    }
    planted && full
}

/// Does what a planted bug does beside everything else.
pub(crate) async fn run<W: World>(actor: Actor<W>, mut rng: Rng) {
    match actor.planted {
        Some(Planted::CheckedBeforeWaiting) => {
            while !actor.is_stopping() && !actor.is_over() {
                let checked = actor.log.high_watermark();
                actor.pause(&mut rng, 400).await;
                if let Err(error) = actor.log.set_log_start(checked) {
                    actor.check_error("set log start", &error);
                }
            }
        }
        Some(Planted::TimerArmedAtNow) => {
            let clock = actor.world.clock();
            let due = clock.now();
            while due <= clock.now() && !LET_GO.load(Ordering::Relaxed) {
                clock.sleep(Duration::ZERO).await;
            }
        }
        _ => {}
    }
}
