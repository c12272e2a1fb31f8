//! One consumer: reads its partitions record by record, from the positions of the plan.

use std::collections::{BTreeMap, HashMap};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

use super::{CONNECT_WITHIN, LOOK_EVERY, begin, settings};
use crate::load::hook::{ConsumerCheck, PartitionPlace};
use crate::load::plan::ConsumerPlan;
use crate::load::tally::{ArrivedRecords, Totals};
use crate::load::worker::{Event, Worker};
use crate::spec::Consume;

/// The client's own maximum of bytes per response.
const ANSWER_BYTES_MAX: u32 = 1_000_000_000;
/// The room that the client requires beyond that for the rest of a response.
const FRAME_BYTES: u32 = 1 << 20;

/// Runs a consumer from its start to its end.
pub(super) fn run(
    worker: Worker,
    plan: &ConsumerPlan,
    checking: Option<Box<dyn ConsumerCheck>>,
) -> Totals {
    let connected = connect(&worker, plan);
    let (ready, client) = match connected {
        Ok(client) => (Ok(()), Some(client)),
        Err(error) => (Err(error), None),
    };
    if let (true, Some(client)) = (begin(&worker, ready), client) {
        let topics = worker.cluster.topics.iter().map(String::as_str);
        let mut consumer = Consumer {
            worker: &worker,
            topics: topics.zip(0..).collect(),
            positions: plan.positions.iter().copied().collect(),
            checking,
        };
        consumer.consume(&client);
    }
    // Without a receiver the load has ended.
    let _ = worker.events.send(Event::ConsumerDone);
    worker.tally.into_inner().end()
}

fn connect(worker: &Worker, plan: &ConsumerPlan) -> anyhow::Result<BaseConsumer> {
    let Some(consume) = &worker.load.consume else {
        anyhow::bail!("a consumer of a load that does not read");
    };
    let client: BaseConsumer = configured(settings(worker), consume, plan.group).create()?;
    let topic = worker.cluster.topics.first().map(String::as_str);
    client.fetch_metadata(topic, CONNECT_WITHIN)?;
    let mut positions = TopicPartitionList::new();
    for (place, position) in &plan.positions {
        let topic = &worker.cluster.topics[place.topic as usize];
        let partition = place.partition.cast_signed();
        positions.add_partition_offset(topic, partition, Offset::Offset(*position))?;
    }
    client.assign(&positions)?;
    Ok(client)
}

fn configured(mut settings: ClientConfig, consume: &Consume, group: u32) -> ClientConfig {
    let answer = consume.max_bytes.min(ANSWER_BYTES_MAX);
    let partition = consume.partition_max_bytes.min(answer);
    settings
        .set(
            "group.id",
            format!("{}-{group}", super::super::client::CLIENT_ID),
        )
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set(
            "fetch.min.bytes",
            consume.min_bytes.clamp(1, 100_000_000).to_string(),
        )
        .set(
            "fetch.wait.max.ms",
            consume.max_wait_ms.min(300_000).to_string(),
        )
        .set("fetch.max.bytes", answer.to_string())
        .set("max.partition.fetch.bytes", partition.to_string())
        .set(
            "receive.message.max.bytes",
            (answer + FRAME_BYTES).to_string(),
        );
    settings
}

struct Consumer<'a> {
    worker: &'a Worker,
    topics: HashMap<&'a str, u32>,
    positions: BTreeMap<PartitionPlace, i64>,
    checking: Option<Box<dyn ConsumerCheck>>,
}

impl Consumer<'_> {
    fn consume(&mut self, client: &BaseConsumer) {
        while !self.worker.is_over() && !self.is_done() {
            match client.poll(LOOK_EVERY) {
                Some(Ok(message)) => self.read(&message),
                Some(Err(error)) => {
                    let what = match error.rdkafka_error_code() {
                        Some(code) => format!("consume: {code:?}"),
                        None => format!("consume: {error}"),
                    };
                    self.worker.tally.borrow_mut().error(what);
                }
                None => self.worker.tally.borrow_mut().advance(self.worker.now()),
            }
        }
    }

    fn is_done(&self) -> bool {
        if self.worker.shared.read_enough() {
            return true;
        }
        let phase = self.worker.phase.borrow();
        phase.read_to.as_ref().is_some_and(|ends| {
            self.positions
                .iter()
                .all(|(place, position)| ends.get(place).is_none_or(|end| position >= end))
        })
    }

    fn read(&mut self, message: &BorrowedMessage<'_>) {
        let Some(topic) = self.topics.get(message.topic()) else {
            return;
        };
        let place = PartitionPlace {
            topic: *topic,
            partition: message.partition().cast_unsigned(),
        };
        self.positions.insert(place, message.offset() + 1);
        let (key, value) = (message.key(), message.payload());
        let bytes = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        let arrived = ArrivedRecords {
            records: 1,
            bytes: bytes as u64,
            wire_bytes: 0,
        };
        self.worker.shared.add_read(1, bytes as u64);
        let now = self.worker.now();
        let written_ms = message.timestamp().to_millis().unwrap_or(0);
        let age_ms = self.worker.clock.get().wall_ms(now) - written_ms as f64;
        self.worker
            .tally
            .borrow_mut()
            .read(now, arrived, age_ms / 1e3);
        if let Some(checking) = &mut self.checking {
            checking.read(place, message.offset(), key, value);
        }
    }
}
