//! A start with a path of a tier left out, misspelt, mounted elsewhere or not at all, and then the
//! right one: the log starts where it did, and every record is there as before.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use broker::log_dirs::LogDirs;
use platform::sim::{SimDisk, SimPlatform};
use platform::{Clock, Disk};
use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, Mover, PathOptions, Safety, TierOptions, TierTable};
use storage::{Log, LogOptions, Metrics, OpenAs, Stamp, Store};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

use crate::harness::batches::batch;
use crate::harness::{NOW_MS, Setup};

pub(crate) type SimLog = Rc<Log<SimPlatform>>;

/// Tiers by name, each with its paths.
pub(crate) type Tiers = Vec<(&'static str, Vec<&'static str>)>;

pub(crate) fn right() -> Tiers {
    vec![
        ("fast", vec!["/a"]),
        ("bulk", vec!["/b", "/c"]),
        ("cold", vec!["/d"]),
    ]
}

pub(crate) fn table(tiers: &Tiers) -> Arc<TierTable> {
    let options = tiers.iter().map(|(name, dirs)| TierOptions {
        name: (*name).into(),
        paths: dirs
            .iter()
            .map(|dir| PathOptions {
                dir: dir.into(),
                capacity: Capacity::Bytes(1 << 30),
            })
            .collect(),
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    });
    let table = TierTable::new(options.collect());
    for path in table.paths() {
        path.note_space(1 << 40, 1 << 40);
    }
    table
}

/// A process: its store, and its tiers as they were found.
pub(crate) struct Life {
    pub(crate) store: Store<SimPlatform>,
    pub(crate) tiers: Arc<TierTable>,
}

impl Life {
    pub(crate) async fn start(disk: &SimDisk, tiers: &Tiers) -> Self {
        Self::try_start(disk, tiers).await.unwrap()
    }

    pub(crate) async fn try_start(disk: &SimDisk, tiers: &Tiers) -> Result<Self, String> {
        let platform = SimPlatform::on(disk.clone(), Clock::starting_at(NOW_MS), 3);
        let tiers = table(tiers);
        let dirs = LogDirs::open(&platform, &["/a".into()], None, None).await;
        let dirs = dirs.map_err(|error| error.to_string())?;
        let opened = dirs.open_lower_tiers(&platform, &tiers).await;
        opened.map_err(|error| error.to_string())?;
        let options = Setup::shards(1).store;
        let known = Some(Arc::clone(&tiers));
        let store = Store::with_tiers(platform, options, Metrics::unregistered(), known);
        Ok(Self { store, tiers })
    }

    pub(crate) async fn open(&self, how: OpenAs) -> storage::Result<SimLog> {
        let options = LogOptions {
            segment_bytes: 8 << 10,
            ..broker_log_options()
        };
        self.open_with(how, options).await
    }

    pub(crate) async fn open_with(
        &self,
        how: OpenAs,
        options: LogOptions,
    ) -> storage::Result<SimLog> {
        let name = TopicPartition {
            topic: "t".into(),
            partition: 0,
        };
        let id = TopicId(Uuid::from_u128(42));
        self.store
            .open_log(Path::new("/a"), name, id, options, how)
            .await
    }
}

pub(crate) fn broker_log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 0,
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
        durability: storage::Durability::Synced,
        preallocate: false,
        reserve_bytes: 0,
        file_delete_delay_ms: 1,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

pub(crate) async fn append(log: &SimLog) {
    append_batch(log, &batch(&[&"x".repeat(3000)])).await;
}

pub(crate) async fn append_batch(log: &SimLog, batch: &bytes::Bytes) {
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(0),
        log_append_time: None,
    };
    log.append(batch, stamp, NOW_MS).unwrap();
    log.flush().await.unwrap();
    log.set_high_watermark(log.durable_offset());
}

/// Offset and CRC of every batch.
pub(crate) async fn everything(log: &SimLog) -> Vec<(i64, u32)> {
    let (mut at, end) = (log.log_start_offset(), log.log_end_offset());
    let mut all = Vec::new();
    while at < end {
        let bytes = log.read(at, end, 1 << 20, true).await.unwrap().concat();
        let mut rest = &bytes[..];
        while let Some(header) = BatchHeader::parse(rest) {
            all.push((header.base_offset.0, header.crc));
            at = header.next_offset();
            rest = &rest[header.size_bytes..];
        }
    }
    all
}

/// What is wrong with a start: moves of directories before it, the settings of it, and moves after
/// it.
pub(crate) struct WrongStart {
    pub(crate) name: &'static str,
    pub(crate) before: &'static [(&'static str, &'static str)],
    pub(crate) tiers: Tiers,
    pub(crate) after: &'static [(&'static str, &'static str)],
    pub(crate) then: Tiers,
}

