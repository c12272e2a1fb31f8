//! Properties by name: those of Java's clients first, librdkafka's where scripts have them.
//!
//! An unknown property is an error. A known one that means nothing here gives a warning.

use std::time::Duration;

use wire::batch::Compression;

use super::login::RawLogin;
use super::secured::RawTls;
use super::value::{flag, ms, number, text, word, wrong};
use super::{Acks, ClientSettings, OffsetReset, Partitioner, ProducerSettings, addresses};
use crate::error::ClientError;

/// The largest size that a property may set.
const BYTES_MAX: i64 = i32::MAX as i64;

/// Everything that properties set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connections, the cluster, consumers.
    pub client: ClientSettings,
    /// A producer.
    pub producer: ProducerSettings,
    /// What was set without effect.
    pub warnings: Vec<String>,
}

/// Collects properties; of one that is set twice the last counts.
#[derive(Clone, Debug)]
pub struct SettingsBuilder {
    client: ClientSettings,
    producer: ProducerSettings,
    login: RawLogin,
    tls: RawTls,
    /// The first property of TLS, and the first of logins.
    first_tls: Option<String>,
    first_login: Option<String>,
    /// Set by name, so that a contradiction is the user's.
    idempotence_is_set: bool,
    warnings: Vec<String>,
}

impl SettingsBuilder {
    /// Begins with the defaults, for these brokers.
    pub fn new(brokers: &str) -> Result<Self, ClientError> {
        Ok(Self {
            client: ClientSettings::new(brokers)?,
            producer: ProducerSettings::default(),
            login: RawLogin::default(),
            tls: RawTls::default(),
            first_tls: None,
            first_login: None,
            idempotence_is_set: false,
            warnings: Vec::new(),
        })
    }

