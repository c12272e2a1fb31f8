//! Topic settings: which exist, which values are valid, where a value comes from, and what it means
//! for the log.
//!
//! A value is looked up in this order: the topic's own, then under the broker keys that stand for
//! it: this broker's dynamic ones, the dynamic defaults of all brokers, the static ones of the
//! configuration file, the default. The definitions are one table (`topic_config/table.rs`). Values
//! in the metadata log are text; they were validated when they were set, and
//! [`TopicConfig::resolve`] ignores a text that no longer parses (a start logs it). Not here:
//! changing settings (`controller/configs.rs`), showing them (`handler/describe_configs.rs`).

mod broker_settings;
mod check;
mod kind;
mod source;
mod sources;
mod table;
mod tiers;

use std::sync::Arc;

use storage::CompactPolicy;
use storage::options::{Durability, LogOptions};
use wire::batch::compression::Compression;

use crate::image::{Image, ResourceType};
use crate::options::BrokerOptions;

pub(crate) use broker_settings::{BrokerSettings, is_of_security, of_listener, row_of};
pub use check::validate;
pub use kind::InvalidSetting;
pub(crate) use kind::{canonical, parse_kind, parse_whole};
pub(crate) use source::{Source, SourcedValue};
pub(crate) use sources::topic_sources;
pub(crate) use table::{DEFINITIONS, Definition, definition};

/// The settings of one topic that affect the broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicConfig {
    /// `max.message.bytes`: maximum size of a batch.
    pub max_message_bytes: usize,
    /// `message.timestamp.before.max.ms`: how far a timestamp may be in the past.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a timestamp may be in the future.
    pub timestamp_after_max_ms: i64,
    /// `message.timestamp.type` is `LogAppendTime`.
    pub log_append_time: bool,
    /// `cleanup.policy` contains `compact`.
    pub compacted: bool,
    /// `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `compression.type`: the codec of stored batches, with its level; `None` keeps the
    /// producer's.
    pub compression: Option<(Compression, i32)>,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `durability`: what an acknowledgement by all replicas means on this node.
    pub durability: Durability,
    /// How its logs are compacted, if they are.
    pub compaction: CompactPolicy,
    log: LogOptions,
}

/// Resolves the settings of many topics; looks up what they have in common once.
pub struct TopicConfigs<'a> {
    image: &'a Image,
    options: &'a BrokerOptions,
    /// The settings of a topic without its own.
    default: Arc<TopicConfig>,
}

impl<'a> TopicConfigs<'a> {
    /// Looks up what topics have in common.
    pub fn new(image: &'a Image, options: &'a BrokerOptions) -> Self {
        // No topic has the empty name.
        let default = Arc::new(TopicConfig::resolve(image, options, ""));
        Self {
            image,
            options,
            default,
        }
    }

    /// Returns true for the settings of topics without their own.
    pub(crate) fn is_default(&self, config: &Arc<TopicConfig>) -> bool {
        Arc::ptr_eq(&self.default, config)
    }

    /// Returns the settings of `topic`; topics without their own share one value.
    pub fn of(&self, topic: &str) -> Arc<TopicConfig> {
        match self.image.settings(ResourceType::TOPIC, topic) {
            None => Arc::clone(&self.default),
            Some(_) => Arc::new(TopicConfig::resolve(self.image, self.options, topic)),
        }
    }
}

