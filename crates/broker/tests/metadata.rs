//! The controller on a simulated disk: what was answered survives restarts, snapshots and crashes;
//! and a metadata log that Kafka 4.3 wrote is continued.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads its golden files, and what fails in it fails the test"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::controller::{Caller, Controller, Home};
use broker::image::{Image, ResourceType};
use broker::options::{BrokerOptions, Endpoint, GroupOptions, TransactionOptions};
use platform::runtime::run_simulated;
use platform::sim::{Effect, Fault, SimPlatform};
use platform::{Disk, Platform};
use storage::{Metrics, OpenAs, Store, StoreOptions};
use wire::StrBytes;
use wire::acl::Principal;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{CreateTopicsRequest, DeleteTopicsRequest};
use wire::records::metadata::MetadataVersion;
use wire::types::{ErrorCode, LeaderEpoch, NodeId, Offset, Uuid};

#[path = "metadata/acls.rs"]
mod acls;
#[path = "metadata/odd.rs"]
mod odd;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/kafka-4.3");
const NODE: NodeId = NodeId(1);

fn caller() -> Caller {
    Caller::unlimited(Principal::anonymous(), StrBytes::default(), true)
}

fn options() -> BrokerOptions {
    let second = Duration::from_secs(1);
    BrokerOptions {
        node_id: NODE,
        rack: None,
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            protocol: broker::session::SecurityProtocol::Plaintext,
        }],
        logins: BTreeMap::new(),
        authorizer: None,
        audit: broker::audit::Audit::default(),
        stores: None,
        log_dirs: vec!["/d".into()],
        lower_dirs: Vec::new(),
        journal: None,
        tiers: Vec::new(),
        auto_create_topics: true,
        delete_topics: true,
        num_partitions: 1,
        default_replication_factor: 1,
        fetch_bytes_max: 1 << 20,
        fetch_sessions_max: 10,
        retention_check: second,
        checkpoint_interval: second,
        group: GroupOptions {
            offsets_partitions: 3,
            offsets_segment_bytes: 104_857_600,
            offset_metadata_bytes_max: 4096,
            offsets_retention: second,
            offsets_retention_check: second,
            offset_commit_timeout: second,
            session_timeout_min: second,
            session_timeout_max: second,
            initial_rebalance_delay: second,
            members_max: 10,
            state_bytes_max: 256 << 20,
            consumer_protocol: true,
            consumer: broker::group::consumer::ConsumerOptions::kafka(),
        },
        transaction: TransactionOptions {
            partitions: 3,
            segment_bytes: 1 << 20,
            timeout_max: Duration::from_mins(15),
            id_expiration: Duration::from_hours(168),
            abort_check: Duration::from_secs(10),
            expiration_check: Duration::from_hours(1),
            verify_partitions: true,
            producer_expiration_check: Duration::from_mins(10),
        },
        quota: broker::options::QuotaOptions::kafka(),
        telemetry_bytes_max: 1 << 20,
        metadata_snapshot_bytes: 1 << 20,
        metadata_reserve_bytes: 1 << 20,
        clock: platform::clock::steps::StepSettings::DEFAULT,
        static_settings: BTreeMap::new(),
        config_keys: &[],
    }
}

fn store(platform: &SimPlatform) -> Store<SimPlatform> {
    let options = StoreOptions {
        cache_bytes_max: 1 << 20,
        cache_bytes_start: 1 << 20,
        unwritten_bytes_max: 8 << 20,
        chunk_bytes: 64 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 32 << 10,
        save_interval_bytes: 1 << 30,
        read_ahead_bytes_max: 64 << 10,
        open_segments_max: 64,
    };
    Store::new(platform.clone(), options, Metrics::unregistered())
}

async fn try_start(
    platform: &SimPlatform,
    snapshot_bytes: u64,
) -> Option<Rc<Controller<SimPlatform>>> {
    let controller = begin(platform, snapshot_bytes).await;
    let controller = controller
        .inspect_err(|error| eprintln!("no start: {error}"))
        .ok()?;
    controller.unfence().await.ok()?;
    Some(controller)
}

/// A log without checkpoints.
const NOT_SAVED: OpenAs = OpenAs {
    clean: false,
    recovery_point: Offset(0),
    log_start: Offset(0),
    compacted: None,
};

async fn begin(
    platform: &SimPlatform,
    snapshot_bytes: u64,
) -> Result<Rc<Controller<SimPlatform>>, String> {
    begin_saved(platform, snapshot_bytes, NOT_SAVED).await
}

async fn begin_saved(
    platform: &SimPlatform,
    snapshot_bytes: u64,
    open_as: OpenAs,
) -> Result<Rc<Controller<SimPlatform>>, String> {
    begin_as(platform, snapshot_bytes, open_as, options()).await
}

