//! What Kafka refuses, in its words, and records as it writes them.

use proptest::prelude::*;

use super::*;
use crate::records::{Field, Reader};

fn acl() -> RawAcl<'static> {
    RawAcl {
        resource_type: 2,
        name: "orders",
        pattern_type: 3,
        principal: "User:a",
        host: "*",
        operation: 3,
        permission: 3,
    }
}

fn filter() -> RawFilter<'static> {
    RawFilter {
        resource_type: 1,
        name: None,
        pattern_type: 1,
        principal: None,
        host: None,
        operation: 1,
        permission: 1,
    }
}

#[track_caller]
fn refused(acl: RawAcl<'_>, words: &str) {
    let error = acl.validate().unwrap_err();
    assert_eq!(error.to_string(), words);
    assert_eq!(error.error_code(), ErrorCode::InvalidRequest);
}

#[test]
fn an_acl_of_a_request_is_read() {
    let creation = AclCreation::default()
        .with_resource_type(5)
        .with_resource_name("tx-".into())
        .with_resource_pattern_type(4)
        .with_principal("User:a:b".into())
        .with_host("::1".into())
        .with_operation(4)
        .with_permission_type(2);
    let acl = RawAcl::from(&creation).validate().unwrap();
    assert_eq!(
        acl.to_string(),
        r#"DENY WRITE on PREFIXED TRANSACTIONAL_ID "tx-" to "User:a:b" from "::1""#
    );
    assert_eq!(acl.principal.name(), "a:b");
}

/// Checks the words for a code in each of the four fields.
#[track_caller]
fn refused_code(code: i8, name: &str) {
    let words = |field: &str| format!("Invalid {field} {name}");
    refused(
        RawAcl {
            resource_type: code,
            ..acl()
        },
        &words("resourceType"),
    );
    refused(
        RawAcl {
            pattern_type: code,
            ..acl()
        },
        &words("patternType"),
    );
    refused(
        RawAcl {
            operation: code,
            ..acl()
        },
        &words("operation"),
    );
    refused(
        RawAcl {
            permission: code,
            ..acl()
        },
        &words("permissionType"),
    );
}

#[test]
fn what_no_acl_may_have_is_refused_in_the_words_of_kafka() {
    for code in [0, 99, -1] {
        refused_code(code, "UNKNOWN");
    }
    for principal in ["alice", ""] {
        refused(
            RawAcl { principal, ..acl() },
            &format!(
                "Could not parse principal from `{principal}` (no colon is present separating the \
                 principal type from the principal name)"
            ),
        );
    }
    refused(RawAcl { name: "", ..acl() }, "Invalid empty resource name");
}

#[test]
fn what_only_filters_may_have_is_refused_and_costs_no_other_acl_of_the_request() {
    // Kafka answers UNKNOWN_SERVER_ERROR for all ACLs of such a request.
    refused_code(1, "ANY");
    let matching = RawAcl {
        pattern_type: 2,
        ..acl()
    };
    refused(matching, "Invalid patternType MATCH");
    assert!(acl().validate().is_ok());
}

#[test]
fn the_cluster_has_one_name() {
    let cluster = RawAcl {
        resource_type: 4,
        ..acl()
    };
    for name in ["orders", "*", ""] {
        refused(
            RawAcl { name, ..cluster },
            "The only valid name for the CLUSTER resource is kafka-cluster",
        );
    }
    let named = RawAcl {
        name: CLUSTER_NAME,
        ..cluster
    };
    assert!(named.validate().is_ok());
}

#[test]
fn what_another_release_stored_is_read_and_in_force() {
    let stored = acl();
    for (raw, shown) in [
        (
            RawAcl { name: "", ..stored },
            r#"ALLOW READ on LITERAL TOPIC "" to "User:a" from "*""#,
        ),
        (
            RawAcl {
                principal: "alice",
                ..stored
            },
            r#"ALLOW READ on LITERAL TOPIC "orders" to "alice" from "*""#,
        ),
        (
            RawAcl {
                operation: 99,
                ..stored
            },
            r#"ALLOW UNKNOWN(99) on LITERAL TOPIC "orders" to "User:a" from "*""#,
        ),
        (
            RawAcl {
                permission: 0,
                ..stored
            },
            r#"UNKNOWN(0) READ on LITERAL TOPIC "orders" to "User:a" from "*""#,
        ),
    ] {
        let read = raw.read().unwrap();
        assert_eq!(read.to_string(), shown);
        assert_eq!(read.is_understood(), raw.name.is_empty());
        assert!(raw.validate().is_err(), "{shown}");
    }
}

