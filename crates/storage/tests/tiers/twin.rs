//! Random lives of a log whose segments move up and down all the time, beside a twin of one tier
//! that lives the same life: to readers the two are the same, byte for byte, with their
//! transactions, producers, epochs and times; so are the files of their segments. Every life has
//! moves, cuts, deletions, clean stops and losses of power in it.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use platform::sim::{Rng, SimPlatform};
use storage::tier::Mover;
use storage::{CompactOptions, CompactPolicy, LogOptions, OpenAs, Store, StoreOptions};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const STEPS: u64 = 160;
/// The other indexes are sparse, and where their entries fall depends on where recovery began.
const SUFFIXES: [&str; 2] = ["log", "txnindex"];

fn twin_options(compact: bool) -> LogOptions {
    LogOptions {
        segment_bytes: 6 << 10,
        index_interval_bytes: 700,
        file_delete_delay_ms: 1,
        compact,
        delete: !compact,
        ..options()
    }
}

fn twin_store() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 16 << 10,
        chunk_bytes: 8 << 10,
        allocate_step_bytes: 8 << 10,
        save_interval_bytes: 9 << 10,
        open_segments_max: 2,
        read_ahead_bytes_max: 4000,
        ..store_options()
    }
}

/// What the two have been through.
#[derive(Default, Debug)]
struct Story {
    sequences: BTreeMap<i64, i32>,
    /// Transactions that are open, by producer.
    open: Vec<i64>,
    /// Producers of before a cut are not heard of again.
    generation: i64,
    appended: i64,
    moves: usize,
    compactions: usize,
}

struct Twins {
    scene: Scene,
    tiered: SimLog,
    world: World,
    plain: SimLog,
    dice: Rng,
    options: LogOptions,
    story: Story,
}

async fn open(store: &Store<SimPlatform>, options: &LogOptions, how: OpenAs) -> SimLog {
    let dir = Path::new(DIR);
    let opened = store.open_log(dir, partition(), topic_id(), options.clone(), how);
    let log = opened.await.unwrap();
    log.set_high_watermark(log.durable_offset());
    log
}

fn how(compact: bool) -> OpenAs {
    OpenAs {
        clean: false,
        recovery_point: Offset::ZERO,
        log_start: Offset::ZERO,
        compacted: compact.then_some(Offset::ZERO),
    }
}

impl Twins {
    async fn born(seed: u64, compact: bool) -> Self {
        let scene = Scene::on(SimPlatform::new(seed), twin_store(), GB, GB);
        let twin = SimPlatform::on(platform::sim::SimDisk::new(seed), scene.clock(), seed);
        let world = World::on(twin, twin_store());
        let options = twin_options(compact);
        Self {
            tiered: open(&scene.world.store, &options, how(compact)).await,
            plain: open(&world.store, &options, how(compact)).await,
            scene,
            world,
            dice: Rng::new(seed),
            options,
            story: Story::default(),
        }
    }

    fn logs(&self) -> [&SimLog; 2] {
        [&self.tiered, &self.plain]
    }

    async fn step(&mut self) {
        let compact = self.options.compact;
        match self.dice.below(100) {
            0..45 => self.append().await,
            45..55 => self.end_transaction().await,
            55..63 => self.roll().await,
            63..75 => self.go_down().await,
            75..80 => self.come_up().await,
            80..84 => self.delete().await,
            84..87 => self.stop().await,
            87..90 => self.lose_power().await,
            90..97 if compact => self.compact().await,
            90..94 => self.cut().await,
            _ => self.compare().await,
        }
    }

    async fn put(&mut self, batch: &Bytes) {
        for log in self.logs() {
            log.append(batch, EPOCH, NOW_MS).unwrap();
            log.flush().await.unwrap();
            log.set_high_watermark(log.durable_offset());
        }
    }

    async fn append(&mut self) {
        let kind = self.dice.below(4);
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
        let count = 1 + self.dice.below(4);
        if kind > 0 {
            // Those of transactions are others.
            let id = 100 * self.story.generation + i64::try_from(self.dice.below(3)).unwrap();
            let id = if kind > 1 { id + 10 } else { id };
            let sequence = self.story.sequences.entry(id).or_default();
            builder = builder.producer(ProducerId(id), 0, *sequence);
            *sequence += i32::try_from(count).unwrap();
            if kind > 1 {
                builder = builder.transactional(true);
                if !self.story.open.contains(&id) {
                    self.story.open.push(id);
                }
            }
        }
        for _ in 0..count {
            self.story.appended += 1;
            let key = self.story.appended % 11;
            let time = NOW_MS + self.story.appended + i64::try_from(self.dice.below(50)).unwrap();
            let value = vec![b'v'; usize::try_from(self.dice.below(900)).unwrap()];
            let name = self.story.appended.to_string();
            let headers = [("n", Some(name.as_bytes()))];
            builder.add(
                TimestampMs(time),
                Some(key.to_string().as_bytes()),
                Some(&value),
                &headers,
            );
        }
        self.put(&builder.finish().unwrap()).await;
    }

