//! Records as a Kafka 4.3 node wrote them, and round trips.

use proptest::prelude::*;

use super::*;
use crate::types::{Uuid, uuid_from_base64};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// Checks that `hex` reads as `record`, and that a cluster at the level of 4.3 writes `record` as
/// `hex`.
fn check(hex: &str, record: impl Into<MetadataRecord>) {
    let record = record.into();
    assert_eq!(MetadataRecord::decode(&bytes(hex)).as_ref(), Ok(&record));
    assert_eq!(record.encode(MetadataVersion::V4_3), bytes(hex));
}

fn uuid(text: &str) -> Uuid {
    uuid_from_base64(text).unwrap()
}

fn feature(name: &str, min: i16, max: i16) -> FeatureEntry {
    FeatureEntry {
        name: name.into(),
        min_supported_version: min,
        max_supported_version: max,
    }
}

#[test]
fn bootstrap_records_are_those_of_kafka() {
    check(
        "01170001001212426f6f747374726170207265636f726473",
        BeginTransactionRecord {
            name: Some("Bootstrap records".into()),
        },
    );
    check(
        "010c00116d657461646174612e76657273696f6e001e00",
        FeatureLevelRecord {
            name: "metadata.version".into(),
            feature_level: 30,
        },
    );
    check(
        "0104000401146d696e2e696e73796e632e7265706c69636173023100",
        ConfigRecord {
            resource_type: 4,
            resource_name: String::new(),
            name: "min.insync.replicas".into(),
            value: Some("1".into()),
        },
    );
    check("01180000", EndTransactionRecord {});
    check("01140000", NoOpRecord {});
}

#[test]
fn registrations_are_those_of_kafka() {
    check(
        "01000400000001009ebc6f00f8654ac89589600c4b9923a7000000000000000b020a504c41494e544558540a3132372e\
         302e302e31564c000000080e6b726166742e76657273696f6e00000001000e67726f75702e76657273696f6e00000001\
         001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e76657273696f6e000000020021\
         656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e0000000100116d657461646174612e76\
         657273696f6e0007001e000e73686172652e76657273696f6e000000010000010001001102c86fcda3da2378ac54bfc2\
         8b5c16fa12",
        RegisterBrokerRecord {
            broker_id: 1,
            incarnation_id: uuid("nrxvAPhlSsiViWAMS5kjpw"),
            broker_epoch: 11,
            end_points: vec![EndpointEntry {
                name: "PLAINTEXT".into(),
                host: "127.0.0.1".into(),
                port: 22092,
                security_protocol: 0,
            }],
            features: vec![
                feature("kraft.version", 0, 1),
                feature("group.version", 0, 1),
                feature("streams.version", 0, 1),
                feature("transaction.version", 0, 2),
                feature("eligible.leader.replicas.version", 0, 1),
                feature("metadata.version", 7, 30),
                feature("share.version", 0, 1),
            ],
            log_dirs: vec![uuid("yG_No9ojeKxUv8KLXBb6Eg")],
            ..RegisterBrokerRecord::default()
        },
    );
    check(
        "01110300000001000000000000000b01030101",
        BrokerRegistrationChangeRecord {
            broker_id: 1,
            broker_epoch: 11,
            cordoned_log_dirs: Some(Vec::new()),
            ..BrokerRegistrationChangeRecord::default()
        },
    );
    // The oldest version has the same fields in fewer bytes.
    assert_eq!(
        MetadataRecord::decode(&bytes("01110000000001000000000000000b010001ff")),
        Ok(BrokerRegistrationChangeRecord {
            broker_id: 1,
            broker_epoch: 11,
            fenced: -1,
            ..BrokerRegistrationChangeRecord::default()
        }
        .into())
    );
}

#[test]
fn topics_are_those_of_kafka() {
    let topic_id = Uuid::from_u128(0xdf82_a961_c68f_44b7_96fe_af99_d103_6d2f);
    check(
        "010200076d6574612d61df82a961c68f44b796feaf99d1036d2f00",
        TopicRecord {
            name: "meta-a".into(),
            topic_id,
        },
    );
    check(
        "01030200000000df82a961c68f44b796feaf99d1036d2f020000000102000000010101000000010000000000000000\
         02c86fcda3da2378ac54bfc28b5c16fa1200",
        PartitionRecord {
            partition_id: 0,
            topic_id,
            replicas: vec![1],
            isr: vec![1],
            leader: 1,
            leader_epoch: 0,
            partition_epoch: 0,
            directories: vec![uuid("yG_No9ojeKxUv8KLXBb6Eg")],
            ..PartitionRecord::default()
        },
    );
    check(
        "01040002076d6574612d620d726574656e74696f6e2e6d730000",
        ConfigRecord {
            resource_type: 2,
            resource_name: "meta-b".into(),
            name: "retention.ms".into(),
            value: None,
        },
    );
    check(
        "010f0000000001000000000000000b00000000000003e800",
        ProducerIdsRecord {
            broker_id: 1,
            broker_epoch: 11,
            next_producer_id: 1000,
        },
    );
    check(
        "010900df82a961c68f44b796feaf99d1036d2f00",
        RemoveTopicRecord { topic_id },
    );
}

