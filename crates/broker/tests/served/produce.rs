//! Produce: what is taken, what is refused and how, and what acknowledged means.

use bytes::Bytes;
use platform::sim::SimDisk;
use wire::messages::{InitProducerIdRequest, ProduceRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{error, outcome, produce};
use crate::harness::batches::{batch, batch_at, keyed, large, produced, transactional};
use crate::harness::client::{decode, frame, frame_of};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, NOW_MS, Setup, life};

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

#[test]
fn records_come_back_at_the_offsets_that_were_answered() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 4).await;
            for partition in 0..4 {
                assert_eq!(cluster.produce("t", partition, &["a", "b"]).await, 0);
                assert_eq!(cluster.produce("t", partition, &["c"]).await, 2);
                let expected = [(0, "a"), (1, "b"), (2, "c")];
                let expected = expected.map(|(offset, value)| (offset, value.to_owned()));
                assert_eq!(cluster.all("t", partition).await, expected);
            }
        });
    }
}

#[test]
fn acks_zero_is_not_answered_and_one_is() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        let silent = frame(9, &produce("t", 0, &[(0, batch(&["a"]))]));
        let reply = cluster.reply(0, &silent).await;
        assert!(
            matches!(reply, broker::dispatch::Reply::Nothing),
            "{reply:?}"
        );
        let answer = cluster.produce_answer("t", 1, 0, batch(&["b"])).await;
        assert_eq!(outcome(&answer), Ok(1));
        assert_eq!(cluster.values("t", 0).await, ["a", "b"]);
    });
}

#[test]
fn a_failure_without_acks_ends_the_connection() {
    on(1, async |cluster| {
        let silent = frame(9, &produce("missing", 0, &[(0, batch(&["a"]))]));
        let reason = cluster.refused(&silent).await.to_string();
        assert!(reason.contains("acks=0"), "{reason}");
    });
}

#[test]
fn impossible_acks_are_refused_by_partition() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let answer = cluster.produce_answer("t", 2, 0, batch(&["a"])).await;
        assert_eq!(outcome(&answer), Err(ErrorCode::InvalidRequiredAcks));
        assert_eq!(cluster.offset("t", 0, -1).await, 0);
    });
}

#[test]
fn topics_of_the_coordinators_are_closed_to_clients() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 7).await;
        let by_name = cluster.try_produce("__consumer_offsets", 0, batch(&["a"]));
        assert_eq!(by_name.await, Err(ErrorCode::InvalidTopicException));
        let id = cluster.topic_id("__consumer_offsets").0;
        let mut by_id = produce("", -1, &[(0, batch(&["a"]))]);
        by_id.topic_data[0].topic_id = id;
        let answer = cluster.ask(13, &by_id).await;
        let answer = outcome(&answer.responses[0].partition_responses[0]);
        assert_eq!(answer, Err(ErrorCode::InvalidTopicException));
        assert_eq!(cluster.committed("g", "t", 0).await, 7);
    });
}

/// The answer to a tool that writes this where coordinators do.
async fn as_tool(cluster: &Cluster, topic: &str, records: Bytes) -> Result<i64, ErrorCode> {
    let request = produce(topic, -1, &[(0, records)]);
    let frame = frame_of("__admin_client", 9, &request);
    let reply = cluster.reply(0, &frame).await;
    let answer = decode::<ProduceRequest>(9, reply);
    outcome(&answer.responses[0].partition_responses[0])
}

#[test]
fn tools_that_say_so_may_write_where_coordinators_do() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 7).await;
        // A tombstone of the position that "g" has: version 1 of the key.
        let key = [&[0, 1, 0, 1, b'g', 0, 1, b't'][..], &[0, 0, 0, 0]].concat();
        let tombstone = keyed(&key, None);
        let taken = as_tool(cluster, "__consumer_offsets", tombstone).await;
        assert!(taken.is_ok(), "{taken:?}");
    });
}

