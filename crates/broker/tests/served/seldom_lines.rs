//! What clients ask for in vain, again and again, does not fill the log: it is said once a minute,
//! with how often it was not.

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{DescribeLogDirsRequest, IncrementalAlterConfigsRequest};
use wire::types::ErrorCode;

use crate::asked_topics::{codes, making_topics, naming};
use crate::harness::Cluster;
use crate::harness::asks::text;
use crate::harness::journal::lines_of;
use crate::harness::life;

/// Sees to it that something is said twice of a client that asks three times, and again a minute
/// later.
fn is_said_seldom(about: &str, disk: &SimDisk, ask: &impl AsyncFn(&Cluster)) {
    let mut lines = lines_of(|| {
        life(disk, &making_topics(), async |cluster| {
            cluster.create("there", 1).await;
            for _ in 0..3 {
                ask(cluster).await;
            }
            cluster.pass_ms(61_000).await;
            ask(cluster).await;
        });
    });
    lines.retain(|line| line.contains(about));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].contains("unsaid=2"), "{lines:?}");
}

#[test]
fn questions_about_too_many_topics() {
    let names: Vec<_> = (0..10_001).map(|number| format!("t{number}")).collect();
    let request = naming(names);
    is_said_seldom("too many topics", &SimDisk::new(1), &async |cluster| {
        let answer = cluster.ask(9, &request).await;
        assert_eq!(answer.topics.len(), 10_001);
    });
}

#[test]
fn topics_that_a_failed_metadata_log_does_not_take() {
    let disk = SimDisk::new(1);
    let fails = Fault {
        path_contains: Some("__cluster_metadata-0".to_owned()),
        ..Fault::at_kind(0, OpKind::Write, Effect::Fail(std::io::ErrorKind::Other))
    };
    is_said_seldom("cannot create missing topics", &disk, &async |cluster| {
        disk.inject(fails.clone());
        let answer = cluster.ask(9, &naming(["missing"])).await;
        let not_made = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(codes(&answer), [("missing".to_owned(), not_made)]);
    });
}

#[test]
fn positions_that_are_too_large_for_the_log() {
    let small = AlterableConfig::default()
        .with_name(text("max.message.bytes"))
        .with_value(Some(text("50")));
    let topic = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("__consumer_offsets"))
        .with_configs(vec![small]);
    let config = IncrementalAlterConfigsRequest::default().with_resources(vec![topic]);
    let disk = SimDisk::new(1);
    is_said_seldom("group records were not written", &disk, &async |cluster| {
        if cluster.brokers[0]
            .image()
            .topic_by_name("__consumer_offsets")
            .is_none()
        {
            cluster.commit("g", "there", 0, 1).await;
            assert_eq!(cluster.ask(1, &config).await.responses[0].error_code, 0);
        }
        let refused = cluster.try_commit("g", "there", 0, 2).await;
        assert!(refused.is_some());
    });
}

#[test]
fn directories_that_say_nothing_of_their_room() {
    let disk = SimDisk::new(1);
    let fails = Fault::at_kind(0, OpKind::Space, Effect::Fail(std::io::ErrorKind::Other));
    is_said_seldom("cannot ask for free room", &disk, &async |cluster| {
        disk.inject(fails.clone());
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let answer = cluster.ask(4, &request).await;
        let code = ErrorCode::KafkaStorageError.code();
        assert_eq!(answer.results[0].error_code, code);
    });
}
