//! A cluster: its brokers, what leads what, and one connection to each broker.

use std::rc::Rc;

use platform::clock::Instant;
use platform::net::Net;
use wire::types::TopicId;

use crate::connection::Connection;
use crate::error::ClientError;
use crate::settings::ClientSettings;

/// What a coordinator is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CoordinatorKind {
    /// A consumer group.
    Group,
    /// A transactional id.
    Transaction,
}

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
    /// Its partitions by index, each with its leader or the reason why there is none.
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

/// A handle to a cluster; clones share its connections and what is known of it.
#[derive(Clone, Debug)]
pub struct Cluster {}

impl Cluster {
    /// Makes a client of a cluster; connects when something is asked first.
    pub fn new(_net: impl Net, _settings: ClientSettings) -> Self {
        Self {}
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ClientSettings {
        unreachable!("a skeleton")
    }

    /// Returns the leader of a partition, and waits until there is one.
    pub async fn leader(
        &self,
        _topic: &str,
        _partition: i32,
        _deadline: Instant,
    ) -> Result<Leader, ClientError> {
        Err(ClientError::Closed)
    }

    /// Returns what is known of a topic: asks if nothing is, or if it is stale; a missing topic is
    /// an error at once.
    pub async fn topic(
        &self,
        _name: &str,
        _deadline: Instant,
    ) -> Result<Rc<TopicMetadata>, ClientError> {
        Err(ClientError::Closed)
    }

    /// Returns the name of a topic with this id, if it is known.
    pub fn topic_name(&self, _id: TopicId) -> Option<Rc<str>> {
        None
    }

    /// Returns what is known of all topics (for subscriptions by pattern).
    pub async fn all_topics(
        &self,
        _deadline: Instant,
    ) -> Result<Vec<Rc<TopicMetadata>>, ClientError> {
        Err(ClientError::Closed)
    }

    /// Returns a connection to this broker.
    pub async fn node(&self, _id: i32, _deadline: Instant) -> Result<Connection, ClientError> {
        Err(ClientError::Closed)
    }

    /// Returns a connection to the coordinator of a group or a transactional id, and waits until
    /// there is one.
    pub async fn coordinator(
        &self,
        _kind: CoordinatorKind,
        _key: &str,
        _deadline: Instant,
    ) -> Result<Connection, ClientError> {
        Err(ClientError::Closed)
    }

    /// Forgets a coordinator that says it is none, or that is lost.
    pub fn coordinator_lost(&self, _kind: CoordinatorKind, _key: &str) {}

    /// Returns a connection to some broker: an open one if there is one.
    pub async fn any(&self, _deadline: Instant) -> Result<Connection, ClientError> {
        Err(ClientError::Closed)
    }

    /// Tells that what is known of a topic is wrong: it is asked for again before it is used.
    pub fn stale(&self, _topic: &str) {}

    /// Takes a newer leader than the one that is known, from an answer that names it.
    pub fn leader_moved(&self, _topic: &str, _partition: i32, _leader: Leader) {}
}
