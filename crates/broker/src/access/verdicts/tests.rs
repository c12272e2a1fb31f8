//! What is kept equals what the plain function decides, whatever changes in between.

use std::cell::Cell;

use platform::clock::Instant;
use proptest::prelude::*;
use proptest::sample::select;
use wire::acl::{AclBinding, Client, Policy, Principal, RawAcl, decide, decide_any};
use wire::records::metadata::RemoveAccessControlEntryRecord;
use wire::types::Uuid;

use super::*;
use crate::access::{Access, AccessNotes, Denials};
use crate::authorizer::{Authorizer, AuthorizerMode};
use crate::image::Image;
use crate::rests::PIECE;
use crate::rests::tests::{now, rested};

const HOST: [u8; 4] = [127, 0, 0, 1];

fn policy() -> Policy {
    Policy::default()
}

/// The client of a connection under the ACLs of an image.
fn access(image: &Image, verdicts: &Arc<Verdicts>) -> Access {
    let authorizer = Authorizer {
        policy: policy(),
        mode: AuthorizerMode::Enforce,
    };
    let notes = AccessNotes {
        denials: &Denials::default(),
        verdicts: || Arc::clone(verdicts),
        audited: || None,
    };
    let who = (Principal::user("ada"), HOST.into());
    let acls = Arc::clone(image.acls());
    Access::new(&Arc::new(authorizer), acls, who, notes, Instant::now())
}

