//! What is known of a cluster: brokers, topics, leaders; pure.
//!
//! Invariants:
//! - A leader is never replaced by one of an older epoch of the same topic.
//! - What was asked for and is not in the answer counts as unknown, never as what it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use platform::clock::Instant;
use wire::messages::MetadataResponse;
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::types::{ErrorCode, TopicId};

use crate::connection::Peer;
use crate::error::{ClientError, Refusal, check};

/// The most topics that one request asks for because they are stale.
const STALE_MAX: usize = 1000;

/// Who leads a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The id of the broker.
    pub node: i32,
    /// The epoch of the leader; -1 if the brokers do not tell it.
    pub epoch: i32,
}

/// What is known of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicMetadata {
    /// Its name.
    pub name: Rc<str>,
    /// Its id; zero if the brokers do not tell it.
    pub id: TopicId,
    /// True for a topic of the brokers' own.
    pub is_internal: bool,
    /// Its partitions in the order of their indexes.
    pub partitions: Vec<PartitionMetadata>,
}

/// What is known of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionMetadata {
    /// Its index.
    pub index: i32,
    /// Its leader, if there is one.
    pub leader: Option<Leader>,
    /// The ids of its replicas.
    pub replicas: Vec<i32>,
}

impl TopicMetadata {
    /// Returns a partition by its index.
    pub fn partition(&self, index: i32) -> Option<&PartitionMetadata> {
        let at = self
            .partitions
            .binary_search_by_key(&index, |one| one.index);
        self.partitions.get(at.ok()?)
    }
}

/// What a broker said of a topic.
struct Entry {
    told: Result<Rc<TopicMetadata>, Refusal>,
    at: Instant,
    is_stale: bool,
}

/// What the client knows of a cluster from the answers of its brokers.
#[derive(Default)]
pub(super) struct KnownCluster {
    // Bounded: by the length of an answer
    brokers: BTreeMap<i32, (Rc<str>, u16)>,
    // Bounded: by the topics that the program names, or by the length of an answer
    topics: BTreeMap<Rc<str>, Entry>,
    // Bounded: as the topics are
    names: BTreeMap<TopicId, Rc<str>>,
}

impl KnownCluster {
    /// Takes an answer; `asked` are the topics that were asked for (`None`: all of them).
    pub(super) fn learn(
        &mut self,
        answer: &MetadataResponse,
        asked: Option<&[Rc<str>]>,
        now: Instant,
    ) {
        if !answer.brokers.is_empty() {
            self.brokers.clear();
        }
        for broker in &answer.brokers {
            self.endpoint(broker.node_id.0, &broker.host, broker.port);
        }
        let told = answer.topics.iter().filter_map(|topic| topic.name.as_ref());
        let told: BTreeSet<&str> = told.map(|name| name.as_str()).collect();
        let left_out = Refusal::from(ErrorCode::UnknownTopicOrPartition);
        let wanted: Option<BTreeSet<&str>> =
            asked.map(|asked| asked.iter().map(|name| &**name).collect());
        for name in asked.unwrap_or_default() {
            if !told.contains(&**name) {
                self.put(name, Err(left_out.clone()), now);
            }
        }
        if asked.is_none() {
            self.topics.retain(|name, _| told.contains(&**name));
            let topics = &self.topics;
            self.names.retain(|_, name| topics.contains_key(name));
        }
        for topic in &answer.topics {
            let Some(name) = &topic.name else { continue };
            // The client would never drop a topic that it did not ask for.
            let is_wanted = |wanted: &BTreeSet<&str>| wanted.contains(name.as_str());
            if !wanted.as_ref().is_none_or(is_wanted) {
                continue;
            }
            let name: Rc<str> = name.as_str().into();
            let told = check(topic.error_code, None);
            let told = told.map(|()| Rc::new(self.read(&name, topic)));
            self.put(&name, told, now);
        }
    }

    fn put(&mut self, name: &Rc<str>, told: Result<Rc<TopicMetadata>, Refusal>, at: Instant) {
        let id = told.as_ref().ok().map(|topic| topic.id);
        let entry = Entry {
            told,
            at,
            is_stale: false,
        };
        let before = self.topics.insert(Rc::clone(name), entry);
        let before = before.and_then(|entry| Some(entry.told.ok()?.id));
        if let Some(gone) = before.filter(|before| id != Some(*before)) {
            self.names.remove(&gone);
        }
        if let Some(id) = id.filter(|id| *id != TopicId::ZERO) {
            self.names.insert(id, Rc::clone(name));
        }
    }