impl TopicConfig {
    /// Returns the settings of `topic`.
    pub fn resolve(image: &Image, options: &BrokerOptions, topic: &str) -> Self {
        let broker = BrokerSettings { image, options };
        let text = |name: &str| topic_value(&broker, topic, name);
        let number = |name: &str| text(name).parse::<i64>().unwrap_or(i64::MAX);
        let flag = |name: &str| text(name).eq_ignore_ascii_case("true");
        let policy = text("cleanup.policy");
        let has = |word: &str| policy.split(',').any(|part| part.trim() == word);
        let durability = match text("durability").as_str() {
            "replicated" => Durability::Replicated,
            _ => Durability::Synced,
        };
        let compaction = CompactPolicy {
            min_lag_ms: number("min.compaction.lag.ms"),
            max_lag_ms: number("max.compaction.lag.ms"),
            delete_retention_ms: number("delete.retention.ms"),
            dirty_ratio_min_ppm: millionths(&text("min.cleanable.dirty.ratio")),
        };
        let segment_ms = u64::try_from(number("segment.ms")).ok();
        let log = LogOptions {
            segment_bytes: clamp(match text("internal.segment.bytes").parse() {
                Ok(internal) => internal,
                Err(_) => number("segment.bytes"),
            }),
            // A record is not compacted while its segment is active, so the segment must roll
            // within the maximum lag.
            segment_ms: match u64::try_from(compaction.max_lag_ms) {
                Ok(lag_ms) if has("compact") => segment_ms.map(|ms| ms.min(lag_ms)),
                _ => segment_ms,
            },
            segment_jitter_ms: u64::try_from(number("segment.jitter.ms")).unwrap_or(0),
            index_interval_bytes: clamp(number("index.interval.bytes")),
            index_bytes_max: clamp(number("segment.index.bytes")),
            retention_ms: Some(number("retention.ms")).filter(|ms| *ms >= 0),
            retention_bytes: u64::try_from(number("retention.bytes")).ok(),
            flush_messages: u64::try_from(number("flush.messages")).unwrap_or(u64::MAX),
            flush_ms: u64::try_from(number("flush.ms")).unwrap_or(u64::MAX),
            max_batch_bytes: usize::try_from(number("max.message.bytes")).unwrap_or(usize::MAX),
            delete: has("delete"),
            compact: has("compact"),
            durability,
            preallocate: flag("preallocate"),
            reserve_bytes: 0,
            file_delete_delay_ms: u64::try_from(number("file.delete.delay.ms")).unwrap_or(0),
            producer_id_expiration_ms: broker
                .value("producer.id.expiration.ms")
                .and_then(|text| text.parse().ok())
                .unwrap_or(86_400_000),
            tier_pins: tiers::pins(
                &options.tiers,
                &text("channel.type"),
                &text("storage.tier.min"),
                &text("storage.tier.max"),
            ),
        };
        Self {
            compression: compression(&broker, topic),
            max_message_bytes: log.max_batch_bytes,
            timestamp_before_max_ms: number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: number("message.timestamp.after.max.ms"),
            log_append_time: text("message.timestamp.type") == "LogAppendTime",
            compacted: log.compact,
            delete: log.delete,
            min_insync_replicas: i32::try_from(number("min.insync.replicas")).unwrap_or(i32::MAX),
            durability,
            compaction,
            log,
        }
    }

    /// Returns the maximum size of a segment; a larger batch is refused.
    pub(crate) fn segment_bytes(&self) -> usize {
        usize::try_from(self.log.segment_bytes).unwrap_or(usize::MAX)
    }

    /// Returns the options of the topic's logs.
    pub fn log_options(&self) -> LogOptions {
        self.log.clone()
    }
}

/// Returns the effective value of one setting, in its canonical form.
fn topic_value(broker: &BrokerSettings<'_>, topic: &str, name: &str) -> String {
    let Some(definition) = definition(name) else {
        return String::new();
    };
    definition.effective(broker, topic)
}

/// Returns the codec of stored batches, with its level.
fn compression(broker: &BrokerSettings<'_>, topic: &str) -> Option<(Compression, i32)> {
    let codec = Compression::from_name(&topic_value(broker, topic, "compression.type"))?;
    let level = match codec {
        Compression::Gzip => topic_value(broker, topic, "compression.gzip.level"),
        Compression::Zstd => topic_value(broker, topic, "compression.zstd.level"),
        _ => String::new(),
    };
    Some((codec, level.parse().unwrap_or(0)))
}

/// Parses a ratio from 0 to 1, in millionths.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to a million"
)]
fn millionths(ratio: &str) -> u32 {
    let ratio: f64 = ratio.parse().unwrap_or(0.5);
    (ratio.clamp(0.0, 1.0) * 1e6).round() as u32
}

fn clamp(number: i64) -> u32 {
    u32::try_from(number.clamp(0, i64::from(i32::MAX))).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests;
