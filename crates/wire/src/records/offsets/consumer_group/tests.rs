//! Bytes derived from Kafka's schemas, and round trips of any value. A test with real clients
//! checks that Kafka reads our records and that we read Kafka's.

use proptest::prelude::*;

use super::super::Key;
use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

#[test]
fn keys_are_type_and_plain_strings() {
    let group = GroupKey { group: "g1".into() };
    let part = PartKey {
        group: "g1".into(),
        part: "m".into(),
    };
    for (key, hex) in [
        (ConsumerKey::Epoch(group.clone()), "000300026731"),
        (
            ConsumerKey::PartitionMetadata(group.clone()),
            "000400026731",
        ),
        (ConsumerKey::Member(part.clone()), "00050002673100016d"),
        (ConsumerKey::TargetEpoch(group), "000600026731"),
        (ConsumerKey::Target(part.clone()), "00070002673100016d"),
        (ConsumerKey::Current(part.clone()), "00080002673100016d"),
        (ConsumerKey::Regex(part), "00100002673100016d"),
    ] {
        assert_eq!(key.encode(), bytes(hex));
        assert_eq!(Key::decode(&bytes(hex)), Ok(Key::Consumer(key)));
    }
    // Share groups and streams groups decode to `Other`.
    assert_eq!(Key::decode(&bytes("000a00026731")), Ok(Key::Other(10)));
    assert_eq!(Key::decode(&bytes("001100026731")), Ok(Key::Other(17)));
}

#[test]
fn tags_are_written_when_they_differ_from_kafkas_defaults() {
    let plain = EpochValue {
        epoch: 1,
        metadata_hash: 0,
    };
    assert_eq!(plain.encode(), bytes("00000000000100"));
    let hashed = EpochValue {
        epoch: 1,
        metadata_hash: 2,
    };
    assert_eq!(
        hashed.encode(),
        bytes(
            "00000000000101000800000000000000 02"
                .replace(' ', "")
                .as_str()
        )
    );

    // A member of the new protocol records explicitly that it does not speak the classic one.
    let member = MemberValue {
        client_id: "c".into(),
        client_host: "/h".into(),
        subscribed_topic_names: vec!["t".into()],
        subscribed_topic_regex: Some(String::new()),
        rebalance_timeout: 5,
        classic: None,
        ..MemberValue::default()
    };
    let hex = "0000000002 63 03 2f68 02 02 74 01 00000005 00 01 00 01 00".replace(' ', "");
    assert_eq!(member.encode(), bytes(&hex));
    assert_eq!(MemberValue::decode(&bytes(&hex)), Ok(member));
}

#[test]
fn partitions_carry_the_epoch_they_were_given_in() {
    let value = CurrentValue {
        epoch: 3,
        previous_epoch: 2,
        state: 1,
        assigned: vec![CurrentTopic {
            topic_id: Uuid::from_u128(1),
            partitions: vec![0, 1],
            epochs: Some(vec![2, 3]),
        }],
        revoking: vec![],
    };
    let hex = "0000 00000003 00000002 01 02 00000000000000000000000000000001 03 00000000 00000001 \
               01 00 09 03 00000002 00000003 01 00"
        .replace(' ', "");
    assert_eq!(value.encode(), bytes(&hex));
    assert_eq!(CurrentValue::decode(&bytes(&hex)), Ok(value));
}

proptest! {
    #[test]
    fn members_round_trip(
        texts in proptest::collection::vec("\\PC{0,9}", 4),
        some in any::<(bool, bool, bool)>(),
        protocols in proptest::collection::vec(("\\PC{0,9}", any::<Vec<u8>>()), 0..3),
        numbers in any::<(i32, i32)>(),
    ) {
        let classic = some.0.then(|| ClassicValue {
            session_timeout: numbers.0,
            protocols: protocols
                .into_iter()
                .map(|(name, metadata)| ProtocolValue { name, metadata: metadata.into() })
                .collect(),
        });
        let member = MemberValue {
            instance_id: some.1.then(|| texts[0].clone()),
            rack_id: some.2.then(|| texts[1].clone()),
            client_id: texts[2].clone(),
            client_host: texts[3].clone(),
            subscribed_topic_names: texts.clone(),
            subscribed_topic_regex: some.1.then(|| texts[3].clone()),
            rebalance_timeout: numbers.1,
            server_assignor: some.2.then(|| texts[2].clone()),
            classic,
        };
        prop_assert_eq!(MemberValue::decode(&member.encode()), Ok(member));
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut versioned = vec![0, 0];
        versioned.extend(&bytes);
        let _ = EpochValue::decode(&versioned);
        let _ = PartitionMetadataValue::decode(&versioned);
        let _ = MemberValue::decode(&versioned);
        let _ = TargetEpochValue::decode(&versioned);
        let _ = TargetValue::decode(&versioned);
        let _ = CurrentValue::decode(&versioned);
        let _ = RegexValue::decode(&versioned);
    }
}