#[test]
fn acls_are_those_of_kafka() {
    let id = Uuid::from_bytes([7; 16]);
    // Topic, "orders", literal, "User:a", "*", READ, ALLOW.
    check(
        "01120007070707070707070707070707070707\
         02076f72646572730307557365723a61022a030300",
        AccessControlEntryRecord {
            id,
            resource_type: 2,
            resource_name: "orders".into(),
            pattern_type: 3,
            principal: "User:a".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
        },
    );
    check(
        "0113000707070707070707070707070707070700",
        RemoveAccessControlEntryRecord { id },
    );
}

#[test]
fn what_is_not_understood_is_kept_or_refused() {
    // A delegation token, shortened: the bytes survive.
    let hex = "010a000575736572010203";
    let record = MetadataRecord::decode(&bytes(hex)).unwrap();
    assert!(matches!(&record, MetadataRecord::Opaque(opaque) if opaque.key == 10));
    assert_eq!(record.encode(MetadataVersion::V3_3), bytes(hex));

    assert_eq!(
        MetadataRecord::decode(&bytes("013f0000")),
        Err(DecodeError::Key(63))
    );
    assert_eq!(
        MetadataRecord::decode(&bytes("01030300")),
        Err(DecodeError::Version { key: 3, version: 3 })
    );
    assert_eq!(
        MetadataRecord::decode(&bytes("02140000")),
        Err(DecodeError::Frame(2))
    );
    assert_eq!(
        MetadataRecord::decode(&bytes("0114000000")),
        Err(DecodeError::Trailing(1))
    );
}

proptest! {
    #[test]
    fn what_can_be_read_can_be_written_at_every_level(
        key in 0..30_u8, version in 0..5_u8, body in proptest::collection::vec(any::<u8>(), 0..80),
        zeros in 0..80_usize,
    ) {
        // Bytes that are mostly zero form a valid record more often than arbitrary bytes.
        let body = [body, vec![0; zeros]].concat();
        for end in 0..=body.len() {
            let bytes = [&[1, key, version], &body[..end]].concat();
            let Ok(record) = MetadataRecord::decode(&bytes) else {
                continue;
            };
            for level in 7..=30 {
                let written = record.encode(MetadataVersion(level));
                prop_assert!(MetadataRecord::decode(&written).is_ok(), "{record:?} at {level}");
            }
        }
    }

    #[test]
    fn partitions_round_trip_at_every_level(
        (partition_id, leader, leader_epoch, partition_epoch) in any::<(i32, i32, i32, i32)>(),
        (replicas, isr) in any::<(Vec<i32>, Vec<i32>)>(),
        elr in any::<Option<Vec<i32>>>(),
        directories in any::<Vec<u128>>(),
        level in 7i16..=30,
    ) {
        let level = MetadataVersion(level);
        let directories: Vec<_> = directories.into_iter().map(Uuid::from_u128).collect();
        let record = PartitionRecord {
            partition_id,
            replicas,
            isr: isr.clone(),
            leader,
            leader_epoch,
            partition_epoch,
            directories: if level >= MetadataVersion::V3_7_DIRECTORIES { directories.clone() } else { Vec::new() },
            eligible_leader_replicas: elr.clone().filter(|_| level >= MetadataVersion::V4_0_ELR),
            ..PartitionRecord::default()
        };
        let record = MetadataRecord::from(record);
        prop_assert_eq!(MetadataRecord::decode(&record.encode(level)), Ok(record));

        let change = MetadataRecord::from(PartitionChangeRecord {
            partition_id,
            isr: Some(isr),
            leader,
            eligible_leader_replicas: elr.filter(|_| level >= MetadataVersion::V4_0_ELR),
            directories: (level >= MetadataVersion::V3_7_DIRECTORIES).then_some(directories),
            ..PartitionChangeRecord::default()
        });
        prop_assert_eq!(MetadataRecord::decode(&change.encode(level)), Ok(change));
    }

    #[test]
    fn any_bytes_give_a_record_or_an_error(
        key in 0u8..32,
        version in 0u8..5,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut framed = vec![1, key, version];
        framed.extend(&body);
        let _ = MetadataRecord::decode(&framed);
        let _ = MetadataRecord::decode(&body);
    }
}