async fn begin_as(
    platform: &SimPlatform,
    snapshot_bytes: u64,
    open_as: OpenAs,
    options: BrokerOptions,
) -> Result<Rc<Controller<SimPlatform>>, String> {
    let home = Home {
        node: NODE,
        dir: "/d".into(),
        open_as,
        directories: vec![Uuid::from_u128(0xd1)],
        snapshot_bytes,
        has_logs: false,
        reserve_bytes: 1 << 20,
    };
    let made = platform.disk().create_dir(Path::new("/d")).await;
    made.map_err(|error| error.to_string())?;
    let publish = Rc::new(
        |_: Arc<Image>| -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(std::future::ready(()))
        },
    );
    let store = store(platform);
    let controller = Controller::start(platform.clone(), &store, Arc::new(options), home, publish);
    controller.await.map_err(|error| error.to_string())
}

async fn start(platform: &SimPlatform, snapshot_bytes: u64) -> Rc<Controller<SimPlatform>> {
    try_start(platform, snapshot_bytes)
        .await
        .expect("the controller starts")
}

fn topics(names: &[&str]) -> CreateTopicsRequest {
    let topic = |name: &&str| {
        CreatableTopic::default()
            .with_name(StrBytes::from_string((*name).to_owned()).into())
            .with_num_partitions(2)
            .with_replication_factor(1)
    };
    CreateTopicsRequest::default().with_topics(names.iter().map(topic).collect())
}

fn names(image: &Image) -> Vec<String> {
    image.topics().map(|topic| topic.name.to_string()).collect()
}

fn run(test: impl AsyncFnOnce(SimPlatform)) {
    run_simulated(async { test(SimPlatform::new(7)).await }).unwrap();
}

#[test]
fn a_new_log_says_what_this_broker_can_do_and_that_it_serves() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        let image = controller.image();
        let features: Vec<_> = image.finalized_features().collect();
        let level = MetadataVersion::V4_3.0;
        assert_eq!(
            features,
            [
                ("group.version", 1),
                ("metadata.version", level),
                ("transaction.version", 2)
            ]
        );
        let broker = image.broker(NODE).unwrap();
        assert!(broker.is_active());
        assert_eq!(broker.directories, [Uuid::from_u128(0xd1)]);
        // Leader change, features, registration, unfencing.
        assert_eq!((broker.epoch, image.last_applied_offset()), (4, Offset(5)));
        let disk = platform.disk();
        let state = disk
            .read_file(Path::new("/d/__cluster_metadata-0/quorum-state"))
            .await;
        assert!(
            String::from_utf8(state.unwrap())
                .unwrap()
                .contains("\"leaderEpoch\":1,")
        );
        assert!(
            disk.read_file(Path::new("/d/bootstrap.checkpoint"))
                .await
                .is_ok()
        );
    });
}

#[test]
fn what_was_answered_is_there_after_a_restart_in_a_higher_epoch() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        let response = controller
            .create_topics(&topics(&["a", "b"]), &caller())
            .await
            .0;
        assert!(response.topics.iter().all(|topic| topic.error_code == 0));
        let deleted = DeleteTopicsRequest::default()
            .with_topic_names(vec![StrBytes::from_static_str("b").into()]);
        controller.delete_topics(&deleted, 3, &caller()).await;
        assert_eq!(controller.allocate_producer_ids().await, Ok((0, 1000)));
        let before = controller.image();
        controller.stop().await.unwrap();

        let controller = start(&platform, 1 << 20).await;
        let image = controller.image();
        assert_eq!(names(&image), ["a"]);
        let (old, new) = (
            before.topic_by_name("a").unwrap(),
            image.topic_by_name("a").unwrap(),
        );
        assert_eq!(old.id, new.id);
        assert_eq!(
            (
                old.partitions[&0].leader_epoch,
                new.partitions[&0].leader_epoch
            ),
            (0, 1)
        );
        assert_eq!(image.applied().epoch, LeaderEpoch(2));
        assert!(image.broker(NODE).unwrap().epoch > before.broker(NODE).unwrap().epoch);
        assert_eq!(controller.allocate_producer_ids().await, Ok((1000, 1000)));
    });
}

#[test]
fn the_offsets_topic_is_made_as_kafka_makes_it() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        let wanted = ["__consumer_offsets", "plain", "__share_group_state"].map(str::to_owned);
        controller.create_missing(&wanted).await.unwrap();
        let image = controller.image();
        assert_eq!(names(&image), ["__consumer_offsets", "plain"]);
        assert_eq!(
            image
                .topic_by_name("__consumer_offsets")
                .unwrap()
                .partitions
                .len(),
            3
        );
        let settings = image
            .settings(ResourceType::TOPIC, "__consumer_offsets")
            .unwrap();
        let settings: Vec<_> = settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            settings,
            [
                "cleanup.policy=compact",
                "compression.type=producer",
                "segment.bytes=104857600"
            ]
        );
    });
}

