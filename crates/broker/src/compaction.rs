//! Decides which log of a shard is compacted when: the dirtiest one that is due, one after the
//! other, as Kafka's cleaner does.
//!
//! Each shard looks at its own logs. `log.cleaner.threads` and its companions, read again for each
//! round, decide how many logs the whole process compacts at the same time, and with how much
//! memory. Invariant: before the first round of a log, the directory's `cleaner-offset-checkpoint`
//! names it, so that a later reader knows the cause of the gaps in it, whatever the log's policy is
//! by then. It does not compact (storage does), or touch the metadata log.

mod metrics;
mod settings;
mod turns;

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::task;
use storage::{CompactPolicy, CompactionRound, Dirt, FailureKind};

use crate::Broker;
use crate::hanging::AbandonedUpkeep;
use crate::partition::Partition;
use metrics::CompactionBacklog;
pub use metrics::Metrics;
use settings::Settings;
pub use turns::Turns;

/// Logs that are examined between two yields.
const LOOKS_MAX: usize = 32;
/// How often a shard tries to get a turn while other shards have all of them.
const TURN_INTERVAL: Duration = Duration::from_millis(200);

/// A log that is due.
struct DueLog<P: Platform> {
    partition: Rc<Partition<P>>,
    policy: CompactPolicy,
    dirt: Dirt,
}

/// Compacts the logs of a shard as long as it lives.
pub(crate) async fn run<P: Platform>(broker: Rc<Broker<P>>) {
    let (mut found, left) = (CompactionBacklog::default(), AbandonedUpkeep::default());
    loop {
        let settings = Settings::of(&broker);
        let has_compacted =
            settings.is_enabled && step(&broker, &settings, &mut found, &left).await;
        if !has_compacted {
            broker.platform.clock().sleep(settings.backoff).await;
        }
    }
}

/// Compacts the log that needs it most; false if no log is due, so that the caller waits.
async fn step<P: Platform>(
    broker: &Rc<Broker<P>>,
    settings: &Settings,
    found: &mut CompactionBacklog,
    left: &AbandonedUpkeep,
) -> bool {
    let Some(due) = dirtiest(broker, found, left).await else {
        return false;
    };
    let turn = loop {
        match broker.compacting.begin(settings.logs_at_once) {
            Some(turn) => break turn,
            None => broker.platform.clock().sleep(TURN_INTERVAL).await,
        }
    };
    let partition = Rc::clone(&due.partition);
    // The round owns the turn until it ends, even if this step stops waiting for it.
    let turn = Rc::new(turn);
    let (its_turn, me, settings) = (Rc::clone(&turn), Rc::clone(broker), *settings);
    let round = async move {
        let _turn = its_turn;
        compact_one(me, settings, due).await
    };
    let go_on = broker.keep_up(&partition, left, round).await;
    if go_on.is_none() {
        // Other rounds get the turn while this one waits for a disk that hangs.
        turn.leave(settings.logs_at_once);
    }
    // A round that goes on in the background has no result: the next step waits as if no log were
    // due.
    go_on.unwrap_or(false)
}

/// Returns the dirtiest log of this shard among those that are due.
async fn dirtiest<P: Platform>(
    broker: &Rc<Broker<P>>,
    found: &mut CompactionBacklog,
    left: &AbandonedUpkeep,
) -> Option<DueLog<P>> {
    let reading = broker.platform.clock().reading();
    let mut dirtiest: Option<DueLog<P>> = None;
    let mut now = CompactionBacklog::default();
    for (at, partition) in broker.led_partitions().into_iter().enumerate() {
        if at % LOOKS_MAX == LOOKS_MAX - 1 {
            task::yield_now().await;
        }
        let config = partition.config();
        let log = &partition.log;
        if !config.compacted || log.failed().is_some() {
            continue;
        }
        if log.compaction().is_uncleanable() {
            now.note_uncleanable(log.dir(), log.size_bytes());
            continue;
        }
        let (policy, looked_at) = (config.compaction, Rc::clone(&partition));
        let look = async move { looked_at.log.compaction().dirt(&policy, reading).await };
        let dirt = match broker.keep_up(&partition, left, look).await {
            None => continue,
            Some(Ok(dirt)) => dirt,
            Some(Err(error)) => {
                if error.kind() != FailureKind::Closed {
                    tracing::warn!(partition = %partition.name, %error, "cannot see how dirty a log is");
                }
                continue;
            }
        };
        now.note_dirt(&dirt);
        let is_dirtier = |other: &DueLog<P>| dirt.ratio() > other.dirt.ratio();
        if dirt.is_due(&config.compaction) && dirtiest.as_ref().is_none_or(is_dirtier) {
            dirtiest = Some(DueLog {
                partition: Rc::clone(&partition),
                policy,
                dirt,
            });
        }
    }
    let shard = broker.shards.me();
    broker
        .metrics
        .compaction
        .show(shard, found, &now, reading.wall_ms);
    *found = now;
    dirtiest
}

/// Runs one round for one log; false if the next round should wait.
async fn compact_one<P: Platform>(
    broker: Rc<Broker<P>>,
    settings: Settings,
    due: DueLog<P>,
) -> bool {
    let log = &due.partition.log;
    let is_first = log.compaction().begin_compacting();
    if is_first && !broker.save_compacted(log.dir().to_owned()).await {
        log.compaction().has_not_compacted();
        return false;
    }
    let clock = broker.platform.clock();
    let started = clock.now();
    match log.compact(&due.policy, &settings.round).await {
        Ok(None) => false,
        Ok(Some(round)) => {
            let elapsed = clock.now().duration_since(started);
            broker
                .metrics
                .compaction
                .count(&round, elapsed, clock.wall_ms());
            say(&due.partition, &round, elapsed);
            broker.save_compacted(log.dir().to_owned()).await;
            true
        }
        Err(error) if error.kind() == FailureKind::Corrupt => {
            tracing::error!(partition = %due.partition.name, %error,
                "a damaged log is not compacted any more until the next start; nothing of it was changed");
            true
        }
        Err(error) => {
            tracing::warn!(partition = %due.partition.name, %error, "compaction failed and will be tried again");
            false
        }
    }
}

fn say<P: Platform>(partition: &Partition<P>, round: &CompactionRound, elapsed: Duration) {
    tracing::info!(partition = %partition.name, from = %round.from, to = %round.to,
        bytes_before = round.bytes_before, bytes_after = round.bytes_after,
        map_utilization = round.map_utilization, seconds = elapsed.as_secs_f64(), "compacted");
}
