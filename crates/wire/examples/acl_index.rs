//! What ACLs cost: a verdict, a verdict on any topic, and a change, under 10,000 and 100,000 of one
//! principal and of many.
//!
//! `cargo run -p forebay-wire --release --example acl_index`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    reason = "it measures and prints"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::acl::{
    AclBinding, AclIndex, Action, Change, Client, Operation, Policy, Principal, RawAcl,
    ResourceType,
};

fn acl(number: usize, principals: usize, permission: i8) -> Arc<AclBinding> {
    let raw = RawAcl {
        resource_type: ResourceType::Topic.code(),
        name: &format!("topic-{number}"),
        pattern_type: 3,
        principal: &format!("User:u{}", number.checked_rem(principals).unwrap_or(0)),
        host: "*",
        operation: Operation::Read.code(),
        permission,
    };
    let acl = raw.validate();
    Arc::new(acl.unwrap_or_else(|error| unreachable!("an ACL: {error:?}")))
}

/// Returns the shortest of some runs.
fn shortest(runs: usize, mut run: impl FnMut()) -> Duration {
    let each = (0..runs).map(|_| {
        let since = Instant::now();
        run();
        since.elapsed()
    });
    each.min().unwrap_or_default()
}

fn main() {
    let policy = Policy::default();
    let principal = Principal::user("u0");
    let client = Client::new(&principal, [127, 0, 0, 1].into());
    for (count, principals) in [
        (10_000, 1),
        (10_000, 10_000),
        (100_000, 1),
        (100_000, 100_000),
    ] {
        let all: Vec<_> = (0..count)
            .map(|number| acl(number, principals, 3))
            .collect();
        let since = Instant::now();
        let index = AclIndex::new(&all);
        let made = since.elapsed();
        let action = Action {
            operation: Operation::Read,
            resource_type: ResourceType::Topic,
            name: "topic-0",
        };
        let verdict = shortest(1000, || {
            black_box(index.decide(&policy, &client, black_box(&action)));
        });
        let any = shortest(20, || {
            let write = Operation::Write;
            black_box(index.decide_any(&policy, &client, write, ResourceType::Topic));
        });
        let change = [Change::Added(acl(count, principals, 3))];
        let changed = shortest(20, || drop(black_box(index.with(&change))));
        println!(
            "{count} ACLs of {principals} principals: made {made:?}, verdict {verdict:?}, \
             any topic {any:?}, one change {changed:?}"
        );
    }
}
