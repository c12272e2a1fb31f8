//! What users see of topic settings: defaults, precedence, refusals.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::records::metadata::ConfigRecord;
use wire::types::NodeId;

use super::*;
use crate::image::ResourceType;
use crate::options::{
    AllowedValues, Changes, ConfigKey, ConfigKind, GroupOptions, TransactionOptions,
};

const fn key(name: &'static str, kind: ConfigKind, default: Option<&'static str>) -> ConfigKey {
    ConfigKey {
        name,
        kind,
        default,
        allowed: AllowedValues::Any,
        doc: "doc",
        changes: Changes::ClusterWide,
        sensitive: false,
    }
}

static KEYS: [ConfigKey; 9] = [
    key("log.retention.ms", ConfigKind::Long, None),
    key("log.retention.minutes", ConfigKind::Int, None),
    key("log.retention.hours", ConfigKind::Int, Some("168")),
    key("log.segment.bytes", ConfigKind::Int, Some("1073741824")),
    key("message.max.bytes", ConfigKind::Int, Some("1048588")),
    key("durability", ConfigKind::String, Some("synced")),
    key("log.cleanup.policy", ConfigKind::List, Some("delete")),
    ConfigKey {
        changes: Changes::AtStart,
        ..key("num.partitions", ConfigKind::Int, Some("1"))
    },
    ConfigKey {
        sensitive: true,
        ..key("ssl.key.password", ConfigKind::Password, None)
    },
];

/// Returns a broker with node id 1 and a small configuration table.
pub(crate) fn options() -> BrokerOptions {
    let second = Duration::from_secs(1);
    BrokerOptions {
        node_id: NodeId(1),
        rack: None,
        endpoints: vec![crate::options::Endpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            protocol: crate::session::SecurityProtocol::Plaintext,
        }],
        logins: BTreeMap::new(),
        authorizer: None,
        audit: crate::audit::Audit::default(),
        stores: None,
        log_dirs: vec!["/d".into()],
        lower_dirs: Vec::new(),
        journal: None,
        tiers: Vec::new(),
        auto_create_topics: true,
        delete_topics: true,
        num_partitions: 1,
        default_replication_factor: 1,
        fetch_bytes_max: 1 << 20,
        fetch_sessions_max: 10,
        retention_check: second,
        checkpoint_interval: second,
        group: GroupOptions {
            offsets_partitions: 50,
            offsets_segment_bytes: 104_857_600,
            offset_metadata_bytes_max: 4096,
            offsets_retention: second,
            offsets_retention_check: second,
            offset_commit_timeout: second,
            session_timeout_min: second,
            session_timeout_max: second,
            initial_rebalance_delay: second,
            members_max: 10,
            state_bytes_max: 256 << 20,
            consumer_protocol: true,
            consumer: crate::group::consumer::ConsumerOptions::kafka(),
        },
        transaction: TransactionOptions {
            partitions: 3,
            segment_bytes: 1 << 20,
            timeout_max: Duration::from_mins(15),
            id_expiration: Duration::from_hours(168),
            abort_check: Duration::from_secs(10),
            expiration_check: Duration::from_hours(1),
            verify_partitions: true,
            producer_expiration_check: Duration::from_mins(10),
        },
        quota: crate::options::QuotaOptions::kafka(),
        telemetry_bytes_max: 1 << 20,
        metadata_snapshot_bytes: 1 << 20,
        metadata_reserve_bytes: 1 << 20,
        clock: platform::clock::steps::StepSettings::DEFAULT,
        static_settings: BTreeMap::new(),
        config_keys: &KEYS,
    }
}

pub(crate) fn set(image: &mut Image, kind: ResourceType, resource: &str, name: &str, value: &str) {
    let record = ConfigRecord {
        resource_type: kind.0,
        resource_name: resource.into(),
        name: name.into(),
        value: Some(value.into()),
    };
    image.replay(record.into()).unwrap();
}

