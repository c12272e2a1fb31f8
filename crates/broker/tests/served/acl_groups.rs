//! What a client may do with groups, and what it sees of the topics in them.

use broker::authorizer::AuthorizerMode;
use platform::sim::SimDisk;
use wire::acl::{Operation, ResourceType};
use wire::kafka::NewestVersion;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, JoinGroupRequest,
    ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
    OffsetFetchResponse,
};

use crate::harness::asks::{text, topic_name};
use crate::harness::users::{CLUSTER, Resource, User, topic};
use crate::harness::{Cluster, Setup, life};

const GROUP_DENIED: i16 = 30;
const TOPIC_DENIED: i16 = 29;
const UNKNOWN_TOPIC: i16 = 3;

fn with_users(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards).with_users(), story);
}

const fn group(name: &str) -> Resource<'_> {
    (ResourceType::Group, name)
}

fn id(name: &str) -> GroupId {
    GroupId(text(name))
}

/// Topics of two partitions, and a group with a position in partition 0 of each.
async fn with_positions(cluster: &Cluster, topics: &[&str]) {
    for topic in topics {
        cluster.create(topic, 2).await;
        cluster.commit("g", topic, 0, 7).await;
    }
}

/// Commits a position in partition 0 of each topic; returns the codes.
async fn commits(user: &User<'_>, version: i16, topics: &[&str]) -> Vec<i16> {
    let topics = topics.iter().map(|topic| {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(9);
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![partition])
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(id("g"))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect());
    let told = user.ask(version, &NewestVersion::from(request)).await;
    let partitions = told.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.error_code).collect()
}

#[test]
fn a_commit_is_of_a_group_and_of_topics_that_the_client_may_read() {
    with_users(2, async |cluster| {
        with_positions(cluster, &["t", "u"]).await;
        let ada = User::login(cluster, "ada").await;
        for version in [2, 9] {
            let told = commits(&ada, version, &["t", "u", "missing"]).await;
            assert_eq!(told, [GROUP_DENIED; 3]);
        }
        cluster.allow("ada", Operation::Read, group("g")).await;
        // Who may read nothing is not told what is there.
        let told = commits(&ada, 8, &["t", "u", "missing"]).await;
        assert_eq!(told, [TOPIC_DENIED; 3]);
        cluster.allow("ada", Operation::Read, topic("t")).await;
        cluster
            .allow("ada", Operation::Read, topic("missing"))
            .await;
        let told = commits(&ada, 8, &["t", "u", "missing"]).await;
        assert_eq!(told, [0, TOPIC_DENIED, UNKNOWN_TOPIC]);
        assert_eq!(cluster.committed("g", "t", 0).await, 9);
        assert_eq!(cluster.committed("g", "u", 0).await, 7);
        cluster.deny("ada", Operation::Read, topic("t")).await;
        assert_eq!(commits(&ada, 8, &["t"]).await, [TOPIC_DENIED]);
    });
}

