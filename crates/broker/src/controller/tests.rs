//! A broker in memory: decisions and their replay, without a log.

use wire::records::metadata::{FeatureLevelRecord, MetadataRecord, PartitionChangeRecord};
use wire::types::Offset;

use super::*;
use crate::access::Access;
use crate::image::ResourceType;
pub(crate) use crate::topic_config::tests::options;

/// Log directory of the node of [`started`].
pub(crate) const DIRECTORY: Uuid = Uuid::from_u128(0xd1);

/// Returns an image after the start of node 1, unfenced.
pub(crate) fn started() -> Image {
    let mut image = Image::empty();
    apply(&mut image, startup::bootstrap());
    let registration =
        startup::register(&options(), Uuid::from_u128(7), vec![DIRECTORY], Offset(2));
    apply(&mut image, [registration]);
    let unfence = startup::fence(&image, NodeId(1), false);
    apply(&mut image, unfence);
    image
}

/// Replays records as the log does.
pub(crate) fn apply(image: &mut Image, records: impl IntoIterator<Item = MetadataRecord>) {
    for record in records {
        let bytes = record.encode(image.metadata_version());
        image
            .replay(MetadataRecord::decode(&bytes).unwrap())
            .unwrap();
    }
}

/// Returns a deterministic source of bits.
pub(crate) fn random() -> impl FnMut() -> u64 {
    let mut last = 0x1234_5678_9abc_def0_u64;
    move || {
        last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        last
    }
}

/// Creates a topic with these settings.
pub(crate) fn create(image: &mut Image, name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    let settings = settings
        .iter()
        .map(|(name, value)| (*name, Some(*value)))
        .collect();
    let topic = topics::NewTopic {
        name,
        partitions,
        replication_factor: -1,
        assignment: Vec::new(),
        settings,
    };
    let names = topic_name::MetricNames::of(image);
    let created = rules
        .create_topic(&topic, &names, &mut random_for(name))
        .unwrap();
    apply(image, created.records);
}

