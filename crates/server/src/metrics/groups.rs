//! Members, committed offsets and lag of groups, under the names of `kafka_exporter`, and how many
//! groups there are in each state, under Kafka's.
//!
//! Each shard reports its groups before a scrape. The lag is the high watermark of a partition less
//! the committed offset, never below 0; a partition that this node does not lead has none, and
//! neither has its topic.
//! Invariant: names of groups are escaped, and no two groups are shown under the same text.
//! Bounded: the rows of the groups of all shards take `SHOWN_BYTES_MAX` of a page;
//! `forebay_groups_left_out` counts the others. Invariant: a shard that replaces its groups does
//! not wait for a page that is being written.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use broker::group::survey::{Survey, SurveyedGroup};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use wire::text::escaped;

use super::LogMetrics;

/// Most bytes of a page that groups take, over all shards: about 29,000 committed offsets with
/// short names.
pub const SHOWN_BYTES_MAX: usize = 8 << 20;

/// Kafka's names for the numbers of classic groups, by state.
const CLASSIC: [(&str, &str); 6] = [
    ("numgroups", ""),
    ("numgroupsempty", "Empty"),
    ("numgroupspreparingrebalance", "PreparingRebalance"),
    ("numgroupscompletingrebalance", "CompletingRebalance"),
    ("numgroupsstable", "Stable"),
    // A group that is dead is not there any more.
    ("numgroupsdead", "Dead"),
];

/// The groups of all shards; clones share them.
#[derive(Clone, Default, Debug)]
pub struct GroupMetrics {
    // Bounded: one survey for each of `num.shards`, together `SHOWN_BYTES_MAX`.
    surveys: Arc<Mutex<BTreeMap<usize, Arc<Survey>>>>,
    logs: LogMetrics,
}

impl GroupMetrics {
    /// Creates and registers them; `logs` knows the ends of logs.
    pub fn register(registry: &mut Registry, logs: LogMetrics) -> Self {
        let metrics = Self {
            surveys: Arc::default(),
            logs,
        };
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Replaces the groups of one shard, and returns those of before.
    ///
    /// There may be many: it takes milliseconds to free them.
    pub fn replace(&self, shard: usize, survey: Survey) -> Option<Arc<Survey>> {
        let survey = Arc::new(survey);
        let mut surveys = self.surveys.lock().unwrap_or_else(PoisonError::into_inner);
        surveys.insert(shard, survey)
    }

    /// Returns the groups of each shard.
    fn surveys(&self) -> Vec<Arc<Survey>> {
        let surveys = self.surveys.lock().unwrap_or_else(PoisonError::into_inner);
        surveys.values().cloned().collect()
    }
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct GroupLabel {
    consumergroup: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct TopicLabels {
    consumergroup: String,
    topic: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    consumergroup: String,
    topic: String,
    partition: i32,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct StateLabels {
    protocol: &'static str,
    state: &'static str,
}

/// The committed offset of one partition, and its lag if that is known.
struct Row<'a> {
    group: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    lag: Option<i64>,
}

impl Row<'_> {
    fn labels(&self) -> Labels {
        Labels {
            consumergroup: self.group.to_owned(),
            topic: escaped(self.topic).into_owned(),
            partition: self.partition,
        }
    }
}

impl Collector for GroupMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let surveys = self.surveys();
        let mut groups: BTreeMap<String, &SurveyedGroup> = BTreeMap::new();
        let mut left_out = surveys
            .iter()
            .fold(0, |all: u64, one| all.saturating_add(one.left_out));
        for group in surveys.iter().flat_map(|survey| &survey.groups) {
            let name = escaped(group.id.as_str()).into_owned();
            match groups.entry(name) {
                Entry::Occupied(_) => left_out = left_out.saturating_add(1),
                Entry::Vacant(free) => {
                    free.insert(group);
                }
            }
        }
        states(&mut encoder, &surveys)?;
        let help = "Groups that are not shown, because of their number or their names";
        let metric =
            encoder.encode_descriptor("forebay_groups_left_out", help, None, MetricType::Gauge)?;
        ConstGauge::new(signed(left_out)).encode(metric)?;
        let help = "Members of a group";
        let name = "kafka_consumergroup_members";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (name, group) in &groups {
            let label = GroupLabel {
                consumergroup: name.clone(),
            };
            let members = i64::try_from(group.members).unwrap_or(i64::MAX);
            ConstGauge::new(members).encode(metric.encode_family(&label)?)?;
        }
        let ends = self.logs.high_watermarks();
        let rows: Vec<Row<'_>> = groups
            .iter()
            .flat_map(|(name, group)| rows(name, group, &ends))
            .collect();
        offsets(&mut encoder, &rows)?;
        sums(&mut encoder, &rows)
    }
}

