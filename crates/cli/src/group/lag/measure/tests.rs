//! What a lag is, and what is shown where it is not known.

use wire::types::ErrorCode;

use super::*;
use crate::ask::Offsets;

fn place(topic: &str, partition: i32) -> PartitionKey {
    (topic.to_owned(), partition)
}

fn group() -> Group {
    Group {
        name: "g".into(),
        kind: "classic",
        state: "Empty".into(),
        assignor: String::new(),
        coordinator: 1,
        members: Vec::new(),
    }
}

#[test]
fn lag_is_summed_over_the_partitions_that_have_an_end() {
    let positions = [
        (place("a", 0), 10),
        (place("a", 1), 7),
        (place("a", 2), 3),
        (place("gone", 0), 5),
        (place("silent", 4), 1),
        (place("silent", 5), 1),
    ];
    let ends: Offsets = [
        (place("a", 0), Ok(15)),
        // The log was cut: the position is beyond its end.
        (place("a", 1), Ok(2)),
        (place("a", 2), Err(ErrorCode::LeaderNotAvailable.into())),
        (place("b", 0), Ok(100)),
        (
            place("silent", 4),
            Err(Failure::NotAsked("no answer".into())),
        ),
        (
            place("silent", 5),
            Err(Failure::NotAsked("no answer".into())),
        ),
    ]
    .into();
    let ends = KnownOffsets::with_deleted(ends, &["gone"]);
    let measured = GroupLag::of(group(), positions.into(), &ends);
    assert_eq!((measured.lag, measured.unknown_partitions), (Some(5), 4));
    let lags: Vec<_> = measured.partitions.iter().map(|one| one.lag).collect();
    assert_eq!(lags, [Some(5), Some(0), None, None, None, None]);
    let topics = measured.by_topic();
    let a = TopicLag {
        partitions: 3,
        sum: Sum::of([Some(5), Some(0), None].into_iter()),
        largest: Some((0, 5)),
    };
    assert_eq!(topics.get("a"), Some(&a));
    let gone = topics.get("gone").unwrap();
    assert_eq!(
        (gone.partitions, gone.sum.lag(), gone.largest),
        (1, None, None)
    );
    let errors = [
        ("g: a:2", "LEADER_NOT_AVAILABLE"),
        ("g: gone:0", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("g: silent:4,5", "no answer"),
    ];
    let errors = errors.map(|(place, error)| (place.to_owned(), error.to_owned()));
    assert_eq!(measured.errors(), errors);
    assert!(!measured.is_complete(), "a broker was silent");
}

#[test]
fn a_group_that_does_not_exist_has_an_error_and_no_lag() {
    let missing = GroupLag::failed("g", "does not exist");
    assert_eq!(
        missing.errors(),
        [("g".to_owned(), "does not exist".to_owned())]
    );
    assert!(!missing.is_complete());
    let json = serde_json::to_value(&missing).unwrap();
    assert!(json["lag"].is_null() && json["state"].is_null());
}

#[test]
fn a_group_without_positions_has_no_lag_and_is_no_failure() {
    let none = GroupLag::of(group(), BTreeMap::new(), &KnownOffsets::default());
    assert_eq!((none.lag, none.unknown_partitions), (None, 0));
    let measured = |silent| MeasuredLag {
        groups: vec![GroupLag::of(
            group(),
            BTreeMap::new(),
            &KnownOffsets::default(),
        )],
        silent,
    };
    assert!(measured(Vec::new()).is_complete());
    let silent = SilentBroker {
        broker: 2,
        failure: Failure::NotAsked("no answer".into()),
    };
    let part = measured(vec![silent]);
    assert!(!part.is_complete(), "broker 2 may have more groups");
    let json = serde_json::to_value(&part).unwrap();
    assert!(json[0]["lag"].is_null() && json[0]["state"] == "Empty");
}

#[test]
fn only_a_missing_leader_or_topic_is_no_failure() {
    for (failure, is_complete) in [
        (Failure::from(ErrorCode::LeaderNotAvailable), true),
        (Failure::from(ErrorCode::UnknownTopicOrPartition), true),
        (Failure::from(ErrorCode::TopicAuthorizationFailed), false),
        (Failure::from(ErrorCode::KafkaStorageError), false),
        (Failure::LeftOut, false),
    ] {
        let ends: Offsets = [(place("a", 0), Err(failure))].into();
        let ends = KnownOffsets::with_deleted(ends, &[]);
        let positions = [(place("a", 0), 3)].into();
        let measured = GroupLag::of(group(), positions, &ends);
        assert_eq!(measured.is_complete(), is_complete, "{ends:?}");
    }
}
