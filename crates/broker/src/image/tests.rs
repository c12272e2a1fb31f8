//! The rules of replay that are easy to get wrong.

use wire::records::metadata::*;
use wire::types::Uuid;

use super::*;

const TOPIC: TopicId = TopicId(Uuid::from_u128(77));

fn apply(image: &mut Image, records: impl IntoIterator<Item = MetadataRecord>) {
    for record in records {
        image.replay(record).unwrap();
    }
}

fn with_topic() -> Image {
    let mut image = Image::empty();
    let partition = |index| PartitionRecord {
        partition_id: index,
        topic_id: TOPIC.0,
        replicas: vec![1, 2],
        isr: vec![1, 2],
        leader: 1,
        leader_epoch: 3,
        partition_epoch: 5,
        directories: vec![Uuid::from_u128(101), Uuid::from_u128(102)],
        ..PartitionRecord::default()
    };
    let topic = TopicRecord {
        name: "orders".into(),
        topic_id: TOPIC.0,
    };
    apply(
        &mut image,
        [topic.into(), partition(1).into(), partition(0).into()],
    );
    image
}

fn change() -> PartitionChangeRecord {
    PartitionChangeRecord {
        partition_id: 0,
        topic_id: TOPIC.0,
        ..PartitionChangeRecord::default()
    }
}

fn setting(name: &str, value: Option<&str>) -> MetadataRecord {
    ConfigRecord {
        resource_type: ResourceType::TOPIC.0,
        resource_name: "orders".into(),
        name: name.into(),
        value: value.map(Into::into),
    }
    .into()
}

fn partition(image: &Image) -> &PartitionImage {
    &image.topic_by_id(TOPIC).unwrap().partitions[&0]
}

#[test]
fn a_change_that_names_the_same_leader_raises_both_epochs() {
    let mut image = with_topic();
    apply(
        &mut image,
        [PartitionChangeRecord {
            leader: 1,
            ..change()
        }
        .into()],
    );
    let state = partition(&image);
    assert_eq!(
        (state.leader, state.leader_epoch, state.partition_epoch),
        (1, 4, 6)
    );
}

#[test]
fn a_change_without_leader_raises_the_partition_epoch_only() {
    let mut image = with_topic();
    apply(
        &mut image,
        [PartitionChangeRecord {
            isr: Some(vec![1]),
            ..change()
        }
        .into()],
    );
    let state = partition(&image);
    assert_eq!((state.leader_epoch, state.partition_epoch), (3, 6));
    assert_eq!(
        (state.isr.as_slice(), state.replicas.as_slice()),
        (&[1][..], &[1, 2][..])
    );
}

#[test]
fn losing_the_leader_is_a_leader_change_too() {
    let mut image = with_topic();
    apply(
        &mut image,
        [PartitionChangeRecord {
            leader: -1,
            ..change()
        }
        .into()],
    );
    assert_eq!(
        (partition(&image).leader, partition(&image).leader_epoch),
        (-1, 4)
    );
}

#[test]
fn a_deleted_topic_takes_its_settings_with_it() {
    let mut image = with_topic();
    apply(&mut image, [setting("retention.ms", Some("5"))]);
    assert_eq!(
        image.setting(ResourceType::TOPIC, "orders", "retention.ms"),
        Some("5")
    );
    apply(&mut image, [RemoveTopicRecord { topic_id: TOPIC.0 }.into()]);
    assert!(image.topic_by_name("orders").is_none() && image.topic_by_id(TOPIC).is_none());
    assert_eq!(image.settings(ResourceType::TOPIC, "orders"), None);
}

#[test]
fn a_setting_without_value_is_removed_and_an_empty_resource_is_gone() {
    let mut image = with_topic();
    apply(
        &mut image,
        [
            setting("a", Some("1")),
            setting("b", Some("2")),
            setting("a", None),
        ],
    );
    assert_eq!(image.setting(ResourceType::TOPIC, "orders", "a"), None);
    assert_eq!(image.setting(ResourceType::TOPIC, "orders", "b"), Some("2"));
    apply(&mut image, [setting("b", None)]);
    assert_eq!(image.settings(ResourceType::TOPIC, "orders"), None);
}

