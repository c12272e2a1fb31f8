//! The wall clock is set while clients are in sessions: of groups of both kinds, and of fetches.
//! All of them count the time that passes, so no member goes early and none stays.

use bytes::Bytes;
use platform::sim::SimDisk;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, GroupId, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest,
};
use wire::types::ErrorCode;

use crate::clocks::{STEPS_MS, TAKES_ALL, pass, set, setup};
use crate::harness::asks::{error, fetch, partitions, text, topic_name};
use crate::harness::{Cluster, life};

fn id(name: &str) -> GroupId {
    GroupId(text(name))
}

/// The only member of the group, which is stable: its id and generation.
async fn member(cluster: &Cluster, group: &str) -> (String, i32) {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0"));
    let request = JoinGroupRequest::default()
        .with_group_id(id(group))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined = cluster.ask(3, &request).await;
    assert_eq!(error(joined.error_code), None);
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(joined.member_id.clone())
        .with_assignment(Bytes::from_static(b"all"));
    let request = SyncGroupRequest::default()
        .with_group_id(id(group))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(vec![assignment]);
    let synced = cluster.ask(3, &request).await;
    assert_eq!(error(synced.error_code), None);
    (joined.member_id.to_string(), joined.generation_id)
}

#[test]
fn a_member_has_its_session_whatever_the_clock_does() {
    for by_ms in STEPS_MS {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("g", "t", 0, 1).await;
            let (member, generation) = member(cluster, "g").await;
            let beat = async || {
                let request = HeartbeatRequest::default()
                    .with_group_id(id("g"))
                    .with_generation_id(generation)
                    .with_member_id(text(&member));
                error(cluster.ask(3, &request).await.error_code)
            };
            pass(cluster, 25_000).await;
            set(cluster, by_ms);
            assert_eq!(beat().await, None, "set by {by_ms}");
            pass(cluster, 25_000).await;
            assert_eq!(beat().await, None, "set by {by_ms}: it went early");
            set(cluster, -by_ms);
            pass(cluster, 32_000).await;
            let gone = Some(ErrorCode::UnknownMemberId);
            assert_eq!(beat().await, gone, "set by {by_ms}: it stays");
        });
    }
}

#[test]
fn a_member_of_a_consumer_group_has_its_session_whatever_the_clock_does() {
    for by_ms in STEPS_MS {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            cluster.create("t", 1).await;
            // Until the group's coordinator is there.
            cluster.commit("other", "t", 0, 1).await;
            pass(cluster, 1_000).await;
            let beat = async |epoch: i32| {
                let mut request = ConsumerGroupHeartbeatRequest::default()
                    .with_group_id(id("k"))
                    .with_member_id(text("m"))
                    .with_member_epoch(epoch);
                if epoch == 0 {
                    request = request
                        .with_rebalance_timeout_ms(300_000)
                        .with_subscribed_topic_names(Some(vec![topic_name("t")]))
                        .with_topic_partitions(Some(Vec::new()));
                }
                let answer = cluster.ask(1, &request).await;
                error(answer.error_code).map_or(Ok(answer.member_epoch), Err)
            };
            let epoch = beat(0).await.unwrap();
            pass(cluster, 40_000).await;
            set(cluster, by_ms);
            let epoch = beat(epoch).await.unwrap();
            pass(cluster, 40_000).await;
            let epoch = beat(epoch).await.unwrap();
            set(cluster, -by_ms);
            pass(cluster, 47_000).await;
            let gone = Err(ErrorCode::UnknownMemberId);
            assert_eq!(beat(epoch).await, gone, "set by {by_ms}: it stays");
        });
    }
}

#[test]
fn a_fetch_session_goes_on_whatever_the_clock_does() {
    for by_ms in STEPS_MS {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            cluster.create_with("t", 2, &TAKES_ALL).await;
            let first = fetch("t", &[(0, 0), (1, 0)]).with_session_epoch(0);
            let session = cluster.ask(12, &first).await.session_id;
            assert!(session > 0);
            for (epoch, by_ms) in [(1, by_ms), (2, -by_ms), (3, 0)] {
                set(cluster, by_ms);
                pass(cluster, 60_000).await;
                cluster.produce("t", 1, &["a"]).await;
                let next = fetch("t", &[])
                    .with_topics(Vec::new())
                    .with_session_id(session)
                    .with_session_epoch(epoch);
                let answer = cluster.ask(12, &next).await;
                assert_eq!(error(answer.error_code), None, "set by {by_ms}");
                let told = partitions(&answer);
                let told: Vec<_> = told.iter().map(|it| it.partition_index).collect();
                assert_eq!(told, [1], "set by {by_ms}");
            }
        });
    }
}
