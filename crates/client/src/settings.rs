//! The settings of a client: brokers, times, bounds, its identity. They are read from properties
//! with the names of Java's clients, and librdkafka's where they differ
//! (`settings/properties.rs`).
//!
//! Invariant: passwords are [`Secret`]s, and no error shows one.

mod lines;
mod login;
mod oauth;
mod properties;
mod secured;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use wire::batch::Compression;
use wire::sasl::{Mechanism, Secret};

use crate::error::ClientError;
use crate::token::TokenSource;
pub use lines::{GivenProperty, PropertiesError, each_property, warning_of_utf8};
pub use properties::{Settings, SettingsBuilder};
pub use secured::Tls;

/// The port of a broker that is named without one.
const DEFAULT_PORT: u16 = 9092;

/// The settings of connections and of the cluster.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The brokers to begin with: host and port.
    pub bootstrap: Vec<(String, u16)>,
    /// The name that brokers see (`client.id`).
    pub client_id: String,
    /// How long an exchange may take (`request.timeout.ms`).
    pub request_timeout: Duration,
    /// The same for making a connection, name lookup and login included
    /// (`socket.connection.setup.timeout.ms`).
    pub connect_timeout: Duration,
    /// The pause before the second try, which doubles up to `retry_backoff_max`
    /// (`retry.backoff.ms`).
    pub retry_backoff: Duration,
    /// The longest pause between tries (`retry.backoff.max.ms`).
    pub retry_backoff_max: Duration,
    /// Age at which metadata are asked for again (`metadata.max.age.ms`).
    pub metadata_max_age: Duration,
    /// Whether asking for a topic may make it (`allow.auto.create.topics`).
    pub auto_create: bool,
    /// Longest answer that is accepted (`receive.message.max.bytes`).
    pub answer_bytes_max: usize,
    /// Requests on their way on one connection.
    pub in_flight_max: usize,
    /// How connections are encrypted, if they are (`security.protocol`, `ssl.*`).
    pub tls: Option<Tls>,
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
    /// The user; empty for a token.
    pub user: String,
    /// The password; empty for a token.
    pub password: Secret<String>,
    /// Where the token is, for OAUTHBEARER.
    pub token: Option<TokenSource>,
    /// What is sent along with the token.
    // Bounded: `wire::sasl::jaas::TEXT_BYTES_MAX`.
    pub extensions: BTreeMap<String, String>,
}

impl Login {
    /// A login with a user and a password.
    pub fn with_password(mechanism: Mechanism, user: &str, password: Secret<String>) -> Self {
        Self {
            mechanism,
            user: user.to_owned(),
            password,
            token: None,
            extensions: BTreeMap::new(),
        }
    }
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

/// Which replicas must have a batch before it is acknowledged (`acks`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// None: nothing is acknowledged.
    None,
    /// The leader.
    Leader,
    /// All replicas in sync.
    All,
}

/// Where records go that name no partition (`partitioner`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partitioner {
    /// By Kafka's hash of the key; without a key to one partition until a batch is full, then to
    /// another.
    Murmur2,
    /// As records without a key, whatever the key.
    Sticky,
}

/// The settings of a producer.
#[derive(Clone, Debug)]
pub struct ProducerSettings {
    /// `acks`.
    pub acks: Acks,
    /// `compression.type`.
    pub compression: Compression,
    /// How long a batch waits for more records (`linger.ms`).
    pub linger: Duration,
    /// Bytes at which a batch is full, before compression (`batch.size`).
    pub batch_bytes: usize,
    /// Records at which a batch is full.
    pub batch_records: i32,
    /// Longest record, and longest request of several batches (`max.request.size`).
    pub request_bytes_max: usize,
    /// Bytes of records that are not acknowledged (`buffer.memory`). One record may be longer, when
    /// there is no other.
    pub buffer_bytes: usize,
    /// How long [`crate::Producer::send`] waits for room and for metadata (`max.block.ms`).
    pub max_block: Duration,
    /// After this time a record that is not acknowledged fails (`delivery.timeout.ms`). A request
    /// that is on its way is waited for.
    pub delivery_timeout: Duration,
    /// How often a batch is sent again (`retries`).
    pub retries: u32,
    /// Writes each record once, in order (`enable.idempotence`). It needs the acknowledgement of
    /// all replicas.
    pub idempotent: bool,
    /// Requests on their way to one broker, and batches of one partition
    /// (`max.in.flight.requests.per.connection`). A producer that is not idempotent has one batch
    /// of each partition on its way, so that order is kept.
    pub in_flight_max: usize,
    /// `partitioner`.
    pub partitioner: Partitioner,
    /// `transactional.id`.
    pub transactional_id: Option<String>,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
}