#[test]
fn what_a_coordinator_cannot_read_is_not_taken_from_a_tool() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 7).await;
        let mut writer = Transactor::begin(cluster, "id", true).await;
        writer.write(0, &["a"]).await;
        writer.end(true).await.unwrap();
        // A key of one byte, half a key, half a value.
        let half = keyed(&[0, 0, 0], Some(b"x"));
        let odd = keyed(&[0, 0, 0, 1, b'a'], Some(b"x"));
        for topic in ["__consumer_offsets", "__transaction_state"] {
            for records in [batch(&["a"]), half.clone(), odd.clone()] {
                let answer = as_tool(cluster, topic, records).await;
                assert_eq!(answer, Err(ErrorCode::InvalidRecord), "{topic}");
            }
        }
        assert_eq!(cluster.committed("g", "t", 0).await, 7);
    });
}

#[test]
fn of_what_a_tool_sends_at_once_only_so_much_is_read() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 7).await;
        let key = [&[0, 1, 0, 1, b'g', 0, 1, b't'][..], &[0, 0, 0, 0]].concat();
        let each: Vec<_> = (0..20_000).map(|_| (0, keyed(&key, None))).collect();
        let request = produce("__consumer_offsets", -1, &each);
        let reply = cluster
            .reply(0, &frame_of("__admin_client", 9, &request))
            .await;
        let answer = decode::<ProduceRequest>(9, reply);
        let all = &answer.responses[0].partition_responses;
        let taken = all.iter().filter(|it| outcome(it).is_ok()).count();
        assert!(
            (1000..15_000).contains(&taken),
            "{taken} were read and taken"
        );
        assert_eq!(outcome(&all[19_999]), Err(ErrorCode::InvalidRecord));
    });
}

#[test]
fn what_cannot_be_appended_is_refused_for_its_own_reason() {
    on(2, async |cluster| {
        cluster
            .create_with("t", 2, &[("max.message.bytes", "2000")])
            .await;
        let mut damaged = batch(&["a"]).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let two = [batch(&["a"]), batch(&["b"])].concat();
        let mut old = batch(&["a"]).to_vec();
        old[16] = 1;
        for (records, code) in [
            (damaged, ErrorCode::CorruptMessage),
            (Vec::new(), ErrorCode::InvalidRecord),
            (two, ErrorCode::InvalidRecord),
            (old, ErrorCode::InvalidRecord),
            (large(2000).to_vec(), ErrorCode::MessageTooLarge),
            (vec![0; 30], ErrorCode::CorruptMessage),
        ] {
            let answer = cluster.try_produce("t", 0, records.into()).await;
            assert_eq!(answer, Err(code));
        }
        assert_eq!(
            cluster.try_produce("t", 2, batch(&["a"])).await,
            Err(ErrorCode::UnknownTopicOrPartition)
        );
        assert_eq!(
            cluster.try_produce("x", 0, batch(&["a"])).await,
            Err(ErrorCode::UnknownTopicOrPartition)
        );
        assert_eq!(cluster.offset("t", 0, -1).await, 0);
    });
}

#[test]
fn null_records_are_invalid_and_do_not_harm_their_neighbours() {
    on(2, async |cluster| {
        cluster.create("t", 2).await;
        let mut request = produce("t", -1, &[(0, batch(&["a"])), (1, batch(&["b"]))]);
        request.topic_data[0].partition_data[0].records = None;
        let answer = cluster.ask(9, &request).await;
        let answers = &answer.responses[0].partition_responses;
        assert_eq!(outcome(&answers[0]), Err(ErrorCode::InvalidRecord));
        assert_eq!(outcome(&answers[1]), Ok(0));
    });
}

#[test]
fn topics_are_known_by_id_from_version_13() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        let mut request = produce("", -1, &[(0, batch(&["a"]))]);
        request.topic_data[0].topic_id = cluster.topic_id("t").0;
        let answer = cluster.ask(13, &request).await;
        assert_eq!(outcome(&answer.responses[0].partition_responses[0]), Ok(0));
        request.topic_data[0].topic_id = wire::types::Uuid::from_u128(99);
        let answer = cluster.ask(13, &request).await;
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!(outcome(answer), Err(ErrorCode::UnknownTopicId));
    });
}

