//! A shard whose logs have a journal, and what is known of them from outside.

use std::cell::RefCell;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::disk::Disk;
use platform::sim::{SimDisk, SimPlatform};
use storage::checkpoint::journal_mark::JournalMark;
use storage::checkpoint::meta_properties::{self, MetaProperties};
use storage::journal::RingSize;
use storage::journal::header::RingId;
use storage::journal::marked;
use storage::journal::start::{UnsettledDirectory, renew_ring, settle};
use storage::{JournalOptions, LogOptions, OpenAs, Store, StoreOptions};
use wire::types::{NodeId, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

use crate::world::*;

pub(crate) type LifeResult<T> = Result<T, Box<dyn Error>>;

/// A device of its own for rings.
pub(crate) const FAST: &str = "/fast";

/// How many logs a life has.
pub(crate) const LOGS: usize = 4;

/// The log that reserves no room ahead.
pub(crate) const WITHOUT_ROOM_AHEAD: usize = 2;

/// The log that is compacted.
pub(crate) const COMPACTED: usize = 3;

/// What is known of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Grows when the log is deleted and made again.
    pub(crate) generation: u32,
    /// Everything below was acknowledged as durable.
    pub(crate) acknowledged: i64,
    /// Everything below may be there.
    pub(crate) appended: i64,
    /// Records below may be gone.
    pub(crate) retained_from: i64,
    /// The log may have been cut to here.
    pub(crate) cut: Option<i64>,
    pub(crate) recovery_point: i64,
    pub(crate) log_start: i64,
    pub(crate) compacted: Option<i64>,
}

/// What is known of the directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) logs: [Ledger; LOGS],
    pub(crate) is_clean: bool,
}

pub(crate) type KnownDirectory = Rc<RefCell<Directory>>;

pub(crate) fn log_options(at: usize) -> LogOptions {
    LogOptions {
        segment_bytes: 24 << 10,
        file_delete_delay_ms: 1,
        compact: at == COMPACTED,
        delete: at != COMPACTED,
        preallocate: at != WITHOUT_ROOM_AHEAD,
        ..options()
    }
}

pub(crate) fn small_store() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 32 << 10,
        chunk_bytes: 8 << 10,
        allocate_step_bytes: 8 << 10,
        save_interval_bytes: 30 << 10,
        ..store_options()
    }
}

pub(crate) fn journal_options() -> JournalOptions {
    JournalOptions {
        bypass_bytes: 6 << 10,
        land_bytes: 8 << 10,
        land_after: Duration::from_millis(80),
        unlanded_bytes_max: 48 << 10,
    }
}

pub(crate) fn directory_id() -> Uuid {
    Uuid::from_u128(5)
}

pub(crate) fn partition_of(at: usize) -> TopicPartition {
    TopicPartition {
        topic: Arc::from(format!("orders{at}")),
        partition: 0,
    }
}

pub(crate) fn topic_id_of(at: usize, generation: u32) -> TopicId {
    TopicId(Uuid::from_u128(
        100 * (1 + at as u128) + u128::from(generation),
    ))
}

pub(crate) fn new_disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    for dir in [DIR, FAST] {
        let keep = Path::new(dir).join("keep");
        disk.put(&keep, b"x").unwrap();
    }
    disk.set_traced(false);
    disk
}

/// A shard with its logs.
pub(crate) struct Shard {
    pub(crate) world: World,
    pub(crate) logs: Vec<SimLog>,
    rings: PathBuf,
}

impl Shard {
    /// The first start on a disk.
    pub(crate) fn on(disk: SimDisk, rings: &str) -> Self {
        let platform = SimPlatform::on(disk, platform::Clock::starting_at(NOW_MS), 3);
        Self {
            world: World::on(platform, small_store()),
            logs: Vec::new(),
            rings: rings.into(),
        }
    }

    /// A process that starts on `disk` at this one's time.
    pub(crate) fn successor(&self, disk: SimDisk) -> Self {
        disk.set_traced(false);
        Self {
            world: self.world.successor_with(disk, small_store()),
            logs: Vec::new(),
            rings: self.rings.clone(),
        }
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.world.disk()
    }

    pub(crate) fn store(&self) -> &Store<SimPlatform> {
        &self.world.store
    }

    pub(crate) async fn sleep(&self, ms: u64) {
        let clock = self.world.platform.clock();
        clock.sleep(Duration::from_millis(ms)).await;
    }

    /// Formats the directory at the first start, as a broker does.
    async fn format(&self) -> LifeResult<()> {
        let file = Path::new(DIR).join(meta_properties::FILE);
        if self.disk().read_file(&file).await.is_ok() {
            return Ok(());
        }
        let meta = MetaProperties {
            cluster_id: "c".to_owned(),
            node_id: NodeId(1),
            directory_id: Some(directory_id()),
            journal: None,
        };
        let bytes = meta_properties::encode(&meta, TimestampMs(NOW_MS));
        Ok(self.disk().replace_file(&file, &bytes).await?)
    }