#[test]
fn a_commit_that_the_group_refuses_hides_topics_all_the_same() {
    with_users(1, async |cluster| {
        with_positions(cluster, &["t", "u"]).await;
        let ada = User::login(cluster, "ada").await;
        cluster.allow("ada", Operation::Read, group("g")).await;
        cluster.allow("ada", Operation::Read, topic("t")).await;
        let topics = ["t", "u"].map(|topic| {
            OffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![OffsetCommitRequestPartition::default()])
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(id("g"))
            .with_member_id(text("nobody"))
            .with_generation_id_or_member_epoch(5)
            .with_topics(topics.into());
        let told = ada.ask(8, &NewestVersion::from(request)).await;
        let codes: Vec<_> = told
            .topics
            .iter()
            .map(|topic| topic.partitions[0].error_code)
            .collect();
        assert_eq!(codes[1], TOPIC_DENIED);
        assert!(![0, TOPIC_DENIED].contains(&codes[0]), "{codes:?}");
    });
}

/// What a fetch tells: the code of the group, then topics with offset and code of partition 0.
fn positions(told: &OffsetFetchResponse) -> (i16, Vec<(String, i64, i16)>) {
    let group = &told.groups[0];
    let topics = group.topics.iter().map(|topic| {
        let one = &topic.partitions[0];
        (topic.name.to_string(), one.committed_offset, one.error_code)
    });
    (group.error_code, topics.collect())
}

async fn fetched(
    user: &User<'_>,
    version: i16,
    topics: Option<&[&str]>,
) -> (i16, Vec<(String, i64, i16)>) {
    let topics = topics.map(|topics| {
        let topics = topics.iter().map(|topic| {
            OffsetFetchRequestTopics::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(vec![0])
        });
        topics.collect()
    });
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(id("g"))
        .with_topics(topics);
    let request = OffsetFetchRequest::default().with_groups(vec![group]);
    positions(&user.ask(version, &NewestVersion::from(request)).await)
}

#[test]
fn positions_are_told_of_topics_that_the_client_may_describe() {
    with_users(2, async |cluster| {
        with_positions(cluster, &["t", "u", "v"]).await;
        let ada = User::login(cluster, "ada").await;
        let all = ["u", "t", "missing"];
        assert_eq!(fetched(&ada, 8, Some(&all)).await, (GROUP_DENIED, vec![]));
        assert_eq!(fetched(&ada, 9, None).await, (GROUP_DENIED, vec![]));
        // Before there was a code for the whole, each partition has it.
        let old = OffsetFetchRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0, 1]);
        let request = OffsetFetchRequest::default()
            .with_group_id(id("g"))
            .with_topics(Some(vec![old]));
        let told = ada.ask(1, &NewestVersion::from(request)).await;
        let codes = told.topics[0].partitions.iter();
        let codes: Vec<_> = codes
            .map(|it| (it.error_code, it.committed_offset))
            .collect();
        assert_eq!(codes, [(GROUP_DENIED, -1); 2]);
        cluster.allow("ada", Operation::Describe, group("g")).await;
        cluster.allow("ada", Operation::Describe, topic("t")).await;
        // Those that are refused come last.
        let told = fetched(&ada, 9, Some(&all)).await;
        let named = |name: &str, offset, code| (name.to_owned(), offset, code);
        let expected = vec![
            named("t", 7, 0),
            named("u", -1, TOPIC_DENIED),
            named("missing", -1, TOPIC_DENIED),
        ];
        assert_eq!(told, (0, expected));
        // In a list they are left out.
        assert_eq!(fetched(&ada, 9, None).await, (0, vec![named("t", 7, 0)]));
    });
}

