//! What is learnt replaces what was known, but no leader by an older one.

use std::time::Duration;

use wire::StrBytes;
use wire::messages::TopicName;
use wire::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition};
use wire::types::Uuid;

use super::*;

fn topic(name: &str, id: u128, leaders: &[(i32, i32, i32)]) -> MetadataResponseTopic {
    let partitions = leaders.iter().map(|(index, node, epoch)| {
        MetadataResponsePartition::default()
            .with_partition_index(*index)
            .with_leader_id((*node).into())
            .with_leader_epoch(*epoch)
    });
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
        .with_topic_id(Uuid::from_u128(id))
        .with_partitions(partitions.collect())
}

fn answer(topics: Vec<MetadataResponseTopic>) -> MetadataResponse {
    MetadataResponse::default().with_topics(topics)
}

fn leader(known: &KnownCluster, topic: &str, partition: i32) -> Option<(i32, i32)> {
    let leader = known.fresh(topic, None)?.partition(partition)?.leader?;
    Some((leader.node, leader.epoch))
}

#[test]
fn leaders_of_older_epochs_are_not_believed_unless_the_topic_is_another() {
    let (mut known, now) = (KnownCluster::default(), Instant::now());
    known.learn(
        &answer(vec![topic("t", 1, &[(1, 7, 5), (0, 8, 5)])]),
        None,
        now,
    );
    assert_eq!(leader(&known, "t", 1), Some((7, 5)));
    known.learn(
        &answer(vec![topic("t", 1, &[(0, 9, 6), (1, 9, 4)])]),
        None,
        now,
    );
    assert_eq!(leader(&known, "t", 0), Some((9, 6)));
    assert_eq!(leader(&known, "t", 1), Some((7, 5)));
    known.moved("t", 1, Leader { node: 3, epoch: 5 });
    assert_eq!(leader(&known, "t", 1), Some((7, 5)));
    known.moved("t", 1, Leader { node: 3, epoch: 6 });
    assert_eq!(leader(&known, "t", 1), Some((3, 6)));
    // Made again: epochs begin again.
    known.learn(&answer(vec![topic("t", 2, &[(1, 4, 0)])]), None, now);
    assert_eq!(leader(&known, "t", 1), Some((4, 0)));
    let id = |id| TopicId(Uuid::from_u128(id));
    assert_eq!(known.name(id(1)), None);
    assert_eq!(known.name(id(2)).as_deref(), Some("t"));
}

#[test]
fn what_is_left_out_of_an_answer_is_unknown() {
    let (mut known, now) = (KnownCluster::default(), Instant::now());
    let (a, b): (Rc<str>, Rc<str>) = ("a".into(), "b".into());
    let both = answer(vec![
        topic("a", 1, &[(0, 1, 0)]),
        topic("b", 2, &[(0, 1, 0)]),
    ]);
    known.learn(&both, Some(&[Rc::clone(&a), Rc::clone(&b)]), now);
    assert_eq!(known.all().len(), 2);
    let only_a = answer(vec![topic("a", 1, &[(0, 1, 0)])]);
    // The client did not ask for b.
    known.learn(&only_a, Some(std::slice::from_ref(&a)), now);
    assert!(known.told("b").is_ok());
    known.learn(&only_a, None, now);
    let error = known.told("b").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(known.name(TopicId(Uuid::from_u128(2))), None);
}

#[test]
fn what_nobody_asked_for_is_not_kept() {
    let (mut known, now) = (KnownCluster::default(), Instant::now());
    for number in 0..10 {
        let made_up = topic(&format!("x{number}"), number + 10, &[(0, 1, 0)]);
        let told = answer(vec![topic("a", 1, &[(0, 1, 0)]), made_up]);
        known.learn(&told, Some(&["a".into()]), now);
    }
    assert_eq!((known.topics.len(), known.names.len()), (1, 1));
    // Of all topics only those that are there are kept.
    for number in 0..10 {
        let told = answer(vec![topic(&format!("y{number}"), number + 30, &[])]);
        known.learn(&told, None, now);
    }
    assert_eq!((known.topics.len(), known.names.len()), (1, 1));
}

#[test]
fn what_is_old_or_stale_is_asked_for_again_together() {
    let (mut known, now) = (KnownCluster::default(), Instant::now());
    for name in ["a", "b", "c"] {
        let name: Rc<str> = name.into();
        let told = answer(vec![topic(&name, 0, &[(0, 1, 0)])]);
        known.learn(&told, Some(&[name]), now);
    }
    assert!(known.is_fresh("a", Some(now)));
    assert!(!known.is_fresh("a", Some(now + Duration::from_millis(1))));
    known.stale("c");
    let asked = known.to_ask(&"a".into(), Some(now));
    let asked: Vec<_> = asked.iter().map(|name| &**name).collect();
    assert_eq!(asked, ["a", "c"]);
}

#[test]
fn addresses_that_make_no_sense_are_left_out() {
    let mut known = KnownCluster::default();
    let broker = |id: i32, host: &'static str, port| {
        MetadataResponseBroker::default()
            .with_node_id(id.into())
            .with_host(StrBytes::from_static_str(host))
            .with_port(port)
    };
    let brokers = vec![
        broker(1, "a", 9092),
        broker(2, "b", 70_000),
        broker(3, "", 1),
    ];
    let told = MetadataResponse::default().with_brokers(brokers);
    known.learn(&told, Some(&[]), Instant::now());
    assert_eq!(known.brokers(), [1]);
    assert_eq!(&*known.peer(1).unwrap().address, "a:9092");
    known.endpoint(4, "a\nforged\u{1b}[1m", 1);
    let forged = known.peer(4).unwrap().address;
    assert_eq!(&*forged, "a\\u{a}forged\\u{1b}[1m:1");
}
