//! Metadata that no controller wrote, or that a disk has spoilt: the start goes on without it, or
//! names the file and the tool.

use std::path::Path;

use broker::controller::offline;
use broker::image::ResourceType;
use broker::options::{AllowedValues, Changes, ConfigKey, ConfigKind};
use platform::Disk;
use platform::Platform;
use platform::sim::{Rng, SimPlatform};
use storage::OpenAs;
use wire::batch::{BatchBuilder, Batches, crc_of};
use wire::records::metadata::{
    BrokerRegistrationChangeRecord, ClientQuotaRecord, ConfigRecord, FenceBrokerRecord,
    MetadataRecord, MetadataVersion, PartitionChangeRecord, PartitionRecord, ProducerIdsRecord,
    QuotaEntityEntry, RemoveTopicRecord, TopicRecord, UnfenceBrokerRecord,
};
use wire::types::{LeaderEpoch, NodeId, Offset, TimestampMs, Uuid};

use crate::{NOT_SAVED, begin, begin_saved, caller, names, run, start, topics};

const LOG: &str = "/d/__cluster_metadata-0/00000000000000000000.log";

/// The configuration table: the settings whose values a tool may show, and one that it may not.
static KEYS: [ConfigKey; 2] = [
    key("max.connections", ConfigKind::Int, false),
    key("ssl.key.password", ConfigKind::Password, true),
];

const fn key(name: &'static str, kind: ConfigKind, sensitive: bool) -> ConfigKey {
    ConfigKey {
        name,
        kind,
        default: None,
        allowed: AllowedValues::Any,
        doc: "doc",
        changes: Changes::ClusterWide,
        sensitive,
    }
}

/// Returns the record that sets a setting.
fn setting(kind: i8, resource: &str, name: &str, value: &str) -> ConfigRecord {
    ConfigRecord {
        resource_type: kind,
        resource_name: resource.to_owned(),
        name: name.to_owned(),
        value: Some(value.to_owned()),
    }
}

/// Puts a batch of these records at the end of the log of a broker that is not running.
pub(crate) fn add(platform: &SimPlatform, records: &[MetadataRecord]) {
    let mut log = platform.disk().contents(Path::new(LOG)).unwrap();
    let (mut end, mut next, mut epoch) = (0, Offset(0), LeaderEpoch(0));
    for batch in Batches::new(&log.clone()) {
        let Ok((header, bytes)) = batch else { break };
        end += bytes.len();
        (next, epoch) = (header.next_offset(), header.leader_epoch);
    }
    log.truncate(end);
    let mut batch = BatchBuilder::new(next, epoch);
    for record in records {
        let value = record.encode(MetadataVersion::V4_3);
        batch.add(TimestampMs(0), None, Some(&value), &[]);
    }
    log.extend_from_slice(&batch.finish().unwrap());
    platform.disk().put(Path::new(LOG), &log).unwrap();
}

/// One record of each type that can be at odds with what is before it.
fn misfits(topic: Uuid) -> Vec<MetadataRecord> {
    let nowhere = Uuid::from_u128(0xbad);
    let change = |topic_id, partition_id| PartitionChangeRecord {
        topic_id,
        partition_id,
        leader: 1,
        ..PartitionChangeRecord::default()
    };
    let partition = |topic_id, partition_id| PartitionRecord {
        topic_id,
        partition_id,
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        ..PartitionRecord::default()
    };
    let mut records: Vec<MetadataRecord> = [nowhere, topic]
        .map(|topic_id| MetadataRecord::from(change(topic_id, 77)))
        .into();
    records.extend([
        RemoveTopicRecord { topic_id: nowhere }.into(),
        partition(nowhere, 0).into(),
        partition(topic, -1).into(),
        PartitionRecord {
            directories: vec![Uuid::from_u128(1), Uuid::from_u128(2)],
            ..partition(topic, 5)
        }
        .into(),
        TopicRecord {
            name: "other".into(),
            topic_id: topic,
        }
        .into(),
        ProducerIdsRecord {
            broker_id: 1,
            broker_epoch: 1,
            next_producer_id: -5,
        }
        .into(),
        FenceBrokerRecord { id: 9, epoch: 1 }.into(),
        UnfenceBrokerRecord { id: 1, epoch: 4711 }.into(),
        BrokerRegistrationChangeRecord {
            broker_id: 3,
            ..BrokerRegistrationChangeRecord::default()
        }
        .into(),
    ]);
    records
}

