//! What topics do to the batches of producers, and what they do not take.

use bytes::Bytes;
use platform::sim::SimDisk;
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::batch::compression::Compression;
use wire::messages::IncrementalAlterConfigsRequest;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::types::{ErrorCode, LeaderEpoch, Offset, TimestampMs};

use crate::harness::asks::{error, fetch, outcome, partitions, text};
use crate::harness::batches::{batch, batch_at, marker};
use crate::harness::{Cluster, NOW_MS, Setup, life};

const BROKER: i8 = 4;

fn on(story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(2), story);
}

fn builder(codec: Compression) -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1)).compression(codec)
}

/// A batch of one record.
fn coded(codec: Compression, value: &str) -> Bytes {
    let mut builder = builder(codec);
    let headers = [("h", Some(&b"1"[..])), ("null", None)];
    builder.add(
        TimestampMs(NOW_MS),
        Some(b"k"),
        Some(value.as_bytes()),
        &headers,
    );
    builder.finish().unwrap()
}

/// The stored batch at an offset.
async fn stored(cluster: &Cluster, topic: &str, at: i64) -> Bytes {
    let answer = cluster.ask(12, &fetch(topic, &[(0, at)])).await;
    let records = partitions(&answer)[0].records.clone().unwrap();
    let header = BatchHeader::parse(&records).unwrap();
    assert_eq!(header.base_offset.0, at);
    records.slice(..header.size_bytes)
}

async fn codec_at(cluster: &Cluster, topic: &str, at: i64) -> Compression {
    let batch = stored(cluster, topic, at).await;
    assert_eq!(
        wire::batch::crc_of(&batch),
        BatchHeader::parse(&batch).unwrap().crc
    );
    Compression::from_code(BatchHeader::parse(&batch).unwrap().compression_code()).unwrap()
}

/// Sets or, with `None`, removes a setting of this broker, or of all when `broker` is empty.
async fn alter_broker(
    cluster: &Cluster,
    broker: &str,
    name: &str,
    value: Option<&str>,
) -> Option<ErrorCode> {
    let setting = AlterableConfig::default()
        .with_name(text(name))
        .with_config_operation(i8::from(value.is_none()))
        .with_value(value.map(text));
    let resource = AlterConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(text(broker))
        .with_configs(vec![setting]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    error(cluster.ask(1, &request).await.responses[0].error_code)
}

#[test]
fn batches_are_stored_in_the_codec_that_the_topic_asks_for() {
    on(async |cluster| {
        let all = [
            ("uncompressed", Compression::None),
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ];
        cluster.create("producer", 1).await;
        for (name, wanted) in all {
            cluster
                .create_with(name, 1, &[("compression.type", name)])
                .await;
            for (at, (_, sent)) in (0..).zip(all) {
                let records = coded(sent, "value");
                assert_eq!(cluster.try_produce(name, 0, records).await, Ok(at));
                assert_eq!(
                    codec_at(cluster, name, at).await,
                    wanted,
                    "{sent:?} to {name}"
                );
            }
            let values = cluster.values(name, 0).await;
            assert_eq!(values, ["value"; 5]);
            let sent = coded(wanted, "value");
            let at = cluster.try_produce("producer", 0, sent).await.unwrap();
            assert_eq!(codec_at(cluster, "producer", at).await, wanted);
        }
    });
}

#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    on(async |cluster| {
        let config = [("internal.segment.bytes", "2000")];
        cluster.create_with("t", 1, &config).await;
        let sent = coded(Compression::None, &"x".repeat(3000));
        let refused = cluster.try_produce("t", 0, sent).await;
        assert_eq!(refused, Err(ErrorCode::RecordListTooLarge));
        for at in 0..5 {
            let sent = coded(Compression::None, &"x".repeat(1500));
            assert_eq!(cluster.try_produce("t", 0, sent).await, Ok(at));
        }
        cluster
            .create_with("none", 1, &[("internal.segment.bytes", "-1")])
            .await;
        let sent = coded(Compression::None, "x");
        let refused = cluster.try_produce("none", 0, sent).await;
        assert_eq!(refused, Err(ErrorCode::RecordListTooLarge));
    });
}

