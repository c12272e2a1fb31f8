//! Properties of every assignment: complete, exclusive, subscribed, balanced, sticky.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::{Assignor, Partitions, Question, Subscriber};

type Answer = BTreeMap<StrBytes, Partitions>;

fn topic(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn question(topics: &[i32], members: &[(&str, &[u128])]) -> Question {
    let mut asked = Question {
        topics: (0..).map(topic).zip(topics.iter().copied()).collect(),
        ..Question::default()
    };
    for (id, topics) in members {
        join(&mut asked, id, topics.iter().copied().map(topic).collect());
    }
    asked
}

/// Adds a member with a list of its own.
fn join(question: &mut Question, id: &str, topics: BTreeSet<Uuid>) {
    let member = Subscriber {
        lists: vec![question.lists.len()],
        ..Subscriber::default()
    };
    question.lists.push(topics);
    question.members.insert(text(id), member);
}

/// Shows an assignment as `member: topic/partitions ...`, one line each.
fn show(answer: &Answer) -> String {
    let lines = answer.iter().map(|(id, topics)| {
        let topics = topics.iter().map(|(topic, partitions)| {
            let numbers: Vec<String> = partitions.iter().map(ToString::to_string).collect();
            format!(" {}/{}", topic.as_u128(), numbers.join(","))
        });
        format!("{id}:{}", topics.collect::<String>())
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn load(partitions: &Partitions) -> usize {
    partitions.values().map(BTreeSet::len).sum()
}

fn remember(question: &mut Question, answer: &Answer) {
    for (id, member) in &mut question.members {
        member.previous = answer.get(id).cloned().unwrap_or_default();
    }
}

/// Counts the partitions that a member of `before` had and does not have in `after`.
fn lost(before: &Answer, after: &Answer) -> usize {
    let mut count = 0;
    for (id, topics) in before {
        for (topic, partitions) in topics {
            let kept = after.get(id).and_then(|topics| topics.get(topic));
            count += partitions
                .iter()
                .filter(|one| !kept.is_some_and(|kept| kept.contains(one)))
                .count();
        }
    }
    count
}

fn check_owners(question: &Question, answer: &Answer) {
    assert!(answer.keys().eq(question.members.keys()));
    let mut owned = BTreeSet::new();
    for (id, topics) in answer {
        for (topic, partitions) in topics {
            assert!(
                question.reads(&question.members[id], topic),
                "{id} reads it"
            );
            assert!(!partitions.is_empty(), "no empty entries");
            for partition in partitions {
                assert!((0..question.topics[topic]).contains(partition));
                assert!(owned.insert((*topic, *partition)), "one owner");
            }
        }
    }
    let read: BTreeSet<Uuid> = question
        .members
        .values()
        .flat_map(|member| &member.lists)
        .flat_map(|list| question.lists[*list].iter().copied())
        .collect();
    let wanted: i32 = read.iter().map(|topic| question.topics[topic]).sum();
    assert_eq!(owned.len(), usize::try_from(wanted).unwrap(), "complete");
}

/// Asserts that no member can give a partition to one with at least two fewer.
fn check_balance(question: &Question, answer: &Answer) {
    for (from, topics) in answer {
        for topic in topics.keys() {
            for (to, member) in &question.members {
                if question.reads(member, topic) {
                    assert!(
                        load(&answer[from]) <= load(&answer[to]) + 1,
                        "{from} could give to {to}:\n{}",
                        show(answer)
                    );
                }
            }
        }
    }
}

#[test]
fn range_cuts_topics_alike_and_takes_static_members_first() {
    let mut asked = question(&[3, 3, 2], &[("a", &[0, 1]), ("b", &[0, 1]), ("c", &[2])]);
    let answer = Assignor::Range.assign(&asked);
    assert_eq!(show(&answer), "a: 0/0,1 1/0,1\nb: 0/2 1/2\nc: 2/0,1");
    let b = asked.members.get_mut(&text("b")).unwrap();
    b.instance_id = Some(text("one"));
    let answer = Assignor::Range.assign(&asked);
    assert_eq!(show(&answer), "a: 0/2 1/2\nb: 0/0,1 1/0,1\nc: 2/0,1");
}

#[test]
fn more_members_than_partitions_leaves_some_without() {
    let asked = question(&[1], &[("a", &[0]), ("b", &[0])]);
    assert_eq!(show(&Assignor::Range.assign(&asked)), "a: 0/0\nb:");
    assert_eq!(show(&Assignor::Uniform.assign(&asked)), "a: 0/0\nb:");
}

#[test]
fn uniform_gives_a_new_member_its_share_and_moves_nothing_else() {
    let mut asked = question(&[6, 3], &[("a", &[0, 1]), ("b", &[0, 1])]);
    let before = Assignor::Uniform.assign(&asked);
    remember(&mut asked, &before);
    let third = asked.lists[0].clone();
    join(&mut asked, "c", third);
    let after = Assignor::Uniform.assign(&asked);
    check_owners(&asked, &after);
    check_balance(&asked, &after);
    assert_eq!(lost(&before, &after), 3, "{}", show(&after));
}

#[test]
fn uniform_levels_across_different_subscriptions() {
    let mut asked = question(&[4, 1], &[("a", &[0]), ("b", &[0, 1]), ("c", &[1])]);
    let four = BTreeMap::from([(topic(0), (0..4).collect())]);
    asked.members.get_mut(&text("a")).unwrap().previous = four;
    let answer = Assignor::Uniform.assign(&asked);
    check_owners(&asked, &answer);
    check_balance(&asked, &answer);
    assert_eq!(load(&answer[&text("a")]), 2, "{}", show(&answer));
}

/// Up to six topics of up to 12 partitions, and members with any subscriptions and any previous
/// targets, including invalid ones.
fn any_question() -> impl Strategy<Value = Question> {
    let topics = proptest::collection::vec(0..12i32, 1..6);
    let member = (
        proptest::bits::u8::ANY,
        proptest::collection::vec((0..7u128, 0..14i32), 0..20),
        proptest::bool::weighted(0.3),
    );
    let members = proptest::collection::btree_map("[a-h]{1,2}", member, 0..9);
    (topics, members).prop_map(|(topics, members)| {
        let all: BTreeMap<Uuid, i32> = (0..).map(topic).zip(topics).collect();
        let mut lists = Vec::new();
        let mut seats = BTreeMap::new();
        for (id, (mask, previous, named)) in members {
            let chosen = all
                .keys()
                .enumerate()
                .filter(|(bit, _)| mask & (1 << bit) != 0);
            let mut had = Partitions::new();
            for (number, partition) in previous {
                had.entry(topic(number)).or_default().insert(partition);
            }
            let member = Subscriber {
                instance_id: named.then(|| text(&format!("i-{id}"))),
                lists: vec![lists.len()],
                previous: had,
            };
            lists.push(chosen.map(|(_, topic)| *topic).collect());
            seats.insert(text(&id), member);
        }
        Question {
            members: seats,
            lists,
            topics: all,
        }
    })
}

/// Visiting each topic of each member would take two hundred million lookups and block the caller
/// for a minute.
#[test]
fn members_that_read_all_by_one_expression_are_one_list() {
    let topics: BTreeMap<Uuid, i32> = (0..4_000).map(|number| (topic(number), 1)).collect();
    let member = Subscriber {
        lists: vec![0],
        ..Subscriber::default()
    };
    let members = (0..50_000).map(|number| (text(&number.to_string()), member.clone()));
    let asked = Question {
        members: members.collect(),
        lists: vec![topics.keys().copied().collect()],
        topics,
    };
    assert_eq!(asked.weight(), 58_000);
    for assignor in Assignor::ALL {
        let answer = assignor.assign(&asked);
        assert_eq!(answer.values().map(load).sum::<usize>(), 4_000);
    }
}

proptest! {
    #[test]
    fn every_assignor_is_complete_and_gives_each_partition_once(asked in any_question()) {
        for assignor in Assignor::ALL {
            let answer = assignor.assign(&asked);
            check_owners(&asked, &answer);
            prop_assert_eq!(assignor.assign(&asked), answer);
        }
    }

    /// Members that share lists, or have two of them, get the same partitions as with one list
    /// each.
    #[test]
    fn it_does_not_matter_who_shares_a_list(
        mut asked in any_question(), shared in proptest::bits::u8::ANY, halves in proptest::bits::u8::ANY,
    ) {
        let all: Vec<Uuid> = asked.topics.keys().copied().collect();
        let of = |mask: u8| all.iter().enumerate().filter(move |(bit, _)| mask & (1 << bit) != 0).map(|(_, topic)| *topic);
        let mut alone = asked.clone();
        let half = asked.lists.len();
        asked.lists.push(of(shared).collect());
        for (index, member) in asked.members.values_mut().enumerate() {
            if halves & (1 << (index % 8)) != 0 {
                member.lists.push(half);
                alone.lists[index].extend(of(shared));
            }
        }
        prop_assert_eq!(Assignor::Range.assign(&asked), Assignor::Range.assign(&alone));
        let answer = Assignor::Uniform.assign(&asked);
        check_owners(&asked, &answer);
        check_balance(&asked, &answer);
        remember(&mut asked, &answer);
        prop_assert_eq!(Assignor::Uniform.assign(&asked), answer);
    }

    #[test]
    fn uniform_is_balanced_and_stays_where_it_is(mut asked in any_question()) {
        let answer = Assignor::Uniform.assign(&asked);
        check_balance(&asked, &answer);
        remember(&mut asked, &answer);
        prop_assert_eq!(Assignor::Uniform.assign(&asked), answer);
    }

    /// When all members read the same topics, a change moves only the partitions that balance
    /// requires.
    #[test]
    fn uniform_moves_as_little_as_it_can(
        mut asked in any_question(), gone in any::<prop::sample::Index>(), joins in 0..3usize,
    ) {
        let every: BTreeSet<Uuid> = asked.topics.keys().copied().collect();
        for member in asked.members.values_mut() {
            member.previous.clear();
        }
        asked.lists.fill(every.clone());
        let mut before = Assignor::Uniform.assign(&asked);
        remember(&mut asked, &before);
        if !asked.members.is_empty() {
            let id = asked.members.keys().nth(gone.index(asked.members.len())).cloned().unwrap();
            asked.members.remove(&id);
            before.remove(&id);
        }
        for number in 0..joins {
            join(&mut asked, &format!("new-{number}"), every.clone());
        }
        let after = Assignor::Uniform.assign(&asked);
        check_owners(&asked, &after);
        // Members that stayed gave away only what exceeds their new share.
        let needed: usize = before
            .iter()
            .map(|(id, had)| load(had).saturating_sub(load(&after[id])))
            .sum();
        prop_assert_eq!(lost(&before, &after), needed);
        let loads: Vec<usize> = after.values().map(load).collect();
        prop_assert!(loads.iter().max().unwrap_or(&0) - loads.iter().min().unwrap_or(&0) <= 1);
    }
}

/// One member had all partitions, and a hundred others subscribe in different ways: each receiver
/// is looked up in thousands of lists, though the group is small.
fn tangled() -> Question {
    let mut asked = Question {
        topics: (0..500).map(|number| (topic(number), 8)).collect(),
        ..Question::default()
    };
    let every = asked.topics.keys().copied().collect();
    join(&mut asked, "a", every);
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u128::from(state >> 33)
    };
    for number in 0..100 {
        let read = (0..100).map(|_| topic(random() % 500)).collect();
        join(&mut asked, &format!("b{number:03}"), read);
    }
    let all = asked.topics.keys().map(|topic| (*topic, (0..8).collect()));
    asked.members.get_mut(&text("a")).unwrap().previous = all.collect();
    asked
}

#[test]
fn what_would_take_long_to_level_is_not_answered_at_once() {
    let asked = tangled();
    assert!(asked.weight() <= 20_000, "{}", asked.weight());
    assert!(Assignor::Uniform.assign_at_once(&asked).is_none());
    // Other assignors and questions are answered, with the same result as without a limit.
    assert!(Assignor::Range.assign_at_once(&asked).is_some());
    let mut usual = question(&[20; 100], &[]);
    let read: BTreeSet<Uuid> = usual.topics.keys().copied().collect();
    for number in 0..50 {
        join(&mut usual, &format!("m{number}"), read.clone());
    }
    let at_once = Assignor::Uniform.assign_at_once(&usual);
    assert_eq!(at_once, Some(Assignor::Uniform.assign(&usual)));
}