#[test]
fn one_record_that_does_not_fit_is_no_reason_not_to_start() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        controller.create_topics(&topics(&["a"]), &caller()).await;
        let topic = controller.image().topic_by_name("a").unwrap().id.0;
        controller.stop().await.unwrap();
        let all = misfits(topic);
        for record in all.iter().chain([&all[0]]) {
            add(&platform, std::slice::from_ref(record));
            begin(&platform, 1 << 20)
                .await
                .unwrap_or_else(|error| panic!("{record:?}: {error}"))
                .stop()
                .await
                .unwrap();
        }
        let good = TopicRecord {
            name: "z".into(),
            topic_id: Uuid::from_u128(0x1234),
        };
        add(&platform, &[all.clone(), vec![good.into()], all].concat());
        let controller = start(&platform, 1 << 20).await;
        assert_eq!(names(&controller.image()), ["a", "z"]);
        let partitions = &controller
            .image()
            .topic_by_name("a")
            .unwrap()
            .partitions
            .clone();
        assert_eq!(partitions.keys().copied().collect::<Vec<_>>(), [0, 1, 5]);
        assert_eq!(controller.allocate_producer_ids().await, Ok((0, 1000)));
        // What was passed over is not in the snapshot that a small log is given.
        controller.stop().await.unwrap();
        let controller = start(&platform, 1).await;
        controller.create_topics(&topics(&["b"]), &caller()).await;
        controller.stop().await.unwrap();
        assert_eq!(names(&start(&platform, 1).await.image()), ["a", "b", "z"]);
    });
}

#[test]
fn producer_ids_that_are_used_up_are_refused_and_not_asked_for_ever() {
    run(async |platform| {
        start(&platform, 1 << 20).await.stop().await.unwrap();
        let last = ProducerIdsRecord {
            broker_id: 1,
            broker_epoch: 1,
            next_producer_id: i64::MAX - 5,
        };
        add(&platform, &[last.into()]);
        let controller = start(&platform, 1 << 20).await;
        assert!(controller.allocate_producer_ids().await.is_err());
    });
}

#[test]
fn an_odd_quorum_state_is_set_aside() {
    run(async |platform| {
        start(&platform, 1 << 20).await.stop().await.unwrap();
        let path = Path::new("/d/__cluster_metadata-0/quorum-state");
        for bytes in [
            &b""[..],
            b"\0\0\0",
            b"{\"leaderEpoch\":2147483647,\"data_version\":0}",
        ] {
            platform.disk().put(path, bytes).unwrap();
            let before = begin(&platform, 1 << 20).await.unwrap();
            assert!(before.image().applied().epoch > LeaderEpoch(1));
            before.stop().await.unwrap();
            let aside = path.with_extension("damaged");
            assert_eq!(platform.disk().contents(&aside).unwrap(), bytes);
        }
    });
}