#[test]
fn positions_by_id_are_refused_by_id() {
    with_users(1, async |cluster| {
        with_positions(cluster, &["t", "u"]).await;
        let ada = User::login(cluster, "ada").await;
        cluster.allow("ada", Operation::Describe, group("g")).await;
        cluster.allow("ada", Operation::Describe, topic("t")).await;
        let [t, u] = ["t", "u"].map(|name| cluster.topic_id(name).0);
        let unknown = wire::types::Uuid::from_u128(404);
        let topics = [unknown, u, t].map(|id| {
            OffsetFetchRequestTopics::default()
                .with_topic_id(id)
                .with_partition_indexes(vec![0])
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(id("g"))
            .with_topics(Some(topics.into()));
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let told = ada.ask(10, &NewestVersion::from(request)).await;
        let topics = told.groups[0].topics.iter();
        let told: Vec<_> = topics
            .map(|topic| (topic.topic_id, topic.partitions[0].error_code))
            .collect();
        assert_eq!(told, [(t, 0), (unknown, 100), (u, TOPIC_DENIED)]);
    });
}

#[test]
fn positions_are_deleted_by_who_may_delete_the_group_and_read_the_topic() {
    with_users(1, async |cluster| {
        with_positions(cluster, &["t", "u"]).await;
        let ada = User::login(cluster, "ada").await;
        let request = |topics: &[&str]| {
            let topics = topics.iter().map(|topic| {
                OffsetDeleteRequestTopic::default()
                    .with_name(topic_name(topic))
                    .with_partitions(vec![OffsetDeleteRequestPartition::default()])
            });
            OffsetDeleteRequest::default()
                .with_group_id(id("g"))
                .with_topics(topics.collect())
        };
        let codes = async |topics: &[&str]| {
            let told = ada.ask(0, &request(topics)).await;
            let each = told.topics.iter().map(|it| it.partitions[0].error_code);
            (told.error_code, each.collect::<Vec<_>>())
        };
        cluster.allow("ada", Operation::Read, group("g")).await;
        assert_eq!(codes(&["t", "u"]).await, (GROUP_DENIED, vec![]));
        cluster.allow("ada", Operation::Delete, group("g")).await;
        let denied = vec![TOPIC_DENIED; 2];
        assert_eq!(codes(&["t", "u"]).await, (0, denied));
        cluster.allow("ada", Operation::Read, topic("t")).await;
        assert_eq!(codes(&["u", "t"]).await, (0, vec![TOPIC_DENIED, 0]));
        assert_eq!(cluster.committed("g", "t", 0).await, -1);
        assert_eq!(cluster.committed("g", "u", 0).await, 7);
    });
}

#[test]
fn groups_are_described_listed_and_deleted_by_who_may() {
    with_users(2, async |cluster| {
        cluster.create("t", 1).await;
        for group in ["a", "b", "c"] {
            cluster.commit(group, "t", 0, 1).await;
        }
        let ada = User::login(cluster, "ada").await;
        cluster.allow("ada", Operation::Describe, group("b")).await;
        cluster.allow("ada", Operation::Delete, group("c")).await;
        let names = ["c", "a", "b"];
        let request = DescribeGroupsRequest::default()
            .with_groups(names.map(id).into())
            .with_include_authorized_operations(true);
        let told = ada.ask(5, &request).await;
        let told: Vec<_> = told
            .groups
            .iter()
            .map(|it| {
                (
                    it.group_id.to_string(),
                    it.error_code,
                    it.authorized_operations,
                )
            })
            .collect();
        // Denied ones first; DELETE implies DESCRIBE.
        let expected = [
            ("a".to_owned(), GROUP_DENIED, i32::MIN),
            ("c".to_owned(), 0, 1 << 6 | 1 << 8),
            ("b".to_owned(), 0, 1 << 8),
        ];
        assert_eq!(told, expected);
        let listed = async |user: &User<'_>| {
            let told = user.ask(4, &ListGroupsRequest::default()).await;
            assert_eq!(told.error_code, 0);
            let groups = told.groups.iter().map(|it| it.group_id.to_string());
            let mut groups: Vec<_> = groups.collect();
            groups.sort();
            groups.concat()
        };
        assert_eq!(listed(&ada).await, "bc");
        let request = DeleteGroupsRequest::default().with_groups_names(names.map(id).into());
        let told = ada.ask(2, &request).await;
        let told: Vec<_> = told
            .results
            .iter()
            .map(|it| (it.group_id.to_string(), it.error_code))
            .collect();
        let expected = [("c", 0), ("a", GROUP_DENIED), ("b", GROUP_DENIED)];
        assert_eq!(told, expected.map(|(name, code)| (name.to_owned(), code)));
        assert_eq!(listed(&ada).await, "b");
        // Who may describe the cluster sees all of them.
        cluster.allow("ada", Operation::Describe, CLUSTER).await;
        assert_eq!(listed(&ada).await, "ab");
    });
}

#[test]
fn a_coordinator_that_a_client_may_not_ask_for_makes_no_topic() {
    with_users(1, async |cluster| {
        let ada = User::login(cluster, "ada").await;
        for (kind, code) in [(0, GROUP_DENIED), (1, 53)] {
            let request = FindCoordinatorRequest::default()
                .with_key_type(kind)
                .with_key(text("x"));
            let told = ada.ask(3, &request).await;
            assert_eq!((told.error_code, told.node_id.0, told.port), (code, -1, -1));
            let request = request
                .with_key(text(""))
                .with_coordinator_keys(vec![text("x"), text("y")]);
            let told = ada.ask(4, &request).await;
            let codes = told.coordinators.iter().map(|it| it.error_code);
            assert_eq!(codes.collect::<Vec<_>>(), [code; 2]);
        }
        assert_eq!(cluster.brokers[0].image().topics().count(), 0);
        cluster.allow("ada", Operation::Describe, group("y")).await;
        let request =
            FindCoordinatorRequest::default().with_coordinator_keys(vec![text("x"), text("y")]);
        let told = ada.ask(4, &request).await;
        let codes = told.coordinators.iter().map(|it| it.error_code);
        assert_eq!(codes.collect::<Vec<_>>(), [GROUP_DENIED, 0]);
        assert_eq!(cluster.brokers[0].image().topics().count(), 1);
    });
}

#[test]
fn a_client_that_may_not_read_a_group_does_not_join_it() {
    with_users(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 1).await;
        let ada = User::login(cluster, "ada").await;
        cluster.allow("ada", Operation::Describe, group("g")).await;
        for version in [0, 6, 9] {
            let request = JoinGroupRequest::default()
                .with_group_id(id("g"))
                .with_member_id(text("m"))
                .with_session_timeout_ms(10_000)
                .with_protocol_type(text("consumer"));
            let told = ada.ask(version, &request).await;
            assert_eq!(told.error_code, GROUP_DENIED);
            assert_eq!((told.generation_id, told.member_id.as_str()), (-1, ""));
            let name = told.protocol_name.as_deref();
            assert_eq!(name, if version < 7 { Some("") } else { None });
        }
        let request = DescribeGroupsRequest::default().with_groups(vec![id("g")]);
        let told = ada.ask(5, &request).await;
        assert_eq!(told.groups[0].group_state.as_str(), "Empty");
    });
}