#[test]
fn an_acl_on_nobody_knows_what_has_no_place() {
    let long = "\"".repeat(300);
    let unplaced = |raw: RawAcl<'_>| raw.read().unwrap_err().to_string();
    let typed = RawAcl {
        resource_type: 8,
        ..acl()
    };
    assert_eq!(
        unplaced(typed),
        r#"an ACL on "orders" has the resourceType 8, which is not known here"#
    );
    let patterned = RawAcl {
        pattern_type: 2,
        name: &long,
        ..acl()
    };
    let shown = r#"\""#.repeat(200);
    assert_eq!(
        unplaced(patterned),
        format!("an ACL on \"{shown}\" has the patternType 2, which is not known here")
    );
}

#[test]
fn the_first_fault_in_kafkas_order_is_told() {
    let all_wrong = RawAcl {
        resource_type: 0,
        name: "",
        pattern_type: 2,
        principal: "a",
        host: "",
        operation: 0,
        permission: 0,
    };
    refused(all_wrong, "Invalid empty resource name");
    let named = RawAcl {
        name: "orders",
        ..all_wrong
    };
    refused(named, "Invalid resourceType UNKNOWN");
    let typed = RawAcl {
        resource_type: 2,
        ..named
    };
    refused(typed, "Invalid patternType MATCH");
    let literal = RawAcl {
        pattern_type: 3,
        ..typed
    };
    refused(literal, "Invalid operation UNKNOWN");
}

#[test]
fn hosts_are_not_judged() {
    for host in ["", "localhost", "10.0.0.0/8"] {
        assert!(RawAcl { host, ..acl() }.validate().is_ok(), "{host}");
    }
}

#[test]
fn a_filter_takes_any_and_an_unknown_code_means_no_acl() {
    assert_eq!(filter().for_deletion(), Ok(AclFilter::ANY));
    let request = DescribeAclsRequest::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(Some("orders".into()))
        .with_pattern_type_filter(2)
        .with_operation(3)
        .with_permission_type(1);
    let read = RawFilter::from(&request).for_description().unwrap();
    assert_eq!(read.pattern_type, PatternFilter::Match);
    assert_eq!(read.operation, Some(Operation::Read));
    assert_eq!(read.name.as_deref(), Some("orders"));
    let deletion = DeleteAclsFilter::default()
        .with_resource_type_filter(1)
        .with_pattern_type_filter(4)
        .with_operation(1)
        .with_permission_type(2);
    let read = RawFilter::from(&deletion).for_deletion().unwrap();
    assert_eq!(read.pattern_type, PatternFilter::Is(PatternType::Prefixed));
    assert_eq!(read.permission, Some(PermissionType::Deny));

    for code in [0, 99] {
        let pattern = [
            RawFilter {
                resource_type: code,
                ..filter()
            },
            RawFilter {
                pattern_type: code,
                ..filter()
            },
        ];
        assert_eq!(
            pattern.map(RawFilter::for_deletion),
            [Err(AclError::PatternFilter), Err(AclError::PatternFilter)]
        );
        // A description gets an empty list.
        assert_eq!(pattern.map(RawFilter::for_description), [None, None]);
        let entry = [
            RawFilter {
                operation: code,
                ..filter()
            },
            RawFilter {
                permission: code,
                ..filter()
            },
        ];
        assert_eq!(
            entry.map(RawFilter::for_deletion),
            [Err(AclError::EntryFilter), Err(AclError::EntryFilter)]
        );
        assert_eq!(entry.map(RawFilter::for_description), [None, None]);
    }
}

#[test]
fn an_acl_is_stored_in_the_bytes_that_kafka_writes() {
    // AccessControlEntryRecord 0: id, topic, "orders", literal, "User:a", "*", READ, ALLOW.
    let mut kafkas = vec![7; 16];
    kafkas.push(2);
    kafkas.extend(b"\x07orders\x03\x07User:a\x02*\x03\x03\x00");
    let form = AccessControlEntryRecord::form(0);
    let record = AccessControlEntryRecord::read(&mut Reader::new(&kafkas), form).unwrap();
    let read = RawAcl::from(&record).read().unwrap();
    assert_eq!(acl().validate().as_ref(), Ok(&read));
    let mut ours = Vec::new();
    read.to_record(Uuid::from_bytes([7; 16]))
        .write(&mut ours, form);
    assert_eq!(ours, kafkas);
}

proptest! {
    #[test]
    fn an_acl_that_was_read_is_stored_as_it_was(
        codes in [-1_i8..20, -1_i8..20, -1_i8..20, -1_i8..20],
        name in "\\PC{0,9}",
        principal in "\\PC{0,3}:?\\PC{0,9}",
        host in "\\PC{0,9}",
    ) {
        let [resource_type, pattern_type, operation, permission] = codes;
        let raw = RawAcl {
            resource_type, name: &name, pattern_type, principal: &principal, host: &host,
            operation, permission,
        };
        if let Ok(acl) = raw.read() {
            let record = acl.to_record(Uuid::nil());
            prop_assert_eq!(RawAcl::from(&record), raw);
        }
        if let Ok(acl) = raw.validate() {
            prop_assert_eq!(raw.read(), Ok(acl));
        }
    }
}
