//! Every API in every version, as the table of requests has it: refused to a client without any
//! right, in that version's encoding and on a connection that stays; granted to one with the rights
//! of its row, and with no other.

use broker::dispatch::{Right, RightScope, rights};
use platform::sim::SimDisk;
use wire::acl::{CLUSTER_NAME, Operation, ResourceType};
use wire::kafka::Api;

use crate::every_api::codes;
use crate::harness::users::User;
use crate::harness::{Cluster, Setup, life};
use crate::questions::{TOPIC, granted};

/// The codes of what a client may not do: topic, group, cluster, transactional id.
const DENIED: [&str; 4] = ["29", "30", "31", "53"];

/// Answers that may have no code, and have nothing in them instead: what is left out silently, and
/// old versions without a place for a code.
const NOTHING: [(Api, &str); 4] = [
    (Api::ListGroups, "groups: []"),
    (Api::ListTransactions, "transaction_states: []"),
    (Api::DescribeLogDirs, "results: []"),
    (Api::ElectLeaders, "replica_election_results: []"),
];

/// Requests that need each right of their row. In others, one of the rights may be enough, or is
/// that of another version or another kind of resource.
const ALL_NEEDED: &[Api] = &[
    Api::OffsetCommit,
    Api::OffsetFetch,
    Api::JoinGroup,
    Api::Heartbeat,
    Api::LeaveGroup,
    Api::SyncGroup,
    Api::DescribeGroups,
    Api::DeleteGroups,
    Api::OffsetDelete,
    Api::ConsumerGroupHeartbeat,
    Api::AddOffsetsToTxn,
    Api::EndTxn,
    Api::TxnOffsetCommit,
    Api::DescribeAcls,
    Api::CreateAcls,
    Api::DeleteAcls,
    Api::AlterReplicaLogDirs,
    Api::DescribeLogDirs,
    Api::ElectLeaders,
    Api::AlterPartitionReassignments,
    Api::ListPartitionReassignments,
    Api::DescribeClientQuotas,
    Api::AlterClientQuotas,
    Api::DescribeUserScramCredentials,
    Api::AlterUserScramCredentials,
    Api::DescribeQuorum,
    Api::UpdateFeatures,
    Api::UnregisterBroker,
    Api::ListConfigResources,
    Api::AddRaftVoter,
    Api::RemoveRaftVoter,
];

/// As the tests of every API without an authorizer; what the harness asks is asked by a super user.
fn with_topics(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    let setup = Setup::shards(shards).with_users();
    life(&SimDisk::new(1), &setup, async |cluster| {
        cluster.create(TOPIC, 2).await;
        for version in 0..10 {
            cluster.create(&format!("doomed-{version}"), 1).await;
        }
        cluster.produce(TOPIC, 0, &["kept"]).await;
        cluster.commit("g", TOPIC, 0, 1).await;
        story(cluster).await;
    });
}

/// What is there: topics with their partitions and records, positions, settings.
async fn state(cluster: &Cluster) -> String {
    let image = cluster.brokers[0].image();
    let topics = image.topics();
    let topics: Vec<_> = topics
        .map(|topic| (topic.name.to_string(), topic.partitions.len()))
        .collect();
    let position = cluster.committed("g", TOPIC, 0).await;
    let values = cluster.values(TOPIC, 0).await;
    let setting = image.settings_bytes();
    let (quotas, scram) = (image.quotas().len(), image.scram().len());
    format!("{topics:?} {position} {values:?} {setting} {quotas} {scram}")
}

fn has_nothing(api: Api, shown: &str) -> bool {
    let mut answers = NOTHING.iter();
    answers.any(|(of, nothing)| *of == api && shown.contains(nothing))
}

/// Returns what an answer tells.
async fn asked(cluster: &Cluster, user: &User<'_>, api: Api, version: i16) -> String {
    let question = granted(api, version, cluster);
    let reply = user.reply(&question.frame).await;
    (question.show)(version, reply)
}