/// Damages a file as disks do, or as another program that writes to it.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let len = u64::try_from(bytes.len()).unwrap();
    let at = usize::try_from(rng.below(len + 1)).unwrap();
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes
            .iter_mut()
            .skip(at)
            .take(64)
            .for_each(|byte| *byte = 0),
        2 => bytes.extend((0..200).map(|_| rng.next_u64().to_le_bytes()[0])),
        3 => *bytes = (0..at).map(|_| rng.next_u64().to_le_bytes()[0]).collect(),
        4 => bytes.splice(at..at, 0..16).for_each(drop),
        _ => {
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(len.max(1))).unwrap();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
    }
    // Numbers of a batch at their ends, under a right checksum.
    if rng.chance(50) && bytes.len() > 61 {
        let extremes = [i64::MIN, -1, 0, 1 << 62, i64::MAX - 1, i64::MAX];
        let pick = |rng: &mut Rng| extremes[usize::try_from(rng.below(6)).unwrap()];
        match rng.below(3) {
            0 => bytes[..8].copy_from_slice(&pick(rng).to_be_bytes()),
            1 => bytes[12..16].copy_from_slice(&i32::MAX.to_be_bytes()),
            _ => bytes[23..27].copy_from_slice(&i32::MAX.to_be_bytes()),
        }
        let length = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
        let end = usize::try_from(length).unwrap().saturating_add(12);
        if let Some(checked) = bytes.get(..end).filter(|batch| batch.len() >= 61) {
            let crc = crc_of(checked);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
    }
}

#[test]
fn whatever_the_files_hold_the_start_succeeds_or_names_the_file_and_the_tool() {
    let (mut started, mut mistaken) = (0, 0);
    for seed in 0..400 {
        run(async |platform| {
            let mut rng = Rng::new(seed);
            let snapshot_bytes = if rng.chance(50) { 1 << 20 } else { 1500 };
            let controller = start(&platform, snapshot_bytes).await;
            for name in ["a", "b", "c", "d", "e"] {
                controller.create_topics(&topics(&[name]), &caller()).await;
            }
            controller.stop().await.unwrap();
            let folder = Path::new("/d/__cluster_metadata-0");
            let listed = platform.disk().list(folder).await.unwrap();
            let mut files: Vec<_> = listed
                .iter()
                .map(|entry| folder.join(&entry.name))
                .collect();
            files.push("/d/bootstrap.checkpoint".into());
            files.retain(|file| platform.disk().contents(file).is_ok());
            let file = &files[usize::try_from(rng.below(files.len() as u64)).unwrap()];
            let mut bytes = platform.disk().contents(file).unwrap();
            damage(&mut bytes, &mut rng);
            platform.disk().put(file, &bytes).unwrap();
            let found = offline::read(&folder_files(&platform).await, &KEYS);
            match begin(&platform, snapshot_bytes).await {
                Ok(_) => {
                    started += 1;
                    mistaken += usize::from(found.is_fatal());
                }
                Err(error) => {
                    assert!(
                        error.contains("/d/") && error.contains("forebay metadata check /d"),
                        "seed {seed}, {}: {error}",
                        file.display()
                    );
                    if file.ends_with("bootstrap.checkpoint") {
                        return;
                    }
                    assert!(
                        !found.findings.is_empty(),
                        "seed {seed}, {}: unseen by the tool: {error}",
                        file.display()
                    );
                    repair(&platform).await;
                    let repaired = begin(&platform, snapshot_bytes).await;
                    repaired.unwrap_or_else(|error| panic!("seed {seed}: repaired: {error}"));
                }
            }
        });
    }
    assert!(started > 100, "only {started} of 400 start");
    assert!(
        mistaken < 40,
        "the tool cries wolf: {mistaken} of {started}"
    );
}

async fn folder_files(platform: &SimPlatform) -> offline::Files {
    let folder = Path::new("/d/__cluster_metadata-0");
    let listed = platform.disk().list(folder).await.unwrap();
    let read = |entry: &platform::disk::Entry| {
        let bytes = platform.disk().contents(&folder.join(&entry.name)).ok()?;
        Some((entry.name.clone(), bytes.into()))
    };
    listed.iter().filter_map(read).collect()
}

