//! Carries out a decision: writes a marker into every partition of the transaction, then the record
//! that it is complete.
//!
//! It retries until everything is written, because a decision in the log stands. A deleted
//! partition needs no marker. A crash before the last record leads to second markers, which end
//! nothing.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::clock::Instant;
use storage::log::producer_state::{EndMarker, TransactionOutcome};
use wire::types::ErrorCode;

use super::coordinator::TransactionCoordinator;
use super::ending::Ending;
use super::state::{Entry, PartitionName, TransactionState};
use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::names::OFFSETS_TOPIC;
use crate::partition::Acks;
use crate::route::at_partitions;

const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a marker may take to be committed before it is written again.
const MARKER_TIMEOUT: Duration = Duration::from_secs(30);

const _: () = assert!(
    RETRY_MIN.as_millis() < RETRY_MAX.as_millis(),
    "a pause grows"
);
const _: () = assert!(
    RETRY_MAX.as_millis() < MARKER_TIMEOUT.as_millis(),
    "a marker has more than a pause"
);

pub(super) async fn carry_out<P: Platform>(
    coordinator: Rc<TransactionCoordinator<P>>,
    partition: i32,
    incarnation: u64,
    id: String,
) {
    let mut left: Option<BTreeSet<PartitionName>> = None;
    let mut pause = RETRY_MIN;
    let began = Instant::now();
    loop {
        let Some(entry) = coordinator.decided(partition, incarnation, &id) else {
            return;
        };
        let Ok(broker) = coordinator.broker() else {
            return;
        };
        // While a shard starts, its image is not there yet: no partition may be taken for deleted
        // until it is.
        let Ok(epoch) = coordinator.epoch(partition) else {
            broker.platform.clock().sleep(RETRY_MIN).await;
            continue;
        };
        let ending = ending_of(&entry, epoch.0);
        let to_do = left.get_or_insert_with(|| entry.partitions.clone());
        let names: Vec<PartitionName> = to_do.iter().cloned().collect();
        for (name, written) in names.iter().zip(write(&broker, &names, ending).await) {
            match written {
                Ok(()) => {
                    to_do.remove(name);
                }
                Err(code) => {
                    tracing::debug!(
                        id,
                        topic = name.0,
                        partition = name.1,
                        ?code,
                        "no marker yet"
                    );
                }
            }
        }
        if to_do.is_empty() && coordinator.complete(partition, incarnation, &id).await {
            if entry.state == TransactionState::PrepareCommit {
                coordinator.note_commit(began);
            }
            return;
        }
        broker.platform.clock().sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

fn ending_of(entry: &Entry, coordinator_epoch: i32) -> Ending {
    assert!(entry.state.is_prepared(), "what is not decided has no end");
    let outcome = if entry.state == TransactionState::PrepareCommit {
        TransactionOutcome::Commit
    } else {
        TransactionOutcome::Abort
    };
    Ending {
        producer_id: entry.producer_id,
        epoch: entry.epoch,
        marker: EndMarker {
            outcome,
            coordinator_epoch,
        },
        // This broker is the only coordinator: it ends the transactions that it began, in either
        // protocol version.
        raises_epoch: false,
    }
}

async fn write<P: Platform>(
    broker: &Rc<Broker<P>>,
    names: &[PartitionName],
    ending: Ending,
) -> Vec<Result<(), ErrorCode>> {
    let items = names.iter().map(|(topic, partition)| {
        let key = TopicKey::Name(topic.as_str().into());
        (broker.target(&key, *partition), ending)
    });
    let written = end_at(broker, items.collect()).await;
    let written = written.into_iter();
    written
        .map(|written| match written {
            Err(ErrorCode::UnknownTopicOrPartition) => Ok(()),
            // A newer producer epoch or coordinator epoch has ended the transaction in this
            // partition.
            Err(ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced) => {
                tracing::warn!(?ending, "a partition knows a newer end of the transaction");
                Ok(())
            }
            other => other,
        })
        .collect()
}

/// Writes end markers to partitions; each result comes when the marker is committed.
pub(crate) async fn end_at<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: Vec<(Result<crate::route::Target, ErrorCode>, Ending)>,
) -> Vec<Result<(), ErrorCode>> {
    at_partitions(broker, items, |broker, partition, ending| {
        let clock = broker.platform.clock();
        let begun = partition.end_transaction(ending, clock);
        let deadline = clock.now() + MARKER_TIMEOUT;
        // A task of its own: the marker takes effect for groups even if the client disconnects.
        let ended = async move {
            let accepted = begun.map_err(|error| error.code)?;
            partition
                .acknowledged(accepted, Acks::All, deadline)
                .await?;
            if partition.name.topic.as_ref() == OFFSETS_TOPIC {
                let (index, outcome) = (partition.name.partition, ending.marker.outcome);
                let groups = &broker.groups;
                let ended = groups.end_transaction(index, ending.producer_id, outcome);
                ended.await;
            }
            Ok(())
        };
        let ended = platform::task::spawn(ended);
        async move {
            let ended = ended.await;
            ended.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
        }
    })
    .await
}
