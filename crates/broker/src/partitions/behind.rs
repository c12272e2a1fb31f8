//! Logs that are opened late and are ahead of the metadata: with later leader epochs, or producer
//! ids that the metadata have not given out.
//!
//! Metadata that were restored from a backup are behind their logs. A start raises them above the
//! logs that it has opened. This file does the same for a log whose disk did not answer then,
//! before it is led: otherwise batches of a lower epoch would be refused, and those of producer ids
//! that are given out twice would be taken for duplicates.

use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use storage::Log;
use wire::types::{ErrorCode, LeaderEpoch, ProducerId, TopicId, TopicPartition};

use crate::Broker;
use crate::lifecycle::PRODUCER_IDS_RAISED_MAX;
use crate::names::CONTROLLER_SHARD;

/// Pause before a failed change of the metadata is retried.
const RAISE_AGAIN: Duration = Duration::from_secs(5);

/// By what a log is ahead of the metadata.
#[derive(Debug)]
struct AheadOfMetadata {
    epoch: Option<(TopicPartition, i32)>,
    producer_id: Option<ProducerId>,
}

impl<P: Platform> Broker<P> {
    /// Raises the metadata above a log, if they are behind it; returns when they are, or when the
    /// partition is gone.
    pub(super) async fn raise_behind(
        &self,
        key: (TopicId, i32),
        name: &TopicPartition,
        log: &Log<P>,
    ) {
        while let Some(missing) = self.missing_now(key, name).await {
            if self.stopping_since.get().is_some() {
                return;
            }
            let raised = self.raise_above(name, missing.epoch, log).await;
            let Err(code) = raised else { return };
            tracing::error!(partition = %name, ?code,
                "the metadata are behind the log and cannot be raised above it now: the partition stays offline until they are");
            self.platform.clock().sleep(RAISE_AGAIN).await;
        }
    }

    async fn raise_above(
        &self,
        name: &TopicPartition,
        epoch: LeaderEpoch,
        log: &Log<P>,
    ) -> Result<(), ErrorCode> {
        let next = |broker: Rc<Self>| async move {
            let controller = broker.controller()?;
            Ok(controller.image().next_producer_id())
        };
        let next = self.shards.call(CONTROLLER_SHARD, next).await;
        // The controller's shard is stopping: retried, unless this shard stops too.
        let next: i64 = next.unwrap_or(Err(ErrorCode::NotController))?;
        let limit = ProducerId(next.saturating_add(PRODUCER_IDS_RAISED_MAX));
        let known = log.producer_states().largest_producer_below(limit);
        let by = log
            .latest_epoch()
            .map(|logged| logged.0.saturating_sub(epoch.0));
        let by = by.filter(|by| *by > 0);
        let behind = AheadOfMetadata {
            epoch: by.map(|by| (name.clone(), by.saturating_add(1))),
            producer_id: known.filter(|known| known.0 >= next),
        };
        if behind.epoch.is_none() && behind.producer_id.is_none() {
            return Ok(());
        }
        tracing::warn!(partition = %name, ?behind,
            "a log that could be opened only now knows more than the metadata: they are raised above it");
        let raise = move |broker: Rc<Self>| async move {
            let controller = broker.controller()?;
            if let Some(epoch) = behind.epoch {
                controller.raise_epochs(&[epoch]).await?;
            }
            match behind.producer_id {
                Some(known) => controller.raise_producer_ids(known).await,
                None => Ok(()),
            }
        };
        let raised = self.shards.call(CONTROLLER_SHARD, raise).await;
        raised.unwrap_or(Err(ErrorCode::NotController))
    }
}
