//! What is always 0 on a broker that is the whole cluster and has one format of records, under
//! Kafka's names.
//!
//! Alerts and dashboards ask for these, and an alert on a name that is not there never fires. The
//! values are true: no replica follows another one here, so none falls behind and nothing is copied
//! between brokers. When brokers copy from each other, each name here needs a measurement.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Names without `_total`, and help texts.
const COUNTERS: [(&str, &str); 5] = [
    (
        "kafka_server_replicamanager_failedisrupdates",
        "Changes of the replicas in sync that failed",
    ),
    (
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes copied from other brokers",
    ),
    (
        "kafka_server_brokertopicmetrics_replicationbytesout",
        "Bytes copied to other brokers",
    ),
    (
        "kafka_server_brokertopicmetrics_producemessageconversions",
        "Requests whose records were of an older format",
    ),
    (
        "kafka_server_brokertopicmetrics_fetchmessageconversions",
        "Answers whose records had to be in an older format",
    ),
];

/// Names and help texts.
const GAUGES: [(&str, &str); 2] = [
    (
        "kafka_server_replicafetchermanager_maxlag",
        "Records by which a replica of this broker is behind its leader",
    ),
    (
        "kafka_server_replicafetchermanager_minfetchrate",
        "Fetches a second from other brokers",
    ),
];

/// Collects them.
#[derive(Debug)]
pub(super) struct AbsentReplicas;

impl Collector for AbsentReplicas {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, help) in COUNTERS {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(0_u64).encode(metric)?;
        }
        for (name, help) in GAUGES {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(0_i64).encode(metric)?;
        }
        Ok(())
    }
}
