//! ACLs as they are replayed, written back, and asked for decisions.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use wire::acl::{
    Action, Client, Operation, PatternType, PermissionType, Policy, Principal, ResourceType,
};
use wire::records::metadata::{MetadataVersion, RemoveAccessControlEntryRecord};

use super::*;

const PRINCIPALS: [&str; 4] = ["User:a", "User:b", "User:*", "nobody"];
const NAMES: [&str; 5] = ["orders", "orders-eu", "ord", "*", ""];
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn acl(id: u128) -> AccessControlEntryRecord {
    AccessControlEntryRecord {
        id: Uuid::from_u128(id),
        resource_type: ResourceType::Topic.code(),
        resource_name: "orders".into(),
        pattern_type: PatternType::Literal.code(),
        principal: "User:a".into(),
        host: "*".into(),
        operation: Operation::Read.code(),
        permission_type: PermissionType::Allow.code(),
    }
}

fn no_acl(id: u128) -> MetadataRecord {
    let id = Uuid::from_u128(id);
    RemoveAccessControlEntryRecord { id }.into()
}

fn image(records: impl IntoIterator<Item = MetadataRecord>) -> Image {
    let mut image = Image::empty();
    for record in records {
        image.replay(record).unwrap();
    }
    image
}

/// Returns the bytes of the records of a snapshot, in any order.
fn bytes(image: &Image) -> Vec<bytes::Bytes> {
    let records = image.records();
    let encoded = records.iter().map(|one| one.encode(MetadataVersion::V4_3));
    let mut bytes: Vec<_> = encoded.collect();
    bytes.sort();
    bytes
}

/// Returns the verdicts on everything that the ACLs of these tests can be about.
fn verdicts(index: &AclIndex) -> Vec<String> {
    let policy = Policy::default();
    let mut all = vec![index.count().to_string()];
    for principal in PRINCIPALS {
        let Ok(principal) = Principal::parse(principal) else {
            continue;
        };
        let client = Client::new(&principal, HERE);
        for operation in Operation::ALL {
            for resource_type in ResourceType::ALL {
                for name in NAMES {
                    let action = Action {
                        operation: *operation,
                        resource_type: *resource_type,
                        name,
                    };
                    all.push(index.decide(&policy, &client, &action).to_string());
                }
                let any = index.decide_any(&policy, &client, *operation, *resource_type);
                all.push(any.to_string());
            }
        }
    }
    all
}

/// Checks that the index is the one of the ACLs that there are.
#[track_caller]
fn check_index(acls: &Acls) {
    let list: Vec<_> = acls.iter().map(|(_, acl)| Arc::clone(acl)).collect();
    assert_eq!(verdicts(acls.index()), verdicts(&AclIndex::new(&list)));
    let bytes = list.iter().map(|acl| acl_bytes(acl));
    assert_eq!(acls.bytes(), bytes.fold(0, usize::saturating_add));
}

#[test]
fn what_is_not_known_is_kept_and_written_back_to_the_byte() {
    let unknown = |id, change: fn(&mut AccessControlEntryRecord)| {
        let mut record = acl(id);
        change(&mut record);
        MetadataRecord::from(record)
    };
    let records = vec![
        acl(1).into(),
        unknown(2, |acl| acl.operation = 99),
        unknown(3, |acl| acl.permission_type = -1),
        unknown(4, |acl| acl.principal = "nobody".into()),
        unknown(5, |acl| acl.host = "fe80:0:0:0:0:0:0:1%eth0".into()),
        unknown(6, |acl| acl.resource_name = String::new()),
        unknown(7, |acl| acl.resource_type = 99),
        unknown(8, |acl| acl.pattern_type = 2),
    ];
    let image = image(records.clone());
    let mut written: Vec<_> = records
        .iter()
        .map(|one| one.encode(MetadataVersion::V4_3))
        .collect();
    written.sort();
    assert_eq!(bytes(&image), written);
    assert_eq!((image.acls().len(), image.acls().unplaced_count()), (6, 2));
    let why: Vec<_> = image.acls().unplaced().map(|(_, why)| why.field).collect();
    assert_eq!(why, ["resourceType", "patternType"]);
    check_index(image.acls());
}

#[test]
fn an_acl_goes_with_its_id_and_an_unknown_id_changes_nothing() {
    let mut other = acl(2);
    other.resource_type = 99;
    let mut image = image([acl(1).into(), other.into()]);
    let before = image.clone();
    let unknown = Err(ReplayError::Acl(Uuid::from_u128(3)));
    assert_eq!(image.replay(no_acl(3)), unknown);
    assert_eq!(image, before);
    assert_eq!(image.replay(no_acl(1)), Ok(()));
    assert_eq!(image.replay(no_acl(2)), Ok(()));
    assert_eq!(image, Image::empty());
    assert_eq!(image.acls().bytes(), 0);
}

