//! Backups at many instants of a log under load: what `storage::backup` has copied is without
//! damage, and a start finds in it what it finds in what a kill at that instant left.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

#[path = "compact/history.rs"]
#[allow(dead_code, reason = "its policy is what is used")]
mod history;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::disk::Disk;
use platform::sim::{Effect, Fault, SimDisk, SimPlatform};
use storage::backup::{BatchesEnd, FilePart, copied_len, part_of, recovery_limit, unsure_from};
use storage::check::{Severity, check};
use storage::{LogOptions, OpenAs, Result, StoreOptions};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};
use world::*;

/// Instants of a life at which a backup is made.
const INSTANTS: u64 = 100;

/// What is known of the log from outside.
#[derive(Clone, Debug, Default)]
struct Ledger {
    opened: bool,
    acknowledged: i64,
    recovery_point: i64,
    log_start: i64,
    compacted: Option<i64>,
}

type SharedLedger = Rc<RefCell<Ledger>>;

/// What a log does beside taking records.
#[derive(Clone, Copy)]
enum Upkeep {
    Retains,
    Compacts,
}

impl Upkeep {
    fn options(self) -> LogOptions {
        let compact = matches!(self, Self::Compacts);
        LogOptions {
            segment_bytes: 12 << 10,
            compact,
            delete: !compact,
            file_delete_delay_ms: 1,
            ..options()
        }
    }
}

fn small_store() -> StoreOptions {
    StoreOptions {
        chunk_bytes: 8 << 10,
        allocate_step_bytes: 8 << 10,
        save_interval_bytes: 10 << 10,
        ..store_options()
    }
}

fn transactional(id: i64, sequence: i32) -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1))
        .transactional(true)
        .producer(ProducerId(id), 0, sequence)
}

/// The owner's part: remembers the points as the checkpoint files would.
async fn checkpoint(world: &World, known: &SharedLedger) {
    let points = world.store.points(Path::new(DIR));
    if let Some(points) = points.first() {
        let mut known = known.borrow_mut();
        known.recovery_point = points.recovery_point.0;
        known.log_start = points.log_start.0;
        known.compacted = points.compacted.map(|offset| offset.0);
    }
    world.store.checkpointed(&points, true).await;
}

/// Bursts that are rolled into several segments before one flush ends, with aborted transactions,
/// and saves, retention or compaction between them.
async fn live(world: &World, known: &SharedLedger, upkeep: Upkeep) -> Result<()> {
    let log = world.try_open(upkeep.options(), false, 0, 0).await?;
    known.borrow_mut().opened = true;
    for round in 0..4_i64 {
        for at in 0..6 {
            let first = log.log_end_offset().0;
            log.append(&batch(first, 2, 1_500), EPOCH, NOW_MS)?;
            let id = 100 + 10 * round + at;
            let records = filled(transactional(id, 0), first + 2, 2, 600, NOW_MS);
            log.append(&records, EPOCH, NOW_MS)?;
            let mut marker = transactional(id, -1).control(true);
            marker.add(TimestampMs(NOW_MS), Some(&[0; 4]), Some(&[0; 6]), &[]);
            log.append(&marker.finish().unwrap(), EPOCH, NOW_MS)?;
        }
        let end = log.log_end_offset();
        log.flush().await?;
        known.borrow_mut().acknowledged = end.0;
        log.set_high_watermark(log.durable_offset());
        if round % 2 == 0 {
            checkpoint(world, known).await;
        }
        match (upkeep, round) {
            (Upkeep::Retains, 2) => {
                let bounded = LogOptions {
                    retention_bytes: Some(40 << 10),
                    ..upkeep.options()
                };
                log.set_options(bounded);
                log.retain(NOW_MS).await?;
            }
            (Upkeep::Compacts, 1 | 2) => {
                if log.compaction().begin_compacting() {
                    checkpoint(world, known).await;
                }
                log.compact(&history::POLICY, &history::ROUND).await?;
            }
            _ => log.save().await?,
        }
    }
    log.close().await
}