/// A heartbeat of a new member.
fn beat(member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(id("cg"))
        .with_member_id(text(member))
        .with_rebalance_timeout_ms(10_000)
        .with_topic_partitions(Some(Vec::new()))
}

/// The topics that a member gets assigned, by its heartbeats.
async fn assigned(
    cluster: &Cluster,
    user: &User<'_>,
    first: ConsumerGroupHeartbeatRequest,
) -> Vec<wire::types::Uuid> {
    let member = first.member_id.clone();
    let mut told: ConsumerGroupHeartbeatResponse = user.ask(1, &first).await;
    for _ in 0..20 {
        assert_eq!(told.error_code, 0, "{told:?}");
        let topics = told.assignment.iter().flat_map(|it| &it.topic_partitions);
        let mut topics: Vec<_> = topics.map(|topic| topic.topic_id).collect();
        if !topics.is_empty() {
            topics.sort();
            return topics;
        }
        cluster.pass_ms(1_000).await;
        let next = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(id("cg"))
            .with_member_id(member.clone())
            .with_rebalance_timeout_ms(-1)
            .with_member_epoch(told.member_epoch);
        told = user.ask(1, &next).await;
    }
    Vec::new()
}

#[test]
fn a_member_names_topics_that_it_may_describe() {
    with_users(1, async |cluster| {
        with_positions(cluster, &["t", "u"]).await;
        let ada = User::login(cluster, "ada").await;
        let names = |names: &[&str]| Some(names.iter().map(|name| topic_name(name)).collect());
        let both = beat("m").with_subscribed_topic_names(names(&["t", "u"]));
        assert_eq!(ada.ask(1, &both).await.error_code, GROUP_DENIED);
        cluster.allow("ada", Operation::Read, group("cg")).await;
        cluster.allow("ada", Operation::Describe, topic("t")).await;
        let told = ada.ask(1, &both).await;
        assert_eq!((told.error_code, told.member_id), (TOPIC_DENIED, None));
        assert_eq!((told.member_epoch, told.assignment), (0, None));
        let one = beat("m").with_subscribed_topic_names(names(&["t"]));
        let found = assigned(cluster, &ada, one).await;
        assert_eq!(found, [cluster.topic_id("t").0]);
    });
}

