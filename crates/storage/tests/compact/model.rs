//! Random lives of a compacted log, held against everything that was appended.

use platform::Platform;
use platform::sim::SimPlatform;
use proptest::prelude::*;
use storage::StoreOptions;
use wire::types::Offset;

use crate::history::*;
use crate::world::*;

#[derive(Clone, Debug)]
enum Op {
    Append(Draft),
    End { producer: i64, commit: bool },
    Roll,
    Compact { map_slots: usize },
    Wait { ms: i64 },
    DeleteRecords { part: u8 },
    Stop,
    Crash { seed: u64, forgotten: bool },
    ReadFrom { part: u8 },
}

fn draft() -> impl Strategy<Value = Draft> {
    let value = prop::option::weighted(0.8, 0..200_u8);
    let records = prop::collection::vec((0..12_u8, value), 1..12);
    (
        any::<u8>(),
        records,
        prop::option::of(0..3_i64),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(codec, records, producer, transactional, append_time)| Draft {
                codec,
                records,
                // Those of transactions are others: an open transaction takes transactional batches
                // only.
                producer: producer.map(|id| if transactional { id + 10 } else { id }),
                transactional,
                append_time,
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => draft().prop_map(Op::Append),
        4 => (10..13_i64, any::<bool>()).prop_map(|(producer, commit)| Op::End { producer, commit }),
        2 => Just(Op::Roll),
        4 => (3..60_usize).prop_map(|map_slots| Op::Compact { map_slots }),
        2 => (0..1500_i64).prop_map(|ms| Op::Wait { ms }),
        1 => any::<u8>().prop_map(|part| Op::DeleteRecords { part }),
        1 => Just(Op::Stop),
        1 => (any::<u64>(), any::<bool>()).prop_map(|(seed, forgotten)| Op::Crash { seed, forgotten }),
        3 => any::<u8>().prop_map(|part| Op::ReadFrom { part }),
    ]
}

fn store_for(cache: usize) -> StoreOptions {
    StoreOptions {
        cache_bytes_max: cache,
        chunk_bytes: 8 << 10,
        save_interval_bytes: 6_000,
        open_segments_max: 2,
        read_ahead_bytes_max: 4000,
        ..store_options()
    }
}

struct Life {
    world: World,
    log: SimLog,
    history: History,
    compacted: i64,
    start: i64,
    cache: usize,
}

impl Life {
    fn now(&self) -> i64 {
        self.world.platform.clock().wall_ms()
    }

    async fn apply(&mut self, op: Op) {
        let now_ms = self.now();
        match op {
            Op::Append(draft) => {
                self.history.append(&self.log, &draft, now_ms);
                settle(&self.log).await;
            }
            Op::End { producer, commit } => {
                self.history.end(&self.log, producer, commit, now_ms);
                settle(&self.log).await;
            }
            Op::Roll => self.log.roll().await.unwrap(),
            Op::Compact { map_slots } => {
                self.log.compaction().begin_compacting();
                self.log.save().await.unwrap();
                let options = storage::CompactOptions {
                    map_bytes_max: map_slots * 24,
                    ..ROUND
                };
                let producers = self.log.producers();
                let round = self.log.compact(&POLICY, &options).await.unwrap();
                self.compacted = self.log.compaction().compacted_offset().unwrap().0;
                if let Some(round) = round {
                    assert!(round.map_bytes <= options.map_bytes_max.max(48));
                    assert!(round.to > round.from);
                    self.history.note_round(round.to.0, now_ms);
                }
                assert_eq!(self.log.producers(), producers);
            }
            Op::Wait { ms } => self.world.platform.clock().jump_ms(ms),
            Op::DeleteRecords { part } => {
                let span = self.log.high_watermark().0 - self.start;
                self.start += span * i64::from(part) / 1000;
                self.log.set_log_start(Offset(self.start)).unwrap();
            }
            Op::Stop => {
                self.log.close().await.unwrap();
                let end = self.log.log_end_offset().0;
                self.restart(3, true, end).await;
            }
            Op::Crash { seed, forgotten } => {
                let points = self.world.store.points(std::path::Path::new(DIR));
                // The checkpoint may be as old as can be.
                let point = if forgotten {
                    0
                } else {
                    points[0].recovery_point.0
                };
                self.restart(seed, false, point).await;
            }
            Op::ReadFrom { part } => {
                let end = self.log.log_end_offset().0;
                let from = self.start + (end - self.start) * i64::from(part) / 255;
                let all = read_all(&self.log, self.start, end).await;
                let expected: Vec<_> = all.into_iter().filter(|r| r.offset.0 >= from).collect();
                assert_eq!(read_all(&self.log, from, end).await, expected);
            }
        }
    }

    async fn restart(&mut self, seed: u64, clean: bool, point: i64) {
        let (end, producers) = (self.log.log_end_offset(), self.log.producers());
        let disk = self.world.disk().crash(seed);
        self.world = self.world.successor_with(disk, store_for(self.cache));
        let how = storage::OpenAs {
            clean,
            recovery_point: Offset(point),
            log_start: Offset(self.start),
            compacted: (self.compacted > 0).then_some(Offset(self.compacted)),
        };
        let opened = self.world.store.open_log(
            std::path::Path::new(DIR),
            partition(),
            topic_id(),
            compacted_options(),
            how,
        );
        self.log = opened.await.unwrap();
        assert_eq!(self.log.log_end_offset(), end);
        self.log.set_high_watermark(end);
        let short = |all: Vec<storage::log::producer_state::ProducerSnapshot>| -> Vec<_> {
            let known = all.into_iter();
            known
                .map(|p| {
                    (
                        p.producer_id,
                        p.epoch,
                        p.last_sequence,
                        p.last_offset,
                        p.transaction_start,
                    )
                })
                .collect()
        };
        assert_eq!(short(self.log.producers()), short(producers));
    }
}

async fn run(ops: Vec<Op>, cache: usize) {
    let world = World::on(SimPlatform::new(5), store_for(cache));
    let mut life = Life {
        log: world.open(compacted_options()).await,
        world,
        history: History::default(),
        compacted: 0,
        start: 0,
        cache,
    };
    for op in ops {
        life.apply(op).await;
        let now_ms = life.now();
        life.history.check(&life.log, life.compacted, now_ms).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_is_the_newest_of_every_key(
        ops in prop::collection::vec(op(), 1..70),
        cached: bool,
    ) {
        let cache = if cached { 1 << 20 } else { 0 };
        simulate(run(ops, cache));
    }
}

#[test]
fn transactions_past_the_end_of_a_round_stay_in_the_index_of_their_segment() {
    let record = |producer: Option<i64>| {
        Op::Append(Draft {
            records: vec![(0, None)],
            transactional: producer.is_some(),
            producer,
            ..Draft::default()
        })
    };
    let end = |producer| Op::End {
        producer,
        commit: false,
    };
    let ops = vec![
        record(None),
        record(None),
        record(Some(12)),
        record(Some(11)),
        end(11),
        Op::Roll,
        Op::Compact { map_slots: 3 },
        end(12),
    ];
    simulate(run(ops, 0));
}