pub(crate) fn wrong_starts() -> Vec<WrongStart> {
    let bulk = |paths: &[&'static str]| {
        vec![
            ("fast", vec!["/a"]),
            ("bulk", paths.to_vec()),
            ("cold", vec!["/d"]),
        ]
    };
    let wrong = |name, before, tiers, after, then| WrongStart {
        name,
        before,
        tiers,
        after,
        then,
    };
    vec![
        wrong("a path left out", &[], bulk(&["/b"]), &[], right()),
        wrong(
            "a tier left out",
            &[],
            vec![("fast", vec!["/a"]), ("cold", vec!["/d"])],
            &[],
            right(),
        ),
        wrong(
            "no tiers at all",
            &[],
            vec![("fast", vec!["/a"])],
            &[],
            right(),
        ),
        wrong("misspelt", &[], bulk(&["/b", "/cc"]), &[], right()),
        wrong(
            "renamed",
            &[("/c", "/e")],
            bulk(&["/b", "/e"]),
            &[],
            bulk(&["/b", "/e"]),
        ),
        wrong(
            "not mounted",
            &[("/c", "/x")],
            right(),
            &[("/c", "/y"), ("/x", "/c")],
            right(),
        ),
        wrong(
            "both not mounted",
            &[("/c", "/x"), ("/b", "/z")],
            right(),
            &[("/c", "/y"), ("/x", "/c"), ("/b", "/y2"), ("/z", "/b")],
            right(),
        ),
        wrong(
            "two swapped",
            &[("/b", "/x"), ("/c", "/b"), ("/x", "/c")],
            right(),
            &[],
            right(),
        ),
        wrong(
            "order of tiers",
            &[],
            vec![
                ("fast", vec!["/a"]),
                ("cold", vec!["/d"]),
                ("bulk", vec!["/c", "/b"]),
            ],
            &[],
            right(),
        ),
        wrong(
            "mounted in place of another",
            &[("/b", "/x"), ("/c", "/b")],
            bulk(&["/b"]),
            &[("/b", "/c"), ("/x", "/b")],
            right(),
        ),
    ]
}

pub(crate) async fn rename_all(disk: &SimDisk, renames: &[(&str, &str)]) {
    for (from, to) in renames {
        disk.rename(Path::new(from), Path::new(to)).await.unwrap();
        disk.sync_dir(Path::new("/")).await.unwrap();
    }
}

pub(crate) fn how(clean: bool, end: i64) -> OpenAs {
    OpenAs {
        clean,
        recovery_point: Offset(end),
        log_start: Offset::ZERO,
        compacted: None,
    }
}

/// A log with segments on every path, and the disk that a stop or a kill left.
pub(crate) async fn lived(clean: bool) -> (SimDisk, Vec<(i64, u32)>) {
    let disk = SimDisk::new(5);
    let metadata = Path::new("/a/__cluster_metadata-0/quorum-state");
    disk.put(metadata, b"{}").unwrap();
    let life = Life::start(&disk, &right()).await;
    let log = life.open(how(false, 0)).await.unwrap();
    while log.segment_count() < 10 {
        append(&log).await;
    }
    log.save().await.unwrap();
    let sealed = log.tiers().sealed_bases();
    for (at, base) in sealed.iter().take(7).enumerate() {
        log.tiers().ask_for_tier(*base, 1 + at % 2);
    }
    let still = PolicySettings {
        threshold: None,
        threads: 1,
        ..PolicySettings::DEFAULTS
    };
    for _ in 0..9 {
        let mut mover = Mover::new(&life.store, still).unwrap();
        for moved in mover.turn(&life.store).await {
            moved.await.unwrap();
        }
    }
    for path in life.tiers.paths() {
        assert!(path.segments() > 0, "{}", path.dir().display());
    }
    let all = everything(&log).await;
    if clean {
        log.close().await.unwrap();
    }
    (disk.kill(9), all)
}

pub(crate) fn run(story: impl Future<Output = ()>) {
    once(story);
}

pub(crate) fn once<T>(story: impl Future<Output = T>) -> T {
    platform::runtime::run_simulated(story).unwrap()
}

#[test]
fn after_a_wrong_start_and_a_right_one_every_record_is_as_before() {
    for clean in [true, false] {
        for wrong in wrong_starts() {
            run(async {
                let (disk, before) = lived(clean).await;
                let end = before.last().unwrap().0 + 1;
                rename_all(&disk, wrong.before).await;
                let life = Life::start(&disk, &wrong.tiers).await;
                let log = life.open(how(clean, end)).await.unwrap();
                let name = wrong.name;
                assert_eq!(
                    log.log_start_offset(),
                    Offset::ZERO,
                    "{name}, {clean}: wrong start"
                );
                assert_eq!(
                    log.log_end_offset(),
                    Offset(end),
                    "{name}, {clean}: wrong start"
                );
                append(&log).await;
                // What says that nothing is kept for ever deletes nothing here.
                assert_eq!(log.retain(NOW_MS + 1).await.unwrap(), 0, "{name}");
                if clean {
                    log.close().await.unwrap();
                }
                let disk = disk.kill(10);
                rename_all(&disk, wrong.after).await;
                let life = Life::start(&disk, &wrong.then).await;
                let log = life.open(how(clean, end)).await.unwrap();
                for path in life.tiers.paths() {
                    assert_eq!(path.failed(), None, "{name}: {}", path.dir().display());
                }
                assert_eq!(log.log_start_offset(), Offset::ZERO, "{name}, {clean}");
                let mut after = everything(&log).await;
                assert_eq!(after.pop().map(|(offset, _)| offset), Some(end), "{name}");
                assert!(
                    after == before,
                    "{name}, {clean}: {} of {}",
                    after.len(),
                    before.len()
                );
            });
        }
    }
}

