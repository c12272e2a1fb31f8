//! Groups while there is no topic for their positions: no client has looked for a coordinator yet.

use platform::sim::SimDisk;
use wire::kafka::NewestVersion;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::{GroupId, JoinGroupRequest, OffsetFetchRequest, OffsetFetchResponse};
use wire::types::{ErrorCode, Uuid};

use crate::harness::asks::{error, text, topic_name};
use crate::harness::{Cluster, Setup, life};

/// The first version with an error for the whole group, and with a list of all topics.
const WHOLE: i16 = 2;
/// The first version that asks for several groups.
const SEVERAL: i16 = 8;

/// A question about two partitions of `t`, or about all topics, as its version puts it.
fn question(version: i16, names: bool, id: Uuid) -> OffsetFetchRequest {
    let request = OffsetFetchRequest::default().with_require_stable(version >= 7);
    if version < SEVERAL {
        let topic = OffsetFetchRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0, 1]);
        return request
            .with_group_id(GroupId(text("g")))
            .with_topics(names.then(|| vec![topic]));
    }
    let groups = ["g", "h"].map(|group| {
        let topic = OffsetFetchRequestTopics::default()
            .with_name(topic_name("t"))
            .with_topic_id(id)
            .with_partition_indexes(vec![0, 1]);
        OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(group)))
            .with_topics(names.then(|| vec![topic]))
    });
    request.with_groups(groups.into())
}

async fn asked(cluster: &Cluster, version: i16, names: bool) -> OffsetFetchResponse {
    let id = cluster.topic_id("t").0;
    let request = question(version, names, id);
    cluster.ask(version, &NewestVersion::from(request)).await
}

#[test]
fn whoever_asks_for_positions_is_told_to_look_for_the_coordinator_where_its_version_says_so() {
    let not_here = ErrorCode::NotCoordinator.code();
    for shards in [1, 2] {
        life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
            cluster.create("t", 2).await;
            let told = asked(cluster, 1, true).await;
            assert_eq!((told.topics.len(), told.topics[0].name.as_str()), (1, "t"));
            let partitions = told.topics[0].partitions.iter().map(|it| {
                let note = it.metadata.as_deref().map(str::to_owned);
                (it.partition_index, it.committed_offset, note, it.error_code)
            });
            let of = |index| (index, -1, Some(String::new()), not_here);
            assert_eq!(partitions.collect::<Vec<_>>(), [of(0), of(1)]);
            for version in WHOLE..=10 {
                for names in [true, false] {
                    let told = asked(cluster, version, names).await;
                    assert!(told.topics.is_empty(), "{version}");
                    if version < SEVERAL {
                        assert_eq!(told.error_code, not_here, "{version}");
                        continue;
                    }
                    let groups = told.groups.iter().map(|group| {
                        assert!(group.topics.is_empty(), "{version}");
                        (group.group_id.as_str(), group.error_code)
                    });
                    let expected = [("g", not_here), ("h", not_here)];
                    assert_eq!(groups.collect::<Vec<_>>(), expected, "{version}");
                }
            }
            // As in Kafka, the question makes no topic.
            assert_eq!(cluster.brokers[0].image().topics().count(), 1);
            cluster.commit("g", "t", 1, 7).await;
            let told = asked(cluster, 1, true).await;
            let positions = told.topics[0].partitions.iter();
            let positions = positions.map(|it| (it.committed_offset, it.error_code));
            assert_eq!(positions.collect::<Vec<_>>(), [(-1, 0), (7, 0)]);
        });
    }
}

#[test]
fn a_member_of_a_group_that_no_coordinator_serves_is_not_named() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text("m"))
            .with_session_timeout_ms(30_000)
            .with_rebalance_timeout_ms(30_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        for version in [0, 3, 4, 9] {
            let told = cluster.ask(version, &request).await;
            assert_eq!(error(told.error_code), Some(ErrorCode::NotCoordinator));
            assert_eq!(told.member_id.as_str(), "", "{version}");
        }
    });
}
