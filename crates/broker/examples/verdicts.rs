//! What a question about a right costs a request, under 10,000 ACLs: for a name whose verdict its
//! connection keeps, and for names that are too many to be kept.
//!
//! `cargo run --release -p forebay-broker --example verdicts`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "it measures and prints"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use broker::image::Image;
use broker::probe::AskedRights;
use wire::acl::{Operation, Principal, RawAcl, ResourceType};
use wire::types::Uuid;

const ACLS: usize = 10_000;

fn image(principals: usize) -> Image {
    let mut image = Image::empty();
    for number in 0..ACLS {
        let raw = RawAcl {
            resource_type: ResourceType::Topic.code(),
            name: &format!("topic-{number}"),
            pattern_type: 3,
            principal: &format!("User:u{}", number.checked_rem(principals).unwrap_or(0)),
            host: "*",
            operation: Operation::Read.code(),
            permission: 3,
        };
        let acl = raw.validate().expect("an ACL");
        let record = acl.to_record(Uuid::from_u128(number as u128));
        image.replay(record.into()).expect("it fits");
    }
    image
}

/// Returns what one question took in the shortest of some runs over these names.
fn each(names: &[String], rights: &AskedRights) -> Duration {
    let runs = (0..50).map(|_| {
        let since = Instant::now();
        for name in names {
            assert!(black_box(rights.may_read(black_box(name))), "{name}");
        }
        since.elapsed()
    });
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let shortest = runs.min().unwrap_or_default();
    shortest.checked_div(count).unwrap_or_default()
}

fn main() {
    let now = platform::clock::Instant::now();
    for principals in [1, ACLS] {
        let image = image(principals);
        let rights = AskedRights::new(&image, Principal::user("u0"), now);
        let one = vec!["topic-0".to_owned(); 10_000];
        let kept = each(&one, &rights);
        println!("{ACLS} ACLs of {principals} principals: a verdict that is kept {kept:?}");
    }
    let image = image(1);
    let rights = AskedRights::new(&image, Principal::user("u0"), now);
    let all: Vec<_> = (0..ACLS).map(|number| format!("topic-{number}")).collect();
    let decided = each(&all, &rights);
    println!("{ACLS} ACLs of 1 principal: one of {ACLS} names, most of them not kept, {decided:?}");
}
