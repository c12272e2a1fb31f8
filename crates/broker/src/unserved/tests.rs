//! Metadata of a Kafka, and what is said of them.

use wire::records::metadata::{
    AccessControlEntryRecord, ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionRecord,
    RemoveAccessControlEntryRecord, TopicRecord, UserScramCredentialRecord,
};
use wire::types::Uuid;

use super::*;

fn image(records: Vec<MetadataRecord>) -> Image {
    let mut image = Image::empty();
    for record in records {
        image.replay(record).unwrap();
    }
    image
}

/// Checks what node 1 finds in these records: kinds, counts and examples.
#[track_caller]
fn check(records: Vec<MetadataRecord>, expect: &[(&str, usize, &str)]) {
    check_enforced(EnforcedMetadata::default(), records, expect);
}

/// Does the same for a broker that enforces more.
#[track_caller]
fn check_enforced(
    enforced: EnforcedMetadata,
    records: Vec<MetadataRecord>,
    expect: &[(&str, usize, &str)],
) {
    let found = unserved(&image(records), NodeId(1), enforced);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.kind, one.count, one.example.as_str()))
        .collect();
    assert_eq!(found, expect);
}

fn entry(id: u8, user: &str, permission: i8) -> AccessControlEntryRecord {
    AccessControlEntryRecord {
        id: Uuid::from_u128(id.into()),
        resource_type: 2,
        resource_name: "orders".into(),
        pattern_type: 3,
        principal: user.into(),
        host: "*".into(),
        operation: 3,
        permission_type: permission,
    }
}

fn acl(id: u8, user: &str, permission: i8) -> MetadataRecord {
    entry(id, user, permission).into()
}

fn no_acl(id: u8) -> MetadataRecord {
    let id = Uuid::from_u128(id.into());
    RemoveAccessControlEntryRecord { id }.into()
}

fn topic(name: &str, id: u128, replicas: &[&[i32]]) -> Vec<MetadataRecord> {
    let topic = TopicRecord {
        name: name.into(),
        topic_id: Uuid::from_u128(id),
    };
    let partitions = replicas.iter().zip(0..).map(|(replicas, index)| {
        MetadataRecord::from(PartitionRecord {
            partition_id: index,
            topic_id: Uuid::from_u128(id),
            replicas: replicas.to_vec(),
            ..PartitionRecord::default()
        })
    });
    [topic.into()].into_iter().chain(partitions).collect()
}

fn setting(of: ResourceType, resource: &str, name: &str, value: &str) -> MetadataRecord {
    let record = ConfigRecord {
        resource_type: of.0,
        resource_name: resource.into(),
        name: name.into(),
        value: Some(value.into()),
    };
    record.into()
}

#[test]
fn acls_count_until_they_are_removed() {
    let all = vec![
        acl(1, "User:a", 3),
        acl(2, "User:b", 2),
        acl(3, "User:c", 3),
    ];
    check(all.clone(), &[("acls", 3, "User:a allowed on orders")]);
    let with_one_removed = [all.clone(), vec![no_acl(1)]].concat();
    check(with_one_removed, &[("acls", 2, "User:b denied on orders")]);
    let removed = [all, vec![no_acl(1), no_acl(2), no_acl(3)]].concat();
    check(removed, &[]);
    // A later Kafka's permission is none.
    let later = vec![acl(1, "User:a", 9)];
    check(later, &[("acls", 1, "User:a denied on orders")]);
    let unplaced = AccessControlEntryRecord {
        resource_type: 99,
        ..entry(1, "User:a", 3)
    };
    let words = r#"an ACL on "orders" has the resourceType 99, which is not known here"#;
    check(vec![unplaced.into()], &[("acls", 1, words)]);
}