/// Returns the rows of one group; `ends` has high watermarks by topic and partition.
fn rows<'a>(
    name: &'a str,
    group: &'a SurveyedGroup,
    ends: &HashMap<(Arc<str>, i32), i64>,
) -> Vec<Row<'a>> {
    let mut topic_key: Arc<str> = "".into();
    let mut rows = Vec::with_capacity(group.offsets.len());
    for (topic, partition, offset) in &group.offsets {
        // Offsets are in the order of their topics.
        if &*topic_key != topic.as_str() {
            topic_key = topic.as_str().into();
        }
        let end = ends.get(&(Arc::clone(&topic_key), *partition));
        rows.push(Row {
            group: name,
            topic: topic.as_str(),
            partition: *partition,
            offset: *offset,
            lag: end.map(|end| end.saturating_sub(*offset).max(0)),
        });
    }
    rows
}

/// Writes the numbers of groups.
fn states(encoder: &mut DescriptorEncoder, surveys: &[Arc<Survey>]) -> fmt::Result {
    let mut all: BTreeMap<(&'static str, &'static str), u64> = BTreeMap::new();
    for (state, count) in surveys.iter().flat_map(|survey| &survey.states) {
        let sum = all.entry(*state).or_default();
        *sum = sum.saturating_add(*count);
    }
    for (name, state) in CLASSIC {
        let name = format!("kafka_coordinator_group_groupmetadatamanager_{name}");
        let wanted = |(protocol, of): &(&str, &str)| {
            *protocol == "classic" && (state.is_empty() || *of == state)
        };
        let counts = all.iter().filter(|(of, _)| wanted(of));
        let count = counts.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        let help = "Classic groups, by state";
        let metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        ConstGauge::new(signed(count)).encode(metric)?;
    }
    let help = "Groups, by protocol and state";
    let mut metric = encoder.encode_descriptor("forebay_groups", help, None, MetricType::Gauge)?;
    for ((protocol, state), count) in all {
        let labels = StateLabels { protocol, state };
        ConstGauge::new(signed(count)).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes offset and lag of every partition.
fn offsets(encoder: &mut DescriptorEncoder, rows: &[Row<'_>]) -> fmt::Result {
    let help = "Committed offset";
    let name = "kafka_consumergroup_current_offset";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for row in rows {
        ConstGauge::new(row.offset).encode(metric.encode_family(&row.labels())?)?;
    }
    let help = "High watermark less the committed offset";
    let name = "kafka_consumergroup_lag";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for row in rows {
        if let Some(lag) = row.lag {
            ConstGauge::new(lag).encode(metric.encode_family(&row.labels())?)?;
        }
    }
    Ok(())
}

/// Writes the sums of each group over the partitions of a topic.
fn sums(encoder: &mut DescriptorEncoder, rows: &[Row<'_>]) -> fmt::Result {
    let mut all: BTreeMap<(&str, &str), (i64, Option<i64>)> = BTreeMap::new();
    for row in rows {
        let sums = all.entry((row.group, row.topic)).or_insert((0, Some(0)));
        let (offset, lag) = sums;
        *offset = offset.saturating_add(row.offset);
        // The lag of a topic is unknown while that of one of its partitions is.
        *lag = lag.zip(row.lag).map(|(sum, lag)| sum.saturating_add(lag));
    }
    let labels = |(group, topic): &(&str, &str)| TopicLabels {
        consumergroup: (*group).to_owned(),
        topic: escaped(topic).into_owned(),
    };
    let help = "Sum of the committed offsets of a topic";
    let name = "kafka_consumergroup_current_offset_sum";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (of, (offset, _)) in &all {
        ConstGauge::new(*offset).encode(metric.encode_family(&labels(of))?)?;
    }
    let help = "Sum of the lag of a topic's partitions";
    let name = "kafka_consumergroup_lag_sum";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (of, (_, lag)) in &all {
        if let Some(lag) = lag {
            ConstGauge::new(*lag).encode(metric.encode_family(&labels(of))?)?;
        }
    }
    Ok(())
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