fn refusal(name: &str, value: &str) -> String {
    let settings = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let result = validate(&settings, &Image::empty(), &options());
    result.err().map(|error| error.0).unwrap_or_default()
}

#[test]
fn the_strongest_source_wins() {
    let (mut image, mut options) = (Image::empty(), options());
    let retention = |image: &Image, options: &BrokerOptions| {
        TopicConfig::resolve(image, options, "t")
            .log_options()
            .retention_ms
    };
    assert_eq!(retention(&image, &options), Some(604_800_000));
    options
        .static_settings
        .insert("log.retention.hours".into(), "2".into());
    assert_eq!(retention(&image, &options), Some(7_200_000));
    options
        .static_settings
        .insert("log.retention.minutes".into(), "3".into());
    assert_eq!(retention(&image, &options), Some(180_000));
    set(
        &mut image,
        ResourceType::BROKER,
        "",
        "log.retention.ms",
        "40",
    );
    assert_eq!(retention(&image, &options), Some(40));
    set(
        &mut image,
        ResourceType::BROKER,
        "1",
        "log.retention.ms",
        "50",
    );
    assert_eq!(retention(&image, &options), Some(50));
    set(&mut image, ResourceType::TOPIC, "t", "retention.ms", "-1");
    assert_eq!(retention(&image, &options), None);
    assert_eq!(
        TopicConfig::resolve(&image, &options, "u")
            .log_options()
            .retention_ms,
        Some(50)
    );
}

#[test]
fn topics_without_settings_of_their_own_share_one_set() {
    let mut image = Image::empty();
    set(&mut image, ResourceType::TOPIC, "t", "retention.ms", "40");
    set(
        &mut image,
        ResourceType::BROKER,
        "",
        "log.segment.bytes",
        "2000000",
    );
    let options = options();
    let configs = TopicConfigs::new(&image, &options);
    assert!(Arc::ptr_eq(&configs.of("a"), &configs.of("b")));
    for topic in ["a", "t"] {
        assert_eq!(
            *configs.of(topic),
            TopicConfig::resolve(&image, &options, topic)
        );
        assert_eq!(configs.of(topic).log_options().segment_bytes, 2_000_000);
    }
}

#[test]
fn settings_become_what_the_log_is_told() {
    let mut image = Image::empty();
    for (name, value) in [
        ("cleanup.policy", "compact, delete"),
        ("durability", "replicated"),
        ("message.timestamp.type", "LogAppendTime"),
        ("max.message.bytes", "5000"),
        ("preallocate", "TRUE"),
    ] {
        set(&mut image, ResourceType::TOPIC, "t", name, value);
    }
    let config = TopicConfig::resolve(&image, &options(), "t");
    assert!(config.compacted && config.delete && config.log_append_time);
    assert_eq!(
        (config.durability, config.max_message_bytes),
        (Durability::Replicated, 5000)
    );
    let log = config.log_options();
    assert!(log.preallocate && log.compact && log.delete);
    assert_eq!(
        (log.retention_bytes, log.segment_ms),
        (None, Some(604_800_000))
    );
    assert_eq!(log.flush_ms, 9_223_372_036_854_775_807);
    assert_eq!(config.compaction.dirty_ratio_min_ppm, 500_000);
    assert_eq!(config.compaction.delete_retention_ms, 86_400_000);
}

