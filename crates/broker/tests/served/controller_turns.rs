//! Changes of the metadata: how much one of them may be, and what becomes of those that wait for
//! their turn when the client that asked goes, or the broker stops.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::sim::SimDisk;
use platform::task::{spawn, timeout};
use wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    AlterClientQuotasRequest, AlterUserScramCredentialsRequest, CreateTopicsRequest,
    MetadataRequest,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::setup::DIR;
use crate::harness::{Cluster, Setup, life};
use crate::moving::names as folders;

/// A question about topics that are made for it.
fn asking_for(names: &[String]) -> MetadataRequest {
    let named = |name: &String| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    MetadataRequest::default()
        .with_topics(Some(names.iter().map(named).collect()))
        .with_allow_auto_topic_creation(true)
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}{number}"))
        .collect()
}

fn creating(names: &[String]) -> CreateTopicsRequest {
    let named = |name: &String| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
    };
    CreateTopicsRequest::default()
        .with_topics(names.iter().map(named).collect())
        .with_timeout_ms(60_000)
}

fn auto_creating(shards: usize) -> Setup {
    let mut setup = Setup::shards(shards);
    setup.options.auto_create_topics = true;
    setup
}

/// The topics there are.
fn topics(cluster: &Cluster) -> BTreeSet<String> {
    let image = cluster.brokers[0].image();
    image.topics().map(|topic| topic.name.to_string()).collect()
}

#[test]
fn a_question_makes_no_more_partitions_than_a_creation_may() {
    let mut setup = auto_creating(2);
    setup.options.num_partitions = 4_000;
    let disk = SimDisk::new(1);
    life(&disk, &setup, async |cluster| {
        let three = names("t", 3);
        let created = cluster.ask(7, &creating(&three)).await;
        let codes = created.topics.iter().map(|topic| error(topic.error_code));
        let refused = Some(ErrorCode::PolicyViolation);
        assert_eq!(codes.collect::<Vec<_>>(), [refused; 3]);
        // So that what would be made is seen as it begins.
        let slow = Duration::from_secs(1);
        disk.set_latency(slow, slow);
        let told = cluster.ask(9, &asking_for(&three)).await;
        let codes = told.topics.iter().map(|topic| error(topic.error_code));
        let unknown = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(codes.collect::<Vec<_>>(), [unknown; 3]);
        cluster.pass_ms(20_000).await;
        let mut folders = folders(cluster, DIR).await;
        folders.retain(|name| name.starts_with('t'));
        assert_eq!(folders, Vec::<String>::new());
    });
}

#[test]
fn a_change_that_is_longer_than_a_batch_of_metadata_may_be_is_refused_as_a_whole() {
    const USERS: usize = 5_000;
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        let long = "n".repeat(1000);
        let user = |number: usize| {
            ScramCredentialUpsertion::default()
                .with_name(text(&format!("{number:04}{long}")))
                .with_mechanism(1)
                .with_iterations(4096)
                .with_salt(Bytes::from(vec![b's'; 1000]))
                .with_salted_password(Bytes::from_static(&[7; 32]))
        };
        let asked = |count: usize| {
            let request = AlterUserScramCredentialsRequest::default();
            request.with_upsertions((0..count).map(user).collect())
        };
        let end = || cluster.brokers[0].image().last_applied_offset();
        let before = end();
        for shard in 0..2 {
            let told = cluster.ask_at(shard, 0, &asked(USERS)).await;
            let codes: BTreeSet<_> = told.results.iter().map(|it| it.error_code).collect();
            let refused = ErrorCode::RecordListTooLarge.code();
            assert_eq!((told.results.len(), codes), (USERS, [refused].into()));
            assert_eq!(end(), before);
        }
        let told = cluster.ask(0, &asked(2)).await;
        assert!(told.results.iter().all(|it| it.error_code == 0));
        assert!(end() > before);
    });
}

/// Another request has the turn, and keeps it while the disk hangs.
async fn while_a_turn_hangs(cluster: &Cluster, meanwhile: impl AsyncFnOnce()) {
    let disk = cluster.disk();
    disk.set_hanging(Path::new(DIR), true);
    let first = spawn(cluster.asking(0, 7, &creating(&names("first", 1))));
    cluster.pass_ms(10).await;
    meanwhile().await;
    disk.set_hanging(Path::new(DIR), false);
    let told = first.await.unwrap();
    assert_eq!(told.topics[0].error_code, 0);
    cluster.pass_ms(60_000).await;
}

#[test]
fn what_waits_for_its_turn_goes_with_its_client_on_every_shard() {
    for shard in 0..2 {
        life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
            while_a_turn_hangs(cluster, async || {
                let created = spawn(cluster.asking(shard, 7, &creating(&names("gone", 1))));
                let user = EntityData::default()
                    .with_entity_type(text("user"))
                    .with_entity_name(Some(text("gone")));
                let rate = OpData::default()
                    .with_key(text("producer_byte_rate"))
                    .with_value(5.0);
                let entry = EntryData::default()
                    .with_entity(vec![user])
                    .with_ops(vec![rate]);
                let quota = AlterClientQuotasRequest::default().with_entries(vec![entry]);
                let altered = spawn(cluster.asking(shard, 1, &quota));
                cluster.pass_ms(100).await;
                assert!(!created.is_finished() && !altered.is_finished());
                created.abort();
                altered.abort();
                cluster.pass_ms(100).await;
            })
            .await;
            assert_eq!(topics(cluster), BTreeSet::from(["first0".to_owned()]));
            assert!(cluster.brokers[0].image().quotas().is_empty());
            // No request holds the turn.
            cluster.create("next", 2).await;
            assert_eq!(cluster.produce("next", 1, &["a"]).await, 0);
        });
    }
}

#[test]
fn a_stop_waits_for_no_creation_but_the_one_that_is_under_way_and_leaves_all_logs_in_order() {
    let (disk, setup) = (SimDisk::new(1), auto_creating(2));
    let slow = Duration::from_secs(1);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 2).await;
        cluster.produce("t", 0, &["a"]).await;
        disk.set_latency(slow, slow);
        for prefix in ["a", "b", "c"] {
            cluster.ask(9, &asking_for(&names(prefix, 40))).await;
        }
        let created = spawn(cluster.asking(1, 7, &creating(&names("d", 1))));
        cluster.pass_ms(1).await;
        let begun = cluster.platform.clock().now();
        let stopped = timeout(Duration::from_mins(10), cluster.stop());
        assert!(stopped.await.is_ok(), "it waits for ever");
        let now = cluster.platform.clock().now();
        let took = now.saturating_duration_since(begun);
        assert!(took < Duration::from_mins(2), "{took:?}");
        let told = created.await.unwrap();
        let code = error(told.topics[0].error_code);
        assert_eq!(code, Some(ErrorCode::NotController));
    });
    disk.set_latency(Duration::ZERO, Duration::ZERO);
    life(&disk, &setup.next(), async |cluster| {
        let there = topics(cluster);
        assert!(there.len() <= 41, "{} topics", there.len());
        assert!(there.iter().all(|name| name.starts_with(['a', 't'])));
        assert_eq!(cluster.recovered_logs(), 0);
        for topic in there.iter().filter(|topic| *topic != "t") {
            assert_eq!(cluster.produce(topic, 0, &["new"]).await, 0);
        }
        assert_eq!(cluster.values("t", 0).await, ["a"]);
    });
}