/// What `forebay metadata repair` does.
async fn repair(platform: &SimPlatform) -> offline::Reading {
    let folder = Path::new("/d/__cluster_metadata-0");
    let reading = offline::read(&folder_files(platform).await, &KEYS);
    let disk = platform.disk();
    let aside = Path::new("/d/__cluster_metadata-0.0.aside");
    disk.rename(folder, aside).await.unwrap();
    disk.create_dir(folder).await.unwrap();
    let (name, bytes) = reading.snapshot().unwrap();
    disk.put(&folder.join(name), &bytes).unwrap();
    let (name, bytes) = reading.quorum_state(NodeId(1));
    disk.put(&folder.join(name), &bytes).unwrap();
    reading
}

#[test]
fn all_that_can_be_read_is_kept_by_a_repair() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        for name in ["a", "b", "c"] {
            controller.create_topics(&topics(&[name]), &caller()).await;
        }
        let before = controller.image();
        controller.stop().await.unwrap();
        let mut log = platform.disk().contents(Path::new(LOG)).unwrap();
        // Somewhere in the batch that creates "b".
        let at = log.windows(2).position(|it| it == [2, b'b']).unwrap();
        log[at + 1] ^= 1;
        platform.disk().put(Path::new(LOG), &log).unwrap();
        // A start after a crash would cut the log there: "c" would be out of sight.
        let reading = repair(&platform).await;
        assert!(reading.is_fatal());
        let controller = start(&platform, 1 << 20).await;
        assert_eq!(names(&controller.image()), ["a", "c"]);
        for name in ["a", "c"] {
            let (now, then) = (controller.image(), before.topic_by_name(name).unwrap().id);
            assert_eq!(now.topic_by_name(name).unwrap().id, then);
        }
        controller.create_topics(&topics(&["d"]), &caller()).await;
        controller.stop().await.unwrap();
        assert_eq!(
            names(&start(&platform, 1 << 20).await.image()),
            ["a", "c", "d"]
        );
    });
}

#[test]
fn dynamic_values_are_taken_back_of_a_broker_that_does_not_run() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        controller.create_topics(&topics(&["a"]), &caller()).await;
        controller.stop().await.unwrap();
        let config = |kind, resource: &str, name: &str| setting(kind, resource, name, "1");
        let quota = ClientQuotaRecord {
            entity: vec![QuotaEntityEntry {
                entity_type: "ip".to_owned(),
                entity_name: None,
            }],
            key: "connection_creation_rate".to_owned(),
            value: 5e-324,
            remove: false,
        };
        let records = [
            config(4, "", "max.connections").into(),
            config(4, "1", "max.connections").into(),
            config(2, "a", "retention.ms").into(),
            quota.into(),
        ];
        add(&platform, &records);
        let mut reading = offline::read(&folder_files(&platform).await, &KEYS);
        assert!(!reading.is_fatal(), "{:?}", reading.findings);
        assert_eq!(reading.reset("max.connections", None).len(), 2);
        assert_eq!(reading.reset("connection_creation_rate", None).len(), 1);
        assert!(reading.reset("retention.ms", Some("b")).is_empty());
        let (name, bytes) = reading.snapshot().unwrap();
        let folder = Path::new("/d/__cluster_metadata-0");
        platform.disk().put(&folder.join(name), &bytes).unwrap();
        let image = start(&platform, 1 << 20).await.image();
        assert_eq!(
            image.setting(ResourceType::BROKER, "", "max.connections"),
            None
        );
        assert_eq!(
            image.setting(ResourceType::BROKER, "1", "max.connections"),
            None
        );
        assert_eq!(
            image.setting(ResourceType::TOPIC, "a", "retention.ms"),
            Some("1")
        );
        assert!(image.quotas().is_empty());
        assert_eq!(names(&image), ["a"]);
    });
}

