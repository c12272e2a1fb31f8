//! Which ACLs of a small list each filter means.

use super::*;
use crate::acl::{Host, Principal, given};

/// Returns ACLs with the patterns that the tests name by their numbers.
fn acls() -> Vec<AclBinding> {
    use PatternType::{Literal, Prefixed};
    [
        (ResourceType::Topic, Literal, "orders"),
        (ResourceType::Topic, Literal, "*"),
        (ResourceType::Topic, Prefixed, "ord"),
        (ResourceType::Topic, Prefixed, "orders"),
        (ResourceType::Topic, Literal, "ord"),
        (ResourceType::Group, Literal, "orders"),
    ]
    .map(|(resource_type, pattern_type, name)| AclBinding {
        pattern: ResourcePattern {
            resource_type,
            name: name.into(),
            pattern_type,
        },
        principal: Principal::user("a"),
        host: Host::new("::1"),
        operation: Operation::All.into(),
        permission: PermissionType::Allow.into(),
    })
    .into()
}

#[track_caller]
fn check(filter: &AclFilter, meant: &[usize]) {
    let acls = acls().into_iter().enumerate();
    let found: Vec<usize> = acls
        .filter(|(_, acl)| filter.matches(acl))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(found, meant, "{filter:?}");
}

fn named(pattern_type: PatternFilter, name: &str) -> AclFilter {
    AclFilter {
        resource_type: Some(ResourceType::Topic),
        name: Some(name.to_owned()),
        pattern_type,
        ..AclFilter::ANY
    }
}

#[test]
fn a_name_is_that_of_the_acl_or_with_match_that_of_a_resource() {
    use PatternFilter::{Any, Is, Match};
    use PatternType::{Literal, Prefixed};
    check(&named(Match, "orders"), &[0, 1, 2, 3]);
    check(&named(Match, "orders-eu"), &[1, 2, 3]);
    check(&named(Match, "ord"), &[1, 2, 4]);
    check(&named(Match, "*"), &[1]);
    check(&named(Any, "orders"), &[0, 3]);
    check(&named(Any, "*"), &[1]);
    check(&named(Is(Literal), "orders"), &[0]);
    check(&named(Is(Literal), "ord"), &[4]);
    check(&named(Is(Prefixed), "orders"), &[3]);
    check(&named(Is(Prefixed), "orders-eu"), &[]);
    let every_group = AclFilter {
        resource_type: None,
        ..named(Any, "orders")
    };
    check(&every_group, &[0, 3, 5]);
}

#[test]
fn without_a_name_the_types_remain() {
    use PatternFilter::{Is, Match};
    check(&AclFilter::ANY, &[0, 1, 2, 3, 4, 5]);
    let without = |pattern_type| AclFilter {
        name: None,
        ..named(pattern_type, "")
    };
    check(&without(Match), &[0, 1, 2, 3, 4]);
    check(&without(Is(PatternType::Prefixed)), &[2, 3]);
}

#[test]
fn the_rest_is_compared_as_it_is_written() {
    let text = |text: &str| Some(text.to_owned());
    let filters = |meant: &[usize], filters: Vec<AclFilter>| {
        for filter in &filters {
            check(filter, meant);
        }
    };
    filters(
        &[0, 1, 2, 3, 4, 5],
        vec![
            AclFilter {
                principal: text("User:a"),
                ..AclFilter::ANY
            },
            AclFilter {
                host: text("::1"),
                ..AclFilter::ANY
            },
            AclFilter {
                operation: Some(Operation::All),
                ..AclFilter::ANY
            },
        ],
    );
    filters(
        &[],
        vec![
            AclFilter {
                principal: text("User:*"),
                ..AclFilter::ANY
            },
            // The same address in other letters is another text.
            AclFilter {
                host: text("0:0:0:0:0:0:0:1"),
                ..AclFilter::ANY
            },
            AclFilter {
                host: text("*"),
                ..AclFilter::ANY
            },
            AclFilter {
                operation: Some(Operation::Read),
                ..AclFilter::ANY
            },
            AclFilter {
                permission: Some(PermissionType::Deny),
                ..AclFilter::ANY
            },
        ],
    );
}

#[test]
fn what_is_not_known_is_meant_by_filters_for_any() {
    let all = given::acls(&[
        "9 READ LITERAL TOPIC orders User:a *",
        "ALLOW 99 LITERAL TOPIC orders alice *",
    ]);
    let meant = |filter: AclFilter| {
        all.iter()
            .map(|acl| filter.matches(acl))
            .collect::<Vec<_>>()
    };
    assert_eq!(meant(AclFilter::ANY), [true, true]);
    for (filter, expected) in [
        (
            AclFilter {
                permission: Some(PermissionType::Deny),
                ..AclFilter::ANY
            },
            [false, false],
        ),
        (
            AclFilter {
                operation: Some(Operation::Read),
                ..AclFilter::ANY
            },
            [true, false],
        ),
        (
            AclFilter {
                principal: Some("alice".to_owned()),
                ..AclFilter::ANY
            },
            [false, true],
        ),
    ] {
        assert_eq!(meant(filter), expected);
    }
}