#[test]
fn a_batch_that_grows_too_large_in_the_topics_codec_is_refused() {
    on(async |cluster| {
        let config = [
            ("compression.type", "uncompressed"),
            ("max.message.bytes", "2000"),
        ];
        cluster.create_with("t", 1, &config).await;
        let sent = coded(Compression::Gzip, &"x".repeat(5000));
        assert!(sent.len() < 2000);
        let refused = cluster.try_produce("t", 0, sent).await;
        assert_eq!(refused, Err(ErrorCode::MessageTooLarge));
        assert_eq!(cluster.produce("t", 0, &["small"]).await, 0);
    });
}

#[test]
fn a_brokers_setting_for_topics_takes_effect_when_it_is_changed() {
    on(async |cluster| {
        cluster.create("t", 1).await;
        let sent = || coded(Compression::None, "value");
        let name = "compression.type";
        let changes = [
            ("", Some("zstd"), Compression::Zstd),
            // This broker's own is stronger.
            ("1", Some("gzip"), Compression::Gzip),
            ("1", None, Compression::Zstd),
            ("", None, Compression::None),
        ];
        for (at, (broker, value, expected)) in (0..).zip(changes) {
            assert_eq!(alter_broker(cluster, broker, name, value).await, None);
            assert_eq!(cluster.try_produce("t", 0, sent()).await, Ok(at));
            assert_eq!(
                codec_at(cluster, "t", at).await,
                expected,
                "{broker:?} {value:?}"
            );
        }
    });
}

#[test]
fn headers_and_null_values_come_back_as_they_were_sent() {
    on(async |cluster| {
        cluster
            .create_with("t", 1, &[("compression.type", "zstd")])
            .await;
        let sent = coded(Compression::None, "value");
        cluster.try_produce("t", 0, sent.clone()).await.unwrap();
        let stored = stored(cluster, "t", 0).await;
        let read = |batch: &Bytes| {
            let records = wire::batch::record::records(batch).unwrap();
            records
                .map(|record| format!("{:?}", record.unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&stored), read(&sent));
        assert!(read(&sent)[0].contains("null"), "{:?}", read(&sent));
    });
}

#[test]
fn records_without_a_key_are_named_one_by_one_where_the_topic_is_compacted() {
    on(async |cluster| {
        cluster
            .create_with("t", 1, &[("cleanup.policy", "compact")])
            .await;
        let mut builder = builder(Compression::None);
        for key in [Some(&b"k"[..]), None, Some(b"k"), None] {
            builder.add(TimestampMs(NOW_MS), key, Some(b"v"), &[]);
        }
        let answer = cluster
            .produce_answer("t", -1, 0, builder.finish().unwrap())
            .await;
        assert_eq!(outcome(&answer), Err(ErrorCode::InvalidRecord));
        let named = answer.record_errors.iter().map(|record| record.batch_index);
        assert_eq!(named.collect::<Vec<_>>(), [1, 3]);
        let message = answer.record_errors[0].batch_index_error_message.clone();
        let message = message.unwrap_or_default();
        assert!(message.contains("without key"), "{message}");
        assert_eq!(
            cluster.offset("t", 0, -1).await,
            0,
            "none of them is stored"
        );
    });
}

#[test]
fn clients_do_not_write_control_batches() {
    on(async |cluster| {
        cluster.create("t", 1).await;
        let mut records = marker(1, true).to_vec();
        // Not a transactional one, which would be refused for that.
        records[22] &= !0x10;
        let crc = wire::batch::crc_of(&records);
        records[17..21].copy_from_slice(&crc.to_be_bytes());
        let refused = cluster.try_produce("t", 0, records.into()).await;
        assert_eq!(refused, Err(ErrorCode::InvalidRecord));
    });
}

#[test]
fn times_too_far_behind_are_refused_where_the_topic_says_so() {
    on(async |cluster| {
        let config = [("message.timestamp.before.max.ms", "1000")];
        cluster.create_with("t", 1, &config).await;
        cluster.create("any", 1).await;
        let old = || batch_at(NOW_MS - 3_600_000, &["old"]);
        let refused = cluster.try_produce("t", 0, old()).await;
        assert_eq!(refused, Err(ErrorCode::InvalidTimestamp));
        assert_eq!(cluster.try_produce("any", 0, old()).await, Ok(0));
        assert_eq!(cluster.try_produce("t", 0, batch(&["now"])).await, Ok(0));
    });
}