#[test]
fn an_expression_matches_topics_that_the_member_may_describe() {
    with_users(1, async |cluster| {
        with_positions(cluster, &["orders-eu", "orders-us", "other"]).await;
        let ada = User::login(cluster, "ada").await;
        cluster.allow("ada", Operation::Read, group("cg")).await;
        cluster
            .allow("ada", Operation::Read, topic("orders-eu"))
            .await;
        cluster.allow("ada", Operation::Read, topic("other")).await;
        let first = beat("m").with_subscribed_topic_regex(Some(text("orders-.*")));
        let found = assigned(cluster, &ada, first).await;
        assert_eq!(found, [cluster.topic_id("orders-eu").0]);
        // A client that may describe all topics sees what the group has, others see nothing.
        let describe = ConsumerGroupDescribeRequest::default()
            .with_group_ids(vec![id("cg"), id("g")])
            .with_include_authorized_operations(true);
        let bob = User::login(cluster, "bob").await;
        cluster.allow("bob", Operation::Describe, group("cg")).await;
        let told = bob.ask(1, &describe).await.groups;
        let codes: Vec<_> = told
            .iter()
            .map(|it| (it.group_id.to_string(), it.error_code, it.members.len()))
            .collect();
        let expected = [("g", GROUP_DENIED, 0), ("cg", TOPIC_DENIED, 0)];
        assert_eq!(
            codes,
            expected.map(|(name, code, n)| (name.to_owned(), code, n))
        );
        assert_eq!(
            told[1].error_message.as_deref(),
            Some("The group has described topic(s) that the client is not authorized to describe.")
        );
        let told = ada.ask(1, &describe).await.groups;
        let one = told.iter().find(|it| it.group_id.as_str() == "cg").unwrap();
        assert_eq!((one.error_code, one.members.len()), (0, 1));
        assert_eq!(one.authorized_operations, 1 << 3 | 1 << 8);
    });
}

#[test]
fn what_would_be_denied_is_done_and_counted_while_it_is_only_logged() {
    let setup = Setup::shards(1).with_users();
    let setup = setup.authorized(AuthorizerMode::Log);
    life(&SimDisk::new(1), &setup, async |cluster| {
        with_positions(cluster, &["t"]).await;
        let ada = User::login(cluster, "ada").await;
        assert_eq!(commits(&ada, 8, &["t"]).await, [0]);
        let told = fetched(&ada, 9, None).await;
        assert_eq!(told, (0, vec![("t".to_owned(), 9, 0)]));
        let told = ada.ask(4, &ListGroupsRequest::default()).await;
        assert_eq!(told.groups.len(), 1);
        let count = |series: &str| cluster.metric(&format!("forebay_authorization_{series}"));
        let of =
            |kind, operation| format!("{{resource_type=\"{kind}\",operation=\"{operation}\"}}");
        let read = of("GROUP", "READ");
        assert_eq!(
            count(&format!("would_deny_total{read}")).as_deref(),
            Some("1")
        );
        assert_eq!(count(&format!("denied_total{read}")), None);
        let read = of("TOPIC", "READ");
        assert_eq!(
            count(&format!("would_deny_total{read}")).as_deref(),
            Some("1")
        );
    });
}

#[test]
fn a_denial_is_counted_and_the_connection_stays() {
    with_users(1, async |cluster| {
        with_positions(cluster, &["t"]).await;
        let ada = User::login(cluster, "ada").await;
        for _ in 0..3 {
            assert_eq!(commits(&ada, 8, &["t"]).await, [GROUP_DENIED]);
        }
        let series =
            "forebay_authorization_denied_total{resource_type=\"GROUP\",operation=\"READ\"}";
        assert_eq!(cluster.metric(series).as_deref(), Some("3"));
        let errors = "kafka_network_requestmetrics_errors_total{request=\"OffsetCommit\",error=\"GROUP_AUTHORIZATION_FAILED\"}";
        assert_eq!(cluster.metric(errors).as_deref(), Some("3"));
    });
}
