//! An administrator who makes and deletes ACLs and users of SCRAM. What was acknowledged is there
//! after every start, and what was taken back is gone.
//!
//! Of each thing there is one value at a time, as a number: how often the password of a user is
//! hashed, or 1 for an ACL; 0 for none. A request that was not acknowledged may have been carried
//! out or not, until the next one that is.

use std::collections::BTreeMap;

use bytes::Bytes;
use platform::sim::Rng;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{
    AlterUserScramCredentialsRequest, CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
};

use crate::book::Life;
use crate::harness::asks::text;

/// ACLs, and users, that come and go.
const EACH: u64 = 4;
/// Least iterations of SCRAM.
const ITERATIONS_MIN: i64 = 4096;

const SHA_256: i8 = 1;
const TOPIC: i8 = 2;
const LITERAL: i8 = 3;
const ANY: i8 = 1;
const READ: i8 = 3;
const ALLOW: i8 = 3;

fn acl(number: u64) -> String {
    format!("acl-{number}")
}

fn user(number: u64) -> String {
    format!("user-{number}")
}

/// Changes rights until its life ends.
pub(crate) async fn run(life: Life, mut rng: Rng) {
    loop {
        life.pause(&mut rng, 2_000).await;
        let number = rng.below(EACH);
        let is_there = rng.chance(60);
        if rng.chance(50) {
            let value = i64::from(is_there);
            may_become(&life, &acl(number), value);
            if change_acl(&life, &acl(number), is_there).await {
                became(&life, &acl(number), value);
            }
        } else {
            let iterations = ITERATIONS_MIN + i64::try_from(rng.below(1000)).unwrap();
            let value = if is_there { iterations } else { 0 };
            may_become(&life, &user(number), value);
            if change_user(&life, &user(number), value).await {
                became(&life, &user(number), value);
            }
        }
    }
}

/// A request is on its way: from now on the value may be this one, too.
fn may_become(life: &Life, name: &str, value: i64) {
    let mut book = life.book.borrow_mut();
    let values = book
        .rights
        .entry(name.to_owned())
        .or_insert_with(|| [0].into());
    values.insert(value);
}

/// The request was acknowledged: the value is this one.
fn became(life: &Life, name: &str, value: i64) {
    let mut book = life.book.borrow_mut();
    book.rights.insert(name.to_owned(), [value].into());
    if value == 0 {
        book.counts.revoked += 1;
    } else {
        book.counts.granted += 1;
    }
    book.note(&[7, i64::try_from(name.len()).unwrap(), value]);
}

async fn change_acl(life: &Life, name: &str, is_there: bool) -> bool {
    if is_there {
        let creation = AclCreation::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(name))
            .with_resource_pattern_type(LITERAL)
            .with_principal(text("User:ada"))
            .with_host(text("*"))
            .with_operation(READ)
            .with_permission_type(ALLOW);
        let request = CreateAclsRequest::default().with_creations(vec![creation]);
        let told = life.cluster.ask(3, &request).await;
        return told.results[0].error_code == 0;
    }
    let filter = DeleteAclsFilter::default()
        .with_resource_type_filter(TOPIC)
        .with_resource_name_filter(Some(text(name)))
        .with_pattern_type_filter(LITERAL)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY);
    let request = DeleteAclsRequest::default().with_filters(vec![filter]);
    let told = life.cluster.ask(3, &request).await;
    let result = &told.filter_results[0];
    result.error_code == 0 && result.matching_acls.iter().all(|acl| acl.error_code == 0)
}

async fn change_user(life: &Life, name: &str, iterations: i64) -> bool {
    let request = if iterations == 0 {
        let deletion = ScramCredentialDeletion::default()
            .with_name(text(name))
            .with_mechanism(SHA_256);
        AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion])
    } else {
        let upsertion = ScramCredentialUpsertion::default()
            .with_name(text(name))
            .with_mechanism(SHA_256)
            .with_iterations(i32::try_from(iterations).unwrap())
            .with_salt(Bytes::from_static(b"salt"))
            .with_salted_password(Bytes::from_static(&[7; 32]));
        AlterUserScramCredentialsRequest::default().with_upsertions(vec![upsertion])
    };
    // A user who is not there cannot be deleted: that is refused.
    let told = life.cluster.ask(0, &request).await;
    told.results[0].error_code == 0
}

/// After a start: each value is one that it may have. From then on it is known, for no request of
/// an earlier life is still on its way.
pub(crate) async fn inspect(life: &Life) {
    let found = found(life).await;
    let mut book = life.book.borrow_mut();
    let names = (0..EACH).flat_map(|number| [acl(number), user(number)]);
    for name in names {
        let value = found.get(&name).copied().unwrap_or(0);
        let told = book
            .rights
            .get(&name)
            .cloned()
            .unwrap_or_else(|| [0].into());
        book.check(told.contains(&value), || {
            format!("the administrator was told that {name} is one of {told:?}, and it is {value}")
        });
        book.note(&[8, value]);
        book.rights.insert(name, [value].into());
    }
}

async fn found(life: &Life) -> BTreeMap<String, i64> {
    let all = DescribeAclsRequest::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(ANY)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY);
    let acls = life.cluster.ask(3, &all).await;
    assert_eq!(acls.error_code, 0);
    let acls = acls.resources.iter();
    let acls = acls.map(|it| {
        (
            it.resource_name.to_string(),
            i64::try_from(it.acls.len()).unwrap(),
        )
    });
    let mut found: BTreeMap<_, _> = acls.collect();
    let users = DescribeUserScramCredentialsRequest::default().with_users(None);
    let users = life.cluster.ask(0, &users).await;
    assert_eq!(users.error_code, 0);
    for user in &users.results {
        let iterations = user.credential_infos[0].iterations;
        found.insert(user.user.to_string(), iterations.into());
    }
    found
}
