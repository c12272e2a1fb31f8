//! The middle of things: a topic with a record, a member in a group of either protocol, an open
//! transaction, a fetch session, a client that sends telemetry; and the words that all this gives.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Buf as _;
use wire::kafka::Api;
use wire::messages::{
    ConsumerGroupHeartbeatResponse, CreateTopicsResponse, FindCoordinatorResponse,
    GetTelemetrySubscriptionsResponse, InitProducerIdResponse, JoinGroupResponse, MetadataResponse,
};
use wire::protocol::Decodable;

use crate::wire_up::Connection;
use crate::words::Words;

const PATIENCE: Duration = Duration::from_mins(1);

/// Sets the scene with names of this number; the connection is that of the client in it.
pub(crate) fn set(
    address: SocketAddr,
    number: u64,
    dice: u64,
) -> anyhow::Result<(Connection, Words)> {
    let mut connection = Connection::open(address)?;
    let mut words = Words::stranger(dice);
    let own = |what: &str| format!("sweep-{what}-{number}");
    for name in ["group_id", "groups", "coordinator_keys", "key"] {
        words.name(name, &own("classic"));
    }
    for name in [
        "transactional_id",
        "transactional_ids",
        "v3_and_below_transactional_id",
    ] {
        words.name(name, &own("transaction"));
    }
    words.name("consumer_group", &own("consumer"));
    topic(&mut connection, &mut words).context("a topic")?;
    transaction(&mut connection, &mut words).context("a transaction")?;
    group(&mut connection, &mut words).context("a group")?;
    consumer_group(&mut connection, &mut words).context("a consumer group")?;
    session(&mut connection, &mut words).context("a fetch session")?;
    telemetry(&mut connection, &mut words).context("telemetry")?;
    Ok((connection, words))
}

fn decode<T: Decodable>(mut body: bytes::Bytes, version: i16) -> anyhow::Result<T> {
    T::decode(&mut body, version)
}

/// Asks until the answer is one; coordinators may have to make their topics first.
fn until<T>(mut once: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = once()? {
            return Ok(found);
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "still nothing after {PATIENCE:?}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

fn topic(connection: &mut Connection, words: &mut Words) -> anyhow::Result<()> {
    let mut wanted = words.clone();
    wanted.say("validate_only", 0).say("num_partitions", 4);
    wanted.without("assignments").without("configs");
    let id = until(|| {
        let body = connection.ask(Api::Metadata, 12, &by_name(words))?;
        let answer: MetadataResponse = decode(body, 12)?;
        let found = answer.topics.first().filter(|topic| topic.error_code == 0);
        if let Some(found) = found {
            return Ok(Some(found.topic_id.into_bytes()));
        }
        create(connection, &wanted)?;
        Ok(None)
    })?;
    for name in ["topic_id", "topics.topic_id", "topic_data.topic_id"] {
        words.identify(name, id);
    }
    connection.ask(Api::Produce, 9, words)?;
    Ok(())
}

/// The words with an id that says that the name counts.
fn by_name(words: &Words) -> Words {
    let mut words = words.clone();
    words.identify("topic_id", [0; 16]);
    words
}

fn create(connection: &mut Connection, wanted: &Words) -> anyhow::Result<()> {
    let answer: CreateTopicsResponse = decode(connection.ask(Api::CreateTopics, 7, wanted)?, 7)?;
    // It may be there already, or still be on its way out.
    let code = answer.topics.first().map(|topic| topic.error_code);
    ensure!(
        matches!(code, Some(0 | 36 | 41 | 7)),
        "creating it: {code:?}"
    );
    Ok(())
}

fn coordinator(
    connection: &mut Connection,
    words: &Words,
    kind: i64,
    key: &str,
) -> anyhow::Result<()> {
    let mut words = words.clone();
    words.say("key_type", kind).name("coordinator_keys", key);
    until(|| {
        let answer: FindCoordinatorResponse =
            decode(connection.ask(Api::FindCoordinator, 4, &words)?, 4)?;
        let code = answer.coordinators.first().map(|found| found.error_code);
        Ok((code == Some(0)).then_some(()))
    })
}

fn transaction(connection: &mut Connection, words: &mut Words) -> anyhow::Result<()> {
    let id = words
        .text(Api::InitProducerId, "transactional_id")
        .unwrap_or_default()
        .to_owned();
    coordinator(connection, words, 1, &id)?;
    let (producer, epoch) = until(|| {
        let answer: InitProducerIdResponse =
            decode(connection.ask(Api::InitProducerId, 4, words)?, 4)?;
        let told = (answer.producer_id.0, i64::from(answer.producer_epoch));
        Ok((answer.error_code == 0).then_some(told))
    })?;
    for name in [
        "producer_id",
        "v3_and_below_producer_id",
        "producer_id_filters",
    ] {
        words.say(name, producer);
    }
    for name in ["producer_epoch", "v3_and_below_producer_epoch"] {
        words.say(name, epoch);
    }
    connection.ask(Api::AddPartitionsToTxn, 3, words)?;
    words.in_transaction = true;
    connection.ask(Api::Produce, 9, words)?;
    words.in_transaction = words.dice & 16 == 0;
    Ok(())
}

fn group(connection: &mut Connection, words: &mut Words) -> anyhow::Result<()> {
    let id = words
        .text(Api::JoinGroup, "group_id")
        .unwrap_or_default()
        .to_owned();
    coordinator(connection, words, 0, &id)?;
    let (member, generation) = until(|| {
        let answer: JoinGroupResponse = decode(connection.ask(Api::JoinGroup, 6, words)?, 6)?;
        words.name("member_id", &answer.member_id);
        let told = (
            answer.member_id.to_string(),
            i64::from(answer.generation_id),
        );
        Ok((answer.error_code == 0).then_some(told))
    })?;
    words.name("member_id", &member);
    words
        .say("generation_id", generation)
        .say("generation_id_or_member_epoch", generation);
    connection.ask(Api::SyncGroup, 3, words)?;
    Ok(())
}

fn consumer_group(connection: &mut Connection, words: &mut Words) -> anyhow::Result<()> {
    let mut first = words.clone();
    first.say("consumer_epoch", 0).without("topic_partitions");
    let epoch = until(|| {
        let body = connection.ask(Api::ConsumerGroupHeartbeat, 1, &first)?;
        let answer: ConsumerGroupHeartbeatResponse = decode(body, 1)?;
        Ok((!matches!(answer.error_code, 14..=16)).then_some(i64::from(answer.member_epoch)))
    })?;
    words.say("consumer_epoch", epoch.max(1));
    Ok(())
}

fn session(connection: &mut Connection, words: &mut Words) -> io::Result<()> {
    let mut first = words.clone();
    first.say("session_epoch", 0);
    let mut answer = connection.ask(Api::Fetch, 12, &first)?;
    if answer.len() > 10 {
        answer.advance(6);
        words
            .say("session_id", i64::from(answer.get_i32()))
            .say("session_epoch", 1);
    }
    Ok(())
}

fn telemetry(connection: &mut Connection, words: &mut Words) -> anyhow::Result<()> {
    let body = connection.ask(Api::GetTelemetrySubscriptions, 0, words)?;
    let answer: GetTelemetrySubscriptionsResponse = decode(body, 0)?;
    words.identify("client_instance_id", answer.client_instance_id.into_bytes());
    words.say("subscription_id", i64::from(answer.subscription_id));
    Ok(())
}
