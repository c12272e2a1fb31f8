//! Metrics of the transaction coordinators, under the names that dashboards for Kafka ask for.
//!
//! What happens is counted when it happens, for all shards together. What the transactional ids are
//! doing, each shard shows before a scrape ([`ShardTransactions`]); it follows from sums that are
//! kept anyway, so no id is visited. Not here: partitions whose ids are not served, and the bytes
//! that ids take (`crate::metrics`).

use std::collections::BTreeMap;
use std::fmt;

use platform::clock::Reading;
use platform::sync::watch;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::state::TransactionState;
use super::tally::{STATES, Tally};
use crate::metrics::lately::Durations;

/// The beginning of the names that the coordinator's group of metrics has.
const GROUP: &str = "kafka_server_transaction_coordinator_metrics";

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransactionEnd {
    /// Its producer commits it.
    Committed,
    /// Its producer aborts it.
    Aborted,
    /// It exceeded its timeout and is aborted.
    TimedOut,
    /// It is aborted for the next producer with the same id.
    Fenced,
}

/// What an id cannot grow beyond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StateBound {
    /// The bytes of all ids.
    All,
    /// The bytes of those that an address pays for.
    OfAddress,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BoundLabel {
    bound: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// Counters and gauges; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    committed: Counter,
    aborted: Counter,
    timed_out: Counter,
    fenced: Counter,
    timeouts: Counter,
    state_errors: Counter,
    full: Counter,
    full_for_address: Counter,
    shards: ShownShards,
}

impl Metrics {
    /// Creates and registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let ended = Family::<EndLabel, Counter>::default();
        let help = "Transactions whose end is decided, by outcome";
        registry.register("forebay_transactions_ended", help, ended.clone());
        let with = |outcome| Counter::clone(&ended.get_or_create(&EndLabel { outcome }));
        let refused = Family::<BoundLabel, Counter>::default();
        let help = "Requests to which no room was given for a transactional id or its partitions, by bound";
        registry.register(
            "forebay_transaction_coordinator_refused",
            help,
            refused.clone(),
        );
        let by = |bound| Counter::clone(&refused.get_or_create(&BoundLabel { bound }));
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(format!("{GROUP}_{name}"), help, counter.clone());
            counter
        };
        let timeouts = counter(
            "transaction_timeout",
            "Transactions that were aborted because they exceeded their timeout",
        );
        let state_errors = counter(
            "transaction_state_error",
            "Changes of transactional ids that their log refused or did not confirm",
        );
        let shards = ShownShards::default();
        registry.register_collector(Box::new(shards.clone()));
        Self {
            committed: with("committed"),
            aborted: with("aborted"),
            timed_out: with("timed_out"),
            fenced: with("fenced"),
            timeouts,
            state_errors,
            full: by("all"),
            full_for_address: by("address"),
            shards,
        }
    }

    /// Counts a transaction whose end is in the log.
    pub(super) fn ended(&self, end: TransactionEnd) {
        match end {
            TransactionEnd::Committed => self.committed.inc(),
            TransactionEnd::Aborted => self.aborted.inc(),
            TransactionEnd::Fenced => self.fenced.inc(),
            TransactionEnd::TimedOut => {
                self.timeouts.inc();
                self.timed_out.inc()
            }
        };
    }

    /// Counts a change of an id that is not, or not for certain, in the log.
    pub(super) fn state_error(&self) {
        self.state_errors.inc();
    }

    /// Counts a request to which no room is given.
    pub(super) fn refused(&self, bound: StateBound) {
        match bound {
            StateBound::All => self.full.inc(),
            StateBound::OfAddress => self.full_for_address.inc(),
        };
    }

    /// Replaces what one shard shows.
    pub(super) fn show(&self, shard: usize, shown: ShardTransactions) {
        self.shards.0.send_modify(|shards| {
            shards.insert(shard, shown);
        });
    }
}

/// What the transactional ids of one shard, or of several, are doing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ShardTransactions {
    /// Number of ids by state, in the order of [`TransactionState::ALL`].
    by_state: [usize; STATES],
    /// For how long the oldest open transaction has been open.
    oldest_ms: i64,
    /// How long partitions took to load, lately.
    loads: Durations,
    /// How long commits took to be carried out, lately.
    commits: Durations,
}

impl ShardTransactions {
    /// Begins with how long loads and commits took.
    pub(super) fn after(loads: Durations, commits: Durations) -> Self {
        Self {
            loads,
            commits,
            ..Self::default()
        }
    }

    /// Adds the ids of a partition.
    pub(super) fn add(&mut self, tally: &Tally, now: Reading) {
        self.add_counts(tally.by_state());
        self.oldest_ms = self.oldest_ms.max(tally.oldest_ms(now));
    }