#[test]
fn an_id_that_comes_again_is_another_acl() {
    let mut image = image([acl(1).into()]);
    image.settle();
    let mut again = acl(1);
    again.resource_name = "orders-eu".into();
    image.replay(again.clone().into()).unwrap();
    assert_eq!(image.acls().len(), 1);
    check_index(image.acls());
    again.resource_type = 99;
    image.replay(again.into()).unwrap();
    assert_eq!((image.acls().len(), image.acls().unplaced_count()), (0, 1));
    check_index(image.acls());
    image.replay(acl(1).into()).unwrap();
    assert_eq!((image.acls().len(), image.acls().unplaced_count()), (1, 0));
}

#[test]
fn the_same_acl_under_two_ids_is_in_force_until_both_are_gone() {
    let mut image = image([acl(1).into(), acl(2).into()]);
    let reads = |image: &Image| {
        let principal = Principal::user("a");
        let client = Client::new(&principal, HERE);
        let action = Action {
            operation: Operation::Read,
            resource_type: ResourceType::Topic,
            name: "orders",
        };
        let index = image.acls().index();
        let decision = index.decide(&Policy::default(), &client, &action);
        decision.is_allowed()
    };
    image.settle();
    image.replay(no_acl(1)).unwrap();
    assert!(reads(&image));
    image.replay(no_acl(2)).unwrap();
    assert!(!reads(&image));
}

#[test]
fn a_load_makes_the_index_once_and_a_batch_changes_it_once() {
    const COUNT: u128 = 20_000;
    let record = |id: u128| {
        let mut record = acl(id);
        record.resource_name = format!("t{id}");
        MetadataRecord::from(record)
    };
    let mut image = image((0..COUNT).map(record));
    let index = &image.acls.index;
    assert!(index.now.get().is_none() && index.since.is_none());
    image.settle();
    let shared = image.clone();
    for id in 0..3 {
        image.replay(no_acl(id)).unwrap();
    }
    let index = &image.acls.index;
    assert!(index.now.get().is_none());
    assert_eq!(index.since.as_ref().map(Vec::len), Some(3));
    image.settle();
    assert!(image.acls.is_settled());
    assert_eq!(image.acls().index().count(), image.acls().len());
    // A clone that shards use is as it was.
    assert_eq!(shared.acls().index().count(), shared.acls().len());
    // More changes than it is worth to note.
    for id in 3..COUNT {
        image.replay(no_acl(id)).unwrap();
    }
    assert!(image.acls.index.since.is_none());
    assert_eq!(image.acls().index().count(), 0);
}

/// One step of a story of ACLs.
#[derive(Clone, Debug)]
enum Step {
    Add(AccessControlEntryRecord),
    Remove(u128),
    Ask,
    Settle,
    Share,
    Snapshot,
}

fn any_acl() -> impl Strategy<Value = AccessControlEntryRecord> {
    let codes = (0..8_i8, 2..5_i8, 0..17_i8, 1..5_i8);
    let texts = (
        prop::sample::select(&NAMES[..]),
        prop::sample::select(&PRINCIPALS[..]),
        prop::sample::select(&["*", "127.0.0.1", "10.0.0.1", "x"][..]),
    );
    (0..12_u128, codes, texts).prop_map(|(id, codes, (name, principal, host))| {
        AccessControlEntryRecord {
            id: Uuid::from_u128(id),
            resource_type: codes.0,
            resource_name: name.into(),
            pattern_type: codes.1,
            principal: principal.into(),
            host: host.into(),
            operation: codes.2,
            permission_type: codes.3,
        }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_acl().prop_map(Step::Add),
        3 => (0..12_u128).prop_map(Step::Remove),
        1 => Just(Step::Ask),
        1 => Just(Step::Settle),
        1 => Just(Step::Share),
        1 => Just(Step::Snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_index_is_that_of_the_acls_after_any_story(
        steps in prop::collection::vec(any_step(), 0..40),
    ) {
        let mut image = Image::empty();
        let mut shared = Vec::new();
        for step in steps {
            match step {
                Step::Add(record) => image.replay(record.into()).unwrap(),
                Step::Remove(id) => {
                    let is_there = image.acls().has(Uuid::from_u128(id));
                    prop_assert_eq!(image.replay(no_acl(id)).is_ok(), is_there);
                }
                Step::Ask => drop(image.acls().index().clone()),
                Step::Settle => image.settle(),
                Step::Share => shared.push(image.clone()),
                Step::Snapshot => {
                    let mut again = Image::empty();
                    for record in image.records() {
                        let bytes = record.encode(MetadataVersion::V4_3);
                        let record = MetadataRecord::decode(&bytes).unwrap();
                        again.replay(record).unwrap();
                    }
                    prop_assert_eq!(&again, &image);
                    prop_assert_eq!(bytes(&again), bytes(&image));
                    image = again;
                }
            }
        }
        shared.push(image);
        for image in &shared {
            check_index(image.acls());
        }
    }
}
