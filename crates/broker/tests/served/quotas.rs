//! Quotas: a client that uses more than its share gets a throttle time, and its connection is not
//! read for that time.

use std::time::Duration;

use broker::dispatch::Reply;
use platform::Platform;
use platform::sim::SimDisk;
use wire::messages::alter_client_quotas_request as alter;
use wire::messages::{
    AlterClientQuotasRequest, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest,
    ProduceRequest,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, partitions, produce, text, topic_name};
use crate::harness::batches::batch;
use crate::harness::client::{decode, frame};
use crate::harness::{Cluster, Setup, life};

/// What clients of the harness call themselves.
const CLIENT: &str = "harness";

fn quota(client: &str, key: &str, value: Option<f64>) -> AlterClientQuotasRequest {
    let name = alter::EntityData::default()
        .with_entity_type(text("client-id"))
        .with_entity_name(Some(text(client)));
    let op = alter::OpData::default()
        .with_key(text(key))
        .with_value(value.unwrap_or_default())
        .with_remove(value.is_none());
    let entry = alter::EntryData::default()
        .with_entity(vec![name])
        .with_ops(vec![op]);
    AlterClientQuotasRequest::default().with_entries(vec![entry])
}

async fn limit(cluster: &Cluster, key: &str, value: Option<f64>) {
    let answer = cluster.ask(1, &quota(CLIENT, key, value)).await;
    assert_eq!(answer.entries[0].error_code, 0);
}

fn pause(reply: &Reply) -> Duration {
    match reply {
        Reply::Pause(_, pause) => *pause,
        _ => Duration::ZERO,
    }
}

/// Produces about `bytes` by the connection of a shard: the pause, and what the answer says of it.
async fn send(cluster: &Cluster, shard: usize, bytes: usize) -> (Duration, i32) {
    let request = produce("t", -1, &[(0, batch(&[&"x".repeat(bytes)]))]);
    let reply = cluster.reply(shard, &frame(9, &request)).await;
    let pause = pause(&reply);
    let answer = decode::<ProduceRequest>(9, reply);
    let partition = &answer.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, 0, "a quota refuses nothing");
    (pause, answer.throttle_time_ms)
}

#[test]
fn producers_are_held_back_whatever_shards_they_are_on() {
    life(&SimDisk::new(1), &Setup::shards(3), async |cluster| {
        cluster.create("t", 1).await;
        assert_eq!(send(cluster, 0, 100_000).await, (Duration::ZERO, 0));
        limit(cluster, "producer_byte_rate", Some(1000.0)).await;
        // Ten seconds' worth may come at once.
        assert_eq!(send(cluster, 0, 4000).await, (Duration::ZERO, 0));
        assert_eq!(send(cluster, 1, 4000).await, (Duration::ZERO, 0));
        let (pause, told) = send(cluster, 2, 4000).await;
        assert!(
            pause > Duration::from_secs(2) && pause < Duration::from_secs(3),
            "{pause:?}"
        );
        assert_eq!(u128::try_from(told).unwrap(), pause.as_millis());
        cluster.pass_ms(11_000).await;
        assert_eq!(
            send(cluster, 2, 4000).await,
            (Duration::ZERO, 0),
            "it was made good"
        );
        assert!(send(cluster, 2, 40_000).await.1 > 0);
        limit(cluster, "producer_byte_rate", None).await;
        assert_eq!(send(cluster, 2, 40_000).await, (Duration::ZERO, 0));
    });
}

#[test]
fn a_clock_that_is_set_neither_forgives_what_was_used_nor_adds_to_it() {
    const DAY_MS: i64 = 86_400_000;
    let pauses = |by_ms: i64| {
        life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
            let config = ("message.timestamp.before.max.ms", "9223372036854775807");
            let after = ("message.timestamp.after.max.ms", "9223372036854775807");
            cluster.create_with("t", 1, &[config, after]).await;
            limit(cluster, "producer_byte_rate", Some(1000.0)).await;
            let mut pauses = vec![send(cluster, 0, 14_000).await.0];
            cluster.pass_ms(2000).await;
            cluster.platform.clock().jump_ms(by_ms);
            pauses.push(send(cluster, 0, 2000).await.0);
            cluster.pass_ms(20_000).await;
            pauses.push(send(cluster, 0, 2000).await.0);
            pauses
        })
    };
    let expected = pauses(0);
    assert!(expected[0] > Duration::ZERO && expected[1] > Duration::ZERO);
    assert_eq!(expected[2], Duration::ZERO);
    for by_ms in [-3650 * DAY_MS, -3_600_000, 3_600_000, 3650 * DAY_MS] {
        assert_eq!(pauses(by_ms), expected, "set by {by_ms}");
    }
}

#[test]
fn a_producer_that_wants_no_answer_is_held_back_all_the_same() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        limit(cluster, "producer_byte_rate", Some(100.0)).await;
        let request = produce("t", 0, &[(0, batch(&[&"x".repeat(5000)]))]);
        let reply = cluster.reply(0, &frame(9, &request)).await;
        assert!(
            matches!(reply, Reply::Pause(None, pause) if pause > Duration::from_secs(30)),
            "{reply:?}"
        );
    });
}

