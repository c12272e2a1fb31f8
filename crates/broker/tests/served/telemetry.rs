//! Clients that are asked for their metrics, and what becomes of these.

use bytes::Bytes;
use platform::Platform as _;
use platform::sim::SimDisk;
use wire::batch::compression::Compression;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    ApiVersionsRequest, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
    IncrementalAlterConfigsRequest, PushTelemetryRequest,
};
use wire::types::{ErrorCode, Uuid};

use crate::harness::asks::{error, text};
use crate::harness::{Cluster, Setup, life};
use crate::hostile_fetch::counted;

const CLIENT_METRICS: i8 = 16;
/// A gauge called `lag` with the value 2.5.
const METRICS: &[u8] = &[
    10, 22, 18, 20, 18, 18, 10, 3, b'l', b'a', b'g', 42, 11, 10, 9, 33, 0, 0, 0, 0, 0, 0, 4, 64,
];

async fn subscribe(cluster: &Cluster, name: &str, settings: &[(&str, &str)]) {
    let settings = settings.iter().map(|(name, value)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    });
    let resource = AlterConfigsResource::default()
        .with_resource_type(CLIENT_METRICS)
        .with_resource_name(text(name))
        .with_configs(settings.collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = cluster.ask(1, &request).await;
    assert_eq!(error(answer.responses[0].error_code), None);
}

async fn asked(cluster: &Cluster, id: Uuid) -> GetTelemetrySubscriptionsResponse {
    let request = GetTelemetrySubscriptionsRequest::default().with_client_instance_id(id);
    cluster.ask(0, &request).await
}

async fn push(cluster: &Cluster, request: PushTelemetryRequest) -> Option<ErrorCode> {
    error(cluster.ask_at(1, 0, &request).await.error_code)
}

fn metrics(told: &GetTelemetrySubscriptionsResponse) -> Vec<&str> {
    let metrics = told.requested_metrics.iter();
    metrics.map(wire::StrBytes::as_str).collect()
}

#[test]
fn clients_are_told_what_the_subscriptions_that_match_them_want() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        let told = asked(cluster, Uuid::nil()).await;
        let id = told.client_instance_id;
        assert_ne!(id, Uuid::nil(), "it is given a name");
        assert_eq!(metrics(&told), [""; 0]);
        assert_eq!(told.push_interval_ms, 300_000);
        assert_eq!(told.telemetry_max_bytes, 1 << 20);
        assert_eq!(told.accepted_compression_types, [4, 3, 1, 2]);
        assert!(told.delta_temporality);
        let early = asked(cluster, id).await;
        assert_eq!(
            error(early.error_code),
            Some(ErrorCode::ThrottlingQuotaExceeded)
        );
        subscribe(
            cluster,
            "one",
            &[("metrics", "b.,a."), ("interval.ms", "5000")],
        )
        .await;
        let matching = "client_id=harn.*,client_source_address=127\\.0\\.0\\.1";
        subscribe(cluster, "two", &[("metrics", "c."), ("match", matching)]).await;
        // The expression has to match the whole.
        let other = [("metrics", "*"), ("match", "client_id=harn")];
        subscribe(cluster, "three", &other).await;
        let told = asked(cluster, id).await;
        assert_eq!(error(told.error_code), None, "changes are told at once");
        assert_eq!(metrics(&told), ["a.", "b.", "c."]);
        assert_eq!(told.push_interval_ms, 5000);
        subscribe(cluster, "three", &[("match", "")]).await;
        assert_eq!(metrics(&asked(cluster, id).await), ["*"]);
    });
}

#[test]
fn a_client_is_known_by_the_software_that_it_named_on_its_connection() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        let by_name = [("metrics", "x."), ("match", "client_software_name=tester")];
        subscribe(cluster, "named", &by_name).await;
        assert_eq!(metrics(&asked(cluster, Uuid::nil()).await), [""; 0]);
        let hello = ApiVersionsRequest::default()
            .with_client_software_name(text("tester"))
            .with_client_software_version(text("1.0"));
        let software = std::rc::Rc::default();
        cluster.ask_as(&software, 3, &hello).await;
        let question = GetTelemetrySubscriptionsRequest::default();
        let told = cluster.ask_as(&software, 0, &question).await;
        assert_eq!(metrics(&told), ["x."]);
    });
}