    /// Reads a topic of an answer; keeps leaders of newer epochs that are known.
    fn read(&self, name: &Rc<str>, topic: &MetadataResponseTopic) -> TopicMetadata {
        let id = TopicId(topic.topic_id);
        let before = self
            .topics
            .get(name)
            .and_then(|entry| entry.told.as_ref().ok());
        let before = before.filter(|before| before.id == id);
        let partitions = topic.partitions.iter().map(|told| {
            let index = told.partition_index;
            let leader = (told.leader_id.0 >= 0).then_some(Leader {
                node: told.leader_id.0,
                epoch: told.leader_epoch,
            });
            let known = before.and_then(|before| before.partition(index)?.leader);
            let newer =
                known.filter(|known| told.leader_epoch >= 0 && known.epoch > told.leader_epoch);
            let partition = PartitionMetadata {
                index,
                leader: newer.or(leader),
                replicas: told.replica_nodes.iter().map(|id| id.0).collect(),
            };
            (index, partition)
        });
        // By index, each once.
        let partitions: BTreeMap<_, _> = partitions.collect();
        TopicMetadata {
            name: Rc::clone(name),
            id,
            is_internal: topic.is_internal,
            partitions: partitions.into_values().collect(),
        }
    }

    /// Takes the address of a broker; one that makes no sense is left out.
    pub(super) fn endpoint(&mut self, id: i32, host: &str, port: i32) {
        if let Ok(port) = u16::try_from(port)
            && !host.is_empty()
        {
            self.brokers.insert(id, (host.into(), port));
        }
    }

    /// Takes a leader, if its epoch is newer than that of the one that is known.
    pub(super) fn moved(&mut self, topic: &str, partition: i32, leader: Leader) {
        let Some(Entry {
            told: Ok(known), ..
        }) = self.topics.get_mut(topic)
        else {
            return;
        };
        let Some(before) = known.partition(partition) else {
            return;
        };
        let is_newer = before
            .leader
            .is_none_or(|before| before.epoch < leader.epoch);
        if leader.node < 0 || !is_newer {
            return;
        }
        // Not a copy for each of many partitions that move at once.
        let partitions = &mut Rc::make_mut(known).partitions;
        let at = partitions.binary_search_by_key(&partition, |one| one.index);
        if let Some(found) = at.ok().and_then(|at| partitions.get_mut(at)) {
            found.leader = Some(leader);
        }
    }

    /// Marks a topic: it is asked for again before it is used.
    pub(super) fn stale(&mut self, topic: &str) {
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.is_stale = true;
        }
    }

    /// Returns true if what was told of a topic, also that it is missing, may still be used.
    pub(super) fn is_fresh(&self, topic: &str, oldest: Option<Instant>) -> bool {
        let entry = self.topics.get(topic);
        entry.is_some_and(|entry| !entry.is_stale && oldest.is_none_or(|oldest| entry.at >= oldest))
    }

    /// Returns a topic that is there and may still be used.
    pub(super) fn fresh(&self, topic: &str, oldest: Option<Instant>) -> Option<Rc<TopicMetadata>> {
        let entry = self.topics.get(topic);
        let entry = entry.filter(|_| self.is_fresh(topic, oldest))?;
        entry.told.as_ref().ok().cloned()
    }

    /// Returns what was told last of a topic.
    pub(super) fn told(&self, topic: &str) -> Result<Rc<TopicMetadata>, ClientError> {
        match self.topics.get(topic) {
            Some(entry) => Ok(entry.told.clone()?),
            None => Err(ErrorCode::UnknownTopicOrPartition.into()),
        }
    }

    /// Returns the names to ask for: this one, and others that are there and stale.
    pub(super) fn to_ask(&self, name: &Rc<str>, oldest: Option<Instant>) -> Vec<Rc<str>> {
        let others = self.topics.iter();
        let others = others.filter(|(_, entry)| entry.told.is_ok());
        let others = others.map(|(other, _)| other);
        let others = others.filter(|other| *other != name && !self.is_fresh(other, oldest));
        let others = others.take(STALE_MAX).cloned();
        std::iter::once(Rc::clone(name)).chain(others).collect()
    }

    /// Returns all topics that are known, by their names.
    pub(super) fn all(&self) -> Vec<Rc<TopicMetadata>> {
        let topics = self.topics.values();
        let mut topics: Vec<_> = topics.filter_map(|entry| entry.told.clone().ok()).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        topics
    }

    /// Returns the name of a topic.
    pub(super) fn name(&self, id: TopicId) -> Option<Rc<str>> {
        self.names.get(&id).cloned()
    }

    /// Returns the ids of all brokers.
    pub(super) fn brokers(&self) -> Vec<i32> {
        self.brokers.keys().copied().collect()
    }

    /// Returns the address of a broker.
    pub(super) fn peer(&self, id: i32) -> Option<Peer> {
        let (host, port) = self.brokers.get(&id)?;
        Some(Peer::new(host, *port, Some(id)))
    }
}

#[cfg(test)]
mod tests;
