//! Records that Kafka 4.3 wrote for a console consumer that joined, committed and left; and round
//! trips of any value.

use proptest::prelude::*;

use super::*;
use crate::types::uuid_from_base64;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// Decodes `hex` into `value` and encodes `value` into `hex`.
fn check_group(hex: &str, value: &GroupMetadataValue) {
    assert_eq!(GroupMetadataValue::decode(&bytes(hex)).as_ref(), Ok(value));
    assert_eq!(value.encode(), bytes(hex));
}

#[test]
fn groups_that_are_not_served_are_told_apart() {
    let group = |hex: &str| unserved_group(&bytes(hex));
    let name = || "g1".to_owned();
    assert_eq!(group("000b00026731"), Some((UnservedKind::Share, name())));
    assert_eq!(group("001100026731"), Some((UnservedKind::Streams, name())));
    // A classic group, a member of a share group, a key without its end.
    for hex in ["000200026731", "000a00026731", "000b000267", ""] {
        assert_eq!(group(hex), None, "{hex}");
    }
}

#[test]
fn keys_are_those_of_kafka() {
    let offset = OffsetCommitKey {
        group: "g1".into(),
        topic: "meta-b".into(),
        partition: 0,
    };
    let hex = "00010002673100066d6574612d6200000000";
    assert_eq!(
        Key::decode(&bytes(hex)),
        Ok(Key::OffsetCommit(offset.clone()))
    );
    assert_eq!(offset.encode(), bytes(hex));

    let group = GroupMetadataKey { group: "g1".into() };
    assert_eq!(
        Key::decode(&bytes("000200026731")),
        Ok(Key::GroupMetadata(group.clone()))
    );
    assert_eq!(group.encode(), bytes("000200026731"));
}

#[test]
fn an_offset_is_that_of_kafka() {
    let value = OffsetCommitValue {
        offset: 3,
        leader_epoch: 0,
        metadata: String::new(),
        commit_timestamp: 1_795_252_928_755,
        expire_timestamp: -1,
        topic_id: Uuid::from_u128(0x5814_bc80_8ddc_4a7e_9600_2dc5_5f2c_cd90),
    };
    let hex =
        "000400000000000000030000000001000001a1fd69c0f30100105814bc808ddc4a7e96002dc55f2ccd90";
    assert_eq!(OffsetCommitValue::decode(&bytes(hex)).as_ref(), Ok(&value));
    assert_eq!(value.encode(), bytes(hex));
    assert!(uuid_from_base64("WBS8gI3cSn6WAC3FXyzNkA").is_some_and(|id| id == value.topic_id));
}

#[test]
fn an_offset_with_an_expiry_keeps_it() {
    let value = OffsetCommitValue {
        offset: 7,
        metadata: "m".into(),
        commit_timestamp: 5,
        expire_timestamp: 9,
        ..OffsetCommitValue::default()
    };
    let encoded = value.encode();
    assert_eq!(encoded.get(..2), Some(&[0, 1][..]));
    assert_eq!(OffsetCommitValue::decode(&encoded), Ok(value));
}