#[test]
fn what_is_pushed_is_judged_and_shown() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        let settings = [("metrics", "*"), ("interval.ms", "1000")];
        subscribe(cluster, "all", &settings).await;
        let told = asked(cluster, Uuid::nil()).await;
        let good = PushTelemetryRequest::default()
            .with_client_instance_id(told.client_instance_id)
            .with_subscription_id(told.subscription_id)
            .with_metrics(Bytes::from_static(METRICS));
        assert_eq!(push(cluster, good.clone()).await, None);
        let shown = cluster.shown_metrics();
        let line = shown
            .lines()
            .find(|line| line.starts_with("forebay_client_metric{"));
        let line = line.expect("the value of the client");
        assert!(
            line.contains("metric=\"lag\"") && line.ends_with(" 2.5"),
            "{line}"
        );
        let early = push(cluster, good.clone()).await;
        assert_eq!(early, Some(ErrorCode::ThrottlingQuotaExceeded));
        for (bad, expected) in [
            (
                good.clone().with_subscription_id(told.subscription_id ^ 1),
                ErrorCode::UnknownSubscriptionId,
            ),
            (
                good.clone().with_compression_type(9),
                ErrorCode::UnsupportedCompressionType,
            ),
            (
                good.clone().with_metrics(vec![0; (1 << 20) + 1].into()),
                ErrorCode::TelemetryTooLarge,
            ),
            (
                good.clone().with_metrics(Bytes::from_static(b"nonsense")),
                ErrorCode::InvalidRecord,
            ),
            (
                good.clone().with_client_instance_id(Uuid::nil()),
                ErrorCode::InvalidRequest,
            ),
        ] {
            cluster.pass_ms(1000).await;
            assert_eq!(push(cluster, bad).await, Some(expected));
        }
        cluster.pass_ms(1000).await;
        assert_eq!(
            push(cluster, good.clone().with_terminating(true)).await,
            None
        );
        cluster.pass_ms(1000).await;
        assert_eq!(push(cluster, good).await, Some(ErrorCode::InvalidRequest));
        // Three intervals, but at least a minute; looked for with retention.
        cluster.pass_ms(700_000).await;
        let shown = cluster.shown_metrics();
        assert!(!shown.contains("metric=\"lag\""), "{shown}");
    });
}

/// A gauge of that name, as a client pushes it.
fn gauge(name: &[u8]) -> Vec<u8> {
    fn message(number: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = body.len();
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap());
        bytes.extend(body);
        bytes
    }
    let point = [&[33][..], &2.5_f64.to_le_bytes()].concat();
    let metric = [message(1, name), message(5, &message(1, &point))].concat();
    message(1, &message(2, &message(2, &metric)))
}

#[test]
fn a_small_push_of_a_long_name_is_refused_and_nothing_of_it_is_kept() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        subscribe(cluster, "all", &[("metrics", "*")]).await;
        let before = cluster.shown_metrics().len();
        for name_bytes in [15 << 20, 3 << 20, 300] {
            let told = asked(cluster, Uuid::nil()).await;
            let bomb = Compression::Zstd.compress(&gauge(&vec![b'x'; name_bytes]));
            let bomb = bomb.unwrap();
            assert!(bomb.len() < 1000);
            let request = PushTelemetryRequest::default()
                .with_client_instance_id(told.client_instance_id)
                .with_subscription_id(told.subscription_id)
                .with_compression_type(4)
                .with_metrics(bomb.into());
            let answer = push(cluster, request).await;
            assert_eq!(answer, Some(ErrorCode::InvalidRecord), "{name_bytes}");
        }
        let after = cluster.shown_metrics().len();
        assert!(after < before + 1000, "{before} then {after}");
    });
}

