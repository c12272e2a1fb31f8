//! Members of one protocol that come to a group of the other: what
//! `group.consumer.migration.policy` decides, and what it does not.

use broker::group::consumer::MigrationPolicy;
use bytes::Bytes;
use platform::Platform;
use platform::sim::SimDisk;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, DescribeGroupsRequest, GroupId, JoinGroupRequest,
    JoinGroupResponse,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::{Cluster, Setup, life};

/// The protocols that a classic member offers, with its subscriptions.
type Offered = &'static [(&'static str, &'static [u8])];

/// With a subscription to nothing.
const KNOWN: Offered = &[("range", b"\0\0\0\0\0\0\0\0\0\0")];
const NOTHING: Offered = &[];
const UNREADABLE: Offered = &[("range", b"x")];
const POLICIES: [MigrationPolicy; 4] = [
    MigrationPolicy::Bidirectional,
    MigrationPolicy::Upgrade,
    MigrationPolicy::Downgrade,
    MigrationPolicy::Disabled,
];

/// A cluster with a topic and the coordinators of groups.
fn with(setup: &Setup, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), setup, async |cluster| {
        cluster.create("t", 2).await;
        cluster.commit("other", "t", 0, 1).await;
        cluster.pass_ms(1_000).await;
        story(cluster).await;
    });
}

fn under(policy: MigrationPolicy) -> Setup {
    let mut setup = Setup::shards(1);
    setup.options.group.consumer.migration = policy;
    setup
}

/// A heartbeat of the member `m` of the consumer protocol: its new epoch.
async fn beat(cluster: &Cluster, epoch: i32) -> Result<i32, ErrorCode> {
    let mut request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_member_id(text("m"))
        .with_member_epoch(epoch);
    if epoch == 0 {
        request = request
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_names(Some(vec![topic_name("t")]))
            .with_topic_partitions(Some(Vec::new()));
    }
    let told = cluster.ask(1, &request).await;
    error(told.error_code).map_or(Ok(told.member_epoch), Err)
}

fn joining(member: &str, kind: &str, protocols: Offered) -> JoinGroupRequest {
    let protocols = protocols.iter().map(|(name, metadata)| {
        JoinGroupRequestProtocol::default()
            .with_name(text(name))
            .with_metadata(Bytes::from_static(metadata))
    });
    JoinGroupRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(text(member))
        .with_protocol_type(text(kind))
        .with_protocols(protocols.collect())
}

/// Joins as a member of the classic protocol.
async fn join(cluster: &Cluster, version: i16, member: &str) -> JoinGroupResponse {
    let request = joining(member, "consumer", KNOWN);
    cluster.ask(version, &request).await
}

/// Returns whether `g` is a classic group.
async fn is_classic(cluster: &Cluster) -> bool {
    cluster.pass_ms(100).await;
    let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text("g"))]);
    let told = cluster.ask(6, &request).await;
    match error(told.groups[0].error_code) {
        None => true,
        Some(ErrorCode::GroupIdNotFound) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_consumer_group_takes_classic_members_in_under_every_policy_and_becomes_classic_under_two() {
    for policy in POLICIES {
        with(&under(policy), async |cluster| {
            beat(cluster, 0).await.unwrap();
            let told = join(cluster, 9, "").await;
            let code = error(told.error_code);
            assert_eq!(code, Some(ErrorCode::MemberIdRequired), "{policy:?}");
            assert!(!told.member_id.is_empty());
            let joined = join(cluster, 9, &told.member_id).await;
            assert_eq!(error(joined.error_code), None, "{policy:?}");
            assert_eq!(joined.member_id, told.member_id);
            assert!(joined.generation_id > 0);
            assert!(!is_classic(cluster).await);
            assert_eq!(beat(cluster, -1).await, Ok(-1));
            assert_eq!(is_classic(cluster).await, policy.downgrades(), "{policy:?}");
        });
    }
}

#[test]
fn a_classic_group_with_members_takes_a_consumer_in_where_it_may_become_a_consumer_group() {
    for policy in POLICIES {
        with(&under(policy), async |cluster| {
            assert_eq!(error(join(cluster, 3, "").await.error_code), None);
            let told = beat(cluster, 0).await;
            if policy.upgrades() {
                assert!(told.is_ok_and(|epoch| epoch > 0), "{policy:?}");
            } else {
                assert_eq!(told, Err(ErrorCode::GroupIdNotFound), "{policy:?}");
            }
            assert_eq!(is_classic(cluster).await, !policy.upgrades(), "{policy:?}");
        });
    }
}

#[test]
fn who_cannot_join_a_consumer_group_is_told_at_once_and_named_no_member() {
    let refused = ErrorCode::InconsistentGroupProtocol;
    let full = ErrorCode::GroupMaxSizeReached;
    for policy in [MigrationPolicy::Bidirectional, MigrationPolicy::Disabled] {
        let mut setup = under(policy);
        setup.options.group.consumer.members_max = 1;
        with(&setup, async |cluster| {
            beat(cluster, 0).await.unwrap();
            // `m` is in, so for it there is room.
            for (member, kind, protocols, code) in [
                ("m", "connect", KNOWN, refused),
                ("m", "consumer", NOTHING, refused),
                ("m", "consumer", UNREADABLE, refused),
                ("who", "consumer", KNOWN, full),
                ("", "consumer", KNOWN, full),
            ] {
                for version in [0, 3, 4, 9] {
                    let before = cluster.platform.clock().now();
                    let told = cluster
                        .ask(version, &joining(member, kind, protocols))
                        .await;
                    let what = format!("{policy:?}: {member} {kind} {version}");
                    assert_eq!(error(told.error_code), Some(code), "{what}");
                    assert_eq!(told.member_id.as_str(), "", "{what}");
                    assert_eq!(cluster.platform.clock().now(), before, "{what}: it waited");
                }
            }
            assert!(!is_classic(cluster).await);
        });
    }
}