#[test]
fn groups_are_those_of_kafka() {
    check_group(
        "0003000000000000ffffffff000001a1fd69c07900000000",
        &GroupMetadataValue {
            current_state_timestamp: 1_795_252_928_633,
            ..GroupMetadataValue::default()
        },
    );
    let member = "console-consumer-7d0be3c1-ed8b-4872-9222-c10bc5a401fc";
    check_group(
        "00030008636f6e73756d657200000001000572616e67650035636f6e736f6c652d636f6e73756d65722d3764306265\
         3363312d656438622d343837322d393232322d633130626335613430316663000001a1fd69c08b000000010035636f6e\
         736f6c652d636f6e73756d65722d37643062653363312d656438622d343837322d393232322d63313062633561343031\
         6663ffff0010636f6e736f6c652d636f6e73756d6572000a2f3132372e302e302e31000493e00000afc80000001c0003\
         0000000100066d6574612d62ffffffff00000000ffffffffffff0000001a00030000000100066d6574612d6200000001\
         00000000ffffffff",
        &GroupMetadataValue {
            protocol_type: "consumer".into(),
            generation: 1,
            protocol: Some("range".into()),
            leader: Some(member.into()),
            current_state_timestamp: 1_795_252_928_651,
            members: vec![MemberMetadata {
                member_id: member.into(),
                group_instance_id: None,
                client_id: "console-consumer".into(),
                client_host: "/127.0.0.1".into(),
                rebalance_timeout: 300_000,
                session_timeout: 45_000,
                subscription: bytes("00030000000100066d6574612d62ffffffff00000000ffffffffffff")
                    .into(),
                assignment: bytes("00030000000100066d6574612d620000000100000000ffffffff").into(),
            }],
        },
    );
}

#[test]
fn versions_and_lengths_that_cannot_be_are_refused() {
    assert_eq!(
        OffsetCommitValue::decode(&[0, 5]),
        Err(DecodeError::Version { key: 1, version: 5 })
    );
    let mut long = GroupMetadataKey { group: "g".into() }.encode().to_vec();
    long.push(0);
    assert_eq!(Key::decode(&long), Err(DecodeError::Trailing(1)));
    assert_eq!(Key::decode(&[0]), Err(DecodeError::Truncated));
}

fn member() -> impl Strategy<Value = MemberMetadata> {
    (
        "\\PC{0,12}",
        proptest::option::of("\\PC{0,12}"),
        any::<(i32, i32)>(),
        any::<(Vec<u8>, Vec<u8>)>(),
    )
        .prop_map(
            |(member_id, instance, (rebalance, session), (subscription, assignment))| {
                MemberMetadata {
                    client_id: member_id.clone(),
                    member_id,
                    group_instance_id: instance,
                    client_host: "/::1".into(),
                    rebalance_timeout: rebalance,
                    session_timeout: session,
                    subscription: subscription.into(),
                    assignment: assignment.into(),
                }
            },
        )
}

proptest! {
    #[test]
    fn every_version_round_trips_what_it_can_hold(
        members in proptest::collection::vec(member(), 0..3),
        (generation, timestamp, offset, topic) in any::<(i32, i64, i64, u128)>(),
        text in "\\PC{0,20}",
        version in 0i16..=4,
    ) {
        let group = GroupMetadataValue {
            protocol_type: text.clone(),
            generation,
            protocol: Some(text.clone()),
            leader: None,
            current_state_timestamp: timestamp,
            members,
        };
        prop_assert_eq!(GroupMetadataValue::decode(&group.encode()), Ok(group.clone()));
        let value = OffsetCommitValue {
            offset,
            leader_epoch: generation,
            metadata: text,
            commit_timestamp: timestamp,
            expire_timestamp: -1,
            topic_id: Uuid::from_u128(topic),
        };
        prop_assert_eq!(OffsetCommitValue::decode(&value.encode()), Ok(value.clone()));

        // Lower versions lose only the fields that they do not have.
        let old = encode(version, &value, OffsetCommitValue::form(version));
        let read = OffsetCommitValue::decode(&old).unwrap();
        prop_assert_eq!(read.offset, offset);
        prop_assert_eq!(read.leader_epoch, if version >= 3 { generation } else { -1 });
        let old = encode(version, &group, GroupMetadataValue::form(version));
        prop_assert_eq!(GroupMetadataValue::decode(&old).unwrap().members.len(), group.members.len());
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Key::decode(&bytes);
        let _ = unserved_group(&bytes);
        for version in 0..=4 {
            let mut versioned = vec![0, version];
            versioned.extend(&bytes);
            let _ = OffsetCommitValue::decode(&versioned);
            let _ = GroupMetadataValue::decode(&versioned);
        }
    }
}