#[test]
fn a_push_of_many_samples_is_kept_in_turns() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        subscribe(cluster, "all", &[("metrics", "*")]).await;
        for codec in [Compression::None, Compression::Gzip] {
            let told = asked(cluster, Uuid::nil()).await;
            let each = (0..4000).map(|number| gauge(format!("lag.{number}").as_bytes()));
            let plain = each.collect::<Vec<_>>().concat();
            let request = PushTelemetryRequest::default()
                .with_client_instance_id(told.client_instance_id)
                .with_subscription_id(told.subscription_id)
                .with_compression_type(i8::try_from(codec.code()).unwrap())
                .with_metrics(codec.compress(&plain).unwrap().into());
            let (pushed, polls) = counted(cluster.asking(0, 0, &request));
            assert_eq!(error(pushed.await.error_code), None);
            assert!(polls.get() > 4000 / 128, "{} turns", polls.get());
            let shown = cluster.shown_metrics();
            assert!(shown.contains("metric=\"lag.499\""), "{shown}");
        }
    });
}

#[test]
fn what_nobody_asked_for_is_not_kept() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        subscribe(cluster, "some", &[("metrics", "wanted.")]).await;
        let told = asked(cluster, Uuid::nil()).await;
        let both = [gauge(b"wanted.lag"), gauge(b"other.lag")].concat();
        let request = PushTelemetryRequest::default()
            .with_client_instance_id(told.client_instance_id)
            .with_subscription_id(told.subscription_id)
            .with_metrics(both.into());
        assert_eq!(push(cluster, request).await, None);
        let shown = cluster.shown_metrics();
        assert!(shown.contains("metric=\"wanted.lag\""), "{shown}");
        assert!(!shown.contains("other.lag"), "{shown}");
        assert!(
            shown.contains("kafka_server_clientmetrics_dropped_total 1"),
            "{shown}"
        );
    });
}

#[test]
fn telemetry_is_offered_only_while_there_is_a_subscription() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        let offered = async || {
            let hello = ApiVersionsRequest::default()
                .with_client_software_name(text("tester"))
                .with_client_software_version(text("1.0"));
            let told = cluster.ask(3, &hello).await;
            let keys = told.api_keys.iter().map(|api| api.api_key);
            keys.filter(|key| [71, 72].contains(key)).count()
        };
        assert_eq!(offered().await, 0);
        subscribe(cluster, "all", &[("metrics", "*")]).await;
        assert_eq!(offered().await, 2);
        // Who learned of it before asks on.
        let told = asked(cluster, Uuid::nil()).await;
        assert_eq!(error(told.error_code), None);
        let settings = [("metrics", None)].map(|(name, value)| {
            AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(1)
                .with_value(value)
        });
        let resource = AlterConfigsResource::default()
            .with_resource_type(CLIENT_METRICS)
            .with_resource_name(text("all"))
            .with_configs(settings.to_vec());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        cluster.ask(1, &request).await;
        assert_eq!(offered().await, 0);
        let told = asked(cluster, told.client_instance_id).await;
        assert_eq!(error(told.error_code), None);
        assert_eq!(metrics(&told), [""; 0]);
    });
}

#[test]
fn a_clock_that_is_set_back_silences_nobody() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        subscribe(cluster, "all", &[("metrics", "*"), ("interval.ms", "1000")]).await;
        let told = asked(cluster, Uuid::nil()).await;
        let request = PushTelemetryRequest::default()
            .with_client_instance_id(told.client_instance_id)
            .with_subscription_id(told.subscription_id)
            .with_metrics(Bytes::from_static(METRICS));
        assert_eq!(push(cluster, request.clone()).await, None);
        cluster.platform.clock().jump_ms(-7_200_000);
        cluster.pass_ms(1000).await;
        assert_eq!(push(cluster, request).await, None);
    });
}