#[test]
fn a_disk_that_was_mounted_elsewhere_is_missed_when_it_is_not_mounted() {
    let moved = vec![
        ("fast", vec!["/a"]),
        ("bulk", vec!["/b", "/e"]),
        ("cold", vec!["/d"]),
    ];
    run(async {
        let (disk, before) = lived(true).await;
        let end = before.last().unwrap().0 + 1;
        rename_all(&disk, &[("/c", "/e")]).await;
        let life = Life::start(&disk, &moved).await;
        let log = life.open(how(true, end)).await.unwrap();
        assert!(everything(&log).await == before);
        log.close().await.unwrap();
        let disk = disk.kill(11);
        rename_all(&disk, &[("/e", "/x")]).await;
        let life = Life::start(&disk, &moved).await;
        let log = life.open(how(true, end)).await.unwrap();
        assert_eq!(log.log_start_offset(), Offset::ZERO);
        log.close().await.unwrap();
        let disk = disk.kill(12);
        rename_all(&disk, &[("/e", "/y"), ("/x", "/e")]).await;
        let life = Life::start(&disk, &moved).await;
        let log = life.open(how(true, end)).await.unwrap();
        assert_eq!(log.log_start_offset(), Offset::ZERO);
        assert!(everything(&log).await == before);
    });
}

#[test]
fn notes_of_an_older_version_are_understood() {
    run(async {
        let (disk, before) = lived(true).await;
        let end = before.last().unwrap().0 + 1;
        let home = Path::new("/a/t-0");
        let mut notes = 0;
        for (base, _) in &before {
            let note = home.join(format!("{base:020}.away"));
            if let Ok(text) = disk.contents(&note) {
                let text = String::from_utf8(text).unwrap();
                let path = text.trim_end().rsplit_once(' ').unwrap().1.to_owned();
                disk.put(&note, format!("{path}\n").as_bytes()).unwrap();
                notes += 1;
            }
        }
        assert_eq!(notes, 7);
        rename_all(&disk, &[("/c", "/x")]).await;
        for tiers in [
            right(),
            vec![
                ("fast", vec!["/a"]),
                ("bulk", vec!["/b"]),
                ("cold", vec!["/d"]),
            ],
        ] {
            let life = Life::start(&disk, &tiers).await;
            let log = life.open(how(true, end)).await.unwrap();
            assert_eq!(log.log_start_offset(), Offset::ZERO);
            log.close().await.unwrap();
        }
        rename_all(&disk, &[("/c", "/y"), ("/x", "/c")]).await;
        let life = Life::start(&disk, &right()).await;
        let log = life.open(how(true, end)).await.unwrap();
        assert!(everything(&log).await == before);
    });
}

#[test]
fn folders_of_topics_that_were_deleted_while_a_path_was_away_are_removed() {
    run(async {
        let disk = SimDisk::new(5);
        let metadata = Path::new("/a/__cluster_metadata-0/quorum-state");
        disk.put(metadata, b"{}").unwrap();
        Life::start(&disk, &right()).await;
        let id = |n| TopicId(Uuid::from_u128(n));
        let put = |folder: &str, file: &str, topic: u128| {
            let text = format!("version: 0\ntopic_id: {}", id(topic));
            let path = Path::new(folder).join(file);
            disk.put(&path, text.as_bytes()).unwrap();
        };
        put("/b/here-0", "tier.metadata", 1);
        put("/b/gone-0", "tier.metadata", 2);
        put(
            "/b/gone-1.0123456789abcdef0123456789abcdef-stray",
            "tier.metadata",
            3,
        );
        put("/b/kept-0", "tier.metadata", 4);
        put("/a/kept-0", "partition.metadata", 4);
        // Of a topic that was made after the metadata that there are now: they are a backup's.
        put("/b/newer-0", "tier.metadata", 5);
        let newer = Path::new("/b/newer-0/tier.metadata");
        disk.set_modified(newer, NOW_MS + 1).await.unwrap();
        disk.put(Path::new("/b/nobody-0/x"), b"x").unwrap();
        let platform = SimPlatform::on(disk.clone(), Clock::starting_at(NOW_MS), 3);
        let tiers = table(&right());
        let dirs = LogDirs::open(&platform, &["/a".into()], None, None)
            .await
            .unwrap();
        dirs.open_lower_tiers(&platform, &tiers).await.unwrap();
        for later in [0, 1_000_000] {
            let until = TimestampMs(NOW_MS + later);
            dirs.remove_orphans(&platform, &tiers, |topic| topic == id(1), until)
                .await;
        }
        let left = disk.list(Path::new("/b")).await.unwrap();
        let left = left.iter().filter(|entry| entry.is_dir);
        let left: Vec<_> = left.map(|entry| entry.name.as_str()).collect();
        assert_eq!(left, ["here-0", "kept-0", "newer-0", "nobody-0"]);
    });
}
