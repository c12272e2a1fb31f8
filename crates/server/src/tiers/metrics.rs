//! Metrics of tiers, by tier, from the same status that the operator's commands show.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::watch::Watch;
use super::{PathStatus, TierStatus};

/// Collects the metrics of the tiers.
#[derive(Debug)]
pub struct TierMetrics(pub Watch);

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    tier: String,
}

/// A name, its help text, and the function that reads the value; `None` is left out.
type Gauge = (&'static str, &'static str, fn(&TierStatus) -> Option<i64>);
type Counter = (&'static str, &'static str, fn(&PathStatus) -> u64);

const GAUGES: [Gauge; 9] = [
    (
        "forebay_tier_used_bytes",
        "Bytes that segments take",
        |tier| signed(tier.used_bytes),
    ),
    (
        "forebay_tier_capacity_bytes",
        "Bytes that may be used",
        |tier| signed(tier.capacity_bytes),
    ),
    (
        "forebay_tier_pooled_bytes",
        "Bytes of segment files that were made in advance",
        |tier| signed(tier.pooled_bytes),
    ),
    (
        "forebay_tier_emulated",
        "1: declared to be persistent memory, and is ordinary memory",
        |tier| Some(i64::from(tier.emulated)),
    ),
    (
        "forebay_tier_reserve_bytes",
        "Bytes that sealed segments leave to active ones",
        |tier| signed(tier.reserve_bytes),
    ),
    (
        "forebay_tier_backlog_bytes",
        "Bytes above the threshold",
        |tier| signed(tier.backlog_bytes),
    ),
    ("forebay_tier_segments", "Segments on the tier", |tier| {
        signed(tier.segments)
    }),
    (
        "forebay_tier_full_seconds",
        "Seconds to full at the present slope",
        |tier| tier.seconds_to_full.and_then(signed),
    ),
    (
        "forebay_tier_drain_seconds",
        "Seconds to the threshold at the present slope",
        |tier| tier.seconds_to_drain.and_then(signed),
    ),
];

const COUNTERS: [Counter; 8] = [
    (
        "forebay_tier_reads",
        "Reads that were not answered from memory",
        |path| path.reads,
    ),
    (
        "forebay_tier_read_bytes",
        "Bytes that those reads brought",
        |path| path.read_bytes,
    ),
    (
        "forebay_tier_appended_bytes",
        "Bytes that producers wrote",
        |path| path.appended_bytes,
    ),
    (
        "forebay_tier_moved_down",
        "Segments that came from faster tiers",
        |path| path.moved_down_segments,
    ),
    (
        "forebay_tier_moved_down_bytes",
        "Bytes of segments that came from faster tiers",
        |path| path.moved_down_bytes,
    ),
    (
        "forebay_tier_moved_up",
        "Segments that came from slower tiers",
        |path| path.moved_up_segments,
    ),
    (
        "forebay_tier_moved_up_bytes",
        "Bytes of segments that came from slower tiers",
        |path| path.moved_up_bytes,
    ),
    (
        "forebay_tier_move_errors",
        "Moves to the tier that failed",
        |path| path.move_errors,
    ),
];

impl Collector for TierMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let status = self.0.status();
        let labels = |tier: &TierStatus| Labels {
            tier: tier.name.clone(),
        };
        for (name, help, value) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for tier in &status.tiers {
                if let Some(value) = value(tier) {
                    ConstGauge::new(value).encode(metric.encode_family(&labels(tier))?)?;
                }
            }
        }
        for (name, help, value) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for tier in &status.tiers {
                let sum: u64 = tier.paths.iter().map(value).fold(0, u64::saturating_add);
                ConstCounter::new(sum).encode(metric.encode_family(&labels(tier))?)?;
            }
        }
        Ok(())
    }
}

fn signed(value: u64) -> Option<i64> {
    i64::try_from(value).ok()
}