#[test]
fn a_duplicate_is_answered_as_the_first_was() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        for sequence in 0..5 {
            let answer = cluster
                .try_produce("t", 0, produced(7, 0, sequence, &["a"]))
                .await;
            assert_eq!(answer, Ok(i64::from(sequence)));
        }
        for sequence in 0..5 {
            let again = produced(7, 0, sequence, &["a"]);
            let answer = cluster.produce_answer("t", -1, 0, again).await;
            assert_eq!(outcome(&answer), Ok(i64::from(sequence)));
            assert_eq!(answer.log_append_time_ms, NOW_MS, "the time of the first");
        }
        assert_eq!(cluster.offset("t", 0, -1).await, 5);
    });
}

#[test]
fn gaps_and_old_epochs_of_producers_are_refused() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let send = async |epoch, sequence| {
            cluster
                .try_produce("t", 0, produced(7, epoch, sequence, &["a"]))
                .await
        };
        assert_eq!(send(1, 0).await, Ok(0));
        assert_eq!(send(1, 2).await, Err(ErrorCode::OutOfOrderSequenceNumber));
        assert_eq!(send(0, 1).await, Err(ErrorCode::InvalidProducerEpoch));
        assert_eq!(send(2, 5).await, Err(ErrorCode::OutOfOrderSequenceNumber));
        assert_eq!(send(2, 0).await, Ok(1));
        assert_eq!(send(1, 1).await, Err(ErrorCode::InvalidProducerEpoch));
    });
}

#[test]
fn producers_get_identities_of_their_own() {
    on(2, async |cluster| {
        let mut ids = Vec::new();
        for at in 0..6 {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(1000);
            let answer = cluster.ask_at(at % 2, 4, &request).await;
            assert_eq!((error(answer.error_code), answer.producer_epoch), (None, 0));
            ids.push(answer.producer_id.0);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6);
    });
}

#[test]
fn append_times_are_the_brokers_where_the_topic_says_so() {
    on(1, async |cluster| {
        cluster
            .create_with("t", 1, &[("message.timestamp.type", "LogAppendTime")])
            .await;
        cluster.pass_ms(5_000).await;
        let answer = cluster
            .produce_answer("t", -1, 0, batch_at(12, &["a"]))
            .await;
        assert_eq!(answer.log_append_time_ms, NOW_MS + 5_000);
        assert_eq!(cluster.offset("t", 0, NOW_MS + 5_000).await, 0);
        assert_eq!(cluster.offset("t", 0, NOW_MS + 5_001).await, -1);
    });
}

#[test]
fn times_too_far_ahead_are_refused() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let hour = 3_600_000;
        let answer = cluster
            .try_produce("t", 0, batch_at(NOW_MS + hour + 1, &["a"]))
            .await;
        assert_eq!(answer, Err(ErrorCode::InvalidTimestamp));
        let answer = cluster
            .try_produce("t", 0, batch_at(NOW_MS + hour - 1000, &["a"]))
            .await;
        assert_eq!(answer, Ok(0));
    });
}

#[test]
fn a_slow_disk_meets_the_timeout_and_the_record_is_there_later() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let second = std::time::Duration::from_secs(1);
        cluster.disk().set_latency(second, second);
        let request = produce("t", -1, &[(0, batch(&["a"]))]).with_timeout_ms(100);
        let answer = cluster.ask(9, &request).await;
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!(outcome(answer), Err(ErrorCode::RequestTimedOut));
        cluster.pass_ms(10_000).await;
        assert_eq!(cluster.values("t", 0).await, ["a"]);
    });
}

#[test]
fn a_transaction_without_a_coordinator_is_refused_by_partition() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let records = transactional(7, 0, &["a"]);
        let request = produce("t", -1, &[(0, records)])
            .with_transactional_id(Some(wire::StrBytes::from_static_str("tx").into()));
        let answer = cluster.ask(9, &request).await;
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!(outcome(answer), Err(ErrorCode::NotEnoughReplicas));
        assert!(cluster.values("t", 0).await.is_empty());
    });
}