/// The same up to the `k`-th disk operation; returns true if the life is over before.
async fn live_until(world: &World, known: &SharedLedger, upkeep: Upkeep, k: u64) -> bool {
    world.disk().inject(Fault::at(k, Effect::PowerOff));
    live(world, known, upkeep).await.is_ok()
}

/// A copy, and what was met while it was made.
struct Copied {
    disk: SimDisk,
    unsure: usize,
    has_gap: bool,
}

/// Copies the directory as `forebay backup` does.
async fn backed_up(image: &SimDisk, known: &Ledger) -> Copied {
    let at = |name: &str| Path::new(FOLDER).join(name);
    let entries = image.list(Path::new(FOLDER)).await.unwrap();
    let mut bases = Vec::new();
    let mut point = Offset(known.recovery_point);
    for entry in &entries {
        match part_of(&entry.name) {
            FilePart::Data(base) => bases.push(base),
            FilePart::Limits => {
                let bytes = image.contents(&at(&entry.name)).unwrap();
                point = point.min(recovery_limit(&entry.name, &bytes).unwrap());
            }
            _ => {}
        }
    }
    bases.sort_unstable();
    let from = unsure_from(&bases, point).unwrap_or(Offset::ZERO);
    let mut copied = Copied {
        disk: SimDisk::new(3),
        unsure: bases.iter().filter(|base| **base >= from).count(),
        has_gap: false,
    };
    for entry in &entries {
        let mut bytes = image.contents(&at(&entry.name)).unwrap();
        match part_of(&entry.name) {
            FilePart::Nothing => continue,
            FilePart::NameOnly => bytes.clear(),
            FilePart::Index(base) if base >= from => continue,
            FilePart::Data(base) if base >= from => {
                let mut end = BatchesEnd::of(base);
                let read = |at: u64, len: usize| {
                    let rest = bytes
                        .get(usize::try_from(at).unwrap()..)
                        .unwrap_or_default();
                    Ok(rest.get(..len).unwrap_or(rest).to_vec())
                };
                end.advance(read).unwrap();
                let following = bases.iter().copied().find(|other| *other > base);
                copied.has_gap |= following.is_some_and(|following| following != end.next);
                let len = copied_len(end, bytes.len() as u64, following);
                bytes.truncate(usize::try_from(end.position).unwrap());
                bytes.resize(usize::try_from(len).unwrap(), 0);
            }
            _ => {}
        }
        copied.disk.put(&at(&entry.name), &bytes).unwrap();
    }
    let put = |name: &str, text: &str| {
        let path = Path::new(DIR).join(name);
        copied.disk.put(&path, text.as_bytes()).unwrap();
    };
    put("meta.properties", "version=1\nnode.id=1\ncluster.id=c\n");
    let point = known.recovery_point;
    put(
        "recovery-point-offset-checkpoint",
        &format!("0\n1\norders 0 {point}\n"),
    );
    if let Some(offset) = known.compacted {
        put(
            "cleaner-offset-checkpoint",
            &format!("0\n1\norders 0 {offset}\n"),
        );
    }
    copied
}

/// What a reader finds.
#[derive(PartialEq, Eq, Debug)]
struct LogContent {
    start: Offset,
    end: Offset,
    batches: Vec<(Offset, u32)>,
    aborted: Vec<(i64, Offset)>,
}