    /// Replays the rings that count.
    pub(crate) async fn settle(&self) -> LifeResult<()> {
        self.format().await?;
        let dir = UnsettledDirectory {
            path: Path::new(DIR),
            rings_dir: None,
            also_in: &[],
            gives_up: false,
        };
        let settled = settle(&self.world.platform, &dir).await?;
        assert!(settled.report.is_whole(), "{settled:?}");
        Ok(())
    }

    /// Replays the rings and opens the shard's own.
    pub(crate) async fn prepare(&self) -> LifeResult<()> {
        self.settle().await?;
        let id = RingId {
            cluster_id: "c".to_owned(),
            directory_id: directory_id(),
            shard: 0,
        };
        let size = RingSize::new(RingSize::MIN).unwrap();
        let ring = renew_ring(&self.world.platform, id, &self.rings, size).await?;
        let mark = JournalMark {
            dir: Some(self.rings.clone()),
            rings: vec![ring.mark()],
        };
        marked::mark(self.disk(), Path::new(DIR), mark, TimestampMs(NOW_MS)).await?;
        self.store()
            .use_journal(Path::new(DIR), ring, journal_options())?;
        Ok(())
    }

    /// Starts: rings, then logs.
    pub(crate) async fn start(&mut self, known: &Directory) -> LifeResult<()> {
        self.prepare().await?;
        for at in 0..LOGS {
            let log = self.open(at, known).await?;
            self.logs.push(log);
        }
        Ok(())
    }

    pub(crate) async fn open(&self, at: usize, known: &Directory) -> LifeResult<SimLog> {
        let ledger = &known.logs[at];
        let how = OpenAs {
            clean: known.is_clean,
            recovery_point: Offset(ledger.recovery_point),
            log_start: Offset(ledger.log_start),
            compacted: ledger.compacted.map(Offset),
        };
        let id = topic_id_of(at, ledger.generation);
        let dir = Path::new(DIR);
        let opened = self
            .store()
            .open_log(dir, partition_of(at), id, log_options(at), how);
        Ok(opened.await?)
    }

    /// Stops cleanly.
    pub(crate) async fn stop(&self, known: &KnownDirectory) -> LifeResult<()> {
        for (at, log) in self.logs.iter().enumerate() {
            log.close().await?;
            let end = log.log_end_offset().0;
            known.borrow_mut().logs[at].recovery_point = end;
        }
        self.store().close_journal(Path::new(DIR)).await?;
        marked::unmark(self.disk(), Path::new(DIR), TimestampMs(NOW_MS)).await?;
        known.borrow_mut().is_clean = true;
        Ok(())
    }

    /// The owner's part: remembers the points as the checkpoint files would.
    pub(crate) async fn checkpoint(&self, known: &KnownDirectory) {
        let points = self.store().points(Path::new(DIR));
        for point in &points {
            let at = (0..LOGS).find(|at| partition_of(*at) == point.topic_partition);
            let ledger = &mut known.borrow_mut().logs[at.unwrap()];
            ledger.recovery_point = point.recovery_point.0;
            ledger.log_start = point.log_start.0;
            ledger.compacted = point.compacted.map(|offset| offset.0);
        }
        self.store().checkpointed(&points, true).await;
    }

    /// Compares the logs of a start with what is known of them.
    pub(crate) async fn check(&self, known: &Directory) {
        for (at, log) in self.logs.iter().enumerate() {
            let ledger = &known.logs[at];
            let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
            let safe = ledger
                .acknowledged
                .min(ledger.cut.map_or(i64::MAX, |cut| cut - 1));
            assert!(
                end >= safe,
                "log {at}: acknowledged below {safe}, there below {end}: {ledger:?}"
            );
            assert!(
                end <= ledger.appended,
                "log {at}: appended below {}, there below {end}",
                ledger.appended
            );
            let highest = ledger.retained_from.max(ledger.log_start);
            assert!(
                start <= highest,
                "log {at} begins at {start}, not {highest}"
            );
            assert_holds(log, start, end).await;
        }
    }
}

/// Starts after a crash, compares, goes on, stops, and starts once more.
pub(crate) async fn check(mut shard: Shard, known: &Directory) {
    shard.start(known).await.unwrap();
    shard.check(known).await;
    let book = Rc::new(RefCell::new(known.clone()));
    let mut ends = Vec::new();
    for log in &shard.logs {
        for _ in 0..2 {
            produce(log, 2, 700).await;
        }
        ends.push((log.log_start_offset().0, log.log_end_offset().0));
    }
    shard.stop(&book).await.unwrap();
    for (ledger, (start, end)) in book.borrow_mut().logs.iter_mut().zip(&ends) {
        (ledger.acknowledged, ledger.appended, ledger.cut) = (*end, *end, None);
        ledger.log_start = *start;
        ledger.retained_from = *start;
    }
    let mut next = shard.successor(shard.disk().crash(5));
    let known = book.borrow().clone();
    next.start(&known).await.unwrap();
    next.check(&known).await;
}
