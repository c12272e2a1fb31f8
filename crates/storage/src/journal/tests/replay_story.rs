//! Logs that are written through journals, on a disk that fails at each operation: what a start
//! puts together from rings and segments is what the logs were, with all that was acknowledged.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Clock;
use platform::disk::Disk;
use platform::sim::{Effect, Fault, Rng, SimDisk, SimPlatform};
use platform::sync::Semaphore;
use platform::task;

use super::commit_story::rest;
use super::replay_world::*;
use super::ring_file::simulate;
use super::*;
use crate::journal::committer::{Committer, CommitterOptions};
use crate::journal::error::JournalError;
use crate::journal::file;
use crate::journal::names::{ring_path, rings_in};
use crate::journal::replay::planted::{ReplayBug, plant};
use crate::journal::replay::{LogDirectory, ReadyRing, replay};

const LOGS: u128 = 5;

/// Simulated time after which a life is stuck: a life takes seconds.
const NOTHING_GOES_ON: Duration = Duration::from_mins(1);

/// Steps of a log in a life.
const STEPS: u32 = 14;

fn directory() -> LogDirectory<'static> {
    LogDirectory {
        path: Path::new(DIR),
        cluster_id: "the cluster",
        directory_id: Uuid::from_u128(1),
        left_clean: false,
    }
}

/// What is counted of the stories, to see that they are about something.
type SeenCounts = Rc<RefCell<BTreeMap<&'static str, u32>>>;

fn see(seen: &SeenCounts, what: &'static str) {
    *seen.borrow_mut().entry(what).or_default() += 1;
}

struct Story {
    known: KnownLogs,
    seen: SeenCounts,
    planted: Option<StoryBug>,
}

impl Story {
    fn new(planted: Option<StoryBug>) -> Self {
        Self {
            known: Rc::new(RefCell::new((1..=LOGS).map(KnownLog::new).collect())),
            seen: SeenCounts::default(),
            planted,
        }
    }

