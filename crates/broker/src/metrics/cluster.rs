//! Gauges and counters of the cluster that follow from the metadata alone, under Kafka's names.
//!
//! The shard that runs the controller sets them whenever the metadata change; changes are counted
//! from one image to the next. Not here: what a broker knows of its own partitions.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::new_gauge;
use crate::controller::quorum::Quorum;
use crate::image::{Image, PartitionImage};

/// Gauges and counters; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMetrics {
    active_brokers: Gauge,
    fenced_brokers: Gauge,
    /// Partitions that their preferred replica does not lead.
    imbalanced: Gauge,
    /// Partitions whose replicas are being changed.
    reassigning: Gauge,
    shrinks: Counter,
    expansions: Counter,
    unclean_elections: Counter,
    // Bounded: the registered brokers and their endpoints.
    brokers: Family<BrokerLabels, Gauge>,
    quorum: QuorumGauges,
}

/// Gauges of the quorum of the metadata log.
#[derive(Clone, Debug)]
struct QuorumGauges {
    leader: Gauge,
    vote: Gauge,
    epoch: Gauge,
    high_watermark: Gauge,
    end: Gauge,
    state: Family<StateLabel, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BrokerLabels {
    id: i32,
    address: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    current_state: &'static str,
}

impl ClusterMetrics {
    /// Creates and registers them.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let shrinks = counter(
            "kafka_server_replicamanager_isrshrinks",
            "Times that a replica left the replicas in sync",
        );
        let expansions = counter(
            "kafka_server_replicamanager_isrexpands",
            "Times that a replica joined the replicas in sync",
        );
        let unclean_elections = counter(
            "kafka_controller_controllerstats_uncleanleaderelections",
            "Elections of a leader that was not in sync",
        );
        let brokers = Family::default();
        let help = "The registered brokers; the value is always 1";
        registry.register("kafka_broker_info", help, brokers.clone());
        let quorum = QuorumGauges::register(registry);
        let mut gauge = |name: &str, help| new_gauge(registry, name, help);
        Self {
            active_brokers: gauge(
                "kafka_controller_kafkacontroller_activebrokercount",
                "Brokers that may lead partitions",
            ),
            fenced_brokers: gauge(
                "kafka_controller_kafkacontroller_fencedbrokercount",
                "Brokers that may not lead partitions",
            ),
            imbalanced: gauge(
                "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
                "Partitions that their preferred replica does not lead",
            ),
            reassigning: gauge(
                "kafka_server_replicamanager_reassigningpartitions",
                "Partitions whose replicas are being changed",
            ),
            shrinks,
            expansions,
            unclean_elections,
            brokers,
            quorum,
        }
    }

    /// Sets the gauges of the quorum.
    pub(crate) fn show_quorum(&self, quorum: &Quorum) {
        let (gauges, node) = (&self.quorum, i64::from(quorum.node.0));
        gauges.leader.set(node);
        gauges.vote.set(node);
        gauges.epoch.set(quorum.epoch.0.into());
        gauges.high_watermark.set(quorum.high_watermark.0);
        gauges.end.set(quorum.end.0);
        let current_state = "leader";
        let state = gauges.state.get_or_create(&StateLabel { current_state });
        state.set(1);
    }

    fn show_brokers(&self, image: &Image) {
        self.brokers.clear();
        for broker in image.brokers() {
            if let Some(endpoint) = broker.endpoints.first() {
                let labels = BrokerLabels {
                    id: broker.id,
                    address: format!("{}:{}", endpoint.host, endpoint.port),
                };
                self.brokers.get_or_create(&labels).set(1);
            }
        }
    }

    /// Sets the gauges to the state of `image`, and counts the changes since `before`.
    pub(super) fn count(&self, before: &Image, image: &Image) {
        let fenced = image.brokers().filter(|broker| broker.fenced).count();
        let active = image.brokers().count().saturating_sub(fenced);
        self.active_brokers.set(signed(active));
        self.fenced_brokers.set(signed(fenced));
        self.show_brokers(image);
        let (mut imbalanced, mut reassigning) = (0, 0);
        for topic in image.topics() {
            for partition in topic.partitions.values() {
                let preferred = partition.replicas.first();
                imbalanced += usize::from(preferred != Some(&partition.leader));
                let moves = !partition.adding.is_empty() || !partition.removing.is_empty();
                reassigning += usize::from(moves);
            }
            let old = before.topic_by_id(topic.id);
            let Some(old) = old.filter(|old| !Arc::ptr_eq(old, topic)) else {
                continue;
            };
            for (index, partition) in &topic.partitions {
                if let Some(was) = old.partitions.get(index) {
                    self.count_change(was, partition);
                }
            }
        }
        self.imbalanced.set(signed(imbalanced));
        self.reassigning.set(signed(reassigning));
    }

    fn count_change(&self, was: &PartitionImage, is: &PartitionImage) {
        if was.isr.iter().any(|id| !is.isr.contains(id)) {
            self.shrinks.inc();
        }
        if is.isr.iter().any(|id| !was.isr.contains(id)) {
            self.expansions.inc();
        }
        // A leader of -1 is none.
        if is.leader != was.leader && is.leader >= 0 && !was.isr.contains(&is.leader) {
            self.unclean_elections.inc();
        }
    }
}

impl QuorumGauges {
    fn register(registry: &mut Registry) -> Self {
        let state = Family::default();
        registry.register(
            "kafka_server_raftmetrics_current_state",
            "Part of this node in the quorum; the value is always 1",
            state.clone(),
        );
        let mut gauge = |name: &str, help| {
            let name = format!("kafka_server_raftmetrics_{name}");
            new_gauge(registry, &name, help)
        };
        Self {
            leader: gauge("current_leader", "Node that leads the metadata log"),
            vote: gauge("current_vote", "Node that this node has voted for"),
            epoch: gauge("current_epoch", "Leader epoch of the metadata log"),
            high_watermark: gauge("high_watermark", "High watermark of the metadata log"),
            end: gauge("log_end_offset", "Log end offset of the metadata log"),
            state,
        }
    }
}

fn signed(count: usize) -> i64 {
    // No list has more entries than an i64 counts.
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(isr: &[i32], leader: i32) -> PartitionImage {
        PartitionImage {
            replicas: vec![1, 2],
            directories: Vec::new(),
            isr: isr.to_vec(),
            removing: Vec::new(),
            adding: Vec::new(),
            eligible: Vec::new(),
            last_known_eligible: Vec::new(),
            leader,
            recovering: false,
            leader_epoch: 0,
            partition_epoch: 0,
        }
    }

    #[test]
    fn an_election_is_unclean_if_the_new_leader_was_not_in_sync() {
        let metrics = ClusterMetrics::register(&mut Registry::default());
        let check = |was: PartitionImage, is: PartitionImage, expected: [u64; 3]| {
            metrics.count_change(&was, &is);
            let counters = [
                &metrics.shrinks,
                &metrics.expansions,
                &metrics.unclean_elections,
            ];
            assert_eq!(counters.map(Counter::get), expected, "{was:?} {is:?}");
        };
        check(partition(&[1, 2], 1), partition(&[2], 2), [1, 0, 0]);
        check(partition(&[2], 2), partition(&[2, 1], 2), [1, 1, 0]);
        check(partition(&[2], 2), partition(&[2], -1), [1, 1, 0]);
        check(partition(&[2], -1), partition(&[1], 1), [2, 2, 1]);
        check(partition(&[1], 1), partition(&[1], 1), [2, 2, 1]);
    }
}
