//! ACLs as an administrator makes, sees and deletes them. What they permit to others is in the
//! tests of each request.

use std::sync::Arc;

use broker::authorizer::{Authorizer, AuthorizerMode};
use platform::sim::SimDisk;
use platform::task::spawn;
use wire::acl::{Operation, Policy, super_users};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{
    CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest, DescribeAclsResponse,
};
use wire::types::ErrorCode;

use crate::harness::asks::text;
use crate::harness::journal::lines_of;
use crate::harness::users::{CLUSTER, User};
use crate::harness::{Cluster, Setup, life};

const TOPIC: i8 = 2;
const USER: i8 = 7;
const LITERAL: i8 = 3;
const ANY: i8 = 1;

fn setup_of(users: &str, is_open_without_acl: bool) -> Setup {
    let mut setup = Setup::shards(2);
    let authorizer = Authorizer {
        policy: Policy {
            super_users: super_users(users).unwrap(),
            is_open_without_acl,
        },
        mode: AuthorizerMode::Enforce,
    };
    setup.options.authorizer = Some(Arc::new(authorizer));
    setup
}

/// A broker whose clients are all administrators.
fn setup() -> Setup {
    setup_of("User:ANONYMOUS", false)
}

fn creation(resource_type: i8, name: &str) -> AclCreation {
    AclCreation::default()
        .with_resource_type(resource_type)
        .with_resource_name(text(name))
        .with_resource_pattern_type(LITERAL)
        .with_principal(text("User:ada"))
        .with_host(text("*"))
        .with_operation(8)
        .with_permission_type(3)
}

fn all() -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(ANY)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

fn named(name: &str) -> DeleteAclsFilter {
    DeleteAclsFilter::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(Some(text(name)))
        .with_pattern_type_filter(LITERAL)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

fn resources(told: &DescribeAclsResponse) -> Vec<(i8, &str)> {
    assert_eq!(told.error_code, 0);
    let resources = told.resources.iter();
    let each = resources.map(|it| (it.resource_type, it.resource_name.as_str()));
    each.collect()
}

async fn created(cluster: &Cluster, version: i16, creations: Vec<AclCreation>) -> Vec<i16> {
    let request = CreateAclsRequest::default().with_creations(creations);
    let told = cluster.ask_at(1, version, &request).await;
    told.results
        .iter()
        .map(|result| result.error_code)
        .collect()
}

#[test]
fn acls_are_made_seen_on_every_shard_and_deleted_in_every_version() {
    let disk = SimDisk::new(1);
    life(&disk, &setup(), async |cluster| {
        for version in 1..=3 {
            let invalid = ErrorCode::InvalidRequest.code();
            let some = vec![
                creation(TOPIC, "orders"),
                creation(USER, "User:bob"),
                creation(TOPIC, ""),
            ];
            assert_eq!(created(cluster, version, some).await, [0, 0, invalid]);
            for shard in 0..2 {
                let told = cluster.ask_at(shard, version, &all()).await;
                assert_eq!(resources(&told), [(TOPIC, "orders"), (USER, "User:bob")]);
                assert_eq!(told.resources[0].acls[0].principal.as_str(), "User:ada");
            }
            let filters = vec![named("orders"), named("nothing"), named("User:bob")];
            let request = DeleteAclsRequest::default().with_filters(filters);
            let told = cluster.ask_at(0, version, &request).await;
            let counts: Vec<_> = told
                .filter_results
                .iter()
                .map(|result| (result.error_code, result.matching_acls.len()))
                .collect();
            assert_eq!(counts, [(0, 1), (0, 0), (0, 1)]);
            let told = cluster.ask_at(1, version, &all()).await;
            assert!(told.resources.is_empty());
        }
        assert_eq!(
            created(cluster, 3, vec![creation(TOPIC, "kept")]).await,
            [0]
        );
    });
    life(&disk.kill(1), &setup().next(), async |cluster| {
        let told = cluster.ask_at(0, 3, &all()).await;
        assert_eq!(resources(&told), [(TOPIC, "kept")]);
    });
}

#[test]
fn who_has_lost_the_right_to_change_acls_gets_it_back_by_no_request_that_waited() {
    let setup = Setup::shards(1).with_users();
    life(&SimDisk::new(1), &setup, async |cluster| {
        for name in ["ada", "bob"] {
            cluster.allow(name, Operation::Alter, CLUSTER).await;
        }
        let ada = User::login(cluster, "ada").await;
        let bob = User::login(cluster, "bob").await;
        let of_ada = DeleteAclsFilter::default()
            .with_resource_type_filter(ANY)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(ANY)
            .with_principal_filter(Some(text("User:ada")))
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let taking = DeleteAclsRequest::default().with_filters(vec![of_ada]);
        let giving = CreateAclsRequest::default().with_creations(vec![creation(TOPIC, "t")]);
        let taken = spawn(bob.asking(3, &taking));
        // It comes before she has lost it, and has its turn after that.
        let given = spawn(ada.asking(3, &giving));
        let taken = taken.await.unwrap().filter_results;
        assert_eq!((taken[0].error_code, taken[0].matching_acls.len()), (0, 1));
        let given = given.await.unwrap().results[0].error_code;
        assert_eq!(given, ErrorCode::ClusterAuthorizationFailed.code());
        let left = cluster.ask(3, &all()).await.resources;
        assert_eq!((left.len(), left[0].acls.len()), (1, 1), "that of bob");
    });
}

#[test]
fn a_start_warns_where_nobody_or_everybody_may_change_acls() {
    let warned = |setup: &Setup| {
        let lines = lines_of(|| life(&SimDisk::new(1), setup, async |_| ()));
        let about = lines.iter().filter(|line| line.contains("may change ACLs"));
        about.cloned().collect::<Vec<_>>()
    };
    let [nobody] = &warned(&setup_of("", false))[..] else {
        panic!("one line");
    };
    assert!(nobody.contains("nobody may change ACLs"), "{nobody}");
    let [everybody] = &warned(&setup_of("", true))[..] else {
        panic!("one line");
    };
    assert!(
        everybody.contains("every client may change ACLs"),
        "{everybody}"
    );
    assert!(warned(&setup()).is_empty());
}
