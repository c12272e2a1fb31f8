//! Reads records with a consumer of librdkafka, polled until there is enough.
//!
//! Invariant: a group's position covers only records that were written out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

use super::patience::Patience;
use super::{Consume, Form, Protocol, probe};
use crate::ask::{CLIENT_ID, Cluster, EARLIEST, LATEST, Refusal};
use crate::position::Position;
use crate::show;
use crate::stop::Stop;
use crate::target::Chosen;

/// How long a poll waits for a record before other conditions are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes that are collected before they are written out.
const OUT_BYTES: usize = 64 << 10;

/// A consumer and the options of its command.
pub(super) struct Reader<'a> {
    client: BaseConsumer,
    asked: &'a Consume,
    stop: Stop,
    left: Option<u64>,
    /// Partitions that were read to their end, until another record comes.
    ended: HashSet<i32>,
    /// Records that are not written out yet, and the newest of them in each partition.
    out: Vec<u8>,
    unwritten: HashMap<i32, i64>,
    /// The connection for asking why no records come.
    cluster: Cluster,
    patience: Patience,
}

impl<'a> Reader<'a> {
    /// Reads partitions from given positions.
    pub(super) fn assigned(
        asked: &'a Consume,
        target: &Chosen,
        cluster: Cluster,
        positions: &TopicPartitionList,
    ) -> anyhow::Result<Self> {
        let mut settings = settings(asked, target);
        // librdkafka requires a group id, even if no position is stored.
        settings
            .set("group.id", CLIENT_ID)
            .set("enable.auto.commit", "false");
        let reader = Self::open(&settings, asked, cluster)?;
        reader.client.assign(positions)?;
        Ok(reader)
    }

    /// Reads as a member of a group.
    pub(super) fn subscribed(
        asked: &'a Consume,
        target: &Chosen,
        cluster: Cluster,
    ) -> anyhow::Result<Self> {
        let mut settings = settings(asked, target);
        settings.set("group.id", asked.group.as_deref().unwrap_or_default());
        match asked.group_protocol {
            Protocol::Classic => settings.set("partition.assignment.strategy", "range"),
            Protocol::Consumer => settings.set("group.protocol", "consumer"),
        };
        let reader = Self::open(&settings, asked, cluster)?;
        reader.client.subscribe(&[&asked.topic])?;
        Ok(reader)
    }

    fn open(settings: &ClientConfig, asked: &'a Consume, cluster: Cluster) -> anyhow::Result<Self> {
        let mut settings = settings.clone();
        for property in &asked.properties {
            settings.set(&property.key, &property.value);
        }
        Ok(Self {
            client: settings.create().context("settings of the consumer")?,
            asked,
            stop: Stop::on_signal()?,
            left: asked.num,
            ended: HashSet::new(),
            out: Vec::new(),
            unwritten: HashMap::new(),
            patience: Patience::new(cluster.within(), Instant::now()),
            cluster,
        })
    }

    /// Reads until there is enough, and writes it out; then stores the group's position.
    pub(super) fn read(mut self, form: &Form) -> anyhow::Result<()> {
        let read = self.read_all(form);
        if self.asked.group.is_some() {
            let stored = match self.client.commit_consumer_state(CommitMode::Sync) {
                // Nothing was read since the last commit.
                Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
                stored => stored.context("storing the position"),
            };
            return read.and(stored);
        }
        read
    }

    fn read_all(&mut self, form: &Form) -> anyhow::Result<()> {
        while self.left != Some(0) && !self.stop.is_set() {
            // Records that are available are written out together, at the latest when no more are
            // available.
            let wait = if self.out.is_empty() {
                LOOK_EVERY
            } else {
                Duration::ZERO
            };
            match self.client.poll(wait) {
                Some(Ok(record)) => {
                    self.patience.progressed(Instant::now());
                    self.ended.remove(&record.partition());
                    self.unwritten.insert(record.partition(), record.offset());
                    self.left = self.left.map(|left| left - 1);
                    form.write(&record, &mut self.out)?;
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    self.patience.progressed(Instant::now());
                    self.ended.insert(partition);
                    if self.asked.exit && self.is_at_end()? {
                        break;
                    }
                }
                Some(Err(error)) => fail(error)?,
                None if self.out.is_empty() => self.look()?,
                None => {
                    if !self.write()? {
                        return Ok(());
                    }
                }
            }
            if self.out.len() >= OUT_BYTES && !self.write()? {
                return Ok(());
            }
        }
        self.write()?;
        Ok(())
    }

