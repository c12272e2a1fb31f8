//! What metrics show of requests and groups.

use platform::sim::SimDisk;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{ConsumerGroupHeartbeatRequest, GroupId, ListOffsetsRequest, MetadataRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, list_offsets, text, topic_name};
use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life};

/// The count of an error in answers to a request.
fn errors(cluster: &Cluster, request: &str, error: &str) -> u64 {
    let name = "kafka_network_requestmetrics_errors_total";
    let start = format!("{name}{{request=\"{request}\",error=\"{error}\"}} ");
    let shown = cluster.shown_metrics();
    let mut lines = shown.lines();
    let count = lines.find_map(|line| line.strip_prefix(&start));
    count.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn errors_are_counted_by_request_and_error_wherever_they_stand_in_the_answer() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        cluster.create("t", 1).await;
        let topic = |name| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let asked = MetadataRequest::default()
            .with_topics(Some(vec![topic("t"), topic("no"), topic("nor")]))
            .with_allow_auto_topic_creation(false);
        cluster.ask(8, &asked).await;
        let unknown = "UNKNOWN_TOPIC_OR_PARTITION";
        assert_eq!(errors(cluster, "Metadata", unknown), 2);
        let asked: ListOffsetsRequest = list_offsets("t", 7, -1);
        cluster.ask(5, &asked).await;
        assert_eq!(errors(cluster, "ListOffsets", unknown), 1);
        let refused = cluster.try_produce("no", 0, batch(&["a"])).await;
        assert_eq!(refused, Err(ErrorCode::UnknownTopicOrPartition));
        assert_eq!(errors(cluster, "Produce", unknown), 1);
        let refused = cluster.try_fetch("t", 0, 99).await;
        assert!(refused.is_err());
        assert_eq!(errors(cluster, "Fetch", "OFFSET_OUT_OF_RANGE"), 1);
        cluster.create("three", 3).await;
        let mut asked = fetch("three", &[(0, 99), (1, 0), (2, 99)]);
        asked.max_wait_ms = 0;
        cluster.ask(12, &asked).await;
        assert_eq!(errors(cluster, "Fetch", "OFFSET_OUT_OF_RANGE"), 3);
        (asked.session_id, asked.session_epoch) = (77, 1);
        cluster.ask(12, &asked).await;
        assert_eq!(errors(cluster, "Fetch", "FETCH_SESSION_ID_NOT_FOUND"), 1);
        cluster.produce("t", 0, &["a"]).await;
        assert_eq!(errors(cluster, "Produce", unknown), 1);
        assert!(!cluster.shown_metrics().contains("error=\"NONE\""));
    });
}

#[test]
fn a_rebalance_is_counted_without_a_survey_of_the_groups() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        // Until the group's coordinator is there.
        cluster.commit("other", "t", 0, 1).await;
        cluster.pass_ms(1000).await;
        let join = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text("m"))
            .with_member_epoch(0)
            .with_rebalance_timeout_ms(300_000)
            .with_subscribed_topic_names(Some(vec![topic_name("t")]))
            .with_topic_partitions(Some(Vec::new()));
        let answer = cluster.ask(1, &join).await;
        assert_eq!(error(answer.error_code), None);
        let shown = cluster.shown_metrics();
        for (protocol, count) in [("consumer", 1), ("classic", 0)] {
            let name = "forebay_group_rebalances_total";
            let line = format!("{name}{{protocol=\"{protocol}\"}} {count}\n");
            assert!(shown.contains(&line), "{line} is not in\n{shown}");
        }
    });
}

#[test]
fn the_groups_of_all_shards_are_shown_with_what_they_have_committed() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        cluster.create("t", 1).await;
        let mut ids: Vec<String> = (0..8).map(|number| format!("group-{number}")).collect();
        for (id, offset) in ids.iter().zip(1..) {
            cluster.commit(id, "t", 0, offset).await;
        }
        let mut shown = Vec::new();
        for broker in &cluster.brokers {
            let survey = broker.survey_groups(1 << 20).await;
            assert_eq!(survey.left_out, 0);
            for group in survey.groups {
                assert_eq!(group.members, 0);
                let offsets: Vec<i64> = group.offsets.iter().map(|(.., offset)| *offset).collect();
                let number: i64 = group.id.rsplit('-').next().unwrap().parse().unwrap();
                assert_eq!(offsets, [number + 1], "{}", group.id);
                shown.push(group.id.to_string());
            }
        }
        shown.sort();
        ids.sort();
        assert_eq!(shown, ids);
        let broker = &cluster.brokers[0];
        let narrow = broker.survey_groups(1).await;
        assert!(narrow.groups.is_empty() && !narrow.states.is_empty());
    });
}
