//! Every API in every version that is served: answered, in that version's encoding, also when the
//! answer is a refusal; and bytes that are no request end the connection with a reason.

use broker::dispatch::Reply;
use bytes::{BufMut, Bytes};
use platform::sim::SimDisk;
use wire::kafka::Api;
use wire::messages::ApiVersionsRequest;

use crate::harness::asks::error;
use crate::harness::client::{decode, header};
use crate::harness::{Cluster, Setup, life};
use crate::questions::{MISSING, TOPIC, granted, refused};

/// Requests about members, transactions and brokers that do not exist, or about users on a listener
/// without login: even the sensible ones are answered with a code.
const ALWAYS_REFUSED: &[Api] = &[
    Api::JoinGroup,
    Api::Heartbeat,
    Api::LeaveGroup,
    Api::SyncGroup,
    Api::DeleteGroups,
    Api::DescribeGroups,
    Api::ConsumerGroupDescribe,
    Api::AddPartitionsToTxn,
    Api::AddOffsetsToTxn,
    Api::EndTxn,
    Api::TxnOffsetCommit,
    Api::DescribeTransactions,
    Api::PushTelemetry,
    Api::SaslHandshake,
    Api::SaslAuthenticate,
    Api::DescribeAcls,
    Api::CreateAcls,
    Api::DeleteAcls,
    Api::CreateDelegationToken,
    Api::RenewDelegationToken,
    Api::ExpireDelegationToken,
    Api::DescribeDelegationToken,
    Api::UnregisterBroker,
    Api::AddRaftVoter,
    Api::RemoveRaftVoter,
];

fn with_topics(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
        cluster.create(TOPIC, 2).await;
        for version in 0..10 {
            cluster.create(&format!("doomed-{version}"), 1).await;
        }
        // Makes the offsets topic and gives the group a position, which takes the groups a moment
        // to load.
        cluster.commit("g", TOPIC, 0, 1).await;
        story(cluster).await;
    });
}

/// The codes of an answer that are not 0.
pub(crate) fn codes(shown: &str) -> Vec<&str> {
    let after = shown.split("error_code: ").skip(1);
    let code = |rest: &'_ str| rest.find([',', ' ']).map_or(rest.len(), |end| end);
    after
        .map(|rest| &rest[..code(rest)])
        .filter(|code| *code != "0")
        .collect()
}

#[test]
fn sensible_requests_are_granted_in_every_version() {
    for shards in [1, 2] {
        with_topics(shards, async |cluster| {
            for &api in Api::ALL {
                for version in api.versions() {
                    let question = granted(api, version, cluster);
                    let reply = cluster.reply(shards - 1, &question.frame).await;
                    let shown = (question.show)(version, reply);
                    let refused = !codes(&shown).is_empty();
                    let expected = ALWAYS_REFUSED.contains(&api);
                    assert!(!refused || expected, "{} {version}: {shown}", api.name());
                }
            }
        });
    }
}

#[test]
fn refusals_are_encoded_in_every_version() {
    with_topics(2, async |cluster| {
        for &api in Api::ALL {
            for version in api.versions() {
                for topic in [MISSING, TOPIC] {
                    let Some(question) = refused(api, version, cluster, topic) else {
                        continue;
                    };
                    let reply = cluster.reply(0, &question.frame).await;
                    let shown = (question.show)(version, reply);
                    let named = format!("{} {version} about {topic}: {shown}", api.name());
                    // Positions of any partition can be forgotten: it is no error that there are
                    // none.
                    if !codes(&shown).is_empty() || api == Api::OffsetDelete {
                        continue;
                    }
                    panic!("{named}");
                }
            }
        }
    });
}

#[test]
fn bodies_cut_short_end_the_connection_and_never_the_broker() {
    with_topics(2, async |cluster| {
        for &api in Api::ALL {
            for version in [*api.versions().start(), *api.versions().end()] {
                let whole = granted(api, version, cluster).frame;
                let head = header(api.key(), version).len();
                for end in head..whole.len() {
                    let reply = cluster.reply(0, &whole.slice(..end)).await;
                    let Reply::Close(reason) = reply else {
                        panic!("{} {version} cut at {end}: {reply:?}", api.name());
                    };
                    let reason = reason.to_string();
                    assert!(reason.contains(api.name()), "{reason}");
                    assert!(reason.contains("harness"), "says whose it was: {reason}");
                }
            }
        }
    });
}

#[test]
fn counts_beyond_the_bytes_end_the_connection() {
    with_topics(1, async |cluster| {
        for &api in Api::ALL {
            let version = *api.versions().end();
            let mut frame = header(api.key(), version);
            frame.put_bytes(0xff, 40);
            let reply = cluster.reply(0, &frame.freeze()).await;
            // Some bodies are so small that any bytes are one.
            assert!(!matches!(reply, Reply::Nothing), "{}", api.name());
        }
        assert_eq!(cluster.produce(TOPIC, 0, &["alive"]).await, 0);
    });
}

#[test]
fn headers_that_are_not_served_end_the_connection() {
    with_topics(1, async |cluster| {
        for (frame, reason) in [
            (vec![0, 4, 0, 0, 0, 0, 0, 0, 0xff, 0xff], "api key 4"),
            (vec![0, 0, 0, 99, 0, 0, 0, 0, 0xff, 0xff], "Produce"),
            (vec![0], "header"),
        ] {
            let found = cluster.refused(&Bytes::from(frame)).await.to_string();
            assert!(found.contains(reason), "{found}");
        }
    });
}

#[test]
fn clients_of_the_future_are_told_what_is_served() {
    with_topics(1, async |cluster| {
        let mut frame = vec![0, 18, 0, 99];
        frame.extend(4711_i32.to_be_bytes());
        frame.extend([0xff, 0xff, 0]);
        let reply = cluster.reply(0, &frame.into()).await;
        let answer = decode::<ApiVersionsRequest>(0, reply);
        let code = error(answer.error_code);
        assert_eq!(code, Some(wire::types::ErrorCode::UnsupportedVersion));
        let row = |key: i16| answer.api_keys.iter().find(|row| row.api_key == key);
        // Telemetry is named only while an operator asks for metrics (ADR 0026).
        let of_telemetry = [Api::GetTelemetrySubscriptions, Api::PushTelemetry];
        for api in Api::ALL {
            if of_telemetry.contains(api) {
                assert!(row(api.key()).is_none(), "{api:?} without a subscription");
                continue;
            }
            let row = row(api.key()).expect("advertised");
            let versions = api.advertised_versions();
            assert_eq!(
                (row.min_version, row.max_version),
                (*versions.start(), *versions.end())
            );
        }
    });
}