#[test]
fn a_client_without_any_right_gets_nothing_and_changes_nothing() {
    for shards in [1, 2] {
        with_topics(shards, async |cluster| {
            let before = state(cluster).await;
            let ada = User::login(cluster, "ada").await;
            for &api in Api::ALL {
                for version in api.versions() {
                    // A login again would be judged, and is not asked for here.
                    if rights(api).is_empty() {
                        continue;
                    }
                    let shown = asked(cluster, &ada, api, version).await;
                    let named = format!("{} {version}: {shown}", api.name());
                    let codes = codes(&shown);
                    assert!(codes.iter().all(|code| DENIED.contains(code)), "{named}");
                    assert!(!codes.is_empty() || has_nothing(api, &shown), "{named}");
                }
            }
            assert_eq!(state(cluster).await, before);
        });
    }
}

/// Gives bob these rights, on every resource of their types.
async fn give(cluster: &Cluster, rights: &[Right]) {
    for right in rights {
        let resource = of_every_name(right.resource_type);
        cluster.allow("bob", right.operation, resource).await;
    }
}

async fn take(cluster: &Cluster, rights: &[Right]) {
    let mut types: Vec<_> = rights.iter().map(|right| right.resource_type).collect();
    types.sort();
    types.dedup();
    for resource_type in types {
        let resource = of_every_name(resource_type);
        cluster.remove_acls("bob", resource).await;
    }
}

fn of_every_name(resource_type: ResourceType) -> (ResourceType, &'static str) {
    match resource_type {
        ResourceType::Cluster => (resource_type, CLUSTER_NAME),
        other => (other, "*"),
    }
}

#[test]
fn the_rights_of_a_row_are_enough_and_where_each_is_needed_no_fewer_are() {
    with_topics(1, async |cluster| {
        let bob = User::login(cluster, "bob").await;
        for &api in Api::ALL {
            let rights = rights(api);
            for version in [*api.versions().start(), *api.versions().end()] {
                let denied = async || {
                    let shown = asked(cluster, &bob, api, version).await;
                    let mut codes = codes(&shown).into_iter();
                    let is_denied = codes.any(|code| DENIED.contains(&code));
                    let is_needed = ALL_NEEDED.contains(&api);
                    (is_denied || is_needed && has_nothing(api, &shown), shown)
                };
                if rights.is_empty() {
                    continue;
                }
                let named = format!("{} {version}", api.name());
                for left_out in rights {
                    if !ALL_NEEDED.contains(&api) {
                        break;
                    }
                    let others = rights.iter().filter(|right| *right != left_out);
                    let others: Vec<Right> = others.copied().collect();
                    give(cluster, &others).await;
                    let (is_denied, shown) = denied().await;
                    assert!(is_denied, "{named} without {left_out:?}: {shown}");
                    take(cluster, &others).await;
                }
                give(cluster, rights).await;
                let (is_denied, shown) = denied().await;
                assert!(!is_denied, "{named}: {shown}");
                take(cluster, rights).await;
            }
        }
    });
}

#[test]
fn a_right_on_any_resource_is_asked_for_by_idempotent_producers_only() {
    let any = Api::ALL.iter().filter(|api| {
        let mut rights = rights(**api).iter();
        rights.any(|right| right.which == RightScope::Any)
    });
    assert_eq!(any.collect::<Vec<_>>(), [&Api::InitProducerId]);
    with_topics(1, async |cluster| {
        let bob = User::login(cluster, "bob").await;
        let denied = async || {
            let shown = asked(cluster, &bob, Api::InitProducerId, 5).await;
            codes(&shown) == ["31"]
        };
        assert!(denied().await);
        let some = (ResourceType::Topic, "any");
        cluster.allow("bob", Operation::Read, some).await;
        assert!(denied().await);
        cluster.allow("bob", Operation::Write, some).await;
        assert!(!denied().await);
        cluster.remove_acls("bob", some).await;
        let whole = of_every_name(ResourceType::Cluster);
        cluster
            .allow("bob", Operation::IdempotentWrite, whole)
            .await;
        assert!(!denied().await);
    });
}