async fn found(world: &World, known: &Ledger, upkeep: Upkeep) -> LogContent {
    let how = OpenAs {
        clean: false,
        recovery_point: Offset(known.recovery_point),
        log_start: Offset(known.log_start),
        compacted: known.compacted.map(Offset),
    };
    let opened = world.store.open_log(
        Path::new(DIR),
        partition(),
        topic_id(),
        upkeep.options(),
        how,
    );
    let log = opened.await.unwrap();
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let mut batches = Vec::new();
    let mut at = start;
    while at < end {
        let bytes = log.read(at, end, 1 << 20, true).await.unwrap().concat();
        let mut rest = &bytes[..];
        if rest.is_empty() {
            // Compaction has left nothing more.
            break;
        }
        while !rest.is_empty() {
            let header = BatchHeader::parse(rest).unwrap();
            batches.push((header.base_offset, header.crc));
            at = header.next_offset();
            rest = &rest[header.size_bytes..];
        }
    }
    let aborted = log.aborted_transactions(start, end).await.unwrap();
    let mut aborted: Vec<_> = aborted
        .iter()
        .map(|txn| (txn.producer_id.0, txn.last_offset))
        .collect();
    aborted.sort_unstable();
    // The log goes on.
    log.append(&batch(end.0, 1, 100), EPOCH, NOW_MS).unwrap();
    log.flush().await.unwrap();
    LogContent {
        start,
        end,
        batches,
        aborted,
    }
}

/// A shard whose writes of one flush end in any order.
fn busy_world() -> World {
    let platform = SimPlatform::new(11);
    let (least, most) = (Duration::from_micros(20), Duration::from_millis(2));
    platform.disk().set_latency(least, most);
    World::on(platform, small_store())
}

/// Backs up at the `k`-th operation and compares; `None` when the life is over before it.
fn back_up_at(upkeep: Upkeep, k: u64) -> Option<(usize, bool)> {
    simulate(async {
        let world = busy_world();
        let known = SharedLedger::default();
        let over = live_until(&world, &known, upkeep, k).await;
        let known = known.borrow().clone();
        if over {
            return None;
        }
        if !known.opened {
            return Some((0, false));
        }
        let image = world.disk().kill(k);
        let copied = backed_up(&image, &known).await;
        let report = check(&copied.disk, &[PathBuf::from(DIR)]).await.unwrap();
        let damage: Vec<_> = report
            .findings
            .iter()
            .filter(|one| one.severity == Severity::Damage)
            .collect();
        assert!(damage.is_empty(), "at {k}: {damage:?} {known:?}");
        let of_copy = world.successor_with(copied.disk.clone(), small_store());
        let of_copy = found(&of_copy, &known, upkeep).await;
        let of_image = world.successor_with(image, small_store());
        let of_image = found(&of_image, &known, upkeep).await;
        assert_eq!(of_copy, of_image, "at {k}");
        assert!(of_copy.end.0 >= known.acknowledged, "at {k}: {known:?}");
        Some((copied.unsure, copied.has_gap))
    })
}

/// Backs up at a hundred instants of a life, in equal distances.
fn back_up_at_many_instants(upkeep: Upkeep) {
    let operations = simulate(async {
        let world = busy_world();
        let known = SharedLedger::default();
        live(&world, &known, upkeep).await.unwrap();
        world.disk().operations()
    });
    let step = usize::try_from(operations / INSTANTS).unwrap().max(1);
    let instants = (0..operations).step_by(step);
    let met: Vec<_> = instants.map_while(|k| back_up_at(upkeep, k)).collect();
    assert!(met.len() as u64 > INSTANTS / 2, "{}", met.len());
    let unsure = met.iter().map(|(unsure, _)| *unsure).max();
    assert!(
        unsure > Some(3),
        "many segments wait to be sealed: {unsure:?}"
    );
    let gaps = met.iter().filter(|(_, has_gap)| *has_gap).count();
    assert!(gaps > 0, "one begins before the end of another is written");
}

#[test]
fn a_backup_at_any_instant_is_what_a_kill_leaves() {
    back_up_at_many_instants(Upkeep::Retains);
}

#[test]
fn a_backup_at_any_instant_of_a_compacted_log_is_what_a_kill_leaves() {
    back_up_at_many_instants(Upkeep::Compacts);
}
