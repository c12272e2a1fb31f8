//! A fetch as a request of the protocol: the generated codec writes it, `wire`'s own reads the
//! answer, whose records stay slices of it.
//!
//! Not here: what is fetched ([`super::fetcher`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use wire::StrBytes;
use wire::kafka::Api;
use wire::kafka::fetch::FetchResponse;
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use wire::messages::{FetchRequest, TopicName};
use wire::types::{TopicId, TopicPartition};

use super::session::{PartitionAsk, SessionAsk};
use crate::ask::Ask;

/// First version that names topics by their ids.
const BY_ID_SINCE: i16 = 13;
/// First version that tells the epoch of what was read.
const EPOCHS_SINCE: i16 = 12;

/// The bounds of a fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FetchBounds {
    pub(super) max_wait: Duration,
    pub(super) min_bytes: i32,
    pub(super) max_bytes: i32,
    pub(super) committed: bool,
}

/// A fetch from one broker.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FetchAsk {
    request: FetchRequest,
    by_id: bool,
}

impl FetchAsk {
    pub(super) fn new(session: SessionAsk, bounds: FetchBounds, rack: &str) -> Self {
        let max_wait_ms = i32::try_from(bounds.max_wait.as_millis()).unwrap_or(i32::MAX);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(max_wait_ms)
            .with_min_bytes(bounds.min_bytes)
            .with_max_bytes(bounds.max_bytes)
            .with_isolation_level(i8::from(bounds.committed))
            .with_session_id(session.id)
            .with_session_epoch(session.epoch)
            .with_topics(topics(session.asked))
            .with_forgotten_topics_data(forgotten(session.forgotten))
            .with_rack_id(StrBytes::from_string(rack.to_owned()));
        Self {
            request,
            by_id: session.by_id,
        }
    }

    /// Returns the newest version that can say this.
    pub(crate) fn newest(&self) -> i16 {
        if self.by_id {
            Self::NEWEST
        } else {
            Self::NEWEST.min(BY_ID_SINCE - 1)
        }
    }

    /// Returns the longest wait at the broker.
    pub(crate) fn max_wait(&self) -> Duration {
        let wait_ms = u64::try_from(self.request.max_wait_ms).unwrap_or(0);
        Duration::from_millis(wait_ms)
    }
}

impl Ask for FetchAsk {
    type Answer = FetchResponse;
    const API: i16 = Api::Fetch.key();
    const OLDEST: i16 = *Api::Fetch.versions().start();
    const NEWEST: i16 = *Api::Fetch.versions().end();

    fn header_versions(version: i16) -> (i16, i16) {
        (
            Api::Fetch.request_header_version(version),
            Api::Fetch.response_header_version(version),
        )
    }

    fn encode(&self, out: &mut BytesMut, version: i16) -> Result<(), String> {
        if version >= EPOCHS_SINCE {
            return Ask::encode(&self.request, out, version);
        }
        let mut request = self.request.clone();
        let partitions = request
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions);
        partitions.for_each(|partition| partition.last_fetched_epoch = -1);
        Ask::encode(&request, out, version)
    }

    fn decode(body: &Bytes, version: i16) -> Result<FetchResponse, String> {
        FetchResponse::decode(body, version).map_err(|error| error.to_string())
    }
}

fn topics(asked: Vec<(TopicPartition, PartitionAsk)>) -> Vec<FetchTopic> {
    // The order of topics and partitions is that of their turns.
    let mut places: BTreeMap<(Arc<str>, TopicId), usize> = BTreeMap::new();
    let mut topics: Vec<FetchTopic> = Vec::new();
    for (place, ask) in asked {
        let partition = FetchPartition::default()
            .with_partition(place.partition)
            .with_current_leader_epoch(ask.leader_epoch)
            .with_fetch_offset(ask.offset)
            .with_last_fetched_epoch(ask.last_epoch)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(ask.bytes_max);
        let name = StrBytes::from_string(place.topic.to_string());
        let at = *places
            .entry((place.topic, ask.topic_id))
            .or_insert(topics.len());
        match topics.get_mut(at) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(
                FetchTopic::default()
                    .with_topic(TopicName(name))
                    .with_topic_id(ask.topic_id.0)
                    .with_partitions(vec![partition]),
            ),
        }
    }
    topics
}

fn forgotten(gone: Vec<(TopicPartition, TopicId)>) -> Vec<ForgottenTopic> {
    let mut by_topic: BTreeMap<(Arc<str>, TopicId), Vec<i32>> = BTreeMap::new();
    for (place, topic_id) in gone {
        let of_topic = by_topic.entry((place.topic, topic_id)).or_default();
        of_topic.push(place.partition);
    }
    let topics = by_topic.into_iter().map(|((name, id), partitions)| {
        ForgottenTopic::default()
            .with_topic(TopicName(StrBytes::from_string(name.to_string())))
            .with_topic_id(id.0)
            .with_partitions(partitions)
    });
    topics.collect()
}

#[cfg(test)]
mod tests {
    use wire::types::Uuid;

    use super::*;

    fn ask(topic_id: TopicId, offset: i64) -> PartitionAsk {
        PartitionAsk {
            topic_id,
            offset,
            leader_epoch: 3,
            last_epoch: 2,
            bytes_max: 1000,
        }
    }

    fn place(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: topic.into(),
            partition,
        }
    }

    #[test]
    fn every_version_says_what_it_can_and_a_broker_understands_it() {
        let id = TopicId(Uuid::from_u128(7));
        let session = SessionAsk {
            id: 5,
            epoch: 0,
            by_id: true,
            asked: vec![
                (place("a", 0), ask(id, 10)),
                (place("b", 1), ask(id, 11)),
                (place("a", 2), ask(id, 12)),
            ],
            forgotten: Vec::new(),
        };
        let bounds = FetchBounds {
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 1 << 20,
            committed: true,
        };
        let fetch = FetchAsk::new(session, bounds, "");
        for version in FetchAsk::OLDEST..=FetchAsk::NEWEST {
            let mut body = BytesMut::new();
            fetch.encode(&mut body, version).unwrap();
            let read = wire::kafka::fetch::FetchRequest::decode(&body.freeze(), version).unwrap();
            let offsets = read.topics.iter().flat_map(|topic| &topic.partitions);
            let offsets: Vec<_> = offsets.map(|one| one.fetch_offset.0).collect();
            assert_eq!(offsets, [10, 12, 11], "version {version}");
            assert_eq!((read.max_wait_ms, read.isolation_level), (500, 1));
            assert_eq!(read.replica_id.0, -1);
        }
        assert_eq!(fetch.newest(), FetchAsk::NEWEST);
    }
}