/// Returns a source with different bits for different names.
fn random_for(name: &str) -> impl FnMut() -> u64 + use<> {
    let seed = name
        .bytes()
        .fold(0, |sum: u64, c| sum.wrapping_mul(31).wrapping_add(c.into()));
    let mut bits = random();
    move || bits() ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn a_start_registers_leads_and_unfences() {
    let mut image = started();
    create(&mut image, "a", 2, &[]);
    let records = startup::lead_all(&image, NodeId(1));
    assert_eq!(records.len(), 2);
    apply(&mut image, records);
    let topic = image.topic_by_name("a").unwrap();
    for partition in topic.partitions.values() {
        assert_eq!(
            (
                partition.leader,
                partition.leader_epoch,
                partition.partition_epoch
            ),
            (1, 1, 1)
        );
        assert_eq!(
            (&partition.isr[..], &partition.directories[..]),
            (&[1][..], &[DIRECTORY][..])
        );
    }
    let broker = image.broker(NodeId(1)).unwrap();
    assert!(broker.is_active() && broker.epoch == 2);
    assert!(startup::fence(&image, NodeId(1), false).is_empty());
    let fence = startup::fence(&image, NodeId(1), true);
    apply(&mut image, fence);
    assert!(!image.broker(NodeId(1)).unwrap().is_active());
}

#[test]
fn a_leader_is_in_sync_and_not_merely_eligible() {
    let mut image = started();
    create(&mut image, "a", 1, &[]);
    let topic_id = image.topic_by_name("a").unwrap().id.0;
    // What a Kafka controller writes when its only broker stops.
    let left = PartitionChangeRecord {
        partition_id: 0,
        topic_id,
        leader: -1,
        isr: Some(Vec::new()),
        eligible_leader_replicas: Some(vec![1]),
        last_known_elr: Some(vec![1]),
        ..PartitionChangeRecord::default()
    };
    apply(&mut image, [left.into()]);
    let records = startup::lead_all(&image, NodeId(1));
    apply(&mut image, records);
    let partition = &image.topic_by_name("a").unwrap().partitions[&0];
    assert_eq!((partition.leader, &partition.isr[..]), (1, &[1][..]));
    assert!(partition.eligible.is_empty() && partition.last_known_eligible.is_empty());
}

#[test]
fn features_that_are_not_served_are_not_finalized() {
    let image = started();
    assert_eq!(
        image.finalized_features().collect::<Vec<_>>(),
        [
            ("group.version", 1),
            ("metadata.version", 30),
            ("transaction.version", 2)
        ]
    );
}

#[test]
fn a_feature_that_came_with_this_release_is_raised_once() {
    let mut image = started();
    assert!(startup::new_features(&image, NodeId(1)).is_empty(), "it is");
    let level = |level| FeatureLevelRecord {
        name: "group.version".into(),
        feature_level: level,
    };
    // The previous release did not know the feature.
    let mut before = startup::register(&options(), Uuid::from_u128(8), vec![DIRECTORY], Offset(9));
    if let MetadataRecord::RegisterBroker(broker) = &mut before {
        broker.features.retain(|one| one.name != "group.version");
    }
    apply(&mut image, vec![level(0).into(), before]);
    let raised = startup::new_features(&image, NodeId(1));
    assert_eq!(raised, [level(1).into()]);
    apply(&mut image, raised);
    // A level that is lowered now is meant.
    let now = startup::register(&options(), Uuid::from_u128(9), vec![DIRECTORY], Offset(12));
    apply(&mut image, vec![now, level(0).into()]);
    assert!(startup::new_features(&image, NodeId(1)).is_empty());
    // Kafka before 4.0 has no such feature.
    let mut old = started();
    let version = FeatureLevelRecord {
        name: "metadata.version".into(),
        feature_level: 21,
    };
    let mut before = startup::register(&options(), Uuid::from_u128(8), vec![DIRECTORY], Offset(9));
    if let MetadataRecord::RegisterBroker(broker) = &mut before {
        broker.features.clear();
    }
    apply(&mut old, vec![level(0).into(), version.into(), before]);
    assert!(startup::new_features(&old, NodeId(1)).is_empty());
}

#[test]
fn producer_ids_are_handed_out_in_blocks_once() {
    let mut image = started();
    for block in 0..3 {
        let outcome = allocate_producer_ids(&image, NodeId(1));
        assert_eq!(outcome.response, Ok((block * 1000, 1000)));
        apply(&mut image, outcome.records);
    }
    assert_eq!(image.next_producer_id(), 3000);
}

#[test]
fn topic_ids_are_random_uuids_that_tools_can_print() {
    let mut bits = random();
    for _ in 0..500 {
        let id = topic_id(&mut bits);
        assert_eq!(id.get_version_num(), 4);
        assert!(!wire::types::uuid_to_base64(id).starts_with('-'));
    }
}

#[test]
fn settings_of_brokers_that_cannot_change_at_run_time_are_refused() {
    let (image, options) = (started(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let set_of = |resource, name, value| {
        let operation = configs::Operation {
            name,
            code: 0,
            value: Some(value),
        };
        let access = Access::unlimited();
        rules.alter_incrementally(&access, (ResourceType::BROKER, resource), &[operation])
    };
    let set = |name, value| set_of("", name, value);
    let message = |result: Result<Vec<MetadataRecord>, Refusal>| {
        result.err().and_then(|refusal| refusal.message)
    };
    assert_eq!(
        message(set("num.partitions", "3")).as_deref(),
        Some("Cannot update these configs dynamically: [num.partitions]")
    );
    // A password that seems to be changed, and is not.
    for name in [
        "listener.name.in.side.plain.sasl.jaas.config",
        "listener.name.inside.sasl.enabled.mechanisms",
        "listener.name.inside.plain.sasl.server.callback.handler.class",
        "listener.name.inside.scram-sha-256.connections.max.reauth.ms",
    ] {
        let set = set_of("1", name, "5");
        let expected = format!("Cannot update these configs dynamically: [{name}]");
        assert_eq!(message(set), Some(expected));
    }
    assert!(set_of("1", "listener.name.in.sasl.x.max.connections", "5").is_ok());
    assert_eq!(
        message(set("log.segment.bytes", "x")).as_deref(),
        Some("Invalid value x for configuration log.segment.bytes: Not a number of type INT")
    );
    assert_eq!(
        message(set("log.segment.bytes", "5")).as_deref(),
        Some("Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576")
    );
    assert_eq!(
        set("log.segment.bytes", "2097152").map(|records| records.len()),
        Ok(1)
    );
}

#[test]
fn a_setting_of_another_broker_is_refused() {
    let (image, options) = (started(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let set = |resource| {
        let operation = configs::Operation {
            name: "log.retention.ms",
            code: 0,
            value: Some("5"),
        };
        let access = Access::unlimited();
        rules.alter_incrementally(&access, (ResourceType::BROKER, resource), &[operation])
    };
    assert!(set("1").is_ok());
    for (resource, message) in [
        ("2", "Unexpected broker id, expected 1, but received 2"),
        ("x", "Node id must be an integer, but it is: x"),
    ] {
        assert_eq!(
            set(resource),
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        );
    }
}
