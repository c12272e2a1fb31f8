//! Gauges and counters of the cluster that follow from the metadata alone, under Kafka's names.
//!
//! The shard that runs the controller sets them whenever the metadata change; changes are counted
//! from one image to the next. Not here: what a broker knows of its own partitions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use platform::sync::watch;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::lately::Durations;
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
    brokers: RegisteredBrokers,
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
    /// Mean time of lately committed changes, in milliseconds.
    commit_latency: Gauge<f64, AtomicU64>,
    state: Family<StateLabel, Gauge>,
}

/// The registered brokers. A scrape sees those of one image, never a part of them.
#[derive(Clone, Default, Debug)]
struct RegisteredBrokers(watch::Sender<Arc<[BrokerLabels]>>);

#[derive(Clone, Debug, EncodeLabelSet)]
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
            "Elections of a leader that was neither in sync nor eligible",
        );
        let brokers = RegisteredBrokers::default();
        registry.register_collector(Box::new(brokers.clone()));
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

    /// Sets the gauges of the quorum; `commits` is how long changes took to be committed.
    pub(crate) fn show_quorum(&self, quorum: &Quorum, commits: Durations) {
        let (gauges, node) = (&self.quorum, i64::from(quorum.node.0));
        gauges.leader.set(node);
        gauges.vote.set(node);
        gauges.epoch.set(quorum.epoch.0.into());
        gauges.high_watermark.set(quorum.high_watermark.0);
        gauges.end.set(quorum.end.0);
        gauges.commit_latency.set(commits.mean_ms());
        let current_state = "leader";
        let state = gauges.state.get_or_create(&StateLabel { current_state });
        state.set(1);
    }

    /// Sets the gauges to the state of `image`, and counts the changes since `before`.
    pub(super) fn count(&self, before: &Image, image: &Image) {
        let fenced = image.brokers().filter(|broker| broker.fenced).count();
        let active = image.brokers().count().saturating_sub(fenced);
        self.active_brokers.set(signed(active));
        self.fenced_brokers.set(signed(fenced));
        self.brokers.replace(image);
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
        let was_clean = was.isr.contains(&is.leader) || was.eligible.contains(&is.leader);
        if is.leader != was.leader && is.leader >= 0 && !was_clean {
            self.unclean_elections.inc();
        }
    }
}

impl RegisteredBrokers {
    fn replace(&self, image: &Image) {
        let labels = image.brokers().filter_map(|broker| {
            let endpoint = broker.endpoints.first()?;
            Some(BrokerLabels {
                id: broker.id,
                address: format!("{}:{}", endpoint.host, endpoint.port),
            })
        });
        self.0.send_replace(labels.collect());
    }

    fn shown(&self) -> Arc<[BrokerLabels]> {
        Arc::clone(&self.0.borrow())
    }
}

impl Collector for RegisteredBrokers {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "The registered brokers; the value is always 1";
        let name = "kafka_broker_info";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for labels in &*self.shown() {
            ConstGauge::new(1_i64).encode(metric.encode_family(labels)?)?;
        }
        Ok(())
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
        let commit_latency = Gauge::<f64, AtomicU64>::default();
        // Nothing is committed yet.
        commit_latency.set(f64::NAN);
        registry.register(
            "kafka_server_raftmetrics_commit_latency_avg",
            "Mean of the milliseconds that changes took to be committed, lately",
            commit_latency.clone(),
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
            commit_latency,
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
    use wire::records::metadata::{EndpointEntry, RegisterBrokerRecord};

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
    fn an_election_is_unclean_if_the_new_leader_was_neither_in_sync_nor_eligible() {
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
        // The last replica in sync has left, and an eligible one takes over.
        let mut without_leader = partition(&[], -1);
        without_leader.eligible = vec![2];
        check(without_leader.clone(), partition(&[2], 2), [2, 3, 1]);
        // A replica that was merely known once is as any other.
        without_leader.last_known_eligible = vec![1];
        check(without_leader, partition(&[1], 1), [2, 4, 2]);
    }

    #[test]
    fn a_scrape_during_a_change_of_the_metadata_sees_the_brokers_before_or_after_it() {
        let image = |ports: &[u16]| {
            let mut image = Image::empty();
            for (id, port) in (0..).zip(ports) {
                let endpoint = EndpointEntry {
                    name: "A".into(),
                    host: "h".into(),
                    port: *port,
                    security_protocol: 0,
                };
                let register = RegisterBrokerRecord {
                    broker_id: id,
                    end_points: vec![endpoint],
                    ..RegisterBrokerRecord::default()
                };
                image.replay(register.into()).unwrap();
            }
            image
        };
        let mut registry = Registry::default();
        let metrics = ClusterMetrics::register(&mut registry);
        let (three, two) = (image(&[1, 2, 3]), image(&[4, 5]));
        metrics.brokers.replace(&three);
        let before = metrics.brokers.shown();
        metrics.brokers.replace(&two);
        // A scrape that began before the change goes on with all of what it has.
        let addresses = |shown: &[BrokerLabels]| -> Vec<String> {
            shown.iter().map(|one| one.address.clone()).collect()
        };
        assert_eq!(addresses(&before), ["h:1", "h:2", "h:3"]);
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
        for line in [
            "# TYPE kafka_broker_info gauge",
            "kafka_broker_info{id=\"0\",address=\"h:4\"} 1",
            "kafka_broker_info{id=\"1\",address=\"h:5\"} 1",
        ] {
            assert!(shown.lines().any(|has| has == line), "{line}\n{shown}");
        }
        assert_eq!(shown.matches("kafka_broker_info{").count(), 2, "{shown}");
    }
}