#[test]
fn a_broker_is_fenced_until_it_is_unfenced_in_its_own_epoch() {
    let mut image = Image::empty();
    let register = RegisterBrokerRecord {
        broker_id: 1,
        broker_epoch: 11,
        ..RegisterBrokerRecord::default()
    };
    apply(&mut image, [register.into()]);
    assert!(image.broker(NodeId(1)).unwrap().fenced);
    let unfence = |epoch| {
        MetadataRecord::from(BrokerRegistrationChangeRecord {
            broker_id: 1,
            broker_epoch: epoch,
            fenced: -1,
            ..BrokerRegistrationChangeRecord::default()
        })
    };
    assert_eq!(
        image.replay(unfence(10)),
        Err(ReplayError::Broker { id: 1, epoch: 10 })
    );
    apply(&mut image, [unfence(11)]);
    assert!(image.broker(NodeId(1)).unwrap().is_active());
}

#[test]
fn a_feature_at_level_zero_is_gone() {
    let mut image = Image::empty();
    let level = |level| {
        MetadataRecord::from(FeatureLevelRecord {
            name: "group.version".into(),
            feature_level: level,
        })
    };
    apply(&mut image, [level(1)]);
    assert_eq!(image.feature("group.version"), 1);
    apply(&mut image, [level(0)]);
    assert_eq!(
        (image.feature("group.version"), image.records().len()),
        (0, 0)
    );
}

#[test]
fn clients_are_told_only_of_features_that_are_served() {
    let mut image = Image::empty();
    for (name, level) in [("metadata.version", 30), ("share.version", 1)] {
        let name = name.into();
        apply(
            &mut image,
            [FeatureLevelRecord {
                name,
                feature_level: level,
            }
            .into()],
        );
    }
    assert_eq!(
        image.finalized_features().collect::<Vec<_>>(),
        [("metadata.version", 30)]
    );
    assert_eq!(image.records().len(), 2);
}

#[test]
fn records_for_what_is_not_there_are_refused() {
    let mut image = with_topic();
    let foreign = TopicId(Uuid::from_u128(1));
    let records: [MetadataRecord; 2] = [
        RemoveTopicRecord {
            topic_id: foreign.0,
        }
        .into(),
        PartitionChangeRecord {
            topic_id: foreign.0,
            ..change()
        }
        .into(),
    ];
    for record in records {
        assert_eq!(image.replay(record), Err(ReplayError::Topic(foreign)));
    }
    assert_eq!(
        image.replay(
            PartitionChangeRecord {
                partition_id: 9,
                ..change()
            }
            .into()
        ),
        Err(ReplayError::Partition(TOPIC, 9))
    );
}

#[test]
fn a_snapshot_gives_the_same_image() {
    let mut image = with_topic();
    let opaque = OpaqueRecord {
        key: 26,
        version: 0,
        body: bytes::Bytes::from_static(b"token"),
    };
    let acl = AccessControlEntryRecord {
        id: Uuid::from_u128(18),
        resource_type: 2,
        resource_name: "orders".into(),
        pattern_type: 3,
        principal: "User:a".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    };
    apply(
        &mut image,
        [
            setting("retention.ms", Some("5")),
            FeatureLevelRecord {
                name: "metadata.version".into(),
                feature_level: 30,
            }
            .into(),
            FeatureLevelRecord {
                name: "a.feature".into(),
                feature_level: 1,
            }
            .into(),
            RegisterBrokerRecord {
                broker_id: 1,
                broker_epoch: 3,
                ..Default::default()
            }
            .into(),
            ProducerIdsRecord {
                next_producer_id: 4000,
                ..Default::default()
            }
            .into(),
            MetadataRecord::Opaque(opaque),
            acl.into(),
        ],
    );
    let records = image.records();
    assert!(matches!(&records[0], MetadataRecord::FeatureLevel(f) if f.name == "metadata.version"));
    let mut again = Image::empty();
    for record in records {
        let bytes = record.encode(image.metadata_version());
        again
            .replay(MetadataRecord::decode(&bytes).unwrap())
            .unwrap();
    }
    assert_eq!(again, image);
}

