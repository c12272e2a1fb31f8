//! ACLs in the metadata log: what was answered survives crashes and snapshots, what is not known
//! stays as it was, and an authorizer does not start with what it could not enforce.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use broker::authorizer::{Authorizer, AuthorizerMode};
use broker::controller::Controller;
use broker::image::Image;
use platform::Platform;
use platform::sim::{Effect, Fault, SimPlatform};
use wire::StrBytes;
use wire::acl::{AclIndex, Action, Client, Operation, Policy, Principal, ResourceType};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{CreateAclsRequest, DeleteAclsRequest};
use wire::records::metadata::AccessControlEntryRecord;
use wire::types::{ErrorCode, Uuid};

use crate::odd::add;
use crate::{NOT_SAVED, begin, begin_as, caller, options, run};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

async fn with_authorizer(
    platform: &SimPlatform,
    snapshot_bytes: u64,
) -> Result<Rc<Controller<SimPlatform>>, String> {
    let authorizer = Authorizer {
        policy: Policy::default(),
        mode: AuthorizerMode::Enforce,
    };
    let mut options = options();
    options.authorizer = Some(Arc::new(authorizer));
    begin_as(platform, snapshot_bytes, NOT_SAVED, options).await
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Permits everybody to read a topic; returns true if that was acknowledged.
async fn permit(controller: &Controller<SimPlatform>, name: &str) -> bool {
    let creation = AclCreation::default()
        .with_resource_type(2)
        .with_resource_name(text(name))
        .with_resource_pattern_type(3)
        .with_principal(text("User:*"))
        .with_host(text("*"))
        .with_operation(3)
        .with_permission_type(3);
    let request = CreateAclsRequest::default().with_creations(vec![creation]);
    controller.create_acls(&request, &caller()).await.results[0].error_code == 0
}

/// Deletes all ACLs on a topic; returns true if that was acknowledged.
async fn forbid(controller: &Controller<SimPlatform>, name: &str) -> bool {
    let filter = DeleteAclsFilter::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(Some(text(name)))
        .with_pattern_type_filter(3)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1);
    let request = DeleteAclsRequest::default().with_filters(vec![filter]);
    let [result] = &controller
        .delete_acls(&request, &caller())
        .await
        .filter_results[..]
    else {
        panic!("one filter, one result");
    };
    assert!(result.error_code == 0 || result.matching_acls.is_empty());
    result.error_code == 0
}

fn may_read(index: &AclIndex, name: &str) -> bool {
    let principal = Principal::user("ada");
    let client = Client::new(&principal, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let action = Action {
        operation: Operation::Read,
        resource_type: ResourceType::Topic,
        name,
    };
    let decision = index.decide(&Policy::default(), &client, &action);
    decision.is_allowed()
}

/// Checks that the image has the ACLs of these topics, and decides by them.
#[track_caller]
fn check(image: &Image, permitted: &BTreeMap<&str, bool>, what: &str) {
    let list: Vec<_> = image
        .acls()
        .iter()
        .map(|(_, acl)| Arc::clone(acl))
        .collect();
    let anew = AclIndex::new(&list);
    assert_eq!(image.acls().index().count(), list.len(), "{what}");
    for name in NAMES {
        let may = may_read(image.acls().index(), name);
        assert_eq!(may, may_read(&anew, name), "{what}: {name}");
        if let Some(permitted) = permitted.get(name) {
            assert_eq!(may, *permitted, "{what}: {name}");
        }
    }
}

#[test]
fn what_was_answered_of_acls_survives_a_crash_at_any_operation() {
    for at in 0..150 {
        run(async |platform| {
            // By name, whether the last acknowledged change permits; none where the last change
            // was not acknowledged.
            let mut sure = BTreeMap::new();
            platform.disk().inject(Fault::at(at, Effect::PowerOff));
            if let Ok(controller) = with_authorizer(&platform, 1000).await {
                for round in 0..3 {
                    for (place, name) in NAMES.into_iter().enumerate() {
                        let permits = (place + round) % 3 != 0;
                        let told = if permits {
                            permit(&controller, name).await
                        } else {
                            forbid(&controller, name).await
                        };
                        if told {
                            sure.insert(name, permits);
                            check(&controller.image(), &sure, "as it is told");
                        } else {
                            sure.remove(name);
                        }
                    }
                }
            }
            let disk = platform.disk().crash(at);
            let again = SimPlatform::on(disk, platform.clock().clone(), 9);
            let controller = with_authorizer(&again, 1000).await.unwrap();
            let what = format!("crash at {at}");
            check(&controller.image(), &sure, &what);
            controller.stop().await.unwrap();
            let controller = with_authorizer(&again, 1000).await.unwrap();
            check(&controller.image(), &sure, &what);
        });
    }
}

#[test]
fn an_acl_that_protects_nobody_knows_what_refuses_an_authorizer_and_is_kept() {
    run(async |platform| {
        let controller = with_authorizer(&platform, 1 << 20).await.unwrap();
        assert!(permit(&controller, "a").await);
        controller.stop().await.unwrap();
        let odd = AccessControlEntryRecord {
            id: Uuid::from_u128(99),
            resource_type: 99,
            resource_name: "cellar".into(),
            pattern_type: 3,
            principal: "User:a".into(),
            host: "*".into(),
            operation: 77,
            permission_type: 2,
        };
        add(&platform, &[odd.clone().into()]);
        let refused = with_authorizer(&platform, 1 << 20).await;
        let error = refused.map(|_| ()).unwrap_err();
        let words = r#"an ACL on "cellar" has the resourceType 99, which is not known here"#;
        assert!(error.contains(words), "{error}");
        // Without authorizer it is kept, also in a snapshot.
        for _ in 0..2 {
            let controller = begin(&platform, 100).await.unwrap();
            let image = controller.image();
            assert_eq!((image.acls().len(), image.acls().unplaced_count()), (1, 1));
            assert!(image.records().contains(&odd.clone().into()));
            controller.stop().await.unwrap();
        }
        let refused = with_authorizer(&platform, 1 << 20).await;
        assert!(refused.is_err());
    });
}

#[test]
fn without_an_authorizer_nothing_is_stored() {
    run(async |platform| {
        let controller = begin(&platform, 1 << 20).await.unwrap();
        let before = controller.image().last_applied_offset();
        assert!(!permit(&controller, "a").await && !forbid(&controller, "a").await);
        let request = CreateAclsRequest::default().with_creations(vec![AclCreation::default()]);
        let code = controller.create_acls(&request, &caller()).await.results[0].error_code;
        assert_eq!(code, ErrorCode::SecurityDisabled.code());
        assert_eq!(controller.image().last_applied_offset(), before);
    });
}