fn binding() -> impl Strategy<Value = AclBinding> {
    let names = select(vec!["a", "ab", "abc", "b", "*"]);
    let principals = select(vec!["User:ada", "User:*", "User:bob"]);
    let hosts = select(vec!["*", "127.0.0.1", "10.0.0.1"]);
    let codes = (select(vec![2_i8, 3]), 3_i8..5, 2_i8..5, 2_i8..4);
    (names, principals, hosts, codes).prop_map(
        |(name, principal, host, (resource_type, pattern_type, operation, permission))| {
            let raw = RawAcl {
                resource_type,
                name,
                pattern_type,
                principal,
                host,
                operation,
                permission,
            };
            raw.validate().expect("an ACL")
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Add(AclBinding),
    Remove(usize),
    Ask(&'static str, Operation, ResourceType),
    AskAny(Operation, ResourceType),
}

fn step() -> impl Strategy<Value = Step> {
    let names = select(vec!["a", "ab", "abc", "abcd", "b", "c", "hardcode"]);
    let operations = || select(vec![Operation::Read, Operation::Write, Operation::Describe]);
    let types = || select(vec![ResourceType::Topic, ResourceType::Group]);
    prop_oneof![
        2 => binding().prop_map(Step::Add),
        1 => (0_usize..20).prop_map(Step::Remove),
        6 => (names, operations(), types()).prop_map(|(name, one, of)| Step::Ask(name, one, of)),
        2 => (operations(), types()).prop_map(|(one, of)| Step::AskAny(one, of)),
    ]
}

fn id(number: usize) -> Uuid {
    Uuid::from_u128(1 + u128::try_from(number).expect("a number"))
}

proptest! {
    #[test]
    fn a_verdict_that_is_kept_is_that_of_the_plain_function(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let (mut image, mut acls) = (Image::empty(), Vec::<Option<AclBinding>>::new());
        let verdicts = Arc::default();
        let principal = Principal::user("ada");
        let client = Client::new(&principal, HOST.into());
        for step in steps {
            match step {
                Step::Add(acl) => {
                    image.replay(acl.to_record(id(acls.len())).into()).expect("it fits");
                    acls.push(Some(acl));
                }
                Step::Remove(number) => {
                    if acls.get_mut(number).is_some_and(|acl| acl.take().is_some()) {
                        let record = RemoveAccessControlEntryRecord { id: id(number) };
                        image.replay(record.into()).expect("it is there");
                    }
                }
                Step::Ask(name, operation, resource_type) => {
                    let action = Action { operation, resource_type, name };
                    let expected = decide(&policy(), acls.iter().flatten(), &client, &action);
                    let access = access(&image, &verdicts);
                    for _ in 0..2 {
                        let found = access.may(operation, resource_type, name);
                        prop_assert_eq!(found, expected.is_allowed(), "{:?}", action);
                    }
                }
                Step::AskAny(operation, resource_type) => {
                    let all: Vec<AclBinding> = acls.iter().flatten().cloned().collect();
                    let expected =
                        decide_any(&policy(), &all, &client, operation, resource_type);
                    let access = access(&image, &verdicts);
                    for _ in 0..2 {
                        let found = now(access.may_any(operation, resource_type));
                        prop_assert_eq!(found, expected.is_allowed());
                    }
                }
            }
        }
    }
}

/// An image with ACLs on this many topics, all of the client's own.
fn image_of(count: usize) -> Image {
    let mut image = Image::empty();
    for number in 0..count {
        let raw = RawAcl {
            resource_type: ResourceType::Topic.code(),
            name: &format!("topic-{number}"),
            pattern_type: 3,
            principal: "User:ada",
            host: "*",
            operation: Operation::Read.code(),
            permission: 3,
        };
        let acl = raw.validate().expect("an ACL");
        image
            .replay(acl.to_record(id(number)).into())
            .expect("it fits");
    }
    image.settle();
    image
}

#[test]
fn what_is_kept_is_bounded_and_begins_again_for_a_client_that_asks_for_other_names() {
    let image = image_of(10_000);
    let verdicts: Arc<Verdicts> = Arc::default();
    let access = access(&image, &verdicts);
    let ask = |number: usize| {
        assert!(access.may(
            Operation::Read,
            ResourceType::Topic,
            &format!("topic-{number}")
        ));
    };
    let knows = |number: usize| {
        let known = verdicts.0.lock().unwrap();
        assert!(known.permitted.len() <= NAMES_MAX && known.bytes <= BYTES_MAX);
        let bit = bit(Operation::Read, ResourceType::Topic);
        known.knows(image.acls(), (&format!("topic-{number}"), bit))
    };
    (0..1000).for_each(ask);
    assert!(knows(0) && knows(255) && !knows(999));
    (5000..10_000).for_each(ask);
    assert!(!knows(0) && (5000..10_000).any(knows));
}

#[test]
fn what_is_kept_is_not_decided_again_until_an_acl_changes() {
    let (image, other) = (image_of(1), image_of(2));
    let verdicts = Verdicts::default();
    let action = Action {
        operation: Operation::Read,
        resource_type: ResourceType::Topic,
        name: "topic-0",
    };
    let decided = Cell::new(0);
    let ask = |image: &Image, verdict: bool| {
        let decide = || {
            decided.set(decided.get() + 1);
            verdict
        };
        assert_eq!(verdicts.permits(image.acls(), &action, decide), verdict);
        decided.get()
    };
    // A denial is decided again each time.
    assert_eq!((ask(&image, false), ask(&image, false)), (1, 2));
    assert_eq!((ask(&image, true), ask(&image, true)), (3, 3));
    assert_eq!((ask(&other, true), ask(&other, true)), (4, 4));
    assert_eq!(ask(&image, true), 5);
}

#[test]
fn whole_types_are_decided_once_for_all_connections_until_an_acl_changes() {
    let mut image = image_of(100);
    let ask = |image: &Image| {
        let access = access(image, &Arc::default());
        assert!(now(access.may_any(Operation::Read, ResourceType::Topic)));
        assert!(!now(access.may_any(Operation::Write, ResourceType::Topic)));
    };
    ask(&image);
    ask(&image);
    assert_eq!(image.acls().kept_verdicts(), 2);
    let record = RemoveAccessControlEntryRecord { id: id(0) };
    image.replay(record.into()).expect("it is there");
    assert_eq!(image.acls().kept_verdicts(), 0);
    ask(&image);
}

#[test]
fn a_question_about_very_many_names_rests_once_and_then_is_known() {
    let count = 20_000;
    let image = image_of(count);
    let access = access(&image, &Arc::default());
    let ask = || rested(access.may_any(Operation::Write, ResourceType::Topic));
    let (rests, may) = ask();
    assert!(!may && rests >= count / PIECE - 1, "{rests}");
    assert_eq!(ask(), (0, false));
}

/// It also prints what a question costs: `FOREBAY_TIMES=1000000 cargo test --release -p
/// forebay-broker thousands_of_questions -- --nocapture`, on a quiet machine.
#[test]
fn thousands_of_questions_about_one_name_have_one_answer_whether_it_is_kept_or_not() {
    let times = std::env::var("FOREBAY_TIMES").ok();
    let times: u32 = times.and_then(|times| times.parse().ok()).unwrap_or(1000);
    let (image, verdicts) = (image_of(10_000), Arc::default());
    let access = access(&image, &verdicts);
    let each = |what: &str, name: &str| {
        let since = Instant::now();
        for _ in 0..times {
            let may = access.may(
                Operation::Read,
                ResourceType::Topic,
                std::hint::black_box(name),
            );
            assert!(may);
        }
        let ns = since.elapsed().as_nanos() / u128::from(times);
        println!("10,000 ACLs, {what}: {ns} ns");
    };
    each("a verdict that is kept", "topic-77");
    // No more names fit.
    for number in 0..300 {
        assert!(access.may(
            Operation::Read,
            ResourceType::Topic,
            &format!("topic-{number}")
        ));
    }
    each("a verdict that is not", "topic-9999");
}
