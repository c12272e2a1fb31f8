//! Rights on topics, one by one and as lists.

use super::*;
use crate::access::given::limited_to;
use crate::rests::PIECE;
use crate::rests::tests::{now, rested};

/// A client that may read the topic `mine`.
fn reader() -> Access {
    limited_to(&[(ResourceType::Topic, "mine", Operation::Read)])
}

fn taken(access: &Access, names: &[&'static str]) -> (Vec<&'static str>, Vec<&'static str>) {
    let mut topics = names.to_vec();
    let denied = now(take_denied(access, Operation::Read, &mut topics, |name| {
        name
    }));
    (topics, denied)
}

#[test]
fn what_is_denied_is_taken_out_and_the_order_stays() {
    let names = ["b", "mine", "a", "mine"];
    let expected = (vec!["mine", "mine"], vec!["b", "a"]);
    assert_eq!(taken(&reader(), &names), expected);
    let all = (names.to_vec(), Vec::new());
    assert_eq!(taken(&Access::unlimited(), &names), all);
}

#[test]
fn many_topics_are_decided_on_with_rests() {
    let mut topics = vec!["mine"; 4 * PIECE];
    let (rests, denied) = rested(take_denied(
        &reader(),
        Operation::Read,
        &mut topics,
        |name| name,
    ));
    assert_eq!((rests, denied.len(), topics.len()), (4, 0, 4 * PIECE));
}
