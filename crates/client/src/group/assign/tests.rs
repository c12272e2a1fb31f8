//! Every partition goes to one subscriber, in the way that the strategy promises.

use proptest::prelude::*;

use super::*;
// The name is also that of a trait of proptest.
use super::Strategy;
use crate::group::embedded::NO_GENERATION;

fn member(id: &str, topics: &[&str]) -> GroupMember {
    GroupMember {
        id: id.to_owned(),
        instance_id: None,
        subscription: Subscription {
            topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
            owned: BTreeSet::new(),
            generation: NO_GENERATION,
        },
    }
}

fn sizes(sizes: &[(&str, i32)]) -> TopicSizes {
    sizes
        .iter()
        .map(|(topic, size)| ((*topic).into(), *size))
        .collect()
}

fn shown(all: &Assignments) -> Vec<String> {
    let all = all.iter().map(|(member, places)| {
        let places = places.iter().map(ToString::to_string);
        format!("{member}: {}", places.collect::<Vec<_>>().join(" "))
    });
    all.collect()
}

#[test]
fn ranges_are_those_of_kafkas_clients() {
    let members = [
        member("c", &["t"]),
        member("a", &["t", "u"]),
        member("b", &["t", "u"]),
    ];
    let all = Strategy::Range.assign(&members, &sizes(&[("t", 7), ("u", 1), ("none", 3)]));
    assert_eq!(
        shown(&all),
        ["a: t-0 t-1 t-2 u-0", "b: t-3 t-4", "c: t-5 t-6"]
    );
    // Static members come first, in the order of their instances.
    let mut members = members;
    members[0].instance_id = Some("1".to_owned());
    members[2].instance_id = Some("0".to_owned());
    let all = Strategy::Range.assign(&members, &sizes(&[("t", 4)]));
    assert_eq!(shown(&all), ["a: t-3", "b: t-0 t-1", "c: t-2"]);
}

#[test]
fn turns_are_those_of_kafkas_clients() {
    let members = [member("b", &["t", "u"]), member("a", &["t"])];
    let all = Strategy::RoundRobin.assign(&members, &sizes(&[("t", 3), ("u", 2)]));
    assert_eq!(shown(&all), ["a: t-0 t-2", "b: t-1 u-0 u-1"]);
}

#[test]
fn names_are_those_of_both_clients() {
    for (name, strategy) in [
        ("range", Strategy::Range),
        (
            "org.apache.kafka.clients.consumer.RangeAssignor",
            Strategy::Range,
        ),
        ("roundrobin", Strategy::RoundRobin),
        ("cooperative-sticky", Strategy::CooperativeSticky),
    ] {
        assert_eq!(Strategy::from_name(name), Some(strategy));
    }
    assert_eq!(Strategy::from_name("mine"), None);
}

/// Lets the members take what they were given, and returns whether something was given up.
fn take(members: &mut [GroupMember], all: &Assignments, generation: i32) -> bool {
    let mut gave_up = false;
    for member in members {
        let given = &all[&member.id];
        gave_up |= !member.subscription.owned.is_subset(given);
        member.subscription.owned.clone_from(given);
        member.subscription.generation = generation;
    }
    gave_up
}

#[test]
fn a_partition_that_changes_hands_is_given_up_first() {
    let topics = sizes(&[("t", 4)]);
    let mut members = vec![member("a", &["t"])];
    let all = Strategy::CooperativeSticky.assign(&members, &topics);
    assert!(!take(&mut members, &all, 1));
    members.push(member("b", &["t"]));
    let all = Strategy::CooperativeSticky.assign(&members, &topics);
    assert_eq!((all["a"].len(), all["b"].len()), (2, 0));
    let kept = all["a"].clone();
    assert!(take(&mut members, &all, 2));
    let all = Strategy::CooperativeSticky.assign(&members, &topics);
    assert_eq!((&all["a"], all["b"].len()), (&kept, 2));
    assert!(!take(&mut members, &all, 3));
}

#[test]
fn of_two_that_claim_a_partition_the_newer_keeps_it() {
    let topics = sizes(&[("t", 2)]);
    let claim = |id: &str, generation| {
        let mut member = member(id, &["t"]);
        let topic = Arc::from("t");
        member.subscription.owned = BTreeSet::from([TopicPartition {
            topic,
            partition: 0,
        }]);
        member.subscription.generation = generation;
        member
    };
    let all = Strategy::CooperativeSticky.assign(&[claim("a", 3), claim("b", 4)], &topics);
    assert_eq!(shown(&all), ["a: t-1", "b: t-0"]);
    // As new as each other: both give it up.
    let all = Strategy::CooperativeSticky.assign(&[claim("a", 4), claim("b", 4)], &topics);
    assert!(all.values().flatten().all(|place| place.partition == 1));
}

fn strategies() -> impl proptest::strategy::Strategy<Value = Strategy> {
    prop::sample::select(vec![
        Strategy::Range,
        Strategy::RoundRobin,
        Strategy::CooperativeSticky,
    ])
}

proptest! {
    /// Members come, go and claim anything: in the end each partition with a subscriber has one
    /// holder who subscribes to its topic.
    #[test]
    fn every_partition_has_one_subscriber(
        strategy in strategies(),
        subscriptions in proptest::collection::vec(
            proptest::collection::btree_set(0usize..3, 0..3), 1..6,
        ),
        partitions in proptest::collection::vec(0i32..7, 3),
        claims in proptest::collection::vec((0usize..6, 0usize..3, 0i32..9, -1i32..3), 0..12),
    ) {
        let names = ["t", "u", "v"];
        let topics: Vec<_> = names.into_iter().zip(partitions).collect();
        let topics = sizes(&topics);
        let numbered = subscriptions.iter().enumerate();
        let mut members: Vec<_> = numbered
            .map(|(index, topics)| {
                let topics: Vec<_> = topics.iter().map(|topic| names[*topic]).collect();
                member(&format!("m{index}"), &topics)
            })
            .collect();
        for (index, topic, partition, generation) in claims {
            if let Some(member) = members.get_mut(index) {
                let topic = names[topic].into();
                member.subscription.owned.insert(TopicPartition { topic, partition });
                member.subscription.generation = generation;
            }
        }
        for generation in 3..6 {
            let all = strategy.assign(&members, &topics);
            prop_assert_eq!(all.len(), members.len());
            let given = all.values().flatten().count();
            let distinct: BTreeSet<_> = all.values().flatten().collect();
            prop_assert_eq!(given, distinct.len());
            if !take(&mut members, &all, generation) || !strategy.is_cooperative() {
                break;
            }
        }
        let subscribed = |topic: &Arc<str>| {
            members.iter().any(|member| member.subscription.topics.contains(topic))
        };
        let expected = topics.iter().filter(|(topic, _)| subscribed(topic));
        let expected: i32 = expected.map(|(_, size)| size).sum();
        let held = members.iter().map(|member| member.subscription.owned.len()).sum::<usize>();
        prop_assert_eq!(held, usize::try_from(expected).unwrap());
        for member in &members {
            let subscription = &member.subscription;
            let topics = subscription.owned.iter().map(|place| &place.topic);
            prop_assert!(topics.into_iter().all(|topic| subscription.topics.contains(topic)));
        }
        // Where all subscribe to every topic, no member has two more than another.
        if strategy != Strategy::Range && subscriptions.iter().all(|one| one.len() == 3) {
            let counts = members.iter().map(|member| member.subscription.owned.len());
            let (min, max) = (counts.clone().min().unwrap(), counts.max().unwrap());
            prop_assert!(max - min <= 1);
        }
    }
}