    /// Writes out the collected records; returns false if the reader of the output has gone.
    ///
    /// The group's position covers only what was written out.
    fn write(&mut self) -> anyhow::Result<bool> {
        let mut to = io::stdout().lock();
        let written = to.write_all(&self.out).and_then(|()| to.flush());
        self.out.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
            written => written?,
        }
        for (partition, offset) in self.unwritten.drain() {
            if self.asked.group.is_some() {
                // This fails for a partition that another member has now.
                let _ = self
                    .client
                    .store_offset(&self.asked.topic, partition, offset);
            }
        }
        Ok(true)
    }

    /// Asks the partitions, from time to time, why no records come.
    fn look(&mut self) -> anyhow::Result<()> {
        if !self.patience.wants_to_look(Instant::now()) {
            return Ok(());
        }
        // If they cannot be asked, librdkafka reports the error.
        let refusals = self.refusals().unwrap_or_default();
        match self.patience.looked(refusals, Instant::now()) {
            Ok(new) => {
                for (partition, refusal) in new {
                    let topic = &self.asked.topic;
                    show::say(&format!(
                        "partition {topic}-{partition}: {refusal}; trying on"
                    ));
                }
                Ok(())
            }
            Err((partition, refusal)) => {
                self.write()?;
                Err(refusal).with_context(|| format!("partition {}-{partition}", self.asked.topic))
            }
        }
    }

    /// Asks the partitions that were not read to their end which error a fetch returns.
    fn refusals(&mut self) -> anyhow::Result<BTreeMap<i32, Refusal>> {
        let mut offsets = BTreeMap::new();
        let mut unknown = false;
        let (assigned, positions) = (self.client.assignment()?, self.client.position()?);
        for one in assigned.elements() {
            let partition = one.partition();
            if self.ended.contains(&partition) {
                continue;
            }
            let position = positions.find_partition(one.topic(), partition);
            let position = position.map(|position| position.offset());
            let known = [position, Some(one.offset())].into_iter().flatten();
            let known = known.filter_map(|offset| match offset {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            let offset = known.max();
            unknown |= offset.is_none();
            offsets.insert(partition, offset);
        }
        let topic = &self.asked.topic;
        let mut begin = BTreeMap::new();
        if unknown {
            let topics = self.cluster.topics(std::slice::from_ref(topic))?;
            let end = matches!(self.asked.offset, Position::End);
            let time = if end { LATEST } else { EARLIEST };
            begin = self.cluster.offsets(&topics, time, 0);
        }
        let begin = |partition| {
            begin
                .get(&(topic.clone(), partition))?
                .as_ref()
                .ok()
                .copied()
        };
        let offsets = offsets.into_iter().filter_map(|(partition, offset)| {
            Some((partition, offset.or_else(|| begin(partition))?))
        });
        probe::refusals(&mut self.cluster, topic, &offsets.collect())
    }

    fn is_at_end(&self) -> anyhow::Result<bool> {
        let assigned = self.client.assignment()?;
        let all = assigned
            .elements()
            .iter()
            .all(|one| self.ended.contains(&one.partition()));
        Ok(all && assigned.count() > 0)
    }
}

/// Reports an error that librdkafka recovers from; any other error ends the command.
fn fail(error: KafkaError) -> anyhow::Result<()> {
    match error.rdkafka_error_code() {
        Some(
            code @ (RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::OperationTimedOut),
        ) => {
            show::say(&format!("{code}; trying on"));
            Ok(())
        }
        Some(code) => bail!("{code}"),
        None => Err(error.into()),
    }
}

fn settings(asked: &Consume, target: &Chosen) -> ClientConfig {
    let isolation = if asked.read_uncommitted {
        "read_uncommitted"
    } else {
        "read_committed"
    };
    let reset = match asked.offset {
        Position::End => "latest",
        _ => "earliest",
    };
    // With `--exit` the end of a partition should be reported soon.
    let wait_ms = if asked.exit { "20" } else { "500" };
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &target.brokers)
        .set("client.id", CLIENT_ID)
        .set("isolation.level", isolation)
        .set("auto.offset.reset", reset)
        .set("enable.partition.eof", "true")
        .set("enable.auto.offset.store", "false")
        .set("fetch.wait.max.ms", wait_ms)
        .set("fetch.max.bytes", "100000000")
        .set("receive.message.max.bytes", "200000000")
        .set("allow.auto.create.topics", "false");
    settings
}