#[test]
fn a_clone_does_not_see_later_changes() {
    let image = with_topic();
    let mut later = image.clone();
    apply(
        &mut later,
        [PartitionChangeRecord {
            leader: 2,
            ..change()
        }
        .into()],
    );
    assert_eq!((partition(&image).leader, partition(&later).leader), (1, 2));
}

#[test]
fn a_transaction_is_seen_at_its_end_or_never() {
    let at = |offset| ImagePosition {
        offset: Offset(offset),
        epoch: LeaderEpoch(1),
        timestamp: TimestampMs(0),
    };
    let topic = |name: &str, id| {
        MetadataRecord::from(TopicRecord {
            name: name.into(),
            topic_id: Uuid::from_u128(id),
        })
    };
    let mut log = Replayer::new(Image::empty());
    let fits = |place: usize, error| panic!("{place}: {error}");
    log.replay(
        [BeginTransactionRecord::default().into(), topic("a", 1)],
        at(1),
        fits,
    );
    assert!(log.in_transaction() && log.image().topic_by_name("a").is_none());
    log.replay([AbortTransactionRecord::default().into()], at(2), fits);
    assert!(log.image().topic_by_name("a").is_none());
    log.replay(
        [BeginTransactionRecord::default().into(), topic("b", 2)],
        at(4),
        fits,
    );
    log.replay([EndTransactionRecord {}.into()], at(5), fits);
    assert!(log.image().topic_by_name("b").is_some());
    assert_eq!(log.image().last_applied_offset(), Offset(5));
}

#[test]
fn whatever_does_not_fit_is_said_and_changes_nothing_else() {
    let mut image = with_topic();
    let before = image.clone();
    let again = TopicRecord {
        name: "other".into(),
        topic_id: TOPIC.0,
    };
    assert_eq!(
        image.replay(again.into()),
        Err(ReplayError::TopicExists(TOPIC))
    );
    let odd = PartitionRecord {
        partition_id: -1,
        topic_id: TOPIC.0,
        ..PartitionRecord::default()
    };
    assert_eq!(
        image.replay(odd.into()),
        Err(ReplayError::BadPartition(TOPIC, -1))
    );
    let ids = |next| ProducerIdsRecord {
        broker_id: 1,
        broker_epoch: 1,
        next_producer_id: next,
    };
    assert_eq!(image, before);
    apply(&mut image, [ids(2000).into()]);
    for next in [1000, -1, i64::MIN] {
        let known = 2000;
        let back = Err(ReplayError::ProducerIds { next, known });
        assert_eq!(image.replay(ids(next).into()), back);
        assert_eq!(image.next_producer_id(), 2000, "an id is given out once");
    }
}

#[test]
fn of_two_topics_of_one_name_the_later_stands() {
    let mut image = with_topic();
    let name = Arc::clone(&image.topics().next().unwrap().name);
    let (before, later) = (TOPIC, TopicId(Uuid::from_u128(4711)));
    let record = TopicRecord {
        name: name.to_string(),
        topic_id: later.0,
    };
    let taken = ReplayError::NameTaken {
        name: Arc::clone(&name),
        before,
    };
    assert_eq!(image.replay(record.into()), Err(taken));
    assert_eq!(image.topic_by_name(&name).unwrap().id, later);
    assert!(image.topic_by_id(before).is_none());
}

#[test]
fn epochs_at_their_end_stay_there() {
    let mut image = with_topic();
    let last = PartitionRecord {
        partition_id: 0,
        topic_id: TOPIC.0,
        leader_epoch: i32::MAX,
        partition_epoch: i32::MAX,
        ..PartitionRecord::default()
    };
    apply(&mut image, [last.into(), change().into()]);
    let topic = image.topic_by_id(TOPIC).unwrap();
    assert_eq!(topic.partitions[&0].partition_epoch, i32::MAX);
}