#[test]
fn snapshots_replace_the_log_below_them() {
    run(async |platform| {
        let controller = start(&platform, 2000).await;
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            controller.create_topics(&topics(&[name]), &caller()).await;
        }
        let before = controller.image();
        controller.stop().await.unwrap();
        let disk = platform.disk();
        let listed = disk
            .list(Path::new("/d/__cluster_metadata-0"))
            .await
            .unwrap();
        let count = |ending: &str| {
            listed
                .iter()
                .filter(|entry| entry.name.ends_with(ending))
                .count()
        };
        assert_eq!((count(".checkpoint"), count(".log")), (1, 1));

        let controller = start(&platform, 2000).await;
        assert_eq!(names(&controller.image()), names(&before));
        assert_eq!(controller.image().feature("metadata.version"), 30);
        controller.create_topics(&topics(&["i"]), &caller()).await;
        controller.stop().await.unwrap();
        assert_eq!(names(&start(&platform, 2000).await.image()).len(), 9);
    });
}

#[test]
fn a_log_of_kafka_is_continued() {
    run(async |platform| {
        let disk = platform.disk();
        let folder = Path::new("/d/__cluster_metadata-0");
        disk.create_dir(folder).await.unwrap();
        for (from, to) in [
            (
                "cluster-metadata.log",
                "__cluster_metadata-0/00000000000000000000.log",
            ),
            ("quorum-state", "__cluster_metadata-0/quorum-state"),
            ("bootstrap.checkpoint", "bootstrap.checkpoint"),
        ] {
            let bytes = std::fs::read(Path::new(GOLDEN).join(from)).unwrap();
            disk.replace_file(&Path::new("/d").join(to), &bytes)
                .await
                .unwrap();
        }
        let controller = start(&platform, 1 << 20).await;
        let image = controller.image();
        assert_eq!(names(&image), ["__consumer_offsets", "meta-b"]);
        assert_eq!(
            image
                .topic_by_name("__consumer_offsets")
                .unwrap()
                .partitions
                .len(),
            50
        );
        let topic = image.topic_by_name("meta-b").unwrap();
        assert_eq!(topic.id.to_string(), "WBS8gI3cSn6WAC3FXyzNkA");
        assert_eq!(topic.partitions.len(), 2);
        // Kafka led it in epoch 0; this start raised it.
        assert_eq!(topic.partitions[&0].leader_epoch, 1);
        assert_eq!(image.settings(ResourceType::TOPIC, "meta-b"), None);
        assert_eq!(
            image.setting(ResourceType::BROKER, "", "log.cleaner.threads"),
            Some("2")
        );
        assert_eq!(image.next_producer_id(), 1000);
        assert_eq!(image.applied().epoch, LeaderEpoch(2));
        // Kafka finalized more than this broker does: it stays in the log, and clients do not hear
        // of it.
        assert_eq!(image.feature("share.version"), 1);
        assert_eq!(
            image.finalized_features().collect::<Vec<_>>(),
            [
                ("group.version", 1),
                ("metadata.version", 30),
                ("transaction.version", 2)
            ]
        );

        assert_eq!(
            controller
                .create_topics(&topics(&["new"]), &caller())
                .await
                .0
                .topics[0]
                .error_code,
            0
        );
        controller.stop().await.unwrap();
        assert_eq!(names(&start(&platform, 1 << 20).await.image()).len(), 3);
    });
}

#[test]
fn a_controller_that_cannot_write_says_so_and_changes_nothing() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        platform.disk().set_read_only(true);
        let response = controller.create_topics(&topics(&["a"]), &caller()).await.0;
        assert_eq!(
            response.topics[0].error_code,
            ErrorCode::KafkaStorageError.code()
        );
        assert!(response.topics[0].topic_id.is_nil());
        assert!(controller.image().topic_by_name("a").is_none());
        assert_eq!(
            controller.allocate_producer_ids().await,
            Err(ErrorCode::KafkaStorageError)
        );
    });
}

#[test]
fn what_was_answered_survives_a_crash_at_any_operation() {
    for at in 0..150 {
        run(async |platform| {
            let mut answered = Vec::new();
            platform.disk().inject(Fault::at(at, Effect::PowerOff));
            if let Some(controller) = try_start(&platform, 1000).await {
                for name in ["a", "b", "c", "d"] {
                    let response = controller
                        .create_topics(&topics(&[name]), &caller())
                        .await
                        .0;
                    if response.topics[0].error_code == 0 {
                        answered.push(name.to_owned());
                    }
                }
            }
            let disk = platform.disk().crash(at);
            let again = SimPlatform::on(disk, platform.clock().clone(), 9);
            let controller = start(&again, 1000).await;
            let found = names(&controller.image());
            assert!(
                answered.iter().all(|name| found.contains(name)),
                "crash at {at}: {answered:?} were answered, {found:?} are there"
            );
        });
    }
}
