//! The cluster behind a connection, and the broker for each request.
//!
//! Connections are opened when first needed and kept until the command ends or an exchange fails.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Context as _;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::messages::{FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName};

use super::connection::Connection;
use super::refusal::{check, patiently};
use super::text;

/// What a coordinator is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coordinates {
    Group,
    Transaction,
}

/// A cluster, reached through one of its brokers.
#[derive(Debug)]
pub(crate) struct Cluster {
    entrance: Connection,
    addresses: BTreeMap<i32, String>,
    open: HashMap<i32, Connection>,
    within: Duration,
}

impl Cluster {
    /// Connects to the first of several addresses (`host:port`, comma-separated) that answers.
    pub(crate) fn reach(brokers: &str, within: Duration) -> anyhow::Result<Self> {
        let mut last = anyhow::anyhow!("no address of a broker in {brokers:?}");
        let addresses = brokers.split(',').map(str::trim);
        for address in addresses.filter(|address| !address.is_empty()) {
            let with_port = match address.rsplit_once(':') {
                Some((_, port)) if port.parse::<u16>().is_ok() => address.to_owned(),
                _ => format!("{address}:9092"),
            };
            match Connection::open(&with_port, within) {
                Ok(entrance) => {
                    return Ok(Self {
                        entrance,
                        addresses: BTreeMap::new(),
                        open: HashMap::new(),
                        within,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns how long one step of the command may take.
    pub(crate) fn within(&self) -> Duration {
        self.within
    }

    /// Returns the same in milliseconds, for the timeout of a request.
    pub(crate) fn within_ms(&self) -> i32 {
        i32::try_from(self.within.as_millis()).unwrap_or(i32::MAX)
    }

    /// Returns the connection to the broker that was reached first.
    pub(crate) fn entrance(&mut self) -> &mut Connection {
        &mut self.entrance
    }

    /// Returns a connection to this broker.
    pub(crate) fn broker(&mut self, id: i32) -> anyhow::Result<&mut Connection> {
        if self.open.get(&id).is_none_or(Connection::is_lost) {
            if !self.addresses.contains_key(&id) {
                self.look(Some(&[]), false)?;
            }
            let address = self.addresses.get(&id);
            let address = address.with_context(|| format!("the cluster has no broker {id}"))?;
            let connection = Connection::open(address, self.within)?;
            self.open.insert(id, connection);
        }
        self.open.get_mut(&id).context("a connection just opened")
    }

    /// Returns the ids of all brokers.
    pub(crate) fn brokers(&mut self) -> anyhow::Result<Vec<i32>> {
        self.look(Some(&[]), false)?;
        Ok(self.addresses.keys().copied().collect())
    }

    /// Returns a connection to the controller, or to a broker that forwards requests to it.
    pub(crate) fn controller(&mut self) -> anyhow::Result<&mut Connection> {
        let controller = self.look(Some(&[]), false)?.controller_id.0;
        if self.addresses.contains_key(&controller) {
            self.broker(controller)
        } else {
            Ok(&mut self.entrance)
        }
    }

    /// Asks for the metadata of all brokers and of these topics (`None`: all topics).
    pub(crate) fn look(
        &mut self,
        topics: Option<&[String]>,
        create: bool,
    ) -> anyhow::Result<MetadataResponse> {
        let named = |names: &[String]| {
            let topics = names
                .iter()
                .map(|name| MetadataRequestTopic::default().with_name(Some(TopicName(text(name)))));
            topics.collect::<Vec<_>>()
        };
        let request = MetadataRequest::default()
            .with_topics(topics.map(named))
            .with_allow_auto_topic_creation(create);
        if self.entrance.is_lost() {
            self.entrance = Connection::open(self.entrance.address(), self.within)?;
        }
        let answer = self.entrance.ask_newest(&request)?;
        for broker in &answer.brokers {
            let address = format!("{}:{}", broker.host, broker.port);
            self.addresses.insert(broker.node_id.0, address);
        }
        Ok(answer)
    }

    /// Returns the metadata of these topics; a missing one is an error.
    pub(crate) fn topics(
        &mut self,
        names: &[String],
    ) -> anyhow::Result<Vec<MetadataResponseTopic>> {
        let topics = self.look(Some(names), false)?.topics;
        for topic in &topics {
            let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
            check(topic.error_code, None).with_context(|| format!("topic {name}"))?;
        }
        Ok(topics)
    }

    /// Returns the broker that coordinates a group or a transactional id, and waits until there is
    /// one.
    pub(crate) fn coordinator(&mut self, of: Coordinates, key: &str) -> anyhow::Result<i32> {
        let what = match of {
            Coordinates::Group => "group",
            Coordinates::Transaction => "transactional id",
        };
        let within = self.within;
        patiently(within, || self.find(of, key))
            .with_context(|| format!("no coordinator of {what} {key:?}"))
    }

    fn find(&mut self, of: Coordinates, key: &str) -> anyhow::Result<i32> {
        let version = self.entrance.version::<FindCoordinatorRequest>()?;
        let request = FindCoordinatorRequest::default().with_key_type(match of {
            Coordinates::Group => 0,
            Coordinates::Transaction => 1,
        });
        let request = if version >= 4 {
            request.with_coordinator_keys(vec![text(key)])
        } else {
            request.with_key(text(key))
        };
        let answer = self.entrance.ask(version, &request)?;
        check(answer.error_code, answer.error_message.as_ref())?;
        let (id, host, port) = if let Some(found) = answer.coordinators.into_iter().next() {
            check(found.error_code, found.error_message.as_ref())?;
            (found.node_id.0, found.host, found.port)
        } else {
            (answer.node_id.0, answer.host, answer.port)
        };
        self.addresses.insert(id, format!("{host}:{port}"));
        Ok(id)
    }

    /// Returns the address of a broker.
    pub(crate) fn address(&self, id: i32) -> &str {
        self.addresses.get(&id).map_or("?", String::as_str)
    }
}