#[test]
fn consumers_get_nothing_until_their_quota_allows_it_and_then_what_they_missed() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        cluster.create("t", 1).await;
        send(cluster, 0, 6000).await;
        send(cluster, 0, 6000).await;
        limit(cluster, "consumer_byte_rate", Some(1000.0)).await;
        let ask = async |request: &FetchRequest| {
            let reply = cluster.reply(1, &frame(11, request)).await;
            let pause = pause(&reply);
            (pause, decode::<FetchRequest>(11, reply))
        };
        // A session would begin with this fetch.
        let first = fetch("t", &[(0, 0)]).with_session_epoch(0);
        let (pause, answer) = ask(&first).await;
        assert_eq!(pause, Duration::ZERO);
        let session = answer.session_id;
        assert!(session > 0);
        let records = |answer: &wire::messages::FetchResponse| {
            let bytes = partitions(answer)
                .into_iter()
                .filter_map(|p| p.records.as_ref());
            bytes.map(bytes::Bytes::len).sum::<usize>()
        };
        assert!(
            (6000..10_000).contains(&records(&answer)),
            "no more at once than ten seconds give"
        );
        let mut next = fetch("t", &[(0, 1)])
            .with_session_id(session)
            .with_session_epoch(1);
        let (pause, answer) = ask(&next).await;
        assert!(pause > Duration::ZERO);
        assert_eq!(
            u128::try_from(answer.throttle_time_ms).unwrap(),
            pause.as_millis()
        );
        assert_eq!(
            (answer.session_id, answer.responses.len(), answer.error_code),
            (session, 0, 0)
        );
        cluster.pass_ms(11_000).await;
        next.session_epoch = 2;
        let (pause, answer) = ask(&next).await;
        assert_eq!((pause, records(&answer) > 6000), (Duration::ZERO, true));

        // One that begins a session is given none.
        let (pause, answer) = ask(&first).await;
        assert!(pause > Duration::ZERO);
        assert_eq!((answer.session_id, answer.responses.len()), (0, 0));
    });
}

fn create(name: &str, partitions: i32) -> CreateTopicsRequest {
    let topic = wire::messages::create_topics_request::CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(1);
    CreateTopicsRequest::default().with_topics(vec![topic])
}

#[test]
fn changes_are_refused_once_their_tokens_are_used_up_and_old_clients_wait() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        limit(cluster, "controller_mutation_rate", Some(1.0)).await;
        let code = async |version: i16, name: &str, partitions: i32| {
            let reply = cluster
                .reply(1, &frame(version, &create(name, partitions)))
                .await;
            let pause = pause(&reply);
            let answer = decode::<CreateTopicsRequest>(version, reply);
            assert_eq!(
                u128::try_from(answer.throttle_time_ms).unwrap(),
                pause.as_millis()
            );
            (error(answer.topics[0].error_code), pause)
        };
        assert_eq!(code(7, "a", 11).await, (None, Duration::ZERO));
        assert_eq!(
            code(7, "b", 5).await,
            (None, Duration::ZERO),
            "overdrawn once"
        );
        let exceeded = Some(ErrorCode::ThrottlingQuotaExceeded);
        assert_eq!(code(7, "c", 1).await, (exceeded, Duration::from_secs(5)));
        let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("a")]);
        let answer = cluster.ask(5, &delete).await;
        assert_eq!(error(answer.responses[0].error_code), exceeded);
        // Old clients do not know the code.
        assert_eq!(code(5, "d", 1).await, (None, Duration::from_secs(6)));
        cluster.pass_ms(6_000).await;
        assert_eq!(code(7, "c", 1).await, (None, Duration::ZERO));
    });
}

#[test]
fn what_a_client_with_a_quota_uses_is_shown_while_it_uses_it() {
    life(&SimDisk::new(1), &Setup::shards(3), async |cluster| {
        cluster.create("t", 1).await;
        let of = |name: &str| {
            let series = format!("kafka_server_{name}{{user=\"\",client_id=\"{CLIENT}\"}}");
            cluster.metric(&series).map(|value| value.parse().unwrap())
        };
        send(cluster, 0, 5000).await;
        assert_eq!(of("produce_byte_rate"), None::<f64>, "it has no quota");
        limit(cluster, "producer_byte_rate", Some(1000.0)).await;
        send(cluster, 0, 5000).await;
        // Of ten seconds.
        let rate = of("produce_byte_rate").unwrap();
        assert!((500.0..600.0).contains(&rate), "{rate}");
        assert!(of("produce_throttle_time").unwrap() < 1.0);
        assert_eq!(of("fetch_byte_rate"), None::<f64>);
        let (pause, _) = send(cluster, 1, 9000).await;
        let shown = of("produce_throttle_time").unwrap();
        let expected = pause.as_secs_f64() * 1000.0;
        assert!(
            expected > 1000.0 && (shown - expected).abs() < 1.0,
            "{shown}"
        );
        cluster.pass_ms(11_000).await;
        assert!(of("produce_byte_rate").unwrap() < 1.0);
        cluster.pass_ms(60_000).await;
        assert!(of("produce_throttle_time").unwrap() < 1.0);
        limit(cluster, "consumer_byte_rate", Some(1000.0)).await;
        limit(cluster, "request_percentage", Some(100.0)).await;
        let asked = fetch("t", &[(0, 0)]);
        cluster.reply(2, &frame(11, &asked)).await;
        assert!(of("fetch_byte_rate").unwrap() > 100.0);
        assert!(of("request_request_time").unwrap() >= 0.0);
        cluster.pass_ms(5 * 60_000).await;
        assert_eq!(of("produce_byte_rate"), None::<f64>, "nobody uses it");
        let left_out = cluster.metric("forebay_quota_usage_left_out_total");
        assert_eq!(left_out.as_deref(), Some("0"));
    });
}

#[test]
fn quotas_outlive_the_process() {
    let disk = SimDisk::new(1);
    let setup = Setup::shards(2);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        limit(cluster, "producer_byte_rate", Some(100.0)).await;
    });
    life(&disk.kill(1), &setup.next(), async |cluster| {
        assert!(send(cluster, 1, 5000).await.0 > Duration::ZERO);
    });
}