    async fn end_transaction(&mut self) {
        let Some(id) = self.story.open.pop() else {
            return;
        };
        let kind = u8::try_from(self.dice.below(2)).unwrap();
        let mut marker = BatchBuilder::new(Offset(0), LeaderEpoch(-1))
            .producer(ProducerId(id), 0, -1)
            .transactional(true)
            .control(true);
        let time = TimestampMs(NOW_MS + self.story.appended);
        // Version, kind (0: aborted); version, coordinator epoch.
        marker.add(time, Some(&[0, 0, 0, kind]), Some(&[0; 6]), &[]);
        self.put(&marker.finish().unwrap()).await;
    }

    async fn roll(&mut self) {
        for log in self.logs() {
            log.roll().await.unwrap();
            log.save().await.unwrap();
        }
    }

    async fn go_down(&mut self) {
        let mut mover = Mover::new(&self.scene.world.store, eager()).unwrap();
        for _ in 0..=self.dice.below(3) {
            for moved in mover.turn(&self.scene.world.store).await {
                moved.await.unwrap();
                self.story.moves += 1;
            }
        }
    }

    async fn come_up(&mut self) {
        for base in self.tiered.tiers().sealed_segments() {
            if self.dice.chance(50) {
                self.tiered.tiers().ask_for_tier(base, 0);
            }
        }
        self.story.moves += self.scene.settle(still()).await;
    }

    /// Retention by size, and records that are deleted by offset.
    async fn delete(&mut self) {
        let keep = 20_000 + self.dice.below(20_000);
        let (start, end) = (
            self.plain.log_start_offset().0,
            self.plain.log_end_offset().0,
        );
        let first = start + (end - start) / 8;
        for log in self.logs() {
            log.set_options(LogOptions {
                retention_bytes: (!self.options.compact).then_some(keep),
                ..self.options.clone()
            });
            log.retain(NOW_MS).await.unwrap();
            log.set_log_start(Offset(first).max(log.log_start_offset()))
                .unwrap();
        }
    }

    async fn cut(&mut self) {
        let (start, end) = (
            self.plain.log_start_offset().0,
            self.plain.log_end_offset().0,
        );
        let far = i64::try_from(self.dice.below(12)).unwrap();
        let at = Offset((end - far).max(start));
        for log in self.logs() {
            log.truncate_to(at).await.unwrap();
        }
        self.story.generation += 1;
        self.story.open.clear();
        // What is cut open on the slower tier is rolled early, to go on on the fast one; the twin
        // has no reason to. Where segments end must be the same, for retention goes by segments.
        self.append().await;
        self.roll().await;
    }

    async fn compact(&mut self) {
        let policy = CompactPolicy {
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            delete_retention_ms: i64::MAX / 4,
            dirty_ratio_min_ppm: 0,
        };
        let options = CompactOptions {
            map_bytes_max: 1 << 20,
            map_load_factor: 0.9,
            buffer_bytes: 64 << 10,
            bytes_per_second_max: f64::MAX,
        };
        for log in self.logs() {
            log.compaction().begin_compacting();
            log.save().await.unwrap();
        }
        let tiered = self.tiered.compact(&policy, &options).await.unwrap();
        let plain = self.plain.compact(&policy, &options).await.unwrap();
        let reach = |round: &Option<storage::CompactionRound>| round.as_ref().map(|round| round.to);
        assert_eq!(reach(&tiered), reach(&plain));
        self.story.compactions += usize::from(tiered.is_some());
    }

    async fn stop(&mut self) {
        for log in self.logs() {
            log.close().await.unwrap();
        }
        self.start_anew(true).await;
    }

    async fn lose_power(&mut self) {
        // What is flushed is durable; a move or a deletion may be under way.
        let mut mover = Mover::new(&self.scene.world.store, eager()).unwrap();
        let under_way = mover.turn(&self.scene.world.store).await;
        for _ in 0..self.dice.below(60) {
            platform::task::yield_now().await;
        }
        self.start_anew(false).await;
        drop(under_way);
    }