#[test]
fn a_segment_rolls_before_its_records_are_overdue_for_compaction() {
    let mut image = Image::empty();
    for (name, value) in [
        ("max.compaction.lag.ms", "5000"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ] {
        set(&mut image, ResourceType::TOPIC, "t", name, value);
    }
    let segment_ms = |image: &Image| {
        let config = TopicConfig::resolve(image, &options(), "t");
        assert_eq!(config.compaction.dirty_ratio_min_ppm, 10_000);
        config.log_options().segment_ms
    };
    assert_eq!(segment_ms(&image), Some(604_800_000));
    set(
        &mut image,
        ResourceType::TOPIC,
        "t",
        "cleanup.policy",
        "compact",
    );
    assert_eq!(segment_ms(&image), Some(5_000));
}

#[test]
fn wrong_values_are_refused_in_words_that_users_know() {
    let checks = [
        ("nope", "1", "Unknown topic config name: nope"),
        (
            "retention.ms",
            "abc",
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "retention.ms",
            "-2",
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "cleanup.policy",
            "compact,burn",
            "Invalid value burn for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "cleanup.policy",
            "delete,delete",
            "Configuration 'cleanup.policy' values must not be duplicated.",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        ("min.compaction.lag.ms", "9223372036854775807", ""),
        (
            "leader.replication.throttled.replicas",
            "1:a",
            "Invalid value [1:a] for configuration leader.replication.throttled.replicas: \
             leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following \
             format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        ("leader.replication.throttled.replicas", "1:2,3:4", ""),
        ("follower.replication.throttled.replicas", "*", ""),
        ("cleanup.policy", "", ""),
        ("durability", "synced", ""),
    ];
    for (name, value, expected) in checks {
        assert_eq!(refusal(name, value), expected, "{name}={value}");
    }
}

#[test]
fn lags_of_compaction_must_not_contradict_each_other() {
    let settings = [
        ("min.compaction.lag.ms", "9"),
        ("max.compaction.lag.ms", "8"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let result = validate(&settings.into(), &Image::empty(), &options());
    assert_eq!(
        result,
        Err(InvalidSetting(
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)"
                .into()
        ))
    );
}

#[test]
fn the_internal_segment_size_has_no_bound_and_wins() {
    for (text, why) in [("x", "INT"), ("3000000000", "INT")] {
        let refused = refusal("internal.segment.bytes", text);
        assert!(
            refused.contains(&format!("Not a number of type {why}")),
            "{refused}"
        );
    }
    for (text, bytes) in [("2000", 2000), (" 14 ", 14), ("0", 0), ("-1", 0)] {
        assert_eq!(refusal("internal.segment.bytes", text), "");
        let mut image = Image::empty();
        set(
            &mut image,
            ResourceType::TOPIC,
            "t",
            "internal.segment.bytes",
            text,
        );
        set(
            &mut image,
            ResourceType::TOPIC,
            "t",
            "segment.bytes",
            "2097152",
        );
        let resolved = TopicConfig::resolve(&image, &options(), "t");
        assert_eq!(resolved.log_options().segment_bytes, bytes);
    }
}

#[test]
fn every_default_passes_its_own_check() {
    // An internal setting has no default.
    for definition in DEFINITIONS.iter().filter(|row| !row.is_internal()) {
        assert_eq!(
            refusal(definition.name, definition.default),
            "",
            "{}",
            definition.name
        );
        assert_eq!(
            canonical(definition.kind, definition.default).as_deref(),
            Some(definition.default)
        );
    }
}

#[test]
fn sources_are_listed_as_kafka_lists_them() {
    let (mut image, mut options) = (Image::empty(), options());
    let listed = |image: &Image, options: &BrokerOptions, name: &str| -> Vec<String> {
        let broker = BrokerSettings { image, options };
        let found = topic_sources(&broker, "t", definition(name).unwrap());
        found
            .iter()
            .map(|s| format!("{:?}:{}={}", s.source, s.name, s.value))
            .collect()
    };
    assert_eq!(
        listed(&image, &options, "segment.bytes"),
        ["Default:log.segment.bytes=1073741824"]
    );
    // The strongest key has no default, so the weaker one's default is not shown.
    assert!(listed(&image, &options, "retention.ms").is_empty());
    options
        .static_settings
        .insert("message.max.bytes".into(), "7".into());
    set(
        &mut image,
        ResourceType::TOPIC,
        "t",
        "max.message.bytes",
        "8",
    );
    assert_eq!(
        listed(&image, &options, "max.message.bytes"),
        [
            "Topic:max.message.bytes=8",
            "StaticBroker:message.max.bytes=7",
            "Default:message.max.bytes=1048588"
        ]
    );
}