impl ClientSettings {
    /// Returns the defaults of Java's clients, for these brokers (`host:port`, comma-separated; the
    /// port is 9092 where it is missing).
    pub fn new(brokers: &str) -> Result<Self, ClientError> {
        Ok(Self {
            bootstrap: addresses(brokers)?,
            client_id: "forebay".to_owned(),
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_mins(5),
            auto_create: false,
            answer_bytes_max: 256 << 20,
            in_flight_max: 64,
            tls: None,
            login: None,
            fetch: FetchSettings {
                min_bytes: 1,
                max_wait: Duration::from_millis(500),
                max_bytes: 50 << 20,
                partition_bytes: 1 << 20,
                read_committed: false,
                check_crcs: true,
                reset: OffsetReset::Latest,
            },
            group: GroupSettings {
                id: None,
                instance_id: None,
                consumer_protocol: false,
                strategies: vec!["range".to_owned()],
                remote_assignor: None,
                session_timeout: Duration::from_secs(45),
                heartbeat_interval: Duration::from_secs(3),
                max_poll_interval: Duration::from_mins(5),
                rack: None,
            },
        })
    }
}

impl Default for ProducerSettings {
    /// Returns the defaults of Java's producer, with larger batches.
    fn default() -> Self {
        Self {
            acks: Acks::All,
            compression: Compression::None,
            linger: Duration::from_millis(5),
            batch_bytes: 1_000_000,
            batch_records: 100_000,
            request_bytes_max: 1 << 20,
            buffer_bytes: 32 << 20,
            max_block: Duration::from_mins(1),
            delivery_timeout: Duration::from_mins(2),
            retries: u32::MAX,
            idempotent: true,
            in_flight_max: 5,
            partitioner: Partitioner::Murmur2,
            transactional_id: None,
            transaction_timeout: Duration::from_mins(1),
        }
    }
}

/// Reads addresses of brokers: `host:port`, comma-separated, IPv6 addresses in brackets; a protocol
/// before the host is left out, as librdkafka does.
fn addresses(brokers: &str) -> Result<Vec<(String, u16)>, ClientError> {
    let wrong = |reason: String| ClientError::invalid("bootstrap.servers", reason);
    let mut found = Vec::new();
    for address in brokers.split(',').map(str::trim) {
        if address.is_empty() {
            continue;
        }
        let bare = address.split_once("://").map_or(address, |(_, bare)| bare);
        let place = match bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host.to_owned(), DEFAULT_PORT),
            Some((host, port)) => {
                let port = port.strip_prefix(':').and_then(|port| port.parse().ok());
                (
                    host.to_owned(),
                    port.ok_or_else(|| wrong(format!("{address:?} has no port")))?,
                )
            }
            None => match bare.rsplit_once(':') {
                None => (bare.to_owned(), DEFAULT_PORT),
                // More than one colon: an IPv6 address without port.
                Some((host, _)) if host.contains(':') => (bare.to_owned(), DEFAULT_PORT),
                Some((host, port)) => {
                    let port = port.parse();
                    let port = port.map_err(|_| wrong(format!("{address:?} has no port")))?;
                    (host.to_owned(), port)
                }
            },
        };
        if place.0.is_empty() {
            return Err(wrong(format!("{address:?} has no host")));
        }
        found.push(place);
    }
    if found.is_empty() {
        return Err(wrong(format!("there is no broker in {brokers:?}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_named_in_the_ways_of_other_clients() {
        let read = |text: &str| addresses(text).unwrap();
        let place = |host: &str, port| (host.to_owned(), port);
        assert_eq!(read("a:1, b ,"), [place("a", 1), place("b", 9092)]);
        assert_eq!(read("PLAINTEXT://a:1"), [place("a", 1)]);
        assert_eq!(read("[::1]:7,[::2]"), [place("::1", 7), place("::2", 9092)]);
        assert_eq!(read("fe80::1"), [place("fe80::1", 9092)]);
        for wrong in ["", " , ", "a:x", "a:70000", ":9", "[::1]x"] {
            let error = addresses(wrong).unwrap_err().to_string();
            assert!(error.starts_with("bootstrap.servers: "), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let mut settings = ClientSettings::new("a").unwrap();
        let password = Secret::new("pencil".to_owned());
        settings.login = Some(Login::with_password(Mechanism::Plain, "ada", password));
        let shown = format!("{settings:?}");
        assert!(shown.contains("ada") && !shown.contains("pencil"));
    }
}