#[test]
fn of_acls_that_are_enforced_only_the_odd_ones_are_told() {
    let enforced = EnforcedMetadata {
        users: false,
        acls: true,
    };
    check_enforced(enforced, vec![acl(1, "User:a", 3)], &[]);
    let later = vec![
        acl(1, "User:a", 3),
        acl(2, "User:b", 9),
        acl(3, "nobody", 3),
    ];
    let first = r#"UNKNOWN(9) READ on LITERAL TOPIC "orders" to "User:b" from "*""#;
    check_enforced(enforced, later, &[("acls-not-understood", 2, first)]);
    let short = AccessControlEntryRecord {
        host: "::1".into(),
        ..entry(1, "User:a", 3)
    };
    let words = r#"ALLOW READ on LITERAL TOPIC "orders" to "User:a" from "::1""#;
    check_enforced(
        enforced,
        vec![short.into()],
        &[("acls-unlike-kafka", 1, words)],
    );
}

#[test]
fn a_user_with_two_mechanisms_is_one() {
    let scram = |name: &str, mechanism| {
        MetadataRecord::from(UserScramCredentialRecord {
            name: name.into(),
            mechanism,
            ..UserScramCredentialRecord::default()
        })
    };
    let users = vec![scram("a", 1), scram("a", 2), scram("b", 2)];
    check(users.clone(), &[("users", 2, "a")]);
    let enforced = EnforcedMetadata {
        users: true,
        acls: false,
    };
    check_enforced(enforced, users, &[]);
}

#[test]
fn share_groups_show_in_their_topic_and_in_their_settings() {
    let share = "share-groups";
    let state = topic(SHARE_STATE_TOPIC, 1, &[&[1]]);
    check(state.clone(), &[(share, 1, "topic __share_group_state")]);
    let group = setting(ResourceType::GROUP, "workers", "share.isolation.level", "x");
    let other = setting(ResourceType::GROUP, "g", "consumer.session.timeout.ms", "1");
    let both = [state, vec![group, other]].concat();
    check(both, &[(share, 2, "group workers")]);
}

#[test]
fn partitions_with_other_replicas_and_without_one_here_are_told_apart() {
    let orders = topic("orders", 1, &[&[1], &[1, 2], &[2, 1], &[2]]);
    check(
        orders,
        &[
            ("other-replicas", 2, "orders-1"),
            ("not-here", 1, "orders-3"),
        ],
    );
}

#[test]
fn topics_in_remote_storage_are_named() {
    let on = setting(ResourceType::TOPIC, "old", "remote.storage.enable", "True");
    let off = setting(ResourceType::TOPIC, "t", "remote.storage.enable", "false");
    check(vec![on, off], &[("remote-storage", 1, "old")]);
}

#[test]
fn features_that_are_not_known_are_named_with_their_level() {
    let feature = |name: &str, level| {
        MetadataRecord::from(FeatureLevelRecord {
            name: name.into(),
            feature_level: level,
        })
    };
    let image = image(vec![
        feature("metadata.version", 30),
        feature("share.version", 1),
    ]);
    assert_eq!(unknown_features(&image), [("share.version", 1)]);
    assert_eq!(unserved(&image, NodeId(1), EnforcedMetadata::default()), []);
}

#[test]
fn an_example_of_a_long_name_is_its_beginning() {
    let name = "n".repeat(5000);
    let user = UserScramCredentialRecord {
        name: name.clone(),
        mechanism: 1,
        ..UserScramCredentialRecord::default()
    };
    let begins = format!("{}...", &name[..EXAMPLE_BYTES_MAX]);
    check(vec![user.into()], &[("users", 1, &begins)]);
    // Only the first is described.
    let words = |one: u64| {
        assert_eq!(one, 0);
        one.to_string()
    };
    assert_eq!(groups(UnservedKind::Share, 0..3, words).unwrap().count, 3);
}

#[test]
fn settings_of_logins_are_told_of_by_name_where_they_would_hold() {
    let set = |node, name| setting(ResourceType::BROKER, node, name, "secret");
    let jaas = "listener.name.in.plain.sasl.jaas.config";
    let records = vec![
        set("1", jaas),
        set("", "listener.name.in.connections.max.reauth.ms"),
        set("1", "listener.name.in.max.connections"),
        set("2", jaas),
    ];
    check(records, &[("login-settings", 2, jaas)]);
}