    /// A start, logs that are written until all are done or nothing goes on, and an end.
    async fn live(&self, disk: &SimDisk, seed: u64) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let shards = 1 + u32::try_from(seed % 3).unwrap();
        let committers = match self.start(disk, seed, shards).await {
            Ok(committers) => committers,
            Err(error) if error.contains("simulated") => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut logs = Vec::new();
        for at in 0..usize::try_from(LOGS).unwrap() {
            // A log may be of another shard in each life.
            let shard = (at + index_of(seed)) % committers.len();
            logs.push((shard, Rc::new(self.open(disk, at, &committers[shard]))));
        }
        let landing: Vec<_> = (0..committers.len())
            .map(|shard| {
                let of_shard = logs.iter().filter(|log| log.0 == shard);
                let lander = LogLander(of_shard.map(|log| Rc::clone(&log.1)).collect());
                let committer = committers[shard].clone();
                task::spawn(async move {
                    loop {
                        committer.landing_wanted().await;
                        if committer.land(&lander, 3).await == 0 {
                            rest(Duration::from_millis(1)).await;
                        }
                    }
                })
            })
            .collect();
        let writers = logs.iter().map(|(_, log)| {
            let (log, rng) = (Rc::clone(log), Rng::new(rng.next_u64()));
            let seen = Rc::clone(&self.seen);
            task::spawn(async move {
                if let Err(error) = write_log(&log, rng, &seen).await {
                    only_failing_disks(error.as_ref());
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for writer in writers {
            writer.await.unwrap();
        }
        for landing in landing {
            landing.abort();
            assert!(landing.await.is_err_and(|ended| ended.is_cancelled()));
        }
        Ok(())
    }

    /// Replays the rings, holds the logs against what is known of them, and opens a ring for each
    /// shard.
    async fn start(
        &self,
        disk: &SimDisk,
        seed: u64,
        shards: u32,
    ) -> Result<Vec<Committer<platform::sim::SimFile>>, String> {
        let platform = SimPlatform::on(disk.clone(), Clock::starting_at(1_000), seed);
        let text = |error: JournalError| error.to_string();
        let id = directory().directory_id;
        let rings = rings_in(disk, Path::new(DIR), id).await;
        let rings = rings.map_err(|error| error.to_string())?;
        let rings: Vec<_> = rings.into_iter().map(|(path, _)| path).collect();
        let replayed = replay(&platform, &directory(), &rings).await;
        let replayed = replayed.map_err(text)?;
        if !replayed.report.is_whole() {
            return Err(format!("{:?}", replayed.report));
        }
        for log in &replayed.report.logs {
            see(
                &self.seen,
                if log.written_bytes > 0 {
                    "written"
                } else {
                    "there"
                },
            );
            if log.cut.is_some() {
                see(&self.seen, "cut read back");
            }
        }
        let count = self.known.borrow().len();
        for at in 0..count {
            let mut log = {
                let mut known = self.known.borrow_mut();
                let number = known[at].number;
                std::mem::replace(&mut known[at], KnownLog::new(number))
            };
            let checked = log.check(disk).await;
            self.known.borrow_mut()[at] = log;
            checked?;
        }
        see(&self.seen, "started");
        self.open_rings(disk, replayed.rings, shards)
            .await
            .map_err(text)
    }

    async fn open_rings(
        &self,
        disk: &SimDisk,
        ready: Vec<ReadyRing<platform::sim::SimFile>>,
        shards: u32,
    ) -> Result<Vec<Committer<platform::sim::SimFile>>, JournalError> {
        let mut by_shard: BTreeMap<_, _> =
            ready.into_iter().map(|ring| (ring.shard, ring)).collect();
        let mut committers = Vec::new();
        for shard in 0..shards {
            let open = if let Some(ready) = by_shard.remove(&shard) {
                ready.ring
            } else {
                let id = RingId { shard, ..ring_id() };
                let path = ring_path(Path::new(DIR), id.directory_id, shard);
                file::create(disk, &path, id, small(), 7).await?
            };
            let options = CommitterOptions {
                unlanded_bytes_max: 40_000,
            };
            committers.push(Committer::new(open, options));
        }
        for ring in by_shard.into_values() {
            file::remove(disk, &ring.path).await?;
        }
        Ok(committers)
    }

    fn open(
        &self,
        disk: &SimDisk,
        at: usize,
        committer: &Committer<platform::sim::SimFile>,
    ) -> LiveLog {
        let newest = self.known.borrow()[at].newest().clone();
        let landed = newest.into_iter().flatten();
        LiveLog {
            disk: disk.clone(),
            at,
            known: Rc::clone(&self.known),
            committer: committer.clone(),
            writing: Arc::new(Semaphore::new(1)),
            handed_in: RefCell::default(),
            landed: RefCell::new(landed.map(|(base, bytes)| (base, bytes.len())).collect()),
            last_part: Cell::new(None),
            last_cut: Cell::new(None),
            is_named: Cell::new(false),
            planted: self.planted,
        }
    }
}

async fn write_log(log: &Rc<LiveLog>, mut rng: Rng, seen: &SeenCounts) -> StoryResult<()> {
    for _ in 0..STEPS {
        if rng.chance(30) {
            rest(Duration::from_millis(rng.below(10))).await;
        }
        if log.newest().is_none() {
            log.make().await?;
            see(seen, "made");
        }
        log.name_first().await?;
        match rng.below(100) {
            0..68 => append(log, &mut rng).await?,
            68..78 => roll(log),
            78..88 => truncate(log, &mut rng, seen).await?,
            88..96 => append_past_journal(log, &mut rng, seen).await?,
            _ => delete(log, seen).await?,
        }
    }
    Ok(())
}

/// Returns where the log grows, and the bytes that come there.
fn next_bytes(log: &LiveLog, rng: &mut Rng) -> (i64, usize, Vec<u8>, Content) {
    let mut content = log.newest().unwrap();
    let base = log.known.borrow()[log.at].active;
    let segment = content.entry(base).or_default();
    let position = segment.len();
    let below = [50, 900, 4000][index_of(rng.below(3))];
    let len = 1 + index_of(rng.below(below));
    let bytes: Vec<u8> = (0..len)
        .map(|_| 1 + u8::try_from(rng.below(255)).unwrap())
        .collect();
    segment.extend_from_slice(&bytes);
    (base, position, bytes, Some(content))
}

async fn append(log: &LiveLog, rng: &mut Rng) -> StoryResult<()> {
    let (base, position, bytes, content) = next_bytes(log, rng);
    let parts = if rng.chance(30) && bytes.len() > 1 {
        let (one, two) = bytes.split_at(bytes.len() / 2);
        let behind = position + one.len();
        vec![
            bytes_part(log.id(), base, position, one.to_vec()),
            bytes_part(log.id(), base, behind, two.to_vec()),
        ]
    } else {
        vec![bytes_part(log.id(), base, position, bytes)]
    };
    log.commit(parts, content).await
}

fn roll(log: &LiveLog) {
    let newest = log.newest().unwrap();
    let known = &mut log.known.borrow_mut()[log.at];
    if let Some(bytes) = newest.get(&known.active) {
        known.active += i64::try_from(bytes.len()).unwrap();
    }
}

async fn truncate(log: &LiveLog, rng: &mut Rng, seen: &SeenCounts) -> StoryResult<()> {
    let mut content = log.newest().unwrap();
    let Some(base) = content
        .keys()
        .nth(index_of(rng.below(content.len() as u64)))
        .copied()
    else {
        return Ok(());
    };
    let position = index_of(rng.below(content[&base].len() as u64 + 1));
    content.retain(|other, _| *other <= base);
    content.get_mut(&base).unwrap().truncate(position);
    content.retain(|_, bytes| !bytes.is_empty());
    let number = log.push(Some(content));
    let _writing = loop {
        let writing = log.writing.acquire().await?;
        if log.planted == Some(StoryBug::TruncateWithoutCut) {
            break writing;
        }
        if let Some(cut) = log.committer.cut(cut_part(log.id(), base, position))? {
            let sequence = cut.await?;
            log.last_part.set(Some(sequence));
            log.last_cut.set(Some(sequence));
            log.acknowledge(number);
            see(seen, "truncated");
            break writing;
        }
        drop(writing);
        see(seen, "waited to truncate");
        log.committer.room_for_cut().await?;
    };
    log.known.borrow_mut()[log.at].active = base;
    log.cut_files(base, position).await?;
    log.acknowledge(number);
    Ok(())
}

async fn append_past_journal(log: &LiveLog, rng: &mut Rng, seen: &SeenCounts) -> StoryResult<()> {
    // Without the right to write: the log lands before its cut is released.
    if let Some(cut) = log.last_cut.get()
        && log.planted != Some(StoryBug::AppendPastCut)
    {
        log.committer.released(cut).await?;
    }
    let _writing = log.writing.acquire().await?;
    if !log.is_landed() {
        return Ok(());
    }
    let (.., content) = next_bytes(log, rng);
    let number = log.push(content.clone());
    log.known.borrow_mut()[log.at].is_past_journal = true;
    log.write_all(&content).await?;
    log.acknowledge(number);
    log.known.borrow_mut()[log.at].is_past_journal = false;
    see(seen, "appended past the journal");
    Ok(())
}

/// Deletes a log, and makes it again when nothing of it is read back any more.
async fn delete(log: &LiveLog, seen: &SeenCounts) -> StoryResult<()> {
    let _writing = log.writing.acquire().await?;
    let number = log.push(None);
    let gone = format!("{}.{number}-delete", log.folder().display());
    log.disk.rename(&log.folder(), Path::new(&gone)).await?;
    log.disk.sync_dir(Path::new(DIR)).await?;
    log.acknowledge(number);
    log.committer.forget(log.id());
    log.landed.borrow_mut().clear();
    log.is_named.set(false);
    see(seen, "deleted");
    if let Some(part) = log.last_part.get()
        && log.planted != Some(StoryBug::MakeAgainAtOnce)
    {
        log.committer.released(part).await?;
    }
    Ok(())
}

fn new_disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.put(&Path::new(DIR).join("meta.properties"), b"x")
        .unwrap();
    disk.set_latency(Duration::ZERO, Duration::from_millis(3));
    disk
}

/// Several lives that each end at some operation, and a last start.
fn tell(seed: u64, planted: Option<StoryBug>, seen: &SeenCounts) -> Result<(), String> {
    simulate(async {
        let story = Story {
            seen: Rc::clone(seen),
            ..Story::new(planted)
        };
        let mut rng = Rng::new(seed);
        let mut disk = new_disk(seed);
        for life in 0..6 {
            disk.inject(Fault::at(rng.below(420), Effect::PowerOff));
            let live = story.live(&disk, seed * 10 + life);
            let lived = task::timeout(NOTHING_GOES_ON, live).await;
            lived.map_err(|_| "nothing goes on".to_owned())??;
            disk = if rng.chance(50) {
                disk.crash(rng.next_u64())
            } else {
                disk.kill(rng.next_u64())
            };
        }
        story.start(&disk, seed, 1).await.map(drop)
    })
    .map_err(|error| format!("seed {seed}: {error}"))
}

#[test]
fn what_a_start_puts_together_is_what_the_logs_were() {
    let seen = SeenCounts::default();
    for seed in 0..300 {
        tell(seed, None, &seen).unwrap_or_else(|error| panic!("{error}"));
    }
    let seen = seen.borrow();
    for what in [
        "appended past the journal",
        "cut read back",
        "deleted",
        "made",
        "started",
        "there",
        "truncated",
        "waited to truncate",
        "written",
    ] {
        assert!(
            seen.get(what).is_some_and(|count| *count > 3),
            "{what}: {seen:?}"
        );
    }
}

#[test]
fn the_power_goes_at_each_operation_of_a_life_and_of_the_start_after_it() {
    let seen = SeenCounts::default();
    let mut operations = 0;
    loop {
        let struck = simulate(async {
            let story = Story {
                seen: Rc::clone(&seen),
                ..Story::new(None)
            };
            let disk = new_disk(3);
            story.live(&disk, 1).await.unwrap();
            let disk = disk.crash(operations);
            disk.inject(Fault::at(operations, Effect::PowerOff));
            let lived = story.live(&disk, 2).await;
            lived.unwrap_or_else(|error| panic!("at {operations}: {error}"));
            let struck = disk.faults_left() == 0;
            let disk = disk.crash(operations);
            let started = story.start(&disk, 9, 2).await;
            drop(started.unwrap_or_else(|error| panic!("at {operations}: {error}")));
            struck
        });
        if !struck {
            break;
        }
        operations += 1;
    }
    assert!(operations > 200, "{operations} operations are no life");
}

#[track_caller]
fn finds(planted: StoryBug) {
    let found = (0..400).any(|seed| tell(seed, Some(planted), &SeenCounts::default()).is_err());
    assert!(found, "{planted:?} was not found");
}

#[test]
fn a_landing_without_a_sync_is_found() {
    finds(StoryBug::LandWithoutSync);
}

#[test]
fn a_landing_under_a_name_that_is_not_durable_is_found() {
    finds(StoryBug::LandWithoutNames);
}

#[test]
fn a_log_whose_first_segment_has_no_durable_name_is_found() {
    finds(StoryBug::FirstWithoutName);
}

#[test]
fn a_truncation_without_a_cut_is_found() {
    finds(StoryBug::TruncateWithoutCut);
}

#[test]
fn an_append_past_a_cut_that_may_be_read_back_is_found() {
    finds(StoryBug::AppendPastCut);
}

#[test]
fn a_log_that_is_made_again_over_parts_of_the_old_one_is_found() {
    finds(StoryBug::MakeAgainAtOnce);
}

#[track_caller]
fn finds_in_replay(planted: ReplayBug) {
    let _planted = plant(planted);
    let found = (0..400).any(|seed| tell(seed, None, &SeenCounts::default()).is_err());
    assert!(found, "{planted:?} was not found");
}

#[test]
fn a_start_that_does_not_sync_the_segments_is_found() {
    finds_in_replay(ReplayBug::SkipSyncs);
}

#[test]
fn a_start_that_does_not_sync_what_it_finds_whole_is_found() {
    finds_in_replay(ReplayBug::SkipWhole);
}

#[test]
fn a_start_that_leaves_the_rings_of_other_shards_as_they_are_is_found() {
    finds_in_replay(ReplayBug::LeaveOtherRings);
}

#[test]
fn a_start_that_keeps_what_a_cut_made_void_is_found() {
    finds_in_replay(ReplayBug::KeepVoid);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let tell = |seed| {
        simulate(async {
            let disk = new_disk(seed);
            Story::new(None).live(&disk, seed).await.unwrap();
            disk.trace_hash()
        })
    };
    assert_eq!(tell(3), tell(3));
    assert_ne!(tell(3), tell(4));
}
