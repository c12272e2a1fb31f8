//! The topics of a load: created before it, deleted after it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};
use wire::StrBytes;
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest};
use wire::types::ErrorCode;

use super::client::{Client, said};
use super::cluster::{Cluster, End, topic_name};
use super::security::Security;
use crate::spec::Topics;

/// The request's timeout for the broker.
const WITHIN_MS: i32 = 30_000;
/// Partitions that one request creates, or one topic: Kafka's controller refuses a change of 10,000
/// records.
const PARTITIONS_AT_ONCE: u32 = 2000;
const GONE_WITHIN: Duration = Duration::from_mins(1);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Returns the names of a load's topics.
pub fn names(topics: &Topics) -> Vec<String> {
    (0..topics.count)
        .map(|index| format!("{}-{index}", topics.prefix))
        .collect()
}

/// Creates the topics and waits until every partition has a leader that serves it.
///
/// An existing topic is an error.
pub async fn create(bootstrap: &str, security: &Security, topics: &Topics) -> anyhow::Result<()> {
    make(bootstrap, security, topics, false).await
}

/// Creates the topics that do not exist.
pub async fn create_missing(
    bootstrap: &str,
    security: &Security,
    topics: &Topics,
) -> anyhow::Result<()> {
    make(bootstrap, security, topics, true).await
}

async fn make(
    bootstrap: &str,
    security: &Security,
    topics: &Topics,
    may_exist: bool,
) -> anyhow::Result<()> {
    let names = names(topics);
    let configs = topics.configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(name.clone()))
            .with_value(Some(StrBytes::from_string(value.clone())))
    });
    let configs: Vec<_> = configs.collect();
    let mut client = controller(bootstrap, security).await?;
    let version = client.version::<CreateTopicsRequest>(7)?;
    let at_once = PARTITIONS_AT_ONCE / topics.partitions.max(1);
    let mut answers = Vec::new();
    for names in names.chunks(at_once.max(1) as usize) {
        let wanted = names.iter().map(|name| {
            CreatableTopic::default()
                .with_name(topic_name(name))
                .with_num_partitions(topics.partitions.cast_signed())
                .with_replication_factor(topics.replication)
                .with_configs(configs.clone())
        });
        let request = CreateTopicsRequest::default()
            .with_topics(wanted.collect())
            .with_timeout_ms(WITHIN_MS);
        answers.extend(client.ask(version, &request).await?.topics);
    }
    for made in answers {
        let name = made.name.0.as_str();
        match ErrorCode::try_from_code(made.error_code) {
            None => {}
            Some(ErrorCode::TopicAlreadyExists) if may_exist => {}
            Some(ErrorCode::TopicAlreadyExists) => {
                bail!("topic {name} exists already: use it as it is, or take another prefix")
            }
            Some(error) => {
                let words = made
                    .error_message
                    .as_ref()
                    .map_or("", |words| words.as_str());
                bail!(
                    "making topic {name}: {error}: {}",
                    wire::text::EscapedText(words)
                );
            }
        }
    }
    let cluster = Cluster::look(bootstrap, security, &names).await?;
    // A leader that is named may not lead yet, and a load would count its refusals.
    let places: Vec<_> = cluster.leaders.keys().copied().collect();
    cluster.offsets(&places, End::Latest).await?;
    Ok(())
}

/// Deletes the topics and waits until the metadata no longer lists them; a missing topic is no
/// error.
pub async fn delete(bootstrap: &str, security: &Security, topics: &Topics) -> anyhow::Result<()> {
    let names = names(topics);
    let mut client = controller(bootstrap, security).await?;
    let version = client.version::<DeleteTopicsRequest>(6)?;
    let request = DeleteTopicsRequest::default().with_timeout_ms(WITHIN_MS);
    let request = if version >= 6 {
        let states = names
            .iter()
            .map(|name| DeleteTopicState::default().with_name(Some(topic_name(name))));
        request.with_topics(states.collect())
    } else {
        request.with_topic_names(names.iter().map(|name| topic_name(name)).collect())
    };
    for gone in client.ask(version, &request).await?.responses {
        match ErrorCode::try_from_code(gone.error_code) {
            None | Some(ErrorCode::UnknownTopicOrPartition) => {}
            Some(error) => {
                let name = gone.name.as_ref().map_or("?", |name| name.0.as_str());
                bail!("deleting topic {name}: {error}");
            }
        }
    }
    let deadline = Instant::now() + GONE_WITHIN;
    while !gone(&mut client, &names).await? {
        if Instant::now() >= deadline {
            bail!(
                "topics {}-* are still there after {GONE_WITHIN:?}",
                topics.prefix
            );
        }
        sleep(ASK_AGAIN_AFTER).await;
    }
    Ok(())
}

/// Returns the topic names of a load on existing topics.
///
/// A single topic may be named by the prefix alone, unless the numbered name exists.
pub(super) async fn existing(
    bootstrap: &str,
    security: &Security,
    topics: &Topics,
) -> anyhow::Result<Vec<String>> {
    if topics.count == 1 {
        let alone = vec![topics.prefix.clone()];
        let mut client = Client::connect_any(bootstrap, security).await?;
        let numbered = !gone(&mut client, &names(topics)).await?;
        if !numbered && !gone(&mut client, &alone).await? {
            return Ok(alone);
        }
    }
    Ok(names(topics))
}

/// Returns whether none of these topics exists.
async fn gone(client: &mut Client, names: &[String]) -> anyhow::Result<bool> {
    let version = client.version::<MetadataRequest>(12)?;
    let named = names
        .iter()
        .map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
    let request = MetadataRequest::default()
        .with_topics(Some(named.collect()))
        .with_allow_auto_topic_creation(false);
    let answer = client.ask(version, &request).await?;
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    Ok(answer
        .topics
        .iter()
        .all(|topic| topic.error_code == unknown))
}

/// Returns a connection to the controller, or to the bootstrap broker if the metadata does not list
/// the controller.
async fn controller(bootstrap: &str, security: &Security) -> anyhow::Result<Client> {
    let mut client = Client::connect_any(bootstrap, security).await?;
    let version = client.version::<MetadataRequest>(12)?;
    let request = MetadataRequest::default().with_topics(Some(Vec::new()));
    let answer = client.ask(version, &request).await?;
    let found = answer
        .brokers
        .iter()
        .find(|broker| broker.node_id == answer.controller_id);
    let Some(found) = found else {
        return Ok(client);
    };
    let address = format!("{}:{}", found.host, found.port);
    Client::connect(&address, security)
        .await
        .with_context(|| said(ErrorCode::NotController.code()))
}