    async fn start_anew(&mut self, clean: bool) {
        let seed = self.dice.next_u64();
        let how_of = |store: &Store<SimPlatform>| {
            let points = store.points(Path::new(DIR));
            let points = points.first().unwrap();
            OpenAs {
                clean,
                recovery_point: points.recovery_point,
                log_start: points.log_start,
                compacted: self.options.compact.then_some(points.compacted).flatten(),
            }
        };
        let (how_tiered, how_plain) = (how_of(&self.scene.world.store), how_of(&self.world.store));
        let scene = self
            .scene
            .successor(self.scene.disk().crash(seed), twin_store());
        let world = self
            .world
            .successor_with(self.world.disk().crash(seed), twin_store());
        self.tiered = open(&scene.world.store, &self.options, how_tiered).await;
        self.plain = open(&world.store, &self.options, how_plain).await;
        (self.scene, self.world) = (scene, world);
        self.compare().await;
    }

    /// The two give the same answers.
    async fn compare(&self) {
        let [one, two] = self.logs();
        let (start, end) = (one.log_start_offset(), one.log_end_offset());
        assert_eq!(start, two.log_start_offset());
        assert_eq!(end, two.log_end_offset());
        assert_eq!(one.stable_offset(), two.stable_offset());
        assert_eq!(one.latest_epoch(), two.latest_epoch());
        assert_eq!(one.epoch_at(start), two.epoch_at(start));
        assert_eq!(one.epoch_end(LeaderEpoch(1)), two.epoch_end(LeaderEpoch(1)));
        assert!(everything(one).await == everything(two).await);
        let sorted = |log: &SimLog| {
            let mut producers = log.producers();
            producers.sort_by_key(|producer| producer.producer_id);
            producers
        };
        assert_eq!(sorted(one), sorted(two));
        for (from, below) in [(start, end), (start.plus(5).min(end), end)] {
            let mut aborted = one.aborted_transactions(from, below).await.unwrap();
            let mut others = two.aborted_transactions(from, below).await.unwrap();
            aborted.sort_by_key(|txn| txn.last_offset);
            others.sort_by_key(|txn| txn.last_offset);
            assert_eq!(aborted, others);
        }
        for part in 0..8 {
            let time = TimestampMs(NOW_MS + self.story.appended * part / 8);
            assert_eq!(
                one.offset_for_timestamp(time, end).await.unwrap(),
                two.offset_for_timestamp(time, end).await.unwrap()
            );
        }
    }

    /// So are the files of their segments, wherever they are.
    fn compare_files(&self) -> usize {
        let bases = self.tiered.tiers().sealed_segments();
        assert_eq!(bases, self.plain.tiers().sealed_segments());
        let mut compared = 0;
        for base in bases {
            if !self.scene.has(BULK_FOLDER, &format!("{:020}.log", base.0)) {
                continue;
            }
            for suffix in SUFFIXES {
                let name = format!("{:020}.{suffix}", base.0);
                let moved = self
                    .scene
                    .disk()
                    .contents(&Path::new(BULK_FOLDER).join(&name));
                let stayed = self.world.disk().contents(&Path::new(FOLDER).join(&name));
                assert!(moved.ok() == stayed.ok(), "{name}");
            }
            compared += 1;
        }
        compared
    }
}

/// All batches of a log.
async fn everything(log: &SimLog) -> Vec<u8> {
    let (mut at, end) = (log.log_start_offset(), log.log_end_offset());
    let mut all = Vec::new();
    while at < end {
        let slices = log.read(at, end, 3000, true).await.unwrap();
        let bytes: Bytes = slices.concat().into();
        if bytes.is_empty() {
            // Nothing is left between here and the end.
            break;
        }
        let mut rest = bytes.clone();
        while let Some(header) = wire::batch::BatchHeader::parse(&rest) {
            assert_eq!(
                wire::batch::crc_of(&rest.split_to(header.size_bytes)),
                header.crc
            );
            at = header.next_offset();
        }
        all.extend_from_slice(&bytes);
    }
    all
}

fn live(seeds: std::ops::Range<u64>, compact: bool) {
    let (mut moves, mut compactions, mut files) = (0, 0, 0);
    for seed in seeds {
        simulate(async {
            let mut twins = Twins::born(seed, compact).await;
            for _ in 0..STEPS {
                twins.step().await;
            }
            twins.roll().await;
            twins.go_down().await;
            twins.compare().await;
            files += twins.compare_files();
            moves += twins.story.moves;
            compactions += twins.story.compactions;
        });
    }
    assert!(moves > 100 && files > 20, "{moves} moves, {files} files");
    assert_eq!(compact, compactions > 10, "{compactions} compactions");
}

#[test]
fn a_log_on_tiers_is_its_twin_byte_for_byte() {
    live(30..50, false);
}

#[test]
fn a_compacted_log_on_tiers_holds_what_its_twin_holds() {
    live(100..116, true);
}