#[test]
fn a_tool_shows_no_value_of_a_setting_that_may_be_a_secret() {
    const SHOWN: [(i8, &str, &str); 6] = [
        (4, "", "max.connections"),
        (4, "1", "listener.name.outside.max.connections"),
        (4, "", "follower.replication.throttled.rate"),
        (2, "a", "retention.ms"),
        (16, "m", "interval.ms"),
        (32, "g", "consumer.session.timeout.ms"),
    ];
    const HIDDEN: [(i8, &str, &str); 9] = [
        (4, "", "listener.name.outside.plain.sasl.jaas.config"),
        (4, "1", "listener.name.outside.ssl.keystore.key"),
        (4, "1", "ssl.key.password"),
        (4, "", "plugin.token"),
        (2, "a", "plugin.key"),
        (8, "1", "kafka.server"),
        (16, "m", "plugin.key"),
        (32, "g", "plugin.key"),
        (99, "x", "retention.ms"),
    ];
    run(async |platform| {
        start(&platform, 1 << 20).await.stop().await.unwrap();
        let set = |settings: &[(i8, &str, &str)], value: &str| -> Vec<MetadataRecord> {
            let settings = settings.iter();
            let records = settings.map(|(kind, of, name)| setting(*kind, of, name, value).into());
            records.collect()
        };
        add(&platform, &set(&SHOWN, "in-the-open"));
        add(&platform, &set(&HIDDEN, "canary"));
        let mut reading = offline::read(&folder_files(&platform).await, &KEYS);
        let told: Vec<&str> = reading.shown.iter().map(|it| it.text.as_str()).collect();
        let told = told.join("\n");
        assert!(!told.contains("canary"), "{told}");
        assert_eq!(told.matches("in-the-open").count(), SHOWN.len(), "{told}");
        assert_eq!(
            told.matches("value: hidden").count(),
            HIDDEN.len(),
            "{told}"
        );
        for (.., name) in SHOWN.into_iter().chain(HIDDEN) {
            assert!(told.contains(&format!("name: {name:?}")), "{name}: {told}");
        }
        let without_table = offline::read(&folder_files(&platform).await, &[]);
        let told = without_table
            .shown
            .iter()
            .filter(|it| it.text.contains("in-the-open"));
        assert_eq!(
            told.count(),
            SHOWN.len() - 2,
            "a table says what is no secret"
        );
        // The same of what a reset drops.
        for (.., name) in HIDDEN {
            let dropped = reading.reset(name, None);
            assert!(!dropped.join(" ").contains("canary"), "{dropped:?}");
        }
        let dropped = reading.reset("max.connections", None);
        assert_eq!(
            dropped,
            [r#"broker "(all)": max.connections="in-the-open""#]
        );
    });
}

#[test]
fn damage_amid_the_metadata_is_refused_and_mended_and_nothing_behind_it_vanishes() {
    // In a record, in the length of a batch, in all of its header, and over the border of two
    // batches.
    type Damage = fn(&mut Vec<u8>, usize);
    let damages: [Damage; 4] = [
        |log, at| log[at + 80] ^= 1,
        |log, at| log[at + 9] ^= 0x40,
        |log, at| log[at..at + 61].fill(0xee),
        |log, at| log[at - 20..at + 30].fill(0),
    ];
    for damage in damages {
        run(async |platform| {
            let controller = start(&platform, 1 << 20).await;
            for name in ["a", "b", "c"] {
                controller.create_topics(&topics(&[name]), &caller()).await;
            }
            controller.stop().await.unwrap();
            let mut log = platform.disk().contents(Path::new(LOG)).unwrap();
            let name = log.windows(2).position(|it| it == [2, b'b']).unwrap();
            let mut at = 0;
            for batch in Batches::new(&log.clone()) {
                let Ok((_, bytes)) = batch else { break };
                if at + bytes.len() > name {
                    break;
                }
                at += bytes.len();
            }
            damage(&mut log, at);
            platform.disk().put(Path::new(LOG), &log).unwrap();
            let error = begin(&platform, 1 << 20).await.err().unwrap();
            let (file, tool) = (LOG, "forebay metadata repair /d");
            assert!(error.contains(file) && error.contains(tool), "{error}");
            assert_eq!(
                platform.disk().contents(Path::new(LOG)).unwrap(),
                log,
                "nothing is cut off"
            );
            assert!(repair(&platform).await.is_fatal());
            let controller = start(&platform, 1 << 20).await;
            let found = names(&controller.image());
            assert!(found.contains(&"c".to_owned()), "{found:?}");
            assert!(!found.contains(&"b".to_owned()), "{found:?}");
        });
    }
}

#[test]
fn metadata_that_was_being_written_when_the_power_went_is_cut_off_and_the_start_goes_on() {
    type TearFn = fn(&mut Vec<u8>, usize);
    let torn: [TearFn; 3] = [
        |log, end| log.truncate(end - 10),
        // Longer than the zeros in which its last record ends.
        |log, end| log[end - 30..].fill(0),
        |log, _| log.extend([1; 300]),
    ];
    for tear in torn {
        run(async |platform| {
            let controller = start(&platform, 1 << 20).await;
            for name in ["a", "b"] {
                controller.create_topics(&topics(&[name]), &caller()).await;
            }
            controller.stop().await.unwrap();
            // A batch that no client got an answer for.
            add(&platform, &misfits(Uuid::from_u128(7)));
            let mut log = platform.disk().contents(Path::new(LOG)).unwrap();
            let end = log.len();
            let whole = log.clone();
            tear(&mut log, end);
            assert_ne!(log, whole, "it is torn");
            platform.disk().put(Path::new(LOG), &log).unwrap();
            let files = folder_files(&platform).await;
            assert!(!offline::read(&files, &KEYS).is_fatal());
            let judged = offline::judge(&files, true);
            let in_flight = judged.findings.iter().filter(|one| one.in_flight);
            assert_eq!(in_flight.count(), 1, "{:?}", judged.findings);
            let controller = start(&platform, 1 << 20).await;
            let found = names(&controller.image());
            assert_eq!(found[..2], ["a", "b"], "and what was whole of the last");
        });
    }
}

#[test]
fn damage_below_a_snapshot_is_not_fatal_in_a_sealed_segment() {
    run(async |platform| {
        let controller = start(&platform, 1 << 20).await;
        controller.create_topics(&topics(&["a"]), &caller()).await;
        controller.stop().await.unwrap();
        let before = offline::read(&folder_files(&platform).await, &KEYS);
        let (name, bytes) = before.snapshot().unwrap();
        let controller = start(&platform, 1 << 20).await;
        controller.create_topics(&topics(&["b"]), &caller()).await;
        controller.stop().await.unwrap();
        let folder = Path::new("/d/__cluster_metadata-0");
        platform.disk().put(&folder.join(&name), &bytes).unwrap();
        let mut log = platform.disk().contents(Path::new(LOG)).unwrap();
        let whole = log.clone();
        // In the record of "a".
        let at = log.windows(2).position(|it| it == [2, b'a']).unwrap();
        log[at + 1] ^= 1;
        platform.disk().put(Path::new(LOG), &log).unwrap();
        assert!(begin(&platform, 1 << 20).await.is_err());
        assert!(offline::judge(&folder_files(&platform).await, true).is_fatal());
        // The log is rolled where the snapshot ends, as a broker does.
        let (mut place, mut end) = (0, Offset(0));
        let ends = |end: Offset| name.starts_with(&format!("{:020}-", end.0));
        for batch in Batches::new(&whole) {
            let Ok((header, bytes)) = batch else { break };
            if ends(header.base_offset) {
                log.truncate(place);
                let next = folder.join(format!("{:020}.log", header.base_offset.0));
                platform.disk().put(&next, &whole[place..]).unwrap();
            }
            (place, end) = (place + bytes.len(), header.next_offset());
        }
        platform.disk().put(Path::new(LOG), &log).unwrap();
        let judged = offline::judge(&folder_files(&platform).await, true);
        assert_eq!(judged.findings.len(), 1, "{:?}", judged.findings);
        assert!(!judged.is_fatal(), "{:?}", judged.findings);
        let saved = OpenAs {
            clean: true,
            recovery_point: end,
            ..NOT_SAVED
        };
        let controller = begin_saved(&platform, 1 << 20, saved).await.unwrap();
        assert_eq!(names(&controller.image()), ["a", "b"]);
    });
}

#[test]
fn damaged_snapshots_are_fatal_only_if_no_older_one_reaches_the_log() {
    run(async |platform| {
        let controller = start(&platform, 1).await;
        for name in ["a", "b"] {
            controller.create_topics(&topics(&[name]), &caller()).await;
        }
        controller.stop().await.unwrap();
        let mut files = folder_files(&platform).await;
        let whole = files.iter().find(|(name, _)| offline::is_snapshot(name));
        let (last, bytes) = whole.unwrap().clone();
        assert!(offline::is_whole_snapshot(&bytes));
        let damaged = bytes.slice(..bytes.len() - 5);
        assert!(!offline::is_whole_snapshot(&damaged));
        // A whole one, and two that are newer and damaged.
        for end in [4000, 5000] {
            let name = format!("{end:020}-0000000009.checkpoint");
            files.push((name, damaged.clone()));
        }
        let judged = offline::judge(&files, true);
        assert!(
            judged.findings.len() == 2 && !judged.is_fatal(),
            "{judged:?}"
        );
        files.retain(|(name, _)| *name != last);
        assert!(offline::judge(&files, true).is_fatal());
    });
}

#[test]
fn metadata_without_a_record_are_new_unless_a_topic_has_a_log() {
    let files = offline::Files::new();
    let judged = offline::judge(&files, false);
    assert!(judged.findings.is_empty() && judged.is_empty());
    assert!(offline::judge(&files, true).is_fatal());
}

#[test]
fn what_a_start_makes_of_metadata_takes_bounded_memory() {
    run(async |platform| {
        start(&platform, 1 << 20).await.stop().await.unwrap();
        let many = misfits(Uuid::from_u128(7)).into_iter().cycle();
        let many: Vec<_> = many.take(5000).collect();
        add(&platform, &many);
        let mut files = folder_files(&platform).await;
        let (all, judged) = (offline::read(&files, &KEYS), offline::judge(&files, true));
        assert!(all.findings.len() > 2000 && all.more_findings == 0);
        let kept = judged.findings.len();
        assert_eq!(kept + judged.more_findings, all.findings.len());
        assert!(kept <= 1000 && judged.shown.is_empty() && !judged.is_fatal());
        // What is fatal is kept, however late it comes.
        let (_, log) = files
            .iter_mut()
            .find(|(name, _)| LOG.ends_with(name))
            .unwrap();
        *log = [&log[..], &log[..]].concat().into();
        assert!(offline::judge(&files, true).is_fatal());
    });
}

#[test]
fn of_many_snapshots_a_start_reads_the_newest_first() {
    let snapshot = |end: u64| format!("{end:020}-0000000001.checkpoint");
    let others = [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "quorum-state",
        "00000000000000000009-0000000001.checkpoint.part",
    ];
    let names = others.iter().map(|name| (*name).to_owned());
    let needed = offline::needed(names.chain([3, 40, 7].map(snapshot)).collect());
    let newest_first = [40, 7, 3].map(snapshot);
    let [newest, older, oldest] = newest_first.each_ref().map(String::as_str);
    assert_eq!(needed, [others[0], others[2], newest, older, oldest]);
    assert!(newest_first.iter().all(|name| offline::is_snapshot(name)));
    assert!(!others.iter().any(|name| offline::is_snapshot(name)));
}