    /// Takes a property; an unknown one is an error.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ClientError> {
        if self.set_known(key, value)? {
            return Ok(());
        }
        let reason = "this client has no such property (names are those of Java's clients and of \
                      librdkafka)";
        Err(ClientError::invalid(key, reason))
    }

    /// Takes a property; returns false if it is unknown.
    pub fn set_known(&mut self, key: &str, value: &str) -> Result<bool, ClientError> {
        // As Java does: what it does not count as space may be the end of a password.
        let value = value.trim_matches(|letter| letter <= ' ');
        let is_of_login = self.login.set(key, value);
        let is_of_tls = !is_of_login && self.tls.set(key, value)?;
        for (is_it, first) in [
            (
                is_of_login && key.starts_with("sasl."),
                &mut self.first_login,
            ),
            (is_of_tls, &mut self.first_tls),
        ] {
            if is_it {
                first.get_or_insert_with(|| key.to_owned());
            }
        }
        let is_known = is_of_login
            || is_of_tls
            || self.set_client(key, value)?
            || self.set_producer(key, value)?
            || self.set_fetch(key, value)?
            || self.set_group(key, value)?;
        if !is_known && let Some(why) = without_effect(key) {
            self.warnings.push(format!("{key} has no effect: {why}"));
            return Ok(true);
        }
        Ok(is_known)
    }

    /// Returns the settings, if they fit together.
    pub fn finish(mut self) -> Result<Settings, ClientError> {
        let (is_tls, login) = self.login.resolve()?;
        for (first, has_effect, protocols) in [
            (&self.first_tls, is_tls, "SSL or SASL_SSL"),
            (
                &self.first_login,
                login.is_some(),
                "SASL_PLAINTEXT or SASL_SSL",
            ),
        ] {
            if let Some(key) = first.as_ref().filter(|_| !has_effect) {
                let warning = format!("{key} has no effect: security.protocol is not {protocols}");
                self.warnings.push(warning);
            }
        }
        self.client.login = login;
        if is_tls {
            self.client.tls = Some(self.tls.open(&mut self.warnings)?);
        }
        let producer = &mut self.producer;
        if producer.transactional_id.is_some() && !producer.idempotent {
            let reason = "a transactional producer is idempotent";
            return Err(ClientError::invalid("enable.idempotence", reason));
        }
        if producer.idempotent && (producer.acks != Acks::All || producer.retries == 0) {
            if self.idempotence_is_set || producer.transactional_id.is_some() {
                let reason = "an idempotent producer needs acks=all and retries";
                return Err(ClientError::invalid("enable.idempotence", reason));
            }
            producer.idempotent = false;
        }
        // The broker remembers five batches of a producer.
        let in_flight_max = if producer.idempotent { 5 } else { usize::MAX };
        if producer.in_flight_max > in_flight_max {
            let reason = "an idempotent producer has at most 5";
            let key = "max.in.flight.requests.per.connection";
            return Err(ClientError::invalid(key, reason));
        }
        let fetch_bytes = usize::try_from(self.client.fetch.max_bytes).unwrap_or(0);
        // What comes around the records of a fetch.
        let fetched = fetch_bytes.saturating_add(16 << 20);
        self.client.answer_bytes_max = self.client.answer_bytes_max.max(fetched);
        Ok(Settings {
            client: self.client,
            producer: self.producer,
            warnings: self.warnings,
        })
    }

    fn set_client(&mut self, key: &str, value: &str) -> Result<bool, ClientError> {
        let client = &mut self.client;
        match key {
            "bootstrap.servers" | "metadata.broker.list" => client.bootstrap = addresses(value)?,
            "client.id" => value.clone_into(&mut client.client_id),
            "request.timeout.ms" | "socket.timeout.ms" => {
                client.request_timeout = some(key, value)?;
            }
            "socket.connection.setup.timeout.ms" => client.connect_timeout = some(key, value)?,
            "retry.backoff.ms" => client.retry_backoff = ms(key, value)?,
            "retry.backoff.max.ms" => client.retry_backoff_max = ms(key, value)?,
            "metadata.max.age.ms" | "topic.metadata.refresh.interval.ms" => {
                client.metadata_max_age = ms(key, value)?;
            }
            "allow.auto.create.topics" => client.auto_create = flag(key, value)?,
            "receive.message.max.bytes" => {
                client.answer_bytes_max = number(key, value, 1000, BYTES_MAX)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_producer(&mut self, key: &str, value: &str) -> Result<bool, ClientError> {
        const ACKS: &[(&str, Acks)] = &[
            ("0", Acks::None),
            ("1", Acks::Leader),
            ("all", Acks::All),
            ("-1", Acks::All),
        ];
        const PARTITIONERS: &[(&str, Partitioner)] = &[
            ("murmur2_random", Partitioner::Murmur2),
            ("murmur2", Partitioner::Murmur2),
            ("random", Partitioner::Sticky),
        ];
        let producer = &mut self.producer;
        match key {
            "acks" | "request.required.acks" => producer.acks = word(key, value, ACKS)?,
            "compression.type" | "compression.codec" => {
                let codec = Compression::from_name(&value.to_ascii_lowercase());
                let wanted = "one of none, gzip, snappy, lz4, zstd";
                producer.compression = codec.ok_or_else(|| wrong(key, value, wanted))?;
            }
            "linger.ms" | "queue.buffering.max.ms" => producer.linger = ms(key, value)?,
            "batch.size" => producer.batch_bytes = number(key, value, 0, BYTES_MAX)?,
            "batch.num.messages" => producer.batch_records = number(key, value, 1, 1_000_000)?,
            "max.request.size" | "message.max.bytes" => {
                producer.request_bytes_max = number(key, value, 0, BYTES_MAX)?;
            }
            "buffer.memory" => producer.buffer_bytes = number(key, value, 1, BYTES_MAX)?,
            "queue.buffering.max.kbytes" => {
                let kilobytes: usize = number(key, value, 1, BYTES_MAX)?;
                let bytes_max = usize::try_from(BYTES_MAX).unwrap_or(usize::MAX);
                producer.buffer_bytes = kilobytes.saturating_mul(1024).min(bytes_max);
            }
            "max.block.ms" => producer.max_block = ms(key, value)?,
            "delivery.timeout.ms" | "message.timeout.ms" => {
                // 0 is librdkafka's "no end".
                let time = if value == "0" { "-1" } else { value };
                producer.delivery_timeout = ms(key, time)?;
            }
            "retries" | "message.send.max.retries" => {
                producer.retries = number(key, value, 0, BYTES_MAX)?;
            }
            "enable.idempotence" => {
                producer.idempotent = flag(key, value)?;
                self.idempotence_is_set = producer.idempotent;
            }
            "max.in.flight.requests.per.connection" | "max.in.flight" => {
                producer.in_flight_max = number(key, value, 1, 1_000_000)?;
            }
            "partitioner" => producer.partitioner = word(key, value, PARTITIONERS)?,
            "partitioner.ignore.keys" => {
                let ignores = flag(key, value)?;
                producer.partitioner = if ignores {
                    Partitioner::Sticky
                } else {
                    Partitioner::Murmur2
                };
            }
            "transactional.id" => producer.transactional_id = text(value),
            "transaction.timeout.ms" => producer.transaction_timeout = some(key, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_fetch(&mut self, key: &str, value: &str) -> Result<bool, ClientError> {
        const RESETS: &[(&str, OffsetReset)] = &[
            ("earliest", OffsetReset::Earliest),
            ("beginning", OffsetReset::Earliest),
            ("smallest", OffsetReset::Earliest),
            ("latest", OffsetReset::Latest),
            ("end", OffsetReset::Latest),
            ("largest", OffsetReset::Latest),
            ("none", OffsetReset::Error),
            ("error", OffsetReset::Error),
        ];
        const ISOLATIONS: &[(&str, bool)] =
            &[("read_uncommitted", false), ("read_committed", true)];
        let fetch = &mut self.client.fetch;
        match key {
            "fetch.min.bytes" => fetch.min_bytes = number(key, value, 0, BYTES_MAX)?,
            "fetch.max.wait.ms" | "fetch.wait.max.ms" => fetch.max_wait = ms(key, value)?,
            "fetch.max.bytes" => fetch.max_bytes = number(key, value, 0, BYTES_MAX)?,
            "max.partition.fetch.bytes" | "fetch.message.max.bytes" => {
                fetch.partition_bytes = number(key, value, 0, BYTES_MAX)?;
            }
            "isolation.level" => fetch.read_committed = word(key, value, ISOLATIONS)?,
            "check.crcs" => fetch.check_crcs = flag(key, value)?,
            "auto.offset.reset" => fetch.reset = word(key, value, RESETS)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_group(&mut self, key: &str, value: &str) -> Result<bool, ClientError> {
        let group = &mut self.client.group;
        match key {
            "group.id" => group.id = text(value),
            "group.instance.id" => group.instance_id = text(value),
            "group.protocol" => {
                let protocols = [("classic", false), ("consumer", true)];
                group.consumer_protocol = word(key, value, &protocols)?;
            }
            "partition.assignment.strategy" => group.strategies = strategies(key, value)?,
            "group.remote.assignor" => group.remote_assignor = text(value),
            "session.timeout.ms" => group.session_timeout = some(key, value)?,
            "heartbeat.interval.ms" => group.heartbeat_interval = some(key, value)?,
            "max.poll.interval.ms" => group.max_poll_interval = some(key, value)?,
            "client.rack" => group.rack = text(value),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads a time that is not zero.
fn some(key: &str, value: &str) -> Result<Duration, ClientError> {
    let time = ms(key, value)?;
    if time.is_zero() {
        return Err(wrong(key, value, "a time above 0"));
    }
    Ok(time)
}

/// Reads assignors by librdkafka's names or by the names of Java's classes.
fn strategies(key: &str, value: &str) -> Result<Vec<String>, ClientError> {
    const KNOWN: &[(&str, &str)] = &[
        ("range", "range"),
        ("roundrobin", "roundrobin"),
        ("cooperative-sticky", "cooperative-sticky"),
        ("org.apache.kafka.clients.consumer.rangeassignor", "range"),
        (
            "org.apache.kafka.clients.consumer.roundrobinassignor",
            "roundrobin",
        ),
        (
            "org.apache.kafka.clients.consumer.cooperativestickyassignor",
            "cooperative-sticky",
        ),
    ];
    let names = value
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names = names.map(|name| Ok(word(key, name, KNOWN)?.to_owned()));
    let names: Vec<String> = names.collect::<Result<_, ClientError>>()?;
    if names.is_empty() {
        return Err(wrong(key, value, "the name of an assignor"));
    }
    Ok(names)
}

/// Returns why a property that other clients have means nothing here; `None` for one that is not
/// known.
fn without_effect(key: &str) -> Option<&'static str> {
    const BY_COMMAND: &str = "the command decides it";
    const NOT_NEEDED: &str = "this client does not need it";
    Some(match key {
        "enable.auto.commit"
        | "auto.commit.interval.ms"
        | "enable.auto.offset.store"
        | "auto.commit.enable"
        | "enable.partition.eof" => BY_COMMAND,
        "api.version.request"
        | "api.version.request.timeout.ms"
        | "api.version.fallback.ms"
        | "broker.version.fallback"
        | "broker.address.family"
        | "broker.address.ttl"
        | "client.dns.lookup"
        | "connections.max.idle.ms"
        | "debug"
        | "log_level"
        | "log.connection.close"
        | "log.queue"
        | "log.thread.name"
        | "max.poll.records"
        | "metadata.recovery.strategy"
        | "socket.keepalive.enable"
        | "socket.nagle.disable"
        | "socket.max.fails"
        | "statistics.interval.ms"
        | "enable.metrics.push"
        | "reconnect.backoff.ms"
        | "reconnect.backoff.max.ms"
        | "reconnect.backoff.jitter.ms"
        | "queue.buffering.max.messages"
        | "queue.buffering.backpressure.threshold"
        | "queued.min.messages"
        | "queued.max.messages.kbytes"
        | "fetch.error.backoff.ms"
        | "fetch.queue.backoff.ms"
        | "sticky.partitioning.linger.ms"
        | "delivery.report.only.error"
        | "topic.metadata.refresh.fast.interval.ms"
        | "topic.metadata.refresh.sparse"
        | "topic.metadata.propagation.max.ms"
        | "message.copy.max.bytes"
        | "send.buffer.bytes"
        | "receive.buffer.bytes"
        | "socket.send.buffer.bytes"
        | "socket.receive.buffer.bytes"
        | "coordinator.query.interval.ms"
        | "group.protocol.type"
        | "message.max.retries" => NOT_NEEDED,
        "compression.level"
        | "compression.gzip.level"
        | "compression.lz4.level"
        | "compression.zstd.level" => "codecs compress at their default levels",
        "ssl.protocol"
        | "ssl.provider"
        | "ssl.keymanager.algorithm"
        | "ssl.trustmanager.algorithm"
        | "ssl.secure.random.implementation" => "it is of Java",
        "ssl.curves.list" | "ssl.sigalgs.list" | "ssl.ca.certificate.stores" => "it is of OpenSSL",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
