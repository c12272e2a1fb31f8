//! Which broker is asked, and what counts as its answer.

use wire::messages::find_coordinator_response::Coordinator;

use super::*;
use crate::ask::{AskedRequest, Peer};

fn topic(name: &str, error: i16) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(text(name))))
        .with_error_code(error)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_topic_that_is_left_out_has_failed_and_one_that_nobody_asked_for_is_none() {
    let answer = |asked: &AskedRequest| {
        let topics = [topic("trucks", 0), topic("cars", 0), topic("gone", 3)];
        asked.metadata(topics.to_vec())
    };
    let mut cluster = Peer::start(answer).cluster();
    let found = cluster.topics(&names(&["cars"])).unwrap();
    assert_eq!(found, [topic("cars", 0)]);
    let found = cluster.topics(&names(&["cars", "trucks"])).unwrap();
    assert_eq!(found, [topic("cars", 0), topic("trucks", 0)]);
    for (name, reason) in [
        ("bikes", "topic bikes: the broker did not answer for it"),
        ("gone", "topic gone: UNKNOWN_TOPIC_OR_PARTITION"),
    ] {
        let refused = cluster.topics(&names(&["cars", name])).unwrap_err();
        assert_eq!(format!("{refused:#}"), reason);
    }
}

#[test]
fn metadata_with_an_error_is_none() {
    let answer = |asked: &AskedRequest| {
        asked.to(|_: MetadataRequest| MetadataResponse::default().with_error_code(129))
    };
    let refused = Peer::start(answer).cluster().brokers().unwrap_err();
    assert!(format!("{refused:#}").ends_with("REBOOTSTRAP_REQUIRED"));
    let nobody = |asked: &AskedRequest| asked.to(|_: MetadataRequest| MetadataResponse::default());
    let refused = Peer::start(nobody).cluster().brokers().unwrap_err();
    assert_eq!(refused.to_string(), "the cluster has no brokers");
}

#[test]
fn a_broker_that_is_removed_is_not_asked_any_more() {
    let other = Peer::start(|_| None).node(2);
    let mut looks = 0;
    let mut cluster = Peer::start(move |asked| {
        looks += 1;
        let first = (looks == 1).then(|| other.clone());
        asked.to(|_: MetadataRequest| {
            let brokers = [other.clone().with_node_id(1.into())];
            let brokers = brokers.into_iter().chain(first).collect();
            MetadataResponse::default().with_brokers(brokers)
        })
    })
    .cluster();
    assert_eq!(cluster.brokers().unwrap(), [1, 2]);
    assert_eq!(cluster.brokers().unwrap(), [1]);
    assert!(cluster.address(2).starts_with("127.0.0.1:"));
}

#[test]
fn a_lost_connection_is_the_error_of_one_question() {
    let mut lost = true;
    let mut cluster = Peer::start(move |asked| {
        if std::mem::take(&mut lost) {
            return None;
        }
        asked.coordinator().or_else(|| asked.metadata(Vec::new()))
    })
    .cluster();
    assert!(cluster.coordinator(Coordinates::Group, "a").is_err());
    assert_eq!(cluster.coordinator(Coordinates::Group, "b").unwrap(), 1);
    assert!(!cluster.entrance().unwrap().is_lost());
}

#[test]
fn the_coordinator_of_another_key_is_not_that_of_this_one() {
    let coordinator = |key: &str, id: i32| {
        Coordinator::default()
            .with_key(text(key))
            .with_node_id(id.into())
            .with_host(text("b"))
            .with_port(9092)
    };
    let both = vec![coordinator("other", 7), coordinator("g", 8)];
    let both = FindCoordinatorResponse::default().with_coordinators(both);
    let found = coordinator_of("g", 6, both.clone()).unwrap();
    assert_eq!(found, (8, "b".to_owned(), 9092));
    assert!(coordinator_of("h", 6, both).is_err());
    // An old answer has one coordinator, and does not name the key.
    let old = FindCoordinatorResponse::default()
        .with_node_id(3.into())
        .with_host(text("c"))
        .with_port(9093);
    let found = coordinator_of("h", 3, old.clone()).unwrap();
    assert_eq!(found, (3, "c".to_owned(), 9093));
    assert!(coordinator_of("h", 4, old).is_err());
}

#[test]
fn each_broker_to_begin_with_says_why_it_is_not_reached() {
    let settings = ClientSettings::new("127.0.0.1:1,[::1]:1").unwrap();
    let error = Cluster::reach(settings, Duration::from_secs(5)).unwrap_err();
    let told = format!("{error:#}");
    for address in [
        "broker 127.0.0.1:1 could not be",
        "; broker [::1]:1 could not be",
    ] {
        assert!(told.contains(address), "{told}");
    }
}

#[test]
fn a_broker_that_does_not_answer_is_named_with_the_request() {
    let mut cluster = Peer::start(|_| None).cluster();
    let told = format!("{:#}", cluster.brokers().unwrap_err());
    assert!(told.contains(", Metadata: "), "{told}");
}
