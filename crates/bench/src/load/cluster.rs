//! The cluster metadata that a load needs: broker addresses, partition leaders, and the earliest
//! and latest offsets.
//!
//! Looked up when a load starts, and again when a broker reports that it is not the leader.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};
use wire::StrBytes;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{ListOffsetsRequest, MetadataRequest, TopicName};
use wire::types::ErrorCode;

use super::client::{Client, said};
use super::hook::PartitionPlace;
use super::security::Security;

/// How long partitions may take to get leaders.
const LEADERS_WITHIN: Duration = Duration::from_secs(30);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The timestamps by which ListOffsets selects an end of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The log start offset.
    Earliest = -2,
    /// The offset of the next record.
    Latest = -1,
}

/// Broker addresses and partition leaders.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    /// How to connect to its brokers.
    pub(super) security: Security,
    /// Address (`host:port`) by node.
    pub(super) brokers: HashMap<i32, String>,
    /// Names of the load's topics.
    pub(super) topics: Vec<String>,
    /// Leader by place.
    pub(super) leaders: BTreeMap<PartitionPlace, i32>,
}

impl Cluster {
    /// Looks up the topics; waits until every partition has a leader.
    pub(super) async fn look(
        bootstrap: &str,
        security: &Security,
        topics: &[String],
    ) -> anyhow::Result<Self> {
        let deadline = Instant::now() + LEADERS_WITHIN;
        loop {
            let looked = Self::look_once(bootstrap, security, topics).await;
            if looked.is_ok() || Instant::now() >= deadline {
                return looked;
            }
            sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// Looks up the topics once.
    pub(super) async fn look_once(
        bootstrap: &str,
        security: &Security,
        topics: &[String],
    ) -> anyhow::Result<Self> {
        let mut client = Client::connect_any(bootstrap, security).await?;
        let version = client.version::<MetadataRequest>(12)?;
        let named = topics
            .iter()
            .map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
        let request = MetadataRequest::default()
            .with_topics(Some(named.collect()))
            .with_allow_auto_topic_creation(false);
        let answer = client.ask(version, &request).await?;
        let mut cluster = Self {
            security: security.clone(),
            topics: topics.to_vec(),
            ..Self::default()
        };
        for broker in &answer.brokers {
            let address = format!("{}:{}", broker.host, broker.port);
            cluster.brokers.insert(broker.node_id.0, address);
        }
        for (index, name) in (0..).zip(topics) {
            let topic = answer.topics.iter().find(|topic| {
                topic
                    .name
                    .as_ref()
                    .is_some_and(|found| found.0.as_str() == name)
            });
            let topic = topic.with_context(|| format!("no word on topic {name}"))?;
            if topic.error_code != 0 {
                bail!("topic {name}: {}", said(topic.error_code));
            }
            for partition in &topic.partitions {
                if !cluster.brokers.contains_key(&partition.leader_id.0) {
                    bail!(
                        "topic {name}, partition {}: no leader",
                        partition.partition_index
                    );
                }
                let place = PartitionPlace {
                    topic: index,
                    partition: u32::try_from(partition.partition_index)?,
                };
                cluster.leaders.insert(place, partition.leader_id.0);
            }
        }
        Ok(cluster)
    }

    /// Returns the address of the leader of a place.
    pub(super) fn address_of(&self, place: PartitionPlace) -> anyhow::Result<&str> {
        let leader = self.leaders.get(&place);
        let address = leader.and_then(|leader| self.brokers.get(leader));
        let address = address.with_context(|| {
            let PartitionPlace { topic, partition } = place;
            let name = self.topics.get(topic as usize).map_or("?", String::as_str);
            format!("topic {name} has no partition {partition}")
        })?;
        Ok(address)
    }

    /// Returns the earliest or latest offsets of `places` from their leaders.
    ///
    /// Retries for a while, because the leader of a new topic may not lead it yet.
    pub(super) async fn offsets(
        &self,
        places: &[PartitionPlace],
        end: End,
    ) -> anyhow::Result<BTreeMap<PartitionPlace, i64>> {
        let give_up = Instant::now() + LEADERS_WITHIN;
        loop {
            match self.try_offsets(places, end).await? {
                Ok(offsets) => return Ok(offsets),
                Err(_) if Instant::now() < give_up => {
                    sleep(ASK_AGAIN_AFTER).await;
                }
                Err((topic, code)) => bail!("offsets of topic {topic}: {}", said(code)),
            }
        }
    }

    /// Asks once; the inner error is the topic and the error code that a retry may resolve.
    async fn try_offsets(
        &self,
        places: &[PartitionPlace],
        end: End,
    ) -> anyhow::Result<Result<BTreeMap<PartitionPlace, i64>, (String, i16)>> {
        let mut by_address: BTreeMap<&str, Vec<PartitionPlace>> = BTreeMap::new();
        for place in places {
            by_address
                .entry(self.address_of(*place)?)
                .or_default()
                .push(*place);
        }
        let mut offsets = BTreeMap::new();
        for (address, places) in by_address {
            let mut client = Client::connect(address, &self.security).await?;
            let version = client.version::<ListOffsetsRequest>(7)?;
            let request = self.list_offsets(&places, end);
            for topic in client.ask(version, &request).await?.topics {
                let index = self
                    .topics
                    .iter()
                    .position(|name| *name == topic.name.0.as_str());
                let index = u32::try_from(index.context("an answer for another topic")?)?;
                for partition in topic.partitions {
                    let name = topic.name.0.as_str();
                    match ErrorCode::try_from_code(partition.error_code) {
                        None => {}
                        Some(
                            ErrorCode::NotLeaderOrFollower
                            | ErrorCode::LeaderNotAvailable
                            | ErrorCode::UnknownTopicOrPartition,
                        ) => return Ok(Err((name.to_owned(), partition.error_code))),
                        Some(_) => {
                            bail!("offsets of topic {name}: {}", said(partition.error_code));
                        }
                    }
                    let place = PartitionPlace {
                        topic: index,
                        partition: u32::try_from(partition.partition_index)?,
                    };
                    offsets.insert(place, partition.offset);
                }
            }
        }
        Ok(Ok(offsets))
    }

    fn list_offsets(&self, places: &[PartitionPlace], end: End) -> ListOffsetsRequest {
        let mut topics: BTreeMap<u32, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for place in places {
            topics.entry(place.topic).or_default().push(
                ListOffsetsPartition::default()
                    .with_partition_index(place.partition.cast_signed())
                    .with_current_leader_epoch(-1)
                    .with_timestamp(end as i64),
            );
        }
        let topics = topics.into_iter().map(|(index, partitions)| {
            ListOffsetsTopic::default()
                .with_name(topic_name(&self.topics[index as usize]))
                .with_partitions(partitions)
        });
        ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_topics(topics.collect())
    }
}

/// Returns a topic name in the type of the codecs.
pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
