//! The periodic work of a shard: retention and compaction of its own logs, overdue transactions,
//! and checkpoints for all shards.
//!
//! The loops end with the shard's executor. Each round is an independent decision; a failure is
//! logged, and the next round tries again.

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::task;

use crate::Broker;
use crate::compaction;
use crate::hanging::AbandonedUpkeep;
use crate::names::CONTROLLER_SHARD;
use crate::partition::Partition;
use crate::wall_clock;

/// How often the transactions that are open for too long are counted: they are so for minutes.
const LATE_COUNT_INTERVAL: Duration = Duration::from_secs(30);

/// Starts the loops of this shard.
pub fn start<P: Platform>(broker: &Rc<Broker<P>>) {
    task::spawn(retain(Rc::clone(broker)));
    task::spawn(abort_overdue(Rc::clone(broker)));
    task::spawn(forget_idle_ids(Rc::clone(broker)));
    task::spawn(forget_silent_producers(Rc::clone(broker)));
    task::spawn(compaction::run(Rc::clone(broker)));
    task::spawn(checkpoint_what_is_saved(Rc::clone(broker)));
    if broker.shards.me() == CONTROLLER_SHARD {
        task::spawn(checkpoint(Rc::clone(broker)));
        task::spawn(wall_clock::watch(Rc::clone(broker)));
    }
}

async fn retain<P: Platform>(broker: Rc<Broker<P>>) {
    let left = AbandonedUpkeep::default();
    loop {
        broker
            .platform
            .clock()
            .sleep(broker.options.retention_check)
            .await;
        broker.telemetry.forget_idle(broker.platform.clock().now());
        for partition in broker.led_partitions() {
            let retain = retain_one(Rc::clone(&broker), Rc::clone(&partition));
            broker.keep_up(&partition, &left, retain).await;
            task::yield_now().await;
        }
    }
}

async fn retain_one<P: Platform>(broker: Rc<Broker<P>>, partition: Rc<Partition<P>>) {
    match partition
        .log
        .retain(broker.platform.clock().reading())
        .await
    {
        Ok(0) => {}
        Ok(segments) => {
            tracing::info!(partition = %partition.name, segments, "retention deleted segments");
        }
        Err(error) => tracing::warn!(partition = %partition.name, %error, "retention failed"),
    }
}

async fn checkpoint<P: Platform>(broker: Rc<Broker<P>>) {
    loop {
        broker
            .platform
            .clock()
            .sleep(broker.options.checkpoint_interval)
            .await;
        Rc::clone(&broker).checkpoint_what_is_new().await;
    }
}

/// Checkpoints early under load.
///
/// Much is saved between two periodic checkpoints then, and recovery would have to read it after a
/// crash.
async fn checkpoint_what_is_saved<P: Platform>(broker: Rc<Broker<P>>) {
    loop {
        broker.store.checkpoint_due().await;
        broker.checkpoint_saved().await;
    }
}

async fn abort_overdue<P: Platform>(broker: Rc<Broker<P>>) {
    let clock = broker.platform.clock();
    let mut counted = clock.now();
    loop {
        clock.sleep(broker.options.transaction.abort_check).await;
        broker.transactions.abort_overdue().await;
        // It looks at all partitions.
        if counted.elapsed() >= LATE_COUNT_INTERVAL {
            counted = clock.now();
            broker.count_late_transactions();
        }
    }
}

async fn forget_silent_producers<P: Platform>(broker: Rc<Broker<P>>) {
    let clock = broker.platform.clock();
    loop {
        let pause = broker.options.transaction.producer_expiration_check;
        clock.sleep(pause).await;
        for partition in broker.led_partitions() {
            partition
                .log
                .producer_states()
                .expire_producers(clock.reading());
            // Each look is short, but all of them together may not be.
            task::yield_now().await;
        }
    }
}

async fn forget_idle_ids<P: Platform>(broker: Rc<Broker<P>>) {
    let clock = broker.platform.clock();
    loop {
        clock
            .sleep(broker.options.transaction.expiration_check)
            .await;
        broker.transactions.forget_idle();
    }
}
