//! The cluster behind a connection, and the broker for each request.
//!
//! Connections are opened when first needed and kept until the command ends or an exchange fails:
//! the next question then has a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use client::ClientSettings;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse, TopicName,
};

use super::answers::each_answer;
use super::connection::{Connection, Means};
use super::failure::Failure;
use super::refusal::{check, patiently};
use super::text;

/// First version of `FindCoordinator` that asks for several keys, and names them in the answer.
const KEYS_SINCE: i16 = 4;

/// What a coordinator is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coordinates {
    Group,
    Transaction,
}

/// A cluster, reached through one of its brokers.
#[derive(Debug)]
pub(crate) struct Cluster {
    means: Means,
    entrance: Connection,
    /// Of every broker that was ever named.
    addresses: BTreeMap<i32, (String, u16)>,
    /// The brokers that the last metadata named, sorted.
    members: Vec<i32>,
    open: HashMap<i32, Connection>,
}

impl Cluster {
    /// Connects to the first of the brokers in the settings that answers.
    pub(crate) fn reach(settings: ClientSettings, within: Duration) -> anyhow::Result<Self> {
        let means = Means::new(settings, within)?;
        let mut errors = Vec::new();
        for (host, port) in means.bootstrap() {
            match Connection::open(&means, host, *port) {
                Ok(entrance) => {
                    return Ok(Self {
                        means,
                        entrance,
                        addresses: BTreeMap::new(),
                        members: Vec::new(),
                        open: HashMap::new(),
                    });
                }
                Err(error) => errors.push(error),
            }
        }
        match errors.pop() {
            None => Err(anyhow::anyhow!("there is no broker to begin with")),
            Some(only) if errors.is_empty() => Err(only),
            Some(last) => {
                errors.push(last);
                let all: Vec<_> = errors.iter().map(|error| format!("{error:#}")).collect();
                Err(anyhow::anyhow!("{}", all.join("; ")))
            }
        }
    }

    /// Returns how long one step of the command may take.
    pub(crate) fn within(&self) -> Duration {
        self.means.within()
    }

    /// Returns the same in milliseconds, for the timeout of a request.
    pub(crate) fn within_ms(&self) -> i32 {
        i32::try_from(self.within().as_millis()).unwrap_or(i32::MAX)
    }

    /// Returns a connection to the broker that was reached first.
    pub(crate) fn entrance(&mut self) -> anyhow::Result<&mut Connection> {
        if self.entrance.is_lost() {
            self.entrance = self.entrance.again()?;
        }
        Ok(&mut self.entrance)
    }

    /// Returns a connection to this broker.
    pub(crate) fn broker(&mut self, id: i32) -> anyhow::Result<&mut Connection> {
        if self.open.get(&id).is_none_or(Connection::is_lost) {
            if !self.addresses.contains_key(&id) {
                self.look(Some(&[]), false)?;
            }
            let address = self.addresses.get(&id);
            let address = address.with_context(|| format!("the cluster has no broker {id}"))?;
            let connection = Connection::open(&self.means, &address.0, address.1)?;
            self.open.insert(id, connection);
        }
        self.open.get_mut(&id).context("a connection just opened")
    }

    /// Returns the ids of all brokers; there is at least one.
    pub(crate) fn brokers(&mut self) -> anyhow::Result<Vec<i32>> {
        self.look(Some(&[]), false)?;
        ensure!(!self.members.is_empty(), "the cluster has no brokers");
        Ok(self.members.clone())
    }

