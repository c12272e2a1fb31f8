//! The life of a shard with a journal: small and large appends, rolls, saves, retention,
//! truncations, a compaction, a deletion, a clean stop.

use std::task::Poll;
use std::time::Duration;

use platform::sim::SimDisk;
use platform::task;
use storage::{CompactOptions, CompactPolicy, LogOptions, Result};
use wire::types::Offset;

use crate::scene::*;
use crate::world::*;

const POLICY: CompactPolicy = CompactPolicy {
    min_lag_ms: 0,
    max_lag_ms: i64::MAX,
    delete_retention_ms: 1_000,
    dirty_ratio_min_ppm: 0,
};

const ROUND: CompactOptions = CompactOptions {
    map_bytes_max: 1 << 16,
    map_load_factor: 0.9,
    buffer_bytes: 32 << 10,
    bytes_per_second_max: f64::MAX,
};

/// Appends to logs, and flushes all of them at once.
async fn produce_to(
    shard: &Shard,
    known: &KnownDirectory,
    to: &[usize],
    count: i64,
    bytes: usize,
) -> Result<()> {
    let mut flushes = Vec::new();
    for &at in to {
        let log = shard.logs[at].clone();
        let first = log.log_end_offset().0;
        let appended = log.append(&batch(first, count, bytes), EPOCH, NOW_MS)?;
        let end = appended.last_offset.0 + 1;
        known.borrow_mut().logs[at].appended = end;
        let known = known.clone();
        flushes.push(task::spawn(async move {
            log.flush().await?;
            let ledger = &mut known.borrow_mut().logs[at];
            ledger.acknowledged = ledger.acknowledged.max(end);
            log.set_high_watermark(log.durable_offset());
            Ok(())
        }));
    }
    let mut result = Ok(());
    for flush in flushes {
        result = result.and(flush.await.unwrap());
    }
    result
}

async fn cut(shard: &Shard, known: &KnownDirectory, at: usize, records: i64) -> Result<()> {
    let log = &shard.logs[at];
    let cut = log.log_end_offset().0 - records;
    known.borrow_mut().logs[at].cut = Some(cut);
    log.truncate_to(Offset(cut)).await?;
    let end = log.log_end_offset().0;
    let ledger = &mut known.borrow_mut().logs[at];
    (ledger.acknowledged, ledger.appended, ledger.cut) = (end, end, None);
    Ok(())
}

async fn begin_again(shard: &Shard, known: &KnownDirectory, at: usize) -> Result<()> {
    let log = &shard.logs[at];
    let offset = log.log_end_offset().0 + 5;
    {
        let ledger = &mut known.borrow_mut().logs[at];
        (ledger.acknowledged, ledger.appended) = (0, offset);
        ledger.retained_from = offset;
    }
    log.truncate_fully_and_start_at(Offset(offset)).await?;
    known.borrow_mut().logs[at].acknowledged = offset;
    Ok(())
}

async fn delete_and_make(shard: &mut Shard, known: &KnownDirectory, at: usize) -> LifeResult<()> {
    {
        let ledger = &mut known.borrow_mut().logs[at];
        ledger.acknowledged = 0;
        ledger.retained_from = ledger.appended;
    }
    shard.logs[at].delete().await?;
    let generation = known.borrow().logs[at].generation + 1;
    known.borrow_mut().logs[at] = Ledger {
        generation,
        ..Ledger::default()
    };
    let book = known.borrow().clone();
    shard.logs[at] = shard.open(at, &book).await?;
    Ok(())
}

async fn retain(shard: &Shard, known: &KnownDirectory, at: usize) -> Result<()> {
    let log = &shard.logs[at];
    log.set_options(LogOptions {
        retention_bytes: Some(4 << 10),
        ..log_options(at)
    });
    known.borrow_mut().logs[at].retained_from = log.log_end_offset().0;
    log.retain(NOW_MS).await?;
    known.borrow_mut().logs[at].retained_from = log.log_start_offset().0;
    Ok(())
}

/// All of it.
pub(crate) async fn live(shard: &mut Shard, known: &KnownDirectory) -> LifeResult<()> {
    let book = known.borrow().clone();
    shard.start(&book).await?;
    let all = [0, 1, 2, 3];
    for round in 0..5 {
        produce_to(shard, known, &all, 1 + round % 3, 400).await?;
        produce_to(shard, known, &[0, 3], 1, 900).await?;
        if round == 2 {
            shard.sleep(150).await;
        }
        shard.checkpoint(known).await;
    }
    produce_to(shard, known, &[0, 1], 3, 3000).await?;
    shard.logs[1].roll().await?;
    shard.logs[3].roll().await?;
    produce_to(shard, known, &all, 2, 300).await?;
    shard.logs[0].save().await?;
    retain(shard, known, 1).await?;
    shard.checkpoint(known).await;

    // Cuts of what is in the ring only, and appends of both kinds behind them.
    produce_to(shard, known, &all, 2, 500).await?;
    cut(shard, known, 0, 3).await?;
    produce_to(shard, known, &[0, 2], 1, 300).await?;
    cut(shard, known, 0, 1).await?;
    produce_to(shard, known, &[0], 2, 4000).await?;
    begin_again(shard, known, 1).await?;
    produce_to(shard, known, &all, 1, 600).await?;
    delete_and_make(shard, known, 2).await?;
    produce_to(shard, known, &all, 2, 200).await?;

    let compacted = &shard.logs[COMPACTED];
    compacted.roll().await?;
    produce_to(shard, known, &[COMPACTED], 1, 300).await?;
    compacted.save().await?;
    compacted.compaction().begin_compacting();
    shard.checkpoint(known).await;
    compacted.compact(&POLICY, &ROUND).await?;
    produce_to(shard, known, &all, 1, 250).await?;
    shard.checkpoint(known).await;
    shard.stop(known).await
}

/// How many turns of other tasks without a disk operation mean that all of them wait.
const TURNS_OF_REST: u32 = 50;

/// Lives, and looks between the turns of other tasks; ends the life when `look` returns true.
pub(crate) async fn watched<T>(
    disk: &SimDisk,
    life: impl Future<Output = T>,
    mut look: impl FnMut() -> bool,
) -> Option<T> {
    let mut life = Box::pin(life);
    let (mut operations, mut turns) = (0, 0);
    loop {
        let polled = std::future::poll_fn(|context| Poll::Ready(life.as_mut().poll(context)));
        if let Poll::Ready(ended) = polled.await {
            return Some(ended);
        }
        if look() {
            return None;
        }
        turns = if operations == disk.operations() {
            turns + 1
        } else {
            0
        };
        operations = disk.operations();
        if turns < TURNS_OF_REST {
            task::yield_now().await;
        } else if let Ok(ended) = task::timeout(Duration::from_millis(1), life.as_mut()).await {
            return Some(ended);
        }
    }
}

/// The same up to the `k`-th disk operation, where it is dropped.
pub(crate) async fn live_until(shard: &mut Shard, known: &KnownDirectory, k: u64) {
    let disk = shard.disk().clone();
    let is_over = || disk.operations() >= k;
    drop(watched(&disk, live(shard, known), is_over).await);
}