    fn add_counts(&mut self, counts: [usize; STATES]) {
        for (sum, count) in self.by_state.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Returns what these shards and another one show together.
    fn and(mut self, other: &Self) -> Self {
        self.add_counts(other.by_state);
        Self {
            oldest_ms: self.oldest_ms.max(other.oldest_ms),
            loads: self.loads.and(other.loads),
            commits: self.commits.and(other.commits),
            ..self
        }
    }
}

/// What all shards show.
#[derive(Clone, Default, Debug)]
// Bounded: one for each of `num.shards`.
struct ShownShards(watch::Sender<BTreeMap<usize, ShardTransactions>>);

impl Collector for ShownShards {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let shards = self.0.borrow().clone();
        let none = ShardTransactions::default();
        let all = shards.values().fold(none, ShardTransactions::and);
        let ids = all.by_state.into_iter().fold(0, usize::saturating_add);
        let encoder = &mut encoder;
        gauge(
            encoder,
            "transactional_id_count",
            "Transactional ids",
            signed(ids),
        )?;
        gauge(
            encoder,
            "active_transaction_total_time_max",
            "Milliseconds for which the oldest open transaction has been open",
            all.oldest_ms,
        )?;
        gauge(
            encoder,
            "prepare_commit_to_complete_commit_latency",
            "Mean of the milliseconds from the decision to commit to its completion, lately",
            all.commits.mean_ms(),
        )?;
        gauge(
            encoder,
            "partition_load_time_max",
            "Most milliseconds that loading a partition of __transaction_state took, lately",
            all.loads.longest_ms(),
        )?;
        gauge(
            encoder,
            "partition_load_time_avg",
            "Mean of the milliseconds that loading a partition of __transaction_state took, lately",
            all.loads.mean_ms(),
        )?;
        let help = "Transactional ids, by state";
        let name = "forebay_transactional_ids";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((.., state), count) in TransactionState::ALL.into_iter().zip(all.by_state) {
            let label = StateLabel { state };
            ConstGauge::new(signed(count)).encode(metric.encode_family(&label)?)?;
        }
        Ok(())
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: impl EncodeGaugeValue,
) -> fmt::Result {
    let name = format!("{GROUP}_{name}");
    let metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

fn signed(count: usize) -> i64 {
    // No memory holds as many.
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use platform::clock::Instant;
    use wire::types::ProducerId;

    use super::*;
    use crate::metrics::lately::RecentDurations;
    use crate::transaction::state::Entry;

    fn check(registry: &Registry, lines: &[&str]) {
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, registry).unwrap();
        for line in lines {
            assert!(shown.lines().any(|has| has == *line), "{line}\n{shown}");
        }
    }

    #[test]
    fn what_has_not_happened_is_there_from_the_start() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry);
        check(
            &registry,
            &[
                "kafka_server_transaction_coordinator_metrics_transactional_id_count 0",
                "kafka_server_transaction_coordinator_metrics_active_transaction_total_time_max 0",
                "kafka_server_transaction_coordinator_metrics_partition_load_time_avg NaN",
                "kafka_server_transaction_coordinator_metrics_partition_load_time_max NaN",
                "kafka_server_transaction_coordinator_metrics_transaction_timeout_total 0",
                "forebay_transactional_ids{state=\"CompleteAbort\"} 0",
                "forebay_transactions_ended_total{outcome=\"fenced\"} 0",
                "forebay_transaction_coordinator_refused_total{bound=\"address\"} 0",
            ],
        );
    }

    #[test]
    fn shards_are_added_up_and_the_oldest_transaction_is_that_of_all() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (now, reading) = (Instant::now(), Reading::from(1_000));
        let shard = |start_ms: i64, load_ms: u64| {
            let mut tally = Tally::default();
            let unused = Entry::unused(ProducerId(1), 1000, 0);
            tally.add(&unused);
            tally.add(&Entry {
                state: TransactionState::Ongoing,
                start_ms,
                ..unused
            });
            let mut loads = RecentDurations::since(now);
            loads.note(Duration::from_millis(load_ms), now);
            let mut shown = ShardTransactions::after(loads.noted(now), Durations::default());
            shown.add(&tally, reading);
            shown
        };
        metrics.show(0, shard(900, 10));
        metrics.show(1, shard(1, 1));
        metrics.show(1, shard(400, 20));
        check(
            &registry,
            &[
                "kafka_server_transaction_coordinator_metrics_transactional_id_count 4",
                "kafka_server_transaction_coordinator_metrics_active_transaction_total_time_max 600",
                "kafka_server_transaction_coordinator_metrics_partition_load_time_max 20.0",
                "kafka_server_transaction_coordinator_metrics_partition_load_time_avg 15.0",
                "forebay_transactional_ids{state=\"Empty\"} 2",
                "forebay_transactional_ids{state=\"Ongoing\"} 2",
            ],
        );
    }
}