    /// Returns a connection to the controller, or to a broker that forwards requests to it.
    pub(crate) fn controller(&mut self) -> anyhow::Result<&mut Connection> {
        let controller = self.look(Some(&[]), false)?.controller_id.0;
        if self.members.contains(&controller) {
            self.broker(controller)
        } else {
            self.entrance()
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
        let answer = self.entrance()?.ask_newest(&request)?;
        check(answer.error_code, None)
            .with_context(|| format!("metadata of broker {}", self.entrance.address()))?;
        for broker in &answer.brokers {
            self.learn(broker.node_id.0, &broker.host, broker.port);
        }
        let members = answer.brokers.iter().map(|broker| broker.node_id.0);
        let members: BTreeSet<_> = members.collect();
        self.members = members.into_iter().collect();
        Ok(answer)
    }

    /// Returns the metadata of each of these topics, or why there is none.
    pub(crate) fn each_topic(
        &mut self,
        names: &[String],
    ) -> anyhow::Result<BTreeMap<String, Result<MetadataResponseTopic, Failure>>> {
        let topics = self.look(Some(names), false)?.topics;
        let told = topics.into_iter().filter_map(|topic| {
            let name = topic.name.as_ref()?.0.to_string();
            Some((name, check(topic.error_code, None).map(|()| topic)))
        });
        Ok(each_answer(names.iter().cloned(), Ok(told)))
    }

    /// Returns the metadata of these topics, in their order; a missing one is an error.
    pub(crate) fn topics(
        &mut self,
        names: &[String],
    ) -> anyhow::Result<Vec<MetadataResponseTopic>> {
        let mut told = self.each_topic(names)?;
        let topics = names.iter().map(|name| {
            let topic = told.remove(name).unwrap_or(Err(Failure::LeftOut));
            let topic = topic.map_err(anyhow::Error::from);
            topic.with_context(|| format!("topic {name}"))
        });
        topics.collect()
    }

    /// Returns the broker that coordinates a group or a transactional id, and waits until there is
    /// one.
    pub(crate) fn coordinator(&mut self, of: Coordinates, key: &str) -> anyhow::Result<i32> {
        let what = match of {
            Coordinates::Group => "group",
            Coordinates::Transaction => "transactional id",
        };
        let within = self.within();
        patiently(within, || self.find(of, key))
            .with_context(|| format!("no coordinator of {what} {key:?}"))
    }

    fn find(&mut self, of: Coordinates, key: &str) -> anyhow::Result<i32> {
        let entrance = self.entrance()?;
        let version = entrance.version::<FindCoordinatorRequest>()?;
        let request = FindCoordinatorRequest::default().with_key_type(match of {
            Coordinates::Group => 0,
            Coordinates::Transaction => 1,
        });
        let request = if version >= KEYS_SINCE {
            request.with_coordinator_keys(vec![text(key)])
        } else {
            request.with_key(text(key))
        };
        let answer = entrance.ask(version, &request)?;
        let (id, host, port) = coordinator_of(key, version, answer)?;
        self.learn(id, &host, port);
        Ok(id)
    }

    /// Takes the address of a broker. It takes a port that is none for 0, on which no broker
    /// listens.
    fn learn(&mut self, id: i32, host: &str, port: i32) {
        let port = u16::try_from(port).unwrap_or(0);
        self.addresses.insert(id, (host.to_owned(), port));
    }

    /// Returns the address of a broker.
    pub(crate) fn address(&self, id: i32) -> String {
        let address = self.addresses.get(&id);
        address.map_or_else(|| "?".to_owned(), |(host, port)| format!("{host}:{port}"))
    }
}

/// Returns the broker that coordinates the key, and its address.
fn coordinator_of(
    key: &str,
    version: i16,
    answer: FindCoordinatorResponse,
) -> anyhow::Result<(i32, String, i32)> {
    if version < KEYS_SINCE {
        check(answer.error_code, answer.error_message.as_ref())?;
        return Ok((answer.node_id.0, answer.host.to_string(), answer.port));
    }
    let mut coordinators = answer.coordinators.into_iter();
    let found = coordinators.find(|one| one.key.as_str() == key);
    let found = found.ok_or(Failure::LeftOut)?;
    check(found.error_code, found.error_message.as_ref())?;
    Ok((found.node_id.0, found.host.to_string(), found.port))
}

#[cfg(test)]
mod tests;
